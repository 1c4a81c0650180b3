"""Tables as no recorder writes them: columns of every Arrow type, nulls, nesting, lists that lie, slices, chunks."""

import io
import random
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

_LENGTHS = (3, 0, 4)
_ROWS = len(_LENGTHS)
_CELLS = sum(_LENGTHS)


def _numbers(kind: pa.DataType, count: int) -> pa.Array:
    return pa.array(np.arange(count) % 100, pa.int8()).cast(kind)


def _texts(kind: pa.DataType, count: int) -> pa.Array:
    odd = ("g0", "\x1b[31m", "../../x", "a\x00b", "", "\u202e", "x" * 3000)
    return pa.array([odd[i % len(odd)] for i in range(count)], pa.string()).cast(kind)


def _bytes(kind: pa.DataType, count: int) -> pa.Array:
    return pa.array([b"\xff\xfe\x00\x01"] * count, pa.binary()).cast(kind)


def _not_utf8(count: int) -> pa.Array:
    raw = pa.array([b"\xff\xfe"] * count, pa.binary())
    return pa.Array.from_buffers(pa.string(), count, raw.buffers())


def _decimals(count: int) -> pa.Array:
    return pa.array([Decimal("0.5")] * count, pa.decimal128(38, 10))


def _floats(values: tuple[float, ...], count: int) -> pa.Array:
    return pa.array([values[i % len(values)] for i in range(count)], pa.float64())


@cache
def leaves() -> tuple[Callable[[int], pa.Array], ...]:
    """Makers of columns without nesting."""
    whole = (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64())
    numbers = (*whole, pa.float16(), pa.float32(), pa.float64(), pa.bool_())
    found: list[Callable[[int], pa.Array]] = [lambda n, k=kind: _numbers(k, n) for kind in numbers]
    found += [lambda n, k=kind: _texts(k, n) for kind in (pa.string(), pa.large_string(), pa.string_view())]
    found += [lambda n, k=kind: _bytes(k, n) for kind in (pa.binary(), pa.large_binary(), pa.binary(4))]
    found += [
        pa.nulls,
        lambda n: pa.nulls(n, pa.float32()),
        lambda n: _texts(pa.string(), n).dictionary_encode(),
        lambda n: pa.array([0.5, None] * n)[:n],
        lambda n: _floats((float("nan"), float("inf"), -1.0, 1e300, 5e-324), n),
        lambda n: _floats((2.0**63, -(2.0**63), 0.5), n),
        lambda n: pa.array([2**64 - 1] * n, pa.uint64()),
        lambda n: pa.array([2**31 - 1, -(2**31)] * n, pa.int32())[:n],
        lambda n: pa.array(["overlap"] * n),
        _not_utf8,
        _decimals,
        lambda n: pa.array([0] * n, pa.timestamp("ns", "UTC")),
        lambda n: pa.array([0] * n, pa.duration("s")),
        lambda n: pa.array([0] * n, pa.date32()),
        lambda n: pa.array([{"a": 1, "b": [1]}] * n),
        lambda n: pa.array([[("k", 1)]] * n, pa.map_(pa.string(), pa.int64())),
    ]
    return tuple(found)


def column(rng: random.Random, rows: int = _ROWS, cells: int = _CELLS) -> pa.Array:
    """A column of any type; lists hold as many cells as the trace's own, or other numbers of them."""
    leaf = rng.choice(leaves())
    kind = rng.randrange(10)
    if kind < 2:
        return leaf(rows)
    if kind < 5:
        return _lists(rng, leaf(cells), rows, cells)
    width = rng.choice((0, 1, 2, 4, 4, 8, 100))
    if kind < 8:
        inner = pa.FixedSizeListArray.from_arrays(leaf(cells * width), width) if width else leaf(cells)
        return _lists(rng, inner, rows, cells)
    for _ in range(rng.choice((2, 3, 12))):
        cells_array = leaf(cells) if kind == 8 else pa.nulls(cells)
        leaf = lambda n, inner=cells_array: _every_one(inner, n)  # noqa: E731
    return _lists(rng, leaf(cells), rows, cells)


