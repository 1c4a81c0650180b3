"""A study: traces solved under one latency model, policies scored, the expert cost taken out, files written."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oracle import ablation, scores
from oracle.ablation import Prevalence, ShiftTally
from oracle.analysis import BatchResult, Plan, analyse
from oracle.batch_unions import refuse_batch_unions
from oracle.changes import Change, lanes_of, parse_change
from oracle.costs import LengthCosts, LengthRange, choose_range, length_costs
from oracle.errors import InputError
from oracle.latency.model import LatencyModel
from oracle.mismatch import notes_on
from oracle.one_walk import Walker, one_walk
from oracle.pieces import pieces_of
from oracle.pipeline import in_order
from oracle.resampling import MOST_UNITS
from oracle.scores import Score
from oracle.study_sums import StudySums
from oracle.traces import TraceFiles, Traces
from oracle.unit_sums import MOST_CATEGORIES


@dataclass(frozen=True)
class Question:
    """What is asked of the traces.

    Attributes
    ----------
    k_min, k_max
        Range of draft lengths; None lets the model and the traces decide (`choose_range`).
    unique_experts
        `recorded`, `routing`, or None for what the traces hold.
    score, ablate
        Whether policies are scored, and whether decisions are compared with those under changed costs.
    changes
        Changes of the costs to solve again with, each as is and, where that exists, with beta0 refitted.
    decisions, shifts, every_length
        Files to write, or None: decisions; how each moves; what each length of each decision costs.
    flat
        Decisions with one row a position instead of one a generation.
    threads
        Batches worked on side by side; results do not depend on it.
    """

    k_min: int | None = None
    k_max: int | None = None
    unique_experts: str | None = None
    score: bool = False
    ablate: bool = False
    changes: tuple[Change, ...] = (parse_change("experts=0"),)
    decisions: Path | None = None
    shifts: Path | None = None
    every_length: Path | None = None
    flat: bool = False
    threads: int = 1


@dataclass(frozen=True)
class AblationResult:
    """One change of the costs: how often decisions move, to what, and what the difference is made of.

    Attributes
    ----------
    name
        What was changed, and whether beta0 was refitted.
    value_ms
        Cost of the optimum under the changed costs, milliseconds.
    prevalence, by_category
        Shares of decisions that move, over all generations and by category.
    transitions : (2, K + 1, K + 1) float64
        Decisions by k* and by the changed k', each position 1 and weighted by visit probability.
    terms_ms : (2, K + 1, 7) float64, milliseconds
        Sum of Q(k') - Q(k*) under the full cost over the decisions that get longer, and shorter, by k* and term.
    continuation_change_ms : (2, K + 1) float64, milliseconds
        How much the continuation's term is another one under the changed costs, summed likewise.
    """

    name: str
    value_ms: float
    prevalence: list[Prevalence]
    by_category: Mapping[str, list[Prevalence]]
    transitions: NDArray[np.float64]
    terms_ms: NDArray[np.float64]
    continuation_change_ms: NDArray[np.float64]


@dataclass(frozen=True)
class Study:
    """The answers, with what they rest on.

    Attributes
    ----------
    source, model
        Names of the inputs' first file, and the latency model.
    lengths, costs
        The range of draft lengths and the costs solved for.
    generations, positions, clusters
        How much was solved.
    experts_from, match_kinds
        Where U and the match probabilities come from.
    chosen : (2, K + 1) float64
        Decisions by k*, each position 1 and weighted by visit probability.
    value_ms
        Σ V(0), milliseconds.
    mean_unique : {"recorded" | "routing": (K + 1,)} or empty
        Mean U by draft length both ways, where the traces hold both.
    scores, ablations
        Empty if not asked for.
    notes, change_notes
        What a reader must know, of all and of the changes.
    """

    source: str
    model: LatencyModel
    lengths: LengthRange
    costs: LengthCosts
    generations: int
    positions: int
    experts_from: str
    match_kinds: tuple[str, ...]
    chosen: NDArray[np.float64]
    value_ms: float
    mean_unique: Mapping[str, NDArray[np.float64]]
    scores: list[Score]
    ablations: list[AblationResult]
    clusters: int
    notes: tuple[str, ...]
    change_notes: tuple[str, ...] = ()


def study(
    files: TraceFiles,
    model: LatencyModel,
    question: Question,
    *,
    provenance: Callable[[], Mapping[str, str]] = dict,
    on_batch: Callable[[int], None] | None = None,
    walker: Walker[BatchResult] = in_order,
) -> Study:
    """Solve all traces under one latency model and answer the question about them.

    Parameters
    ----------
    files
        The traces; walked over once, in batches.
    model
        The latency model.
    question
        What is asked, and which files to write. They appear whole when the walk has ended without an error.
    provenance
        Gives what the metadata of the files written keeps; called at the end of the walk, so that inputs can be
        digested while it goes on.
    on_batch
        Called with the number of generations after each batch.
    walker
        Applies a function to each batch on some threads, and gives the results in the order of the traces.

    Raises
    ------
    InputError
        Faulty traces, or draft lengths that the model or the traces do not cover.
    """
    count, first = len(files.paths), str(files.paths[0])
    source = first if count == 1 else f"{count:,} files (first {first})"
    lengths, costs = priced(files, model, question.k_min, question.k_max)
    asked = question.score or question.ablate
    lanes = lanes_of(question.changes, costs, model) if asked else ()
    plan = Plan(
        costs=costs,
        lanes=lanes,
        unique_experts=question.unique_experts,
        decisions=question.decisions is not None,
        flat=question.flat,
        score=question.score,
        ablate=question.ablate,
        shift_rows=question.shifts is not None,
        every_length=question.every_length is not None,
    )
    sums = StudySums(costs.k_max)

    def answer() -> Study:
        found = _gather(sums, source=source, model=model, lengths=lengths, costs=costs)
        notes = [note for change in question.changes for note in change.notes(costs, model)] if question.ablate else []
        return replace(found, change_notes=tuple(dict.fromkeys(notes)))

    return one_walk(
        walker(partial(analyse, plan=plan), files, question.threads),
        {"decisions": question.decisions, "shift_rows": question.shifts, "every_length": question.every_length},
        sums.add,
        answer,
        provenance=provenance,
        on_batch=on_batch,
    )


def priced(
    files: TraceFiles, model: LatencyModel, k_min: int | None, k_max: int | None
) -> tuple[LengthRange, LengthCosts]:
    """Choose the range of draft lengths that model and traces cover, and price it; see `choose_range`.

    Raises
    ------
    InputError
        Also where the model prices the experts of whole batches; see `refuse_batch_unions`.
    """
    first = _first_with_positions(files)
    carried = None if first is None else first.max_draft_length
    lengths = choose_range(model, carried, k_min=k_min, k_max=k_max, source=str(files.paths[0]))
    costs = length_costs(model, lengths.k_min, lengths.k_max)
    if first is not None:
        refuse_batch_unions(model, first, costs)
    return lengths, costs


def carried_length(files: TraceFiles) -> int | None:
    """Find the longest draft length the traces carry, from the first batch that holds a position; None: any."""
    first = _first_with_positions(files)
    return None if first is None else first.max_draft_length


def _first_with_positions(files: TraceFiles) -> Traces | None:
    for piece in (piece for path in files.paths for piece in pieces_of([path], 0)):
        with suppress(InputError):  # what cannot be read is told by the walk
            for batch, _ in files.read(piece):
                if batch.positions:
                    return batch
    return None


def _gather(sums: StudySums, *, source: str, model: LatencyModel, lengths: LengthRange, costs: LengthCosts) -> Study:
    if not sums.generations:
        raise InputError(f"{source}: holds no generations")
    if len(sums.experts_from) > 1:
        raise InputError(
            f"{source}: unique experts come from {' and '.join(sums.experts_from)}; solve such files apart"
        )
    [experts_from], totals, clusters = sums.experts_from, sums.scores.totals(), len(sums.clusters)
    tallies = {name: shifts.tally() for name, shifts in sums.shifts.items()}
    notes = [*lengths.notes, *notes_on(model, costs, [sums], experts_from=experts_from, clusters=clusters)]
    if clusters > MOST_UNITS:
        notes.append(f"{clusters:,} clusters are resampled in {MOST_UNITS:,} groups")
    groups = min((tally.groups or MOST_UNITS for tally in tallies.values()), default=MOST_UNITS)
    if groups < MOST_UNITS:
        notes.append(f"shares of decisions that move: clusters are resampled in {groups:,} groups, for many categories")
    if not all(tally.categories_apart for tally in tallies.values()):
        notes.append(f"more than {MOST_CATEGORIES} categories: shares by category are left out")
    return Study(
        source=source,
        model=model,
        lengths=lengths,
        costs=costs,
        generations=sums.generations,
        positions=sums.positions,
        experts_from=experts_from,
        match_kinds=tuple(sorted(sums.match_kinds)),
        chosen=sums.chosen,
        value_ms=float(sums.value_ms),
        mean_unique=sums.mean_unique(),
        scores=[] if totals is None else scores.score(totals),
        ablations=[_result(name, tally) for name, tally in tallies.items()],
        clusters=clusters,
        notes=tuple(notes),
    )


def _result(name: str, found: ShiftTally) -> AblationResult:
    return AblationResult(
        name=name,
        value_ms=found.value_ms,
        prevalence=ablation.prevalence(found),
        by_category={category: ablation.prevalence(found, category) for category in ablation.categories_of(found)},
        transitions=found.transitions,
        terms_ms=found.terms_ms,
        continuation_change_ms=found.continuation_change_ms,
    )
