"""One walk over the traces that solves every batch, labels its tokens and keeps sums by unit and group only."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracle.contexts import contexts_of
from oracle.contrasts import lengths as k_sums
from oracle.contrasts import steps
from oracle.contrasts.comparisons import Comparison, GroupMean, comparisons, group_means
from oracle.contrasts.findings import Finding, findings
from oracle.contrasts.groups import (
    ALL,
    CONTROL_FLOW,
    OTHER_CODE,
    PROSE,
    Group,
    control_flow_and_other_code,
    groups_of,
)
from oracle.contrasts.sums import GroupFold, GroupSums, GroupTotals
from oracle.costs import LengthCosts, LengthRange, length_costs
from oracle.errors import InputError
from oracle.expert_sources import ExpertSources
from oracle.latency.model import LatencyModel
from oracle.pipeline import in_order
from oracle.prices import priced_problem
from oracle.problem import ExpertSource
from oracle.solver import solve, visits
from oracle.traces import Traces
from oracle.unit_sums import DistinctNames

NEEDED = ("token_text", *steps.DRAFT_COLUMNS, "experts", "new_experts", "unique_experts", "cluster")

_OF_LENGTHS: tuple[Group | None, ...] = (None, PROSE)
_AGAINST: Mapping[str, tuple[Group | None, ...]] = {
    "positions_sums": _OF_LENGTHS,
    "visit_sums": _OF_LENGTHS,
    "sums_from_1": _OF_LENGTHS,
    "experts": (None,),
    "drafted": (None,),
    "expected": (None,),
    "code_sums": (OTHER_CODE,),
    "code_sums_from_1": (OTHER_CODE,),
}
_LACKING = "some of the traces hold columns of experts or drafts that others lack; contrast them apart"


@dataclass(frozen=True)
class Plan:
    """What is asked of every batch: see `contrasts`; `costs_from_1` where k = 0 is allowed, as the source does not."""

    costs: LengthCosts
    unique_experts: str | None = None
    drafts: bool = True
    costs_from_1: LengthCosts | None = None


@dataclass(frozen=True)
class BatchSums:
    """What came out of one batch: sums of k* (each position 1; visit probability), of new experts, and at mismatches.

    `drafted` are mismatches of recorded drafts, `expected` those by match probability; None without the columns.
    `code_sums` are k* of control flow and of other code, `sums_from_1` and `code_sums_from_1` those of lengths from 1
    on, None where no shorter one is allowed anyway.
    """

    generations: int
    positions: int
    experts_from: ExpertSource
    top_k: int | None
    positions_sums: GroupSums
    visit_sums: GroupSums
    experts: GroupSums | None
    drafted: GroupSums | None
    expected: GroupSums | None
    code_sums: GroupSums
    sums_from_1: GroupSums | None
    code_sums_from_1: GroupSums | None


@dataclass(frozen=True)
class Contrasts:
    """Draft lengths and new experts by language context.

    Attributes
    ----------
    lengths, costs
        The range of draft lengths and the costs that k* is optimal under.
    generations, positions, clusters
        How much was solved.
    experts_from
        Where the U of the solve comes from.
    top_k
        Experts a token, None for a dense target.
    means, visit_means
        k* by group, each position 1 and weighted by the probability that a round of the oracle starts there.
    differences, visit_differences
        k* of every group against the rest, then of labels and changes against prose vocabulary.
    by_step
        New experts of all tokens, step by step.
    experts
        New experts of every group against the rest; measures are the expert columns.
    drafted, expected
        New experts where the draft first differs, against the same step where it still matches: in the recorded drafts,
        and weighted by match probability (routing only: recorded experts belong to the drafts that were recorded).
    findings
        The source's, held against these traces.
    """

    lengths: LengthRange
    costs: LengthCosts
    generations: int
    positions: int
    clusters: int
    experts_from: str
    top_k: int | None
    means: list[GroupMean]
    visit_means: list[GroupMean]
    differences: list[Comparison]
    visit_differences: list[Comparison]
    by_step: list[GroupMean]
    experts: list[Comparison]
    drafted: list[Comparison]
    expected: list[Comparison]
    findings: list[Finding]


def sum_batch(traces: Traces, plan: Plan) -> BatchSums:
    """Solve one batch, label its tokens and sum by group."""
    costs, cluster, K = plan.costs, traces.cluster_of, plan.costs.k_max
    labels = contexts_of(traces)
    groups, member = groups_of(labels)
    of_code = control_flow_and_other_code(labels)
    problem = priced_problem(traces, costs, plan.unique_experts)
    draft_length = solve(problem, costs).draft_length
    once, visited = np.ones(traces.positions), visits(problem, draft_length)
    from_1 = plan.costs_from_1
    length_from_1 = None if from_1 is None else solve(problem, from_1).draft_length
    of_k = partial(k_sums.length_sums, offsets=traces.offsets, cluster=cluster)

    def of_k_from_1(groups: tuple[Group, ...], member: NDArray[np.bool_]) -> GroupSums | None:
        return None if length_from_1 is None or from_1 is None else of_k(length_from_1, once, from_1, groups, member)

    new = steps.new_experts_by_step(traces, K) if K else {}
    routing = {source: x for source, x in new.items() if source == "routing"}
    chains = plan.drafts and set(steps.DRAFT_COLUMNS) <= set(traces.table.column_names)
    return BatchSums(
        problem.generations,
        problem.positions,
        problem.experts_from,
        traces.top_k,
        of_k(draft_length, once, costs, groups, member),
        of_k(draft_length, visited, costs, groups, member),
        experts=steps.step_sums(new, groups, member, traces.offsets, cluster) if new else None,
        drafted=steps.mismatch_sums(new, steps.drafted(traces, K), traces.offsets, cluster) if new and chains else None,
        expected=steps.mismatch_sums(routing, steps.expected(traces, K), traces.offsets, cluster) if routing else None,
        code_sums=of_k(draft_length, once, costs, *of_code),
        sums_from_1=of_k_from_1(groups, member),
        code_sums_from_1=of_k_from_1(*of_code),
    )


def contrasts(
    batches: Iterable[Traces],
    model: LatencyModel,
    lengths: LengthRange,
    *,
    unique_experts: str | None = None,
    drafts: bool = True,
    threads: int = 1,
    on_batch: Callable[[int], None] | None = None,
) -> Contrasts:
    """Contrast the oracle's draft lengths and the new experts of its continuations by language context.

    Parameters
    ----------
    batches
        The traces, with token texts (`NEEDED` names all columns that are used where there are any); walked over once.
    model, lengths
        The latency model and the range of draft lengths (`choose_range`).
    unique_experts
        Which column the solve takes: `recorded`, `routing`, or None for what the traces hold. New experts are
        contrasted in both.
    drafts
        Whether recorded drafts are compared with the text, where the traces hold them.
    threads
        Batches worked on side by side; results do not depend on it.
    on_batch
        Called with the number of generations after each batch.

    Raises
    ------
    InputError
        Faulty traces, or none; no token texts; chains of draft tokens that cannot be used.
    """
    costs = length_costs(model, lengths.k_min, lengths.k_max)
    from_1 = length_costs(model, 1, lengths.k_max) if costs.lengths[0] == 0 and lengths.k_max > 1 else None
    plan = Plan(costs, unique_experts, drafts, from_1)
    sums = _Sums()
    for result in in_order(partial(sum_batch, plan=plan), batches, threads):
        sums.add(result)
        if on_batch is not None:
            on_batch(result.generations)
    return sums.contrasts(costs, lengths)


class _Sums:
    """What is kept of the batches."""

    def __init__(self) -> None:
        self._generations = self._positions = 0
        self._top_k: int | None = None
        self._sources, self._clusters = ExpertSources(), DistinctNames()
        self._folds: dict[str, GroupFold | None] = {}

    def add(self, result: BatchSums) -> None:
        """Take in a batch."""
        first = not self._generations
        self._generations += result.generations
        self._positions += result.positions
        self._top_k = result.top_k if self._top_k is None else self._top_k
        self._sources.add(result.experts_from, result.positions)
        sources = self._sources.names
        if len(sources) > 1:
            raise InputError(f"unique experts come from {' and '.join(sources)}; contrast such traces apart")
        self._clusters.add(result.positions_sums.cluster)
        for name, against in _AGAINST.items():
            part = getattr(result, name)
            if first:
                self._folds[name] = None if part is None else GroupFold(against)
            fold = self._folds[name]
            if (part is None) != (fold is None):
                raise InputError(_LACKING)
            if part is not None and fold is not None:
                try:
                    fold.add(part)
                except ValueError:
                    raise InputError(_LACKING) from None

    def of(self, name: str) -> GroupTotals | None:
        """The sums of all batches; None where the traces lack the columns."""
        fold = self._folds[name]
        return None if fold is None else fold.totals()

    def contrasts(self, costs: LengthCosts, lengths: LengthRange) -> Contrasts:
        """Compare."""
        if not self._generations:
            raise InputError("the traces hold no generations, so there are no contexts to contrast")
        of_k, of_visits = (self.of(name) for name in ("positions_sums", "visit_sums"))
        experts, drafted, expected = (self.of(name) for name in ("experts", "drafted", "expected"))
        assert of_k is not None
        assert of_visits is not None
        differences, visit_differences = (_length_differences(sums) for sums in (of_k, of_visits))
        of_experts = [] if experts is None else comparisons(experts, experts.groups)
        at_mismatches = [[] if s is None else comparisons(s, steps.MISMATCHES) for s in (drafted, expected)]
        from_1 = self.of("sums_from_1")
        return Contrasts(
            lengths=lengths,
            costs=costs,
            generations=self._generations,
            positions=self._positions,
            clusters=len(self._clusters),
            experts_from=self._sources.names[0],
            top_k=self._top_k,
            means=group_means(of_k, of_k.groups),
            visit_means=group_means(of_visits, of_visits.groups),
            differences=differences,
            visit_differences=visit_differences,
            by_step=[] if experts is None else group_means(experts, [ALL]),
            experts=of_experts,
            drafted=at_mismatches[0],
            expected=at_mismatches[1],
            findings=findings(
                [*differences, *_of_code(self.of("code_sums"))],
                of_experts,
                at_mismatches[0] or at_mismatches[1],
                self._top_k,
                None if from_1 is None else [*_length_differences(from_1), *_of_code(self.of("code_sums_from_1"))],
            ),
        )


def _of_code(sums: GroupTotals | None) -> list[Comparison]:
    """Control flow against other code."""
    return [] if sums is None else comparisons(sums, [CONTROL_FLOW], OTHER_CODE)


def _length_differences(sums: GroupTotals) -> list[Comparison]:
    """Every group against the rest; labels and changes, which share no token with it, against prose vocabulary."""
    apart = [group for group in sums.groups if group.kind in ("label", "change")]
    return [*comparisons(sums, sums.groups), *comparisons(sums, apart, PROSE)]
