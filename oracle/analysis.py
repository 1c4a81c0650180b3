"""One walk over the traces: everything that is asked about a batch is worked out while it is in memory."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle import ablation, scores
from oracle.ablation import GenerationShifts, next_match_prob, shifts_table
from oracle.changes import Lane
from oracle.costs import LengthCosts
from oracle.decisions import decisions_table
from oracle.policies import reference_policies
from oracle.prices import priced_problem
from oracle.problem import ExpertSource, Problem, unique_experts_of
from oracle.scores import PolicyTotals
from oracle.solver import Solution, describe, segment_sums, solve, solve_many, visits
from oracle.traces import Traces


@dataclass(frozen=True)
class Plan:
    """What is asked of every batch.

    Attributes
    ----------
    costs
        The full cost by draft length.
    lanes
        Changed costs to solve for too.
    unique_experts
        `recorded`, `routing`, or None for what the trace holds.
    decisions, flat
        Whether the rows of the decisions file are wanted; flat: one row a position.
    score, ablate
        Whether policies are scored, and whether the decisions of each lane are compared with the oracle's.
    shift_rows, every_length
        Whether the rows of the shifts file are wanted too, and those with the price of every length.
    """

    costs: LengthCosts
    lanes: tuple[Lane, ...] = ()
    unique_experts: str | None = None
    decisions: bool = False
    flat: bool = False
    score: bool = False
    ablate: bool = False
    shift_rows: bool = False
    every_length: bool = False


@dataclass(frozen=True)
class BatchResult:
    """What came out of one batch; parts that were not asked for are None.

    Sums are by generation, and each is worked out from its generation alone: so the sums over all do not depend on
    how generations were batched.

    Attributes
    ----------
    generations, positions
        How many there were.
    experts_from, match_kinds
        Which expert column was used; what the match probabilities are.
    chosen : (G, 2, K + 1) float64
        Decisions by k*, each position 1 and weighted by visit probability.
    value_ms : (G,) float64
        V(0), milliseconds.
    longest_context
        Largest L(t), tokens.
    first_unique : (G,) float64
        Sums of U(t, 0) over the positions.
    unique_sums : (G, 2, K + 1) float64, or None
        Sums of U over positions as recorded and from routing, where the trace holds both.
    """

    generations: int
    positions: int
    experts_from: ExpertSource
    match_kinds: frozenset[str]
    chosen: NDArray[np.float64]
    value_ms: NDArray[np.float64]
    longest_context: float
    first_unique: NDArray[np.float64]
    unique_sums: NDArray[np.float64] | None
    decisions: pa.Table | None = None
    scores: PolicyTotals | None = None
    shifts: dict[str, GenerationShifts] | None = None
    shift_rows: pa.Table | None = None
    every_length: pa.Table | None = None

    @property
    def first_unique_sum(self) -> float:
        """Sum of U(t, 0) over the positions."""
        return float(self.first_unique.sum())


def analyse(traces: Traces, plan: Plan) -> BatchResult:
    """Solve one batch and answer what the plan asks about it."""
    costs = plan.costs
    problem = priced_problem(traces, costs, plan.unique_experts)
    oracle = solve(problem, costs)
    if plan.decisions:
        said = describe(problem, costs, oracle)
        visit = said.visit_prob
        table = decisions_table(said, traces.generation, traces.offsets, flat=plan.flat)
    else:
        visit = visits(problem, oracle.draft_length)
        table = None

    totals = tallies = rows = None
    moved: dict[str, Solution] = {}
    if plan.score or plan.ablate:
        # a refit by the mean U of a mixture's rounds says nothing about a target without experts
        lanes = tuple(lane for lane in plan.lanes if not (lane.refitted and problem.experts_from == "none"))
        solved = solve_many(problem, [lane.costs for lane in lanes])
        moved = dict(zip([lane.name for lane in lanes], solved, strict=True))
        if plan.score:
            policies = reference_policies(problem, costs, oracle, moved)
            totals = scores.total(problem, costs, policies, traces.generation, traces.cluster_of)
        if plan.ablate:
            tallies, rows = _compared(traces, problem, plan, oracle, moved, visit)
    return BatchResult(
        generations=problem.generations,
        positions=problem.positions,
        experts_from=problem.experts_from,
        match_kinds=traces.match_kinds,
        chosen=_chosen(problem, oracle, visit),
        value_ms=oracle.value_ms(problem.offsets),
        longest_context=float(problem.context_len.max(initial=0.0)),
        first_unique=segment_sums(problem.unique_experts[:, 0], problem.offsets),
        unique_sums=_unique_sums(problem, traces) if plan.score else None,
        decisions=table,
        scores=totals,
        shifts=tallies,
        shift_rows=rows,
        every_length=_priced(traces, problem, plan, oracle, moved) if plan.every_length else None,
    )


def _chosen(problem: Problem, oracle: Solution, visit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Decisions of each generation by k*, (G, 2, K + 1)."""
    width = problem.k_max + 1
    cell = np.repeat(np.arange(problem.generations) * width, np.diff(problem.offsets)) + oracle.draft_length
    counts = [np.bincount(cell, w, minlength=problem.generations * width) for w in (None, visit)]
    return np.stack([count.reshape(-1, width) for count in counts], axis=1).astype(np.float64)


def _priced(traces: Traces, problem: Problem, plan: Plan, oracle: Solution, moved: dict[str, Solution]) -> pa.Table:
    """Every length under the full costs and under each lane's."""
    under = [("", plan.costs, oracle)]
    under += [(lane.name, lane.costs, moved[lane.name]) for lane in plan.lanes if lane.name in moved]
    return pa.concat_tables(
        [ablation.every_length(problem, costs, found, oracle, name, traces) for name, costs, found in under]
    )


def _compared(
    traces: Traces,
    problem: Problem,
    plan: Plan,
    oracle: Solution,
    moved: dict[str, Solution],
    visit: NDArray[np.float64],
) -> tuple[dict[str, GenerationShifts], pa.Table | None]:
    """Count each lane's shifts; their rows where they are wanted."""
    match_at = next_match_prob(traces, oracle.draft_length, plan.costs.k_max)
    tallies, rows = {}, []
    for lane in plan.lanes:
        if lane.name not in moved:
            continue
        solution = moved[lane.name]
        found = ablation.shifts(problem, plan.costs, lane.costs, oracle, solution, visit, match_at)
        tallies[lane.name] = ablation.tally(
            found,
            problem.offsets,
            traces.cluster_of,
            plan.costs.k_max,
            traces.category_of,
            solution.value_ms(problem.offsets),
        )
        if plan.shift_rows:
            rows.append(shifts_table(found, lane.name, traces))
    return tallies, pa.concat_tables(rows) if rows else None


def _unique_sums(problem: Problem, traces: Traces) -> NDArray[np.float64] | None:
    """What the expert column that was not chosen would have said, where the trace holds both."""
    if traces.unique_experts is None or (traces.experts is None and traces.new_experts is None):
        return None
    both: list[NDArray[np.float64]] = []
    names: tuple[ExpertSource, ExpertSource] = ("recorded", "routing")
    for name in names:
        same = name == problem.experts_from
        unique = problem.unique_experts if same else unique_experts_of(traces, problem.k_max, name)
        both.append(segment_sums(unique, problem.offsets))
    return np.stack(both, axis=1)