def _every_one(inner: pa.Array, count: int) -> pa.Array:
    """Lists of one item each."""
    return pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), inner)


def _lists(rng: random.Random, items: pa.Array, rows: int, cells: int) -> pa.Array:
    lengths = list(_LENGTHS) if rows == _ROWS and rng.random() < 0.7 else [0] * rows
    if sum(lengths) > len(items) or rng.random() < 0.1:
        lengths = [0] * (rows - 1) + [min(len(items), cells)]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    kind = rng.randrange(4)
    if kind == 0:
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), items)
    if kind == 1:
        return pa.ListViewArray.from_arrays(
            pa.array(ends[:-1], pa.int32()), pa.array(np.array(lengths), pa.int32()), items
        )
    mask = pa.array([rng.random() < 0.3 for _ in lengths]) if rng.random() < 0.2 else None
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, mask=mask)


def altered(table: pa.Table, rng: random.Random) -> pa.Table:
    """The table with one to three columns of another type, left out, given twice or renamed; sliced or in chunks."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(table.num_columns)
        kind = rng.randrange(10)
        if kind == 0 and table.num_columns > 1:
            table = table.remove_column(at)
        elif kind == 1:
            table = table.append_column(table.column_names[at], table.column(rng.randrange(table.num_columns)))
        elif kind == 2:
            names = list(table.column_names)
            names[at] = rng.choice(("", "\x1b[31m", "match_prob", "match_probs", "experts", "x.y", "../x", "a\x00b"))
            table = table.rename_columns(names)
        else:
            table = table.set_column(at, table.column_names[at], column(rng, table.num_rows))
    if rng.random() < 0.1:
        table = table.replace_schema_metadata({b"draft_oracle.version": rng.choice((b"1", b"2", b"\xff", b"\x1b"))})
    if rng.random() < 0.2:
        start = rng.randrange(table.num_rows + 1)
        table = pa.concat_tables([table.slice(start), table.slice(0, start)])
    return table


def lying_lists(rng: random.Random, table: pa.Table) -> pa.Table:
    """The table with list offsets that fall, are negative or lie beyond the items.

    No Parquet file holds such and pyarrow builds none, but it takes them from a stream as they come.
    """
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    raw = bytearray(out.getvalue())
    offsets = np.array([0, 3, 3, 7], "<i4").tobytes()
    at = raw.find(offsets, rng.randrange(len(raw)))
    if at >= 0:
        where = at + 4 * rng.randrange(4)
        odd = rng.choice((-1, -(2**31), 2, 8, 1 << 20, 2**31 - 1))
        raw[where : where + 4] = odd.to_bytes(4, "little", signed=True)
    return pa.ipc.open_stream(raw).read_all()


def rounds_table() -> pa.Table:
    """Rounds with every column."""
    rows = _ROWS
    columns: dict[str, Any] = {
        "generation": ["a", "a", "b"],
        "draft_length": pa.array([0, 1, 2], pa.int32()),
        "target_ms": [7.0, 8.0, 9.0],
        "draft_ms": [0.0, 1.0, 2.0],
        "unique_experts": [4.0, 5.5, 6.0],
        "context_len": pa.array([10, 12, 9], pa.int64()),
        "max_unique_experts": [4.0, 6.0, 8.0],
        "kv_usage": [0.1, 0.1, 0.2],
        "batch_size": pa.array([1] * rows, pa.int32()),
        "reject_ms": [0.0, 0.1, 0.0],
        "category": ["code", None, "prose"],
        "cluster": [None, "q", "q"],
        "position": pa.array([0, 1, 0], pa.int32()),
        "round_index": pa.array([0, 1, 2], pa.int32()),
        "phase": ["prefill", None, "decode"],
    }
    return pa.table(columns)
