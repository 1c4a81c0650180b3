"""How each decision moves when the cost model changes, and the file that keeps it."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.ablation.terms import TERMS, decompose, q_values
from oracle.costs import LengthCosts
from oracle.problem import Problem
from oracle.result_files import list_array
from oracle.solver import Solution
from oracle.traces import Traces


@dataclass(frozen=True)
class Shifts:
    """How each decision of a batch moves under changed costs.

    Attributes
    ----------
    draft_length, changed_length : (N,) int16
        k* under the full cost and under the changed one; the shift is their difference.
    next_match_prob : (N,) float64
        Conditional match probability of the token after k*; NaN at the end of the text and at k_max.
    survival : (N,) float64
        The probability that the whole draft of k* matches, as far as the text goes.
    next_q_ms : (N,) float64, milliseconds
        Q'(k* + 1) - Q'(k*) under the changed cost; NaN where k* + 1 may not be chosen.
    terms_ms : (N, 7) float64, milliseconds
        Q(k') - Q(k*) under the full cost, term by term (`TERMS`): what going as far as the changed policy costs.
    changed_q_ms : (N,) float64, milliseconds
        Q'(k') - Q'(k*) under the changed cost: what going as far gains there, 0 or less.
    continuation_change_ms : (N,) float64, milliseconds
        How much of the difference between the two is the continuation's own: its term under the changed costs and
        policy minus its term under the full ones.
    visit_prob : (N,) float64
        Probability that a round of the oracle starts at the position.
    """

    draft_length: NDArray[np.int16]
    changed_length: NDArray[np.int16]
    next_match_prob: NDArray[np.float64]
    survival: NDArray[np.float64]
    next_q_ms: NDArray[np.float64]
    terms_ms: NDArray[np.float64]
    changed_q_ms: NDArray[np.float64]
    continuation_change_ms: NDArray[np.float64]
    visit_prob: NDArray[np.float64]


def shifts(
    problem: Problem,
    costs: LengthCosts,
    changed: LengthCosts,
    oracle: Solution,
    moved: Solution,
    visit_prob: NDArray[np.float64],
    match_at: NDArray[np.float32],
) -> Shifts:
    """Compare the optimum with that of changed costs at every position.

    Parameters
    ----------
    problem, costs, oracle
        The problem under the full cost and its solution.
    changed, moved
        The changed costs and their solution.
    visit_prob : (N,) float64
        Visits of the oracle's policy.
    match_at : (N,) float32
        Conditional match probability of the token after k*(t) draft tokens, NaN where there is none.
    """
    k = oracle.draft_length.astype(np.int64)
    t = np.arange(problem.positions)
    q = q_values(problem, changed, moved)
    after = np.minimum(k + 1, problem.k_max)
    next_q = np.where((k < problem.k_max) & costs.allowed[after], q[t, after] - q[t, k], np.nan)
    terms = decompose(problem, costs, oracle, moved.draft_length, oracle.draft_length)
    changed_terms = decompose(problem, changed, moved, moved.draft_length, oracle.draft_length)
    with_none = np.concatenate([np.ones((problem.positions, 1)), problem.survival], axis=1)
    ends = np.repeat(problem.offsets[1:], np.diff(problem.offsets))
    return Shifts(
        draft_length=oracle.draft_length,
        changed_length=moved.draft_length,
        next_match_prob=match_at.astype(np.float64),
        survival=np.where((k > 0) & (t + k >= ends), problem.to_end, with_none[t, k]),
        next_q_ms=next_q,
        terms_ms=terms,
        changed_q_ms=changed_terms.sum(axis=1),
        continuation_change_ms=changed_terms[:, -1] - terms[:, -1],
        visit_prob=visit_prob,
    )


def next_match_prob(traces: Traces, draft_length: NDArray[np.int16], k_max: int) -> NDArray[np.float32]:
    """Match probability of the token after k*(t) draft tokens; NaN at the end of the text and at k_max."""
    t = np.arange(traces.positions)
    k = draft_length.astype(np.int64)
    ends = np.repeat(traces.offsets[1:], np.diff(traces.offsets))
    there = (k < k_max) & (t + k < ends)
    result = np.full(traces.positions, np.nan, dtype=np.float32)
    if traces.match_probs is not None:
        result[there] = traces.match_probs[t[there], k[there]]
    else:
        assert traces.match_prob is not None
        result[there] = traces.match_prob[t[there] + k[there]]
    return result


def shifts_table(found: Shifts, change: str, traces: Traces) -> pa.Table:
    """The shifts file: one row a generation and change, list columns over its positions."""

    def lists(values: NDArray[np.generic]) -> pa.Array:
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(0, dtype=bool)
        return list_array(pa.array(values, mask=missing if missing.any() else None), traces.offsets)

    return pa.table(
        {
            "generation": pa.array(traces.generation, pa.string()),
            "change": pa.array([change] * len(traces.generation), pa.string()),
            "draft_length": lists(found.draft_length),
            "changed_draft_length": lists(found.changed_length),
            "next_match_prob": lists(found.next_match_prob),
            "survival": lists(found.survival),
            "next_q_changed_ms": lists(found.next_q_ms),
            "visit_prob": lists(found.visit_prob),
            **{f"q_difference_{term}": lists(found.terms_ms[:, i]) for i, term in enumerate(TERMS)},
            "q_difference_changed_ms": lists(found.changed_q_ms),
            "continuation_change_ms": lists(found.continuation_change_ms),
        }
    )
