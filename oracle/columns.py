"""Names and numbers out of plain Arrow columns: every string type and every numeric type becomes one thing."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.errors import InputError, printable

_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}  # the others are called as in NumPy


def whole_table(table: Any, source: str) -> pa.Table:
    """Give what hands out Arrow data as a table whose lists and texts lie within their buffers.

    Raises
    ------
    InputError
        They do not: a damaged file can be decoded to such, and other programs can hand it over.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    whole = table if isinstance(table, pa.Table) else pa.table(table)
    try:
        whole.validate()
    except (pa.ArrowException, IndexError) as error:
        reason = printable(" ".join(str(error).split()), most=160)
        raise InputError(f"{source}: the table is damaged ({reason}); write it again") from error
    return whole


def in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give the columns of a table in the order, the types and with the metadata of a schema.

    What has these types already is not cast: pyarrow 26 makes lists of nulls invalid by it.

    Raises
    ------
    pa.ArrowException, ValueError
        A column cannot be cast.
    """
    alike = table.select(schema.names)
    if alike.schema.equals(schema):
        return alike.replace_schema_metadata(schema.metadata)
    return alike.cast(schema)


def is_name_type(kind: pa.DataType) -> bool:
    """Say whether a type holds text: any string type, a dictionary of one, or nulls only."""
    if pa.types.is_dictionary(kind):
        return is_name_type(kind.value_type)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_view(kind, "string")
    return bool(text or pa.types.is_null(kind))


def is_number_type(kind: pa.DataType) -> bool:
    """Say whether a type holds numbers (truth values count as 0 and 1), or nulls only."""
    t = pa.types
    return bool(
        t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind) or t.is_boolean(kind) or t.is_null(kind)
    )


def is_whole_type(kind: pa.DataType) -> bool:
    """Say whether a type holds whole numbers, or nulls only."""
    return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))


def item_type(kind: pa.DataType) -> pa.DataType | None:
    """Give the type of a list type's items, None for a type that is no list."""
    t = pa.types
    is_list = t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind)
    if is_list or _is_view(kind, "list") or _is_view(kind, "large_list"):
        return kind.value_type
    return None


def is_bytes_type(kind: pa.DataType) -> bool:
    """Say whether a type holds raw bytes."""
    t = pa.types
    fixed = t.is_fixed_size_binary(kind)
    return bool(fixed or t.is_binary(kind) or t.is_large_binary(kind) or _is_view(kind, "binary"))


def _is_view(kind: pa.DataType, of: str) -> bool:
    """Say whether a type is a view layout; pyarrow names their tests alike."""
    return bool(getattr(pa.types, f"is_{of}_view")(kind))


def names_of(column: pa.ChunkedArray | pa.Array) -> tuple[str | None, ...]:
    """Read a text column as Python strings, None where null.

    Raises
    ------
    UnicodeDecodeError
        Bytes that are not UTF-8.
    """
    return tuple((column if pa.types.is_string(column.type) else column.cast(pa.large_string())).to_pylist())


def codes_of(column: pa.ChunkedArray | pa.Array) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Give numbers to the names of a text column in the order of their first appearance.

    Returns
    -------
    codes : (rows,) int32
        Index into `names`, -1 where null. Read-only.
    names : tuple of str
        Each occurs in the column.
    """
    plain = column.cast(pa.large_string())
    chunks = plain if isinstance(plain, pa.ChunkedArray) else pa.chunked_array([plain])
    encoded = chunks.dictionary_encode().unify_dictionaries()
    parts = [np.where(nulls_of(chunk), -1, numpy_of(chunk.indices)) for chunk in encoded.chunks]
    names = tuple(encoded.chunk(0).dictionary.to_pylist()) if encoded.num_chunks else ()
    codes = np.concatenate(parts).astype(np.int32) if parts else np.zeros(0, np.int32)
    return frozen(codes), names


def floats_of(column: pa.ChunkedArray | pa.Array) -> NDArray[np.float64]:
    """Read a numeric column as (rows,) float64, NaN where null; read-only."""
    wide = column if pa.types.is_float64(column.type) else _widened(column)
    values, null = numpy_of(wide), nulls_of(wide)
    return frozen(np.where(null, np.nan, values) if null.any() else values)


def _widened(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    return column.cast(pa.float64(), safe=False)


def numpy_of(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """Read numbers, without a copy where they are one array; what stands where they are null means nothing.

    `to_numpy` imports pandas, which takes longer than to solve a small trace; so does `to_pandas_dtype` of pyarrow 20.
    """
    dtype = np.dtype(_FLOATS.get(str(column.type), str(column.type)))
    if isinstance(column, pa.ChunkedArray):
        parts = [numpy_of(chunk) for chunk in column.chunks] or [np.zeros(0, dtype)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    values = column.buffers()[1]
    if len(column) == 0 or values is None:
        return np.zeros(len(column), dtype)
    return np.frombuffer(values, dtype, len(column), column.offset * dtype.itemsize)


def nulls_of(column: pa.ChunkedArray | pa.Array) -> NDArray[np.bool_]:
    """Say for each row whether it is null: (rows,) bool."""
    if column.null_count == 0:
        return np.zeros(len(column), np.bool_)
    return numpy_of(column.is_null().cast(pa.uint8())).astype(np.bool_)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Give the array C-contiguous, aligned and read-only: the one form that leaves a reader.

    Arrow buffers are read-only and copies are writable; compiled kernels would be built once for either.
    """
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.require(array, requirements=["C", "A"])
    if array.flags.writeable:
        array = array.view()  # the flag of the caller's own array stays as it is
        array.flags.writeable = False
    return array
