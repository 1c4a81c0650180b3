"""Where illustrations are looked for, and what is known of every decision of a batch while it is in memory."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracle import ablation, panels
from oracle.ablation import Shifts, next_match_prob, q_values
from oracle.changes import Change, parse_change
from oracle.costs import LengthCosts, length_costs
from oracle.latency.model import LatencyModel
from oracle.prices import priced_problem
from oracle.problem import Problem
from oracle.solver import solve, visits
from oracle.traces import TraceFiles, Traces

# what a search reads: the columns of a solve, categories and clusters, and the texts
COLUMNS = (
    "match_prob",
    "match_probs",
    "experts",
    "new_experts",
    "unique_experts",
    "cluster",
    "category",
    *panels.COLUMNS,
)

HIGH_MATCH_PROB = 0.8
LEAST_VISIT_PROB = 0.05  # one round of twenty


@dataclass(frozen=True)
class Search:
    """Where to look, and under which costs.

    Attributes
    ----------
    files
        The traces, opened with `COLUMNS` (those that there are).
    model
        Latency model of one batch size.
    k_min, k_max
        Range of draft lengths.
    change
        What the costs are compared with, all other coefficients kept.
    unique_experts, match_is
        As in `priced_problem` and `TraceFiles`.
    threads
        Batches worked on side by side; what is chosen does not depend on it.
    """

    files: TraceFiles
    model: LatencyModel
    k_min: int
    k_max: int
    change: Change = field(default_factory=partial(parse_change, "experts=0"))
    unique_experts: str | None = None
    match_is: str | None = None
    threads: int = 1

    @property
    def costs(self) -> LengthCosts:
        """The full cost by draft length."""
        return length_costs(self.model, self.k_min, self.k_max)


@dataclass(frozen=True)
class Decided:
    """The decisions of a batch, under the full and under the changed cost; N positions.

    Attributes
    ----------
    traces, problem
        The batch.
    shifts
        k*, k' and what lies between them.
    step_ms : (N,) float64, milliseconds
        Q(k* + 1) - Q(k*) under the full cost; NaN where k* + 1 may not be chosen.
    generation : (N,) int64
        Row of the generation that each position belongs to.
    position : (N,) int64
        t within the generation.
    settled : (N,) bool
        Whether rounds of every length end before the text does.
    longest
        The longest draft length that may be chosen.
    """

    traces: Traces
    problem: Problem
    shifts: Shifts
    step_ms: NDArray[np.float64]
    generation: NDArray[np.int64]
    position: NDArray[np.int64]
    settled: NDArray[np.bool_]
    longest: int

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Decisions that any illustration is chosen from: settled, and visited often enough; (N,)."""
        return self.settled & (self.shifts.visit_prob >= LEAST_VISIT_PROB)


def decide(traces: Traces, search: Search) -> Decided:
    """Solve a batch under both costs and compare every decision."""
    costs = search.costs
    problem = priced_problem(traces, costs, search.unique_experts)
    changed = search.change.as_is(costs, search.model)
    oracle, moved = solve(problem, costs), solve(problem, changed)
    match_at = next_match_prob(traces, oracle.draft_length, costs.k_max)
    visit = visits(problem, oracle.draft_length)
    found = ablation.shifts(problem, costs, changed, oracle, moved, visit, match_at)
    t = np.arange(problem.positions)
    generation = np.repeat(np.arange(problem.generations), np.diff(problem.offsets))
    k = oracle.draft_length.astype(np.int64)
    longer = np.minimum(k + 1, costs.k_max)
    q = q_values(problem, costs, oracle)
    allowed = (k < costs.k_max) & costs.allowed[longer]
    return Decided(
        traces=traces,
        problem=problem,
        shifts=found,
        step_ms=np.where(allowed, q[t, longer] - q[t, k], np.nan),
        generation=generation,
        position=t - problem.offsets[generation],
        settled=problem.offsets[generation + 1] - t > costs.k_max,
        longest=costs.lengths[-1],
    )
