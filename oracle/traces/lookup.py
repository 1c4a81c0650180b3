"""One generation out of trace files, without walking over the others."""

from difflib import get_close_matches

import pyarrow as pa
import pyarrow.parquet as pq

from oracle.columns import names_of
from oracle.errors import InputError, printable
from oracle.files import File, open_parquet, parquet_errors, shown
from oracle.parquet_limits import ParquetLimits
from oracle.traces.reading import TraceFiles
from oracle.traces.traces import Traces

_NEAREST = 3
_MOST_COMPARED = 20_000  # names that a name is compared with: beyond, looking for near ones takes seconds
_ROWS = 16  # decoded at a time on the way to the row


def read_generation(files: TraceFiles, generation: str, match_is: str | None = None) -> Traces:
    """Read and check one generation; of the others only the names are read.

    Parameters
    ----------
    files
        The dataset; its choice of columns is kept.
    generation
        Its id.
    match_is
        What `match_probs` are, as in `TraceFiles`.

    Raises
    ------
    InputError
        There is no such generation, or more than one; faults of its values.
    """
    found: list[tuple[File, int]] = []
    known: list[str] = []
    for path in files.paths:
        with open_parquet(path) as file, parquet_errors(path):
            names = _names(file, path)
        found += [(path, row) for row, name in enumerate(names) if name == generation]
        known += [name for name in names if name is not None]
    if not found:
        raise InputError(_unknown(files, generation, known))
    if len(found) > 1:
        places = ", ".join(f"{shown(path)} row {row}" for path, row in found)
        raise InputError(f"generation '{printable(generation)}' occurs {len(found)} times: {places}; ids are unique")
    path, row = found[0]
    with open_parquet(path) as file, parquet_errors(path):
        table = _row(file, path, row, files.column_names)
    return Traces.from_arrow(table, shown(path), match_is, first_row=row)


def _names(file: pq.ParquetFile, path: File) -> tuple[str | None, ...]:
    try:
        ParquetLimits(path).rows_anywhere(["generation"])
        return names_of(file.read(["generation"]).column(0))
    except UnicodeDecodeError:
        raise InputError(f"{shown(path)}: generation holds bytes that are not UTF-8; write it as text") from None


def _row(file: pq.ParquetFile, path: File, row: int, names: list[str]) -> pa.Table:
    """Decode one row; within its row group, few rows are in memory at a time."""
    group = 0
    while group + 1 < file.num_row_groups and row >= (rows := file.metadata.row_group(group).num_rows):
        row -= rows
        group += 1
    there = [name for name in names if name in file.schema_arrow.names]
    limits = ParquetLimits(path)
    for batch in file.iter_batches(min(_ROWS, limits.rows_within(group, there)), [group], there):
        if row < batch.num_rows:
            return pa.Table.from_batches([batch.slice(row, 1)])
        row -= batch.num_rows
    raise InputError(f"{shown(path)}: row group {group} holds fewer rows than the footer says; write the file again")


def _unknown(files: TraceFiles, generation: str, known: list[str]) -> str:
    longer = [name for name in known if generation and name.startswith(generation)][:_NEAREST]
    near = longer or get_close_matches(generation, known[:_MOST_COMPARED], _NEAREST, cutoff=0.0)
    listed = ", ".join(f"'{printable(name)}'" for name in near)
    many = f"{len(known):,} generations" if len(known) != 1 else "1 generation"
    nearest = f"; the nearest names: {listed}" if near else ""
    return f"{shown(files.paths[0])}: no generation '{printable(generation)}' among {many}{nearest}"
