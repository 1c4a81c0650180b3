"""Every draft length of every decision, priced and split into terms: the long form for further analysis."""

import numpy as np
import pyarrow as pa

from oracle.ablation.terms import TERMS, decompose
from oracle.costs import LengthCosts
from oracle.problem import Problem
from oracle.solver import Solution
from oracle.traces import Traces


def every_length(
    problem: Problem, costs: LengthCosts, solution: Solution, oracle: Solution, change: str, traces: Traces
) -> pa.Table:
    """Q(t, k) - Q(t, k*) of every decision and allowed length, term by term; one row a decision and length.

    Parameters
    ----------
    costs, solution
        The costs that Q is of, and what is followed after the round: full or changed ones.
    oracle
        The optimum of the full cost, which says k*: under every change the same length is compared with.
    change
        Name of the changed costs; "" for the full ones.

    Returns
    -------
    Table with columns generation, change, position, draft_length, optimal (under these costs), `TERMS` as
    q_difference_…, and their sum q_difference_ms, milliseconds; rows by position, then length.
    """
    n, lengths = problem.positions, np.array(costs.lengths)
    terms = np.stack(
        [decompose(problem, costs, solution, np.full(n, k), oracle.draft_length) for k in lengths], axis=1
    ).reshape(-1, len(TERMS))
    sizes = np.diff(problem.offsets)
    position = np.arange(n) - np.repeat(problem.offsets[:-1], sizes)
    names = pa.array(traces.generation, pa.string())
    rows = np.repeat(np.repeat(np.arange(problem.generations), sizes), len(lengths))
    draft_length = np.tile(lengths.astype(np.int16), n)
    return pa.table(
        {
            "generation": names.take(pa.array(rows)),
            "change": pa.array(np.full(len(draft_length), change), pa.string()),
            "position": pa.array(np.repeat(position.astype(np.int32), len(lengths))),
            "draft_length": pa.array(draft_length),
            "optimal": pa.array(draft_length == np.repeat(solution.draft_length, len(lengths))),
            **{f"q_difference_{term}": pa.array(terms[:, i]) for i, term in enumerate(TERMS)},
            "q_difference_ms": pa.array(terms.sum(axis=1)),
        }
    )
