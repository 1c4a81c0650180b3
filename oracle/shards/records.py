"""The result of a batch as a table and back, bit for bit: one row a generation, one row group a batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.ablation import TERMS, GenerationShifts
from oracle.analysis import BatchResult
from oracle.result_files import list_array
from oracle.scores import MEASURES, PolicyTotals

_PAIR_SUMS = 3 + len(TERMS)


def table_of(result: BatchResult, generation: Sequence[str]) -> pa.Table:
    """Lay a batch's sums out; its files' rows are left out."""
    columns: dict[str, pa.Array] = {
        "generation": pa.array(generation, pa.string()),
        "value_ms": pa.array(result.value_ms),
        "first_unique": pa.array(result.first_unique),
        "chosen": _cells(result.chosen),
    }
    if result.unique_sums is not None:
        columns["unique_sums"] = _cells(result.unique_sums)
    if result.scores is not None:
        columns["cluster"] = pa.array(result.scores.cluster, pa.string())
        columns["tokens"] = pa.array(result.scores.tokens)
        columns["scores"] = _cells(result.scores.sums)
    for i, found in enumerate((result.shifts or {}).values()):
        columns["cluster"] = pa.array(found.cluster, pa.string())
        columns["category"] = pa.array(found.category, pa.string())
        columns[f"shift_{i}_value_ms"] = pa.array(found.value_ms)
        columns[f"shift_{i}_pair"] = list_array(pa.array(found.pair), found.offsets)
        columns[f"shift_{i}_sums"] = list_array(_cells(found.sums), found.offsets)
    return pa.table(columns)


def said_of(result: BatchResult) -> dict[str, Any]:
    """What the table does not hold, as JSON values."""
    return {
        "generations": result.generations,
        "positions": result.positions,
        "experts_from": result.experts_from,
        "match_kinds": sorted(result.match_kinds),
        "longest_context": result.longest_context,
        "policies": None if result.scores is None else list(result.scores.policies),
        "bounds": None if result.scores is None else sorted(result.scores.bounds),
        "changes": None if result.shifts is None else list(result.shifts),
    }


def result_of(table: pa.Table, said: Mapping[str, Any]) -> tuple[BatchResult, tuple[str, ...]]:
    """Give back the result that `table_of` and `said_of` describe, and the generations' names."""
    k_max = table.schema.field("chosen").type.list_size // 2 - 1
    generation = tuple(table["generation"].to_pylist())
    cluster = tuple(table["cluster"].to_pylist()) if "cluster" in table.column_names else ()
    per_length = (len(generation), 2, k_max + 1)
    scores = None
    if said["policies"] is not None:
        policies = tuple(said["policies"])
        sums = _values(table, "scores").reshape(len(generation), len(policies), len(MEASURES))
        scores = PolicyTotals(
            policies, generation, cluster, _values(table, "tokens"), sums, bounds=frozenset(said["bounds"])
        )
    changes = said["changes"]
    result = BatchResult(
        generations=said["generations"],
        positions=said["positions"],
        experts_from=said["experts_from"],
        match_kinds=frozenset(said["match_kinds"]),
        chosen=_values(table, "chosen").reshape(per_length),
        value_ms=_values(table, "value_ms"),
        longest_context=said["longest_context"],
        first_unique=_values(table, "first_unique"),
        unique_sums=_values(table, "unique_sums").reshape(per_length) if "unique_sums" in table.column_names else None,
        scores=scores,
        shifts=None if changes is None else {name: _shifts(table, i, cluster, k_max) for i, name in enumerate(changes)},
    )
    return result, generation


def _shifts(table: pa.Table, number: int, cluster: tuple[str, ...], k_max: int) -> GenerationShifts:
    pairs = table[f"shift_{number}_pair"].combine_chunks()
    lengths = pairs.value_lengths().to_numpy(zero_copy_only=False)
    return GenerationShifts(
        cluster=cluster,
        category=tuple(table["category"].to_pylist()),
        k_max=k_max,
        offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        pair=pairs.flatten().to_numpy(zero_copy_only=False),
        sums=_flat(table[f"shift_{number}_sums"].combine_chunks().flatten()).reshape(-1, _PAIR_SUMS),
        value_ms=_values(table, f"shift_{number}_value_ms"),
    )


def _cells(values: NDArray[np.float64]) -> pa.Array:
    """One fixed list a row."""
    rows = np.ascontiguousarray(values, np.float64).reshape(len(values), -1)
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])


def _values(table: pa.Table, name: str) -> NDArray[np.float64]:
    return _flat(table[name].combine_chunks())


def _flat(array: pa.Array) -> NDArray[np.float64]:
    plain = array.flatten() if pa.types.is_fixed_size_list(array.type) else array
    return np.asarray(plain.to_numpy(zero_copy_only=False))
