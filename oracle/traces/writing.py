"""Writing trace files."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from oracle.columns import in_schema
from oracle.errors import InputError, printable
from oracle.files import PathLike, shown
from oracle.outputs import atomic_output
from oracle.traces.schema import METADATA_PREFIX, VERSION
from oracle.traces.traces import Traces

ROW_GROUP_BYTES = 64 << 20
# Columns of few different values. A dictionary of expert ids would only cost time.
_REPETITIVE = ("category", "tenant", "cluster", "match_kind", "token_text.list.element")


def write_traces(
    path: PathLike,
    batches: Traces | Iterable[Traces],
    metadata: Mapping[str, str] | None = None,
    *,
    row_group_bytes: int = ROW_GROUP_BYTES,
) -> None:
    """Write batches of one dataset as a Parquet file that appears whole or not at all.

    Parameters
    ----------
    path
        File to write; an existing one is replaced.
    batches
        Read one after the other; about one row group is held in memory.
    metadata
        Provenance: target, draft, engine, device, recorder … (`METADATA_KEYS` without the prefix); the version
        is added.
    row_group_bytes
        Most decoded bytes of a row group; one generation is never split.

    Raises
    ------
    InputError
        No generations, batches of different columns, a path that cannot be written.
    """
    tables = (t.to_arrow() for t in ([batches] if isinstance(batches, Traces) else batches))
    first = next(tables, None)
    if first is None:
        raise InputError(f"{shown(path)}: there are no generations to write")
    schema = _described(first.schema, metadata or {})
    with atomic_output(path) as partial, pq.ParquetWriter(partial, schema, **_settings(schema)) as writer:
        for group in _row_groups(_chain(first, tables, schema, path), row_group_bytes):
            writer.write_table(group, row_group_size=max(group.num_rows, 1))


def _described(schema: pa.Schema, metadata: Mapping[str, str]) -> pa.Schema:
    """Replace the metadata; the types in it are those of the first batch."""
    said = {f"{METADATA_PREFIX}{key.removeprefix(METADATA_PREFIX)}": str(value) for key, value in metadata.items()}
    return schema.with_metadata(said | {f"{METADATA_PREFIX}version": str(VERSION)})


def _settings(schema: pa.Schema) -> dict[str, Any]:
    """Give the writer's settings: lz4 decodes ids three times as fast as zstd; statistics only of scalar columns."""
    scalars = [field.name for field in schema if not pa.types.is_nested(field.type)]
    return {
        "compression": "lz4",
        "use_dictionary": [name for name in _REPETITIVE if name.split(".")[0] in schema.names],
        "write_statistics": scalars,
    }


def _chain(first: pa.Table, rest: Iterator[pa.Table], schema: pa.Schema, path: PathLike) -> Iterator[pa.Table]:
    """Give all tables in the first one's columns and types."""
    yield in_schema(first, schema)
    for table in rest:
        if set(table.column_names) != set(schema.names):
            odd = sorted(set(table.column_names) ^ set(schema.names))
            raise InputError(f"{shown(path)}: not all batches have the columns {', '.join(odd)}; write them apart")
        try:
            alike = in_schema(table, schema)
        except (pa.ArrowException, ValueError) as error:
            reason = printable(" ".join(str(error).split()), most=160)
            raise InputError(f"{shown(path)}: the types of the batches differ ({reason}); write them apart") from error
        yield alike


def _row_groups(tables: Iterable[pa.Table], most: int) -> Iterator[pa.Table]:
    """Cut and join tables to row groups of at most `most` decoded bytes, or of one generation."""
    pending: list[pa.Table] = []
    size = 0
    for table in tables:
        for piece, bytes_ in _pieces(table, most):
            if pending and size + bytes_ > most:
                yield pa.concat_tables(pending)
                pending, size = [], 0
            pending.append(piece)
            size += bytes_
    if pending:
        yield pa.concat_tables(pending)


def _pieces(table: pa.Table, most: int) -> Iterator[tuple[pa.Table, int]]:
    """Cut a table so that no piece of more than one row exceeds `most` bytes."""
    rows = table.num_rows
    size = table.nbytes
    if size <= most or rows == 1:
        yield table, size
        return
    half = rows // 2
    yield from _pieces(table.slice(0, half), most)
    yield from _pieces(table.slice(half), most)
