"""One generation out of trace files, without walking over the others."""

from difflib import get_close_matches
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from oracle.columns import names_of
from oracle.errors import InputError, printable
from oracle.files import open_parquet, parquet_errors, shown
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
    found: list[tuple[Path, int]] = []
    known: list[str] = []
    for path in files.paths:
        with open_parquet(path) as file, parquet_errors(path):
            names = _names(file, shown(path))
        found += [(path, row) for row, name in enumerate(names) if name == generation]
        known += [name for name in names if name is not None]
    if not found:
        raise InputError(_unknown(files, generation, known))
    if len(found) > 1:
        places = ", ".join(f"{shown(path)} row {row}" for path, row in found)
        raise InputError(f"generation '{printable(generation)}' occurs {len(found)} times: {places}; ids are unique")
    path, row = found[0]
    with open_parquet(path) as file, parquet_errors(path):
        table = _row(file, row, files.column_names)
    return Traces.from_arrow(table, shown(path), match_is, first_row=row)


def _names(file: pq.ParquetFile, source: str) -> tuple[str | None, ...]:
    try:
        return names_of(file.read(["generation"]).column(0))
    except UnicodeDecodeError:
        raise InputError(f"{source}: generation holds bytes that are not UTF-8; write it as text") from None


def _row(file: pq.ParquetFile, row: int, names: list[str]) -> pa.Table:
    """Decode one row; within its row group, few rows are in memory at a time."""
    group = 0
    while row >= (rows := file.metadata.row_group(group).num_rows):
        row -= rows
        group += 1
    there = [name for name in names if name in file.schema_arrow.names]
    for batch in file.iter_batches(_ROWS, [group], there):
        if row < batch.num_rows:
            return pa.Table.from_batches([batch.slice(row, 1)])
        row -= batch.num_rows
    raise AssertionError("a row group holds the rows that its footer says")


def _unknown(files: TraceFiles, generation: str, known: list[str]) -> str:
    longer = [name for name in known if generation and name.startswith(generation)][:_NEAREST]
    near = longer or get_close_matches(generation, known[:_MOST_COMPARED], _NEAREST, cutoff=0.0)
    listed = ", ".join(f"'{printable(name)}'" for name in near)
    many = f"{len(known):,} generations" if len(known) != 1 else "1 generation"
    nearest = f"; the nearest names: {listed}" if near else ""
    return f"{shown(files.paths[0])}: no generation '{printable(generation)}' among {many}{nearest}"
