"""Decisions for whoever walks over the traces: record batches in, record batches out, nothing of ours in between.

Spark's `mapInArrow`, Dask, Polars and DuckDB hand out record batches and take them back; a generation's decisions
depend on its own row only, so any engine may split and order the rows as it likes.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from oracle.batch_unions import refuse_batch_unions
from oracle.costs import choose_range, length_costs
from oracle.decisions import COLUMNS, decisions_table
from oracle.latency.model import LatencyModel
from oracle.prices import priced_problem
from oracle.solver import describe, solve
from oracle.traces import Traces

SCHEMA = pa.schema(
    [pa.field("generation", pa.string()), *(pa.field(name, pa.list_(kind)) for name, kind, _ in COLUMNS)]
)


def solve_batches(
    batches: Any,
    model: LatencyModel,
    *,
    k_min: int | None = None,
    k_max: int | None = None,
    unique_experts: str | None = None,
    match_is: str | None = "conditional",
    source: str = "record batch",
) -> Iterator[pa.RecordBatch]:
    """Solve record batches of traces one after the other.

    Parameters
    ----------
    batches
        Record batches or tables with one row a generation, an iterable of them or anything that hands out an Arrow
        stream; columns that a solve does not need are passed over.
    model
        The latency model.
    k_min, k_max
        Range of draft lengths; None lets the model and each batch decide.
    unique_experts
        ``"recorded"``, ``"routing"``, or None for what a batch holds.
    match_is
        What `match_probs` are: ``"conditional"``, or ``"survival"`` products.
    source
        What the batches are called in messages.

    Yields
    ------
    pa.RecordBatch
        Decisions of a batch's generations, of schema `SCHEMA`; none for a batch without rows.

    Raises
    ------
    InputError
        All faults of a batch. What only all batches together show, such as an id in two of them, is not looked for.
    """
    stream: Iterable[pa.RecordBatch] = (
        pa.RecordBatchReader.from_stream(batches) if hasattr(batches, "__arrow_c_stream__") else batches
    )
    for batch in stream:
        if not batch.num_rows:
            continue
        traces = Traces.from_arrow(batch, source, match_is)
        span = choose_range(model, traces.max_draft_length, k_min=k_min, k_max=k_max, source=source)
        costs = length_costs(model, span.k_min, span.k_max)
        refuse_batch_unions(model, traces, costs)
        problem = priced_problem(traces, costs, unique_experts)
        found = describe(problem, costs, solve(problem, costs))
        table = decisions_table(found, traces.generation, traces.offsets)
        yield from table.cast(SCHEMA).combine_chunks().to_batches()
