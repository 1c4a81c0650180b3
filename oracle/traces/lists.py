"""From any accepted Arrow list layout to offsets and one flat array, and back.

What has to be got right here: after slicing, offsets are absolute and each column has a base of its own; ``.values``
ignores slices; fixed-size children have their own offset; a null list may hide items; null items read as zeros; a table
from several batches holds several chunks, and chunks together may exceed 2³¹ bytes, so Arrow never combines them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.columns import frozen, is_bytes_type, is_name_type, item_type, nulls_of, numpy_of

_LARGEST_INT32 = 2**31 - 1


class BadCellsError(ValueError):
    """Entries that cannot be read.

    Attributes
    ----------
    bad : (n,) int64
        Indices of the entries, ascending.
    describe
        Says what is wrong with the entry of an index.
    """

    def __init__(self, bad: NDArray[np.int64], describe: Callable[[int], str]) -> None:
        super().__init__("entries that cannot be read")
        self.bad = bad
        self.describe = describe


@dataclass(frozen=True)
class Lists:
    """A list column taken apart.

    Attributes
    ----------
    offsets : (rows + 1,) int64
        Rebased to 0; a null list is empty.
    null : (rows,) bool
        Which lists are null.
    items
        The items, one Arrow array a chunk, sliced to what the lists hold. If any list is null they may hold more.
    """

    offsets: NDArray[np.int64]
    null: NDArray[np.bool_]
    items: tuple[pa.Array, ...]


def take_apart(column: pa.ChunkedArray | pa.Array) -> Lists:
    """Take a list column apart: list, large_list, fixed_size_list or a view, sliced or in chunks."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [_items_of(chunk) for chunk in chunks]
    null = [nulls_of(chunk) for chunk in chunks]
    lengths = [np.where(n, 0, np.diff(offsets)) for n, (offsets, _) in zip(null, parts, strict=True)]
    offsets = np.zeros(sum(map(len, lengths)) + 1, np.int64)
    if lengths:
        np.cumsum(np.concatenate(lengths), out=offsets[1:])
    return Lists(
        frozen(offsets),
        np.concatenate(null) if null else np.zeros(0, np.bool_),
        tuple(items for _, items in parts),
    )


def _items_of(array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Give rebased offsets and the sliced items of one list array; the items of null lists are still in there."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        return size * np.arange(len(array) + 1), array.values.slice(array.offset * size, len(array) * size)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):  # a view, whose lists lie anywhere
        sizes = np.where(nulls_of(array), 0, numpy_of(array.sizes))
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), array.flatten()
    offsets = numpy_of(array.offsets).astype(np.int64)
    if len(array) and np.any(np.diff(offsets) < 0):
        raise BadCellsError(np.flatnonzero(np.diff(offsets) < 0), lambda _: "has list offsets that fall")
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, array.values.slice(first, last - first)


def cells(items: Sequence[pa.Array]) -> NDArray[Any]:
    """Read items as numbers: scalars, equally long lists (of lists …), or equally long byte strings.

    Returns
    -------
    (n, …) array
        Numbers in their own dtype, or uint8 bytes; read-only; without a copy where there is one chunk whose
        memory is aligned.

    Raises
    ------
    BadCellsError
        Null entries, entries that are not all equally long.
    """
    parts: list[NDArray[Any]] = []
    start = 0
    for item in items:
        if len(item) == 0:
            continue
        try:
            part = _cells(item)
        except BadCellsError as error:
            raise _shifted(error, start) from None
        if parts and part.shape[1:] != parts[0].shape[1:]:
            raise BadCellsError(np.array([start]), _unequal(part.shape[1:], parts[0].shape[1:]))
        parts.append(part)
        start += len(item)
    if not parts:
        return frozen(_cells(items[0])) if items and not pa.types.is_null(items[0].type) else np.zeros(0, np.float32)
    return frozen(parts[0] if len(parts) == 1 else np.concatenate(parts))


def _shifted(error: BadCellsError, start: int) -> BadCellsError:
    """Give the same fault with indices that count from the first chunk."""
    return BadCellsError(error.bad + start, lambda i: error.describe(i - start))


