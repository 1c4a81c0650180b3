"""One walk over the traces: everything that is asked about a batch is worked out while it is in memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle import ablation, scores
from oracle.ablation import TERMS, Shifts, ShiftTally
from oracle.costs import LengthCosts
from oracle.decisions import decisions_table, list_array
from oracle.errors import InputError
from oracle.pipeline import in_order
from oracle.policies import reference_policies
from oracle.problem import ExpertSource, Problem, make_problem, unique_experts_of
from oracle.scores import PolicyTotals
from oracle.solver import describe, solve, visits
from oracle.traces import Traces

AS_IS = "experts=0"
REFITTED = "experts=0, beta0 refitted"


@dataclass(frozen=True)
class Plan:
    """What is asked of every batch.

    Attributes
    ----------
    costs
        The full cost by draft length.
    refitted
        alpha = 0 with beta0 refitted (`LengthCosts.flat_experts`); None if the model file does not tell the mean U.
    unique_experts
        `recorded`, `routing`, or None for what the trace holds.
    decisions, flat
        Whether the rows of the decisions file are wanted; flat: one row a position.
    score, ablate
        Whether policies are scored, and the problem solved again without the expert cost.
    shift_rows
        Whether the rows of the shifts file are wanted too.
    """

    costs: LengthCosts
    refitted: LengthCosts | None = None
    unique_experts: str | None = None
    decisions: bool = False
    flat: bool = False
    score: bool = False
    ablate: bool = False
    shift_rows: bool = False


@dataclass(frozen=True)
class BatchResult:
    """What came out of one batch; parts that were not asked for are None.

    Attributes
    ----------
    generations, positions
        How many there were.
    experts_from, match_kinds
        Which expert column was used; what the match probabilities are.
    chosen : (2, K + 1) float64
        Decisions by k*, each position 1 and weighted by visit probability.
    value_ms
        Σ V(0) over the generations, milliseconds.
    longest_context
        Largest L(t), tokens.
    first_unique_sum
        Sum of U(t, 0) over the positions.
    unique_sums : (2, K + 1) float64, or None
        Sums of U over positions as recorded and from routing, where the trace holds both.
    """

    generations: int
    positions: int
    experts_from: ExpertSource
    match_kinds: frozenset[str]
    chosen: NDArray[np.float64]
    value_ms: float
    longest_context: float
    first_unique_sum: float
    unique_sums: NDArray[np.float64] | None
    decisions: pa.Table | None = None
    scores: PolicyTotals | None = None
    shifts: dict[str, ShiftTally] | None = None
    shift_rows: pa.Table | None = None


def analyse(traces: Traces, plan: Plan) -> BatchResult:
    """Solve one batch and answer what the plan asks about it."""
    costs = plan.costs
    _check_carried(traces, costs.k_max)
    problem = make_problem(traces, costs.k_max, plan.unique_experts)
    oracle = solve(problem, costs)
    if plan.decisions:
        said = describe(problem, costs, oracle)
        visit = said.visit_prob
        table = decisions_table(said, traces.generation, traces.offsets, flat=plan.flat)
    else:
        visit = visits(problem, oracle.draft_length[:, None])[:, 0]
        table = None

    totals = tallies = rows = None
    if plan.score or plan.ablate:
        without = {AS_IS: costs.without_experts()} | ({REFITTED: plan.refitted} if plan.refitted else {})
        blind = {name: solve(problem, each) for name, each in without.items()}
        if plan.score:
            policies = reference_policies(problem, costs, oracle, blind[AS_IS], blind.get(REFITTED))
            totals = scores.total(problem, costs, policies, traces.generation, traces.cluster_of)
        if plan.ablate:
            match_at = next_match_prob(traces, oracle.draft_length, costs.k_max)
            tallies = {}
            for name, solution in blind.items():
                found = ablation.shifts(problem, costs, without[name], oracle, solution, visit, match_at)
                tallies[name] = ablation.tally(found, problem.offsets, traces.cluster_of, costs.k_max)
                if plan.shift_rows and name == AS_IS:
                    rows = shifts_table(found, traces)
    width = costs.k_max + 1
    return BatchResult(
        generations=problem.generations,
        positions=problem.positions,
        experts_from=problem.experts_from,
        match_kinds=frozenset(traces.match_kind),
        chosen=np.stack([np.bincount(oracle.draft_length, w, minlength=width) for w in (None, visit)]),
        value_ms=float(oracle.marginal_ms.sum()),
        longest_context=float(problem.context_len.max(initial=0.0)),
        first_unique_sum=float(problem.unique_experts[:, 0].sum()),
        unique_sums=_unique_sums(problem, traces) if plan.score else None,
        decisions=table,
        scores=totals,
        shifts=tallies,
        shift_rows=rows,
    )


def walk(batches: Iterable[Traces], plan: Plan, threads: int) -> Iterator[BatchResult]:
    """Analyse batch after batch, `threads` of them side by side, results in order."""
    return in_order(partial(analyse, plan=plan), batches, threads)


def next_match_prob(traces: Traces, draft_length: NDArray[np.int16], k_max: int) -> NDArray[np.float32]:
    """Match probability of the token after k(t) draft tokens; NaN at the text's end and at k_max; (N,)."""
    k = draft_length.astype(np.int64)
    t = np.arange(traces.positions)
    ends = np.repeat(traces.offsets[1:], np.diff(traces.offsets))
    there = (k < k_max) & (t + k < ends)
    result = np.full(traces.positions, np.nan, dtype=np.float32)
    if traces.match_probs is not None:
        result[there] = traces.match_probs[t[there], k[there]]
    else:
        assert traces.match_prob is not None
        result[there] = traces.match_prob[t[there] + k[there]]
    return result


def shifts_table(found: Shifts, traces: Traces) -> pa.Table:
    """The shifts file: one row a generation, list columns over its positions."""

    def lists(values: NDArray[np.generic]) -> pa.Array:
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(0, dtype=bool)
        return list_array(pa.array(values, mask=missing if missing.any() else None), traces.offsets)

    return pa.table(
        {
            "generation": pa.array(traces.generation, pa.string()),
            "draft_length": lists(found.draft_length),
            "draft_length_without_experts": lists(found.ablated_length),
            "next_match_prob": lists(found.next_match_prob),
            "next_q_without_experts_ms": lists(found.next_q_ms),
            "visit_prob": lists(found.visit_prob),
            **{f"q_difference_{term}": lists(found.terms_ms[:, i]) for i, term in enumerate(TERMS)},
        }
    )


def _check_carried(traces: Traces, k_max: int) -> None:
    carried = traces.max_draft_length
    if carried is not None and carried < k_max:
        raise InputError(
            f"{traces.source}: carries draft lengths up to {carried} only, but k_max is {k_max}; "
            f"lower --k-max to {carried}"
        )


def _unique_sums(problem: Problem, traces: Traces) -> NDArray[np.float64] | None:
    """What the expert column that was not chosen would have said, where the trace holds both."""
    if traces.unique_experts is None or (traces.experts is None and traces.new_experts is None):
        return None
    both: list[NDArray[np.float64]] = []
    names: tuple[ExpertSource, ExpertSource] = ("recorded", "routing")
    for name in names:
        same = name == problem.experts_from
        unique = problem.unique_experts if same else unique_experts_of(traces, problem.k_max, name)
        both.append(unique.sum(axis=0))
    return np.stack(both)
