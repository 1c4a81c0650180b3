"""One walk over the traces that solves every batch under all draws of the coefficients and keeps tallies only."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.costs import LengthCosts, LengthRange, length_costs
from oracle.errors import InputError
from oracle.expert_sources import ExpertSources
from oracle.latency.draws import Draws
from oracle.latency.model import LatencyModel
from oracle.one_walk import Walker, one_walk
from oracle.pipeline import in_order
from oracle.prices import priced_problem
from oracle.problem import ExpertSource
from oracle.solver import solve
from oracle.stability import corpus as corpora
from oracle.stability import tally as tallies
from oracle.stability.corpus import CorpusTally, Quantity, StaticChance
from oracle.stability.decisions import decide, draw_costs, rows_table
from oracle.stability.tally import StabilityRow, StabilityTally
from oracle.traces import Traces
from oracle.unit_sums import ArraySums


@dataclass(frozen=True)
class Plan:
    """What is asked of every batch.

    Attributes
    ----------
    costs, drawn
        The fitted costs by draft length, and those of every draw.
    unique_experts
        `recorded`, `routing`, or None for what the traces hold.
    rows
        Whether the rows of the stability file are wanted.
    """

    costs: LengthCosts
    drawn: tuple[LengthCosts, ...]
    unique_experts: str | None = None
    rows: bool = False


@dataclass(frozen=True)
class BatchStability:
    """What came out of one batch."""

    generations: int
    positions: int
    experts_from: ExpertSource
    decisions: StabilityTally
    corpus: CorpusTally
    rows: pa.Table | None = None


class StabilitySums:
    """Adds up what came out of batches, in order and in bounded memory: one row a unit of resampling, see `UnitSums`.

    Attributes
    ----------
    generations, positions
        Of all batches.
    experts_from
        Where U comes from.
    """

    def __init__(self) -> None:
        self.generations = self.positions = 0
        self.experts_from = ExpertSources()
        self._rows = ArraySums()

    def add(self, result: BatchStability) -> None:
        """Take in a batch."""
        self.generations += result.generations
        self.positions += result.positions
        self.experts_from.add(result.experts_from, result.positions)
        decisions, corpus = result.decisions, result.corpus
        arrays = {"counts": decisions.counts, "histogram": decisions.histogram}
        arrays |= {"tokens": corpus.tokens, "rounds": corpus.rounds, "optimum_ms": corpus.optimum_ms}
        self._rows.add(arrays, decisions.cluster)

    @property
    def clusters(self) -> int:
        """How many there were."""
        return len(self._rows.clusters)

    def tallies(self) -> tuple[StabilityTally, CorpusTally]:
        """Everything taken in so far, a unit in the place of a generation."""
        units, sums = self._rows.units, self._rows.sums
        return (
            StabilityTally(units, sums["counts"], sums["histogram"]),
            CorpusTally(units, sums["tokens"], sums["rounds"], sums["optimum_ms"]),
        )


@dataclass(frozen=True)
class Stability:
    """What holds when the coefficients move within their errors.

    Attributes
    ----------
    draws
        The draws, and where they come from.
    lengths, costs
        The range of draft lengths and the fitted costs.
    generations, positions, clusters
        How much was solved.
    experts_from
        Where U comes from.
    rows
        Decisions by k* and label, all of them first.
    histogram : (2, BINS) float64
        Decisions by the probability that k* is optimal, each position 1 and weighted by visit probability.
    quantities, statics
        Headline numbers with intervals, and how often each static length is the best.
    """

    draws: Draws
    lengths: LengthRange
    costs: LengthCosts
    generations: int
    positions: int
    clusters: int
    experts_from: str
    rows: list[StabilityRow]
    histogram: NDArray[np.float64]
    quantities: list[Quantity]
    statics: list[StaticChance]


def examine(traces: Traces, plan: Plan) -> BatchStability:
    """Solve one batch under the fitted coefficients and under every draw, and count."""
    costs, cluster = plan.costs, traces.cluster_of
    problem = priced_problem(traces, costs, plan.unique_experts)
    oracle = solve(problem, costs)
    found = decide(problem, plan.drawn, oracle)
    spent, visit = corpora.corpus_tally(problem, costs, oracle, found, cluster)
    return BatchStability(
        problem.generations,
        problem.positions,
        problem.experts_from,
        tallies.tally(found, visit, problem.offsets, cluster),
        spent,
        rows_table(found, visit, traces.generation, problem.offsets) if plan.rows else None,
    )


def stability(
    batches: Iterable[Traces],
    model: LatencyModel,
    draws: Draws,
    lengths: LengthRange,
    *,
    unique_experts: str | None = None,
    rows: Path | None = None,
    threads: int = 1,
    provenance: Callable[[], Mapping[str, str]] = dict,
    on_batch: Callable[[int], None] | None = None,
    walker: Walker[BatchStability] = in_order,
) -> Stability:
    """Say which decisions and headline numbers hold when the coefficients move within their errors.

    Parameters
    ----------
    batches
        The traces; walked over once.
    model, draws
        The fitted latency model, and models drawn within its errors.
    lengths
        Range of draft lengths (`choose_range`).
    unique_experts
        `recorded`, `routing`, or None for what the traces hold.
    rows
        File for one row a generation (`oracle.stability.decisions.COLUMNS`), or None.
    threads
        Batches worked on side by side; results do not depend on it.
    provenance
        Gives what the metadata of that file keeps; called at the end of the walk.
    on_batch
        Called with the number of generations after each batch.
    walker
        Applies a function to each batch on some threads, and gives the results in the order of the traces.

    Raises
    ------
    InputError
        Faulty traces, or none.
    """
    costs = length_costs(model, lengths.k_min, lengths.k_max)
    plan = Plan(costs, tuple(draw_costs(draws, lengths)), unique_experts, rows is not None)
    sums = StabilitySums()
    return one_walk(
        walker(partial(examine, plan=plan), batches, threads),
        {"rows": rows},
        sums.add,
        lambda: _gather(sums, plan, draws, lengths),
        provenance=provenance,
        on_batch=on_batch,
    )


def _gather(sums: StabilitySums, plan: Plan, draws: Draws, lengths: LengthRange) -> Stability:
    if not sums.generations:
        raise InputError("the traces hold no generations, so there is no decision whose stability could be examined")
    sources = sums.experts_from.names
    if len(sources) > 1:
        raise InputError(f"unique experts come from {' and '.join(sources)}; examine such traces apart")
    decisions, spent = sums.tallies()
    quantities, statics = corpora.corpus(spent, plan.costs, plan.drawn)
    return Stability(
        draws=draws,
        lengths=lengths,
        costs=plan.costs,
        generations=sums.generations,
        positions=sums.positions,
        clusters=sums.clusters,
        experts_from=sources[0],
        rows=tallies.stability_rows(decisions),
        histogram=decisions.histogram.sum(axis=0),
        quantities=quantities,
        statics=statics,
    )
