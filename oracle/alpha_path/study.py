"""The path in alpha over all traces: walked batch by batch, its pieces written, its totals added up."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from oracle.alpha_path.path import S_MAX, alpha_path, alpha_path_table, check_s_max
from oracle.alpha_path.scales import MARGINS, ScaleSums, ScaleTally, tally_scales
from oracle.costs import LengthCosts, LengthRange, length_costs
from oracle.errors import InputError
from oracle.latency.model import LatencyModel
from oracle.latency.recorded_errors import is_number
from oracle.one_walk import Walker, one_walk
from oracle.pipeline import in_order
from oracle.prices import priced_problem
from oracle.solver import solve, visits
from oracle.traces import Traces


@dataclass(frozen=True)
class BatchScales:
    """What came out of one batch: rows of the file of pieces, or None, and the tally."""

    tally: ScaleTally
    rows: pa.Table | None = None

    @property
    def generations(self) -> int:
        """How many there were."""
        return len(self.tally.cluster)


@dataclass(frozen=True)
class _Plan:
    costs: LengthCosts
    s_max: float
    margins: tuple[float, ...]
    unique_experts: str | None
    rows: bool


def alpha_study(
    batches: Iterable[Traces],
    model: LatencyModel,
    lengths: LengthRange,
    *,
    s_max: float = S_MAX,
    unique_experts: str | None = None,
    rows: Path | None = None,
    threads: int = 1,
    provenance: Callable[[], Mapping[str, str]] = dict,
    on_batch: Callable[[int], None] | None = None,
    walker: Walker[BatchScales] = in_order,
) -> ScaleTally:
    """Find every breakpoint of every decision in [0, s_max], and what a wrong alpha changes.

    Parameters
    ----------
    batches
        The traces; walked over once.
    model, lengths
        The latency model and the range of draft lengths (`choose_range`).
    s_max
        Where the path of scales on all alpha ends.
    unique_experts
        `recorded`, `routing`, or None for what the traces hold.
    rows
        File for the pieces, one row a generation (`alpha_path_table`), or None.
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
        Faulty traces, or none; an s_max below 1.
    """
    check_s_max(s_max)
    margins = tuple(sorted({*MARGINS, *fitted_margin(model)}))
    plan = _Plan(length_costs(model, lengths.k_min, lengths.k_max), s_max, margins, unique_experts, rows is not None)
    sums = ScaleSums()

    def answer() -> ScaleTally:
        found = sums.tally()
        if found is None:
            raise InputError("the traces hold no generations, so there is no decision whose path could be followed")
        return found

    return one_walk(
        walker(partial(_followed, plan=plan), batches, threads),
        {"rows": rows},
        lambda result: sums.add(result.tally),
        answer,
        provenance=provenance,
        on_batch=on_batch,
    )


def fitted_margin(model: LatencyModel) -> tuple[float, ...]:
    """How far the fit itself leaves alpha open: the widest half of a 95 % interval over m, relative; none if not told.

    Lengths whose alpha is borrowed count with the alpha that they borrow.
    """
    record = (model.fit or {}).get("coefficients")
    if not isinstance(record, Mapping):
        return ()
    columns = [record.get(key) for key in ("names", "values", "low", "high")]
    rows = zip(*columns, strict=False) if all(isinstance(column, list) for column in columns) else ()
    wide = [
        (high - low) / 2 / abs(value)
        for name, value, low, high in rows
        if str(name).startswith("alpha_ms_per_expert") and all(map(is_number, (value, low, high))) and value
    ]
    wide = [margin for margin in wide if is_number(margin)]
    return (max(wide),) if wide else ()


def _followed(traces: Traces, plan: _Plan) -> BatchScales:
    costs = plan.costs
    problem = priced_problem(traces, costs, plan.unique_experts)
    oracle = solve(problem, costs)
    path = alpha_path(problem, costs, plan.s_max)
    visit = visits(problem, oracle.draft_length)
    found = tally_scales(problem, costs, path, oracle, visit, traces.cluster_of, margins=plan.margins)
    rows = alpha_path_table(path, traces.generation, traces.offsets, oracle.draft_length) if plan.rows else None
    return BatchScales(found, rows)
