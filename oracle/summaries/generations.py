"""The file of scores by generation: what each tuned policy costs each held-out generation."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from oracle.result_files import metadata_of, result_writer
from oracle.scores import PolicyTotals
from oracle.tuning import HeldOutBatch

ROW_GROUP = 1 << 16  # rows

MEASURED = (
    ("ms", "expected milliseconds, J(0): the sum of the five parts below"),
    ("rounds", "rounds"),
    ("drafted", "draft tokens, those looked at and left out included"),
    ("accepted", "draft tokens accepted and emitted"),
    ("wasted", "draft tokens thrown away: drafted - accepted"),
    ("expert_loads", "unique experts per MoE layer, summed over rounds"),
)
PARTS = (
    ("verify_ms", "beta0"),
    ("expert_ms", "alpha * U"),
    ("context_ms", "c * L"),
    ("draft_ms", "draft steps"),
    ("reject_ms", "rejections"),
)
REALISED = tuple(
    (f"realised_{name}", f"the same on recorded draft tokens, no expectation; null without them: {meaning}")
    for name, meaning in (("ms", "milliseconds"), *MEASURED[1:])
)
COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("generation", pa.string(), "id of the generation"),
    ("cluster", pa.string(), "unit of resampling"),
    ("category", pa.string(), "what contrasts compare; null without one"),
    ("fold", pa.int32(), "fold in which the generation is held out"),
    ("family", pa.string(), "family of policies that was tuned"),
    ("policy", pa.string(), "its member that the other folds chose, with which the generation is scored"),
    ("tokens", pa.int64(), "tokens emitted"),
    *((name, pa.float64(), meaning) for name, meaning in (*MEASURED, *PARTS)),
    ("oracle_ms", pa.float64(), "V(0), the bound"),
    ("static0_ms", pa.float64(), "expected milliseconds of k = 0; null if it may not be chosen"),
    *((name, pa.float64(), meaning) for name, meaning in REALISED),
)
SCHEMA = pa.schema([(name, kind) for name, kind, _ in COLUMNS])


def generation_rows(held: HeldOutBatch) -> pa.Table:
    """One row a generation and family of policies, in the order of both; sums over the generation: see `COLUMNS`."""
    expected, families = held.expected, len(held.families)
    count = len(expected.generation)

    def each(values: Any) -> NDArray[Any]:
        return np.repeat(np.asarray(values, dtype=object), families)

    columns: dict[str, Any] = {
        "generation": each(expected.generation),
        "cluster": each(expected.cluster),
        "category": each(held.category),
        "fold": np.repeat(held.fold, families),
        "family": [one.name for one in held.families] * count,
        "policy": [str(one.chosen[f]) for f in held.fold.tolist() for one in held.families],
        "tokens": np.repeat(expected.tokens, families).astype(np.int64),
        **{name: _measure(expected, name).reshape(-1) for name, _ in (*MEASURED, *PARTS)},
        "oracle_ms": np.repeat(held.oracle_ms, families),
    }
    if held.without_ms is not None:
        columns["static0_ms"] = np.repeat(held.without_ms, families)
    if held.realised is not None:
        columns |= {name: _measure(held.realised, name.removeprefix("realised_")).reshape(-1) for name, _ in REALISED}
    nothing = pa.nulls(count * families)
    arrays = [pa.array(columns.get(field.name, nothing), field.type) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _measure(totals: PolicyTotals, name: str) -> NDArray[np.float64]:
    """One measure of every generation and family, (G, families)."""
    if name == "ms":
        return totals.total_ms
    if name == "wasted":
        return totals.of("drafted") - totals.of("accepted")
    return totals.of(name)


class GenerationScores:
    """Writes the file batch by batch: Parquet, with what it rests on in its metadata; nothing without a batch.

    Row groups hold `ROW_GROUP` rows, whatever the batches hold, so that the file does not depend on them.
    """

    def __init__(self, stack: ExitStack, path: Path, metadata: Mapping[str, str]) -> None:
        self._stack, self._path, self._metadata = stack, path, metadata
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []

    def add(self, held: HeldOutBatch) -> None:
        """Write a batch."""
        if self._writer is None:
            self._writer = self._stack.enter_context(result_writer(self._path, SCHEMA))
            self._writer.add_key_value_metadata(metadata_of(self._metadata))
            self._stack.callback(self._end)
        self._waiting.append(generation_rows(held))
        while sum(table.num_rows for table in self._waiting) >= ROW_GROUP:
            rows = pa.concat_tables(self._waiting).combine_chunks()
            self._writer.write_table(rows.slice(0, ROW_GROUP))
            self._waiting = [rows.slice(ROW_GROUP)]

    def _end(self) -> None:
        if self._writer is not None and self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks())
            self._waiting = []
