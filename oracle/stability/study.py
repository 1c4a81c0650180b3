"""One walk over the traces that solves every batch under all draws of the coefficients and keeps tallies only."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.analysis import check_carried
from oracle.costs import LengthCosts, LengthRange, length_costs
from oracle.errors import InputError
from oracle.latency.draws import Draws
from oracle.latency.model import LatencyModel
from oracle.pipeline import in_order
from oracle.problem import ExpertSource, make_problem
from oracle.result_files import ResultFile
from oracle.solver import solve
from oracle.stability import corpus as corpora
from oracle.stability import tally as tallies
from oracle.stability.corpus import CorpusTally, Quantity, StaticChance
from oracle.stability.decisions import decide, draw_costs, rows_table
from oracle.stability.tally import StabilityRow, StabilityTally
from oracle.traces import Traces


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
    check_carried(traces, costs.k_max)
    problem = make_problem(traces, costs.k_max, plan.unique_experts)
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

    Raises
    ------
    InputError
        Faulty traces, or none.
    """
    costs = length_costs(model, lengths.k_min, lengths.k_max)
    plan = Plan(costs, tuple(draw_costs(draws, lengths)), unique_experts, rows is not None)
    kept: list[BatchStability] = []
    with ExitStack() as stack:
        output = ResultFile(stack, rows)
        for result in in_order(partial(examine, plan=plan), batches, threads):
            output.write(result.rows)
            kept.append(replace(result, rows=None))  # memory follows the generations, not the positions
            if on_batch is not None:
                on_batch(result.generations)
        found = _gather(kept, plan, draws, lengths)
        output.describe(provenance())
    return found  # only here does the file appear


def _gather(parts: list[BatchStability], plan: Plan, draws: Draws, lengths: LengthRange) -> Stability:
    if not parts:
        raise InputError("the traces hold no generations, so there is no decision whose stability could be examined")
    sources = sorted({part.experts_from for part in parts if part.positions} or {parts[0].experts_from})
    if len(sources) > 1:
        raise InputError(f"unique experts come from {' and '.join(sources)}; examine such traces apart")
    decisions = tallies.join([part.decisions for part in parts])
    quantities, statics = corpora.corpus(corpora.join([part.corpus for part in parts]), plan.costs, plan.drawn)
    return Stability(
        draws=draws,
        lengths=lengths,
        costs=plan.costs,
        generations=sum(part.generations for part in parts),
        positions=sum(part.positions for part in parts),
        clusters=len(set(decisions.cluster)),
        experts_from=sources[0],
        rows=tallies.stability_rows(decisions),
        histogram=decisions.histogram,
        quantities=quantities,
        statics=statics,
    )