def _unequal(had: Sequence[int], wanted: Sequence[int]) -> Callable[[int], str]:
    return lambda _: f"holds {' x '.join(map(str, had))} values where the others hold {' x '.join(map(str, wanted))}"


def _cells(items: pa.Array) -> NDArray[Any]:
    """Read one array of items; see `cells`."""
    refuse_nulls(items)
    kind, count = items.type, len(items)
    if pa.types.is_fixed_size_binary(kind):
        return _bytes(items.buffers()[1], items.offset * kind.byte_width, count, kind.byte_width)
    if is_bytes_type(kind):
        return _binary_cells(items)
    if item_type(kind) is not None:
        offsets, inner = _items_of(items)
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else int(offsets[1]) if count else 0
        _refuse_other_lengths(np.diff(offsets), size, "values")
        try:
            values = _cells(inner)
        except BadCellsError as error:
            bad = np.unique(error.bad // max(size, 1))
            said = error.describe(int(error.bad[0]))
            raise BadCellsError(bad, lambda _: f"holds an entry that {said}") from None
        return values.reshape(count, size, *values.shape[1:])
    return _numbers(items)


def _numbers(items: pa.Array) -> NDArray[Any]:
    if pa.types.is_null(items.type):
        return np.zeros(len(items), np.float32)
    if pa.types.is_boolean(items.type):
        items = items.cast(pa.uint8())
    elif pa.types.is_decimal(items.type):
        items = items.cast(pa.float64())
    return numpy_of(items)


def _binary_cells(items: pa.Array) -> NDArray[np.uint8]:
    """Read equally long byte strings; their bytes are contiguous, so nothing is copied."""
    if not (pa.types.is_binary(items.type) or pa.types.is_large_binary(items.type)):  # a view
        items = items.cast(pa.large_binary())
    width = np.dtype(np.int64 if pa.types.is_large_binary(items.type) else np.int32)
    _, offset_buffer, data = items.buffers()
    if len(items) == 0:
        return np.zeros((0, 0), np.uint8)
    offsets = np.frombuffer(offset_buffer, width, len(items) + 1, items.offset * width.itemsize)
    lengths = np.diff(offsets)
    _refuse_other_lengths(lengths, int(lengths[0]), "bytes")
    return _bytes(data, int(offsets[0]), len(items), int(lengths[0]))


def _bytes(buffer: pa.Buffer | None, start: int, count: int, width: int) -> NDArray[np.uint8]:
    if buffer is None or count * width == 0:
        return np.zeros((count, width), np.uint8)
    return np.frombuffer(buffer, np.uint8, count * width, start).reshape(count, width)


def refuse_nulls(items: pa.Array) -> None:
    """Raise `BadCellsError` if there are null entries, which would be read as zeros."""
    if items.null_count:
        raise BadCellsError(np.flatnonzero(nulls_of(items)), lambda _: "is null")


def _refuse_other_lengths(lengths: NDArray[Any], size: int, what: str) -> None:
    bad = np.flatnonzero(lengths != size)
    if len(bad):
        raise BadCellsError(bad, lambda i: f"holds {lengths[i]} {what} where the others hold {size}")


def list_array(offsets: NDArray[np.int64], items: pa.Array) -> pa.Array:
    """Build a list column: list where the offsets fit 32 bits, else large_list."""
    if offsets[-1] <= _LARGEST_INT32:
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), items)
    return pa.LargeListArray.from_arrays(pa.array(offsets), items)


def rows_array(values: NDArray[Any]) -> pa.Array:
    """Build fixed_size_list items from a (n, width) array, without a copy; lists for width 0, which Arrow refuses."""
    if not values.shape[1]:
        return pa.ListArray.from_arrays(np.zeros(len(values) + 1, np.int32), pa.array(values.reshape(-1)))
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def bytes_array(values: NDArray[Any]) -> pa.Array:
    """Build fixed_size_binary items from a (n, …) array of little-endian numbers, without a copy."""
    width = int(np.prod(values.shape[1:])) * values.itemsize
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(little)])


def is_text_list(kind: pa.DataType) -> bool:
    """Say whether the innermost items of a list type are text."""
    while (item := item_type(kind)) is not None:
        kind = item
    return is_name_type(kind) and not pa.types.is_null(kind)
