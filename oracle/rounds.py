"""Verification rounds: one row a round, with its times, its unique experts and its context length."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from oracle.columns import floats_of, in_schema, is_number_type, whole_table
from oracle.errors import Faults, InputError, printable
from oracle.files import File, PathLike, Paths, find_parquet, open_parquet, parquet_errors, shown
from oracle.footers import footers
from oracle.outputs import atomic_output
from oracle.parquet_limits import ParquetLimits
from oracle.pieces import Piece
from oracle.round_columns import OPTIONAL, check_schema, read_rounds

if TYPE_CHECKING:
    import pandas as pd

_ROWS_A_BATCH = 1 << 16


@dataclass(frozen=True, eq=False)
class Rounds:
    """Verification rounds, checked; all arrays are C-contiguous and read-only.

    Rows of phase ``prefill`` are kept; their numbers may be missing (NaN; a draft length of 0).

    Attributes
    ----------
    source
        File name(s), for messages.
    table
        The rounds as read.
    generation_codes, cluster_codes : (R,) int32
        Index into `generation_names` and `cluster_names`, whose every name occurs. The cluster is the generation where
        none is given.
    category_codes : (R,) int32, or None
        Index into `category_names`, -1 where null; None altogether where the column is missing.
    draft_length : (R,) int64, tokens
        k; the pass verifies k + 1 positions.
    target_ms, draft_ms : (R,) float64, milliseconds
        Time of the verification pass and of the draft. Zero and negative times are kept.
    unique_experts : (R,) float64, mean per MoE layer
        Experts the pass touched.
    context_len : (R,) float64, tokens
        Tokens in context when the round starts.
    is_prefill : (R,) bool
        Rows that mark the begin of a generation.
    """

    source: str
    table: pa.Table
    generation_codes: NDArray[np.int32]
    generation_names: tuple[str, ...]
    cluster_codes: NDArray[np.int32]
    cluster_names: tuple[str, ...]
    category_codes: NDArray[np.int32] | None
    category_names: tuple[str, ...] | None
    draft_length: NDArray[np.int64]
    target_ms: NDArray[np.float64]
    draft_ms: NDArray[np.float64]
    unique_experts: NDArray[np.float64]
    context_len: NDArray[np.float64]
    is_prefill: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.draft_length)

    @cached_property
    def generation(self) -> pa.DictionaryArray:
        """The generation of each round, dictionary-encoded."""
        return pa.DictionaryArray.from_arrays(self.generation_codes, list(self.generation_names))

    @cached_property
    def cluster(self) -> pa.DictionaryArray:
        """The cluster of each round, else its generation, dictionary-encoded."""
        return pa.DictionaryArray.from_arrays(self.cluster_codes, list(self.cluster_names))

    def numeric(self, name: str) -> NDArray[np.float64]:
        """Read any numeric column as (R,) float64, NaN where null.

        Raises
        ------
        InputError
            No such column, or it holds no numbers.
        """
        if name not in self.table.column_names:
            listed = ", ".join(printable(other, most=40) for other in self.table.column_names)
            raise InputError(f"{self.source}: has no column '{printable(name)}'; the columns there: {listed}")
        column = self.table.column(name)
        if not is_number_type(column.type):
            raise InputError(
                f"{self.source}: the column {printable(name)} has the type {column.type}; numbers are needed"
            )
        return floats_of(column)

    @classmethod
    def from_arrow(cls, table: Any, source: str = "", *, first_row: int = 0) -> Self:
        """Read and check a table with one row a round.

        Parameters
        ----------
        table
            A pyarrow table or record batch, or anything that hands out an Arrow stream.
        source
            File name for messages.
        first_row
            Row number of the table's first row in its file, for messages.

        Raises
        ------
        InputError
            All faults of the table.
        """
        whole = whole_table(table, source or "table")
        source = source or "table"
        faults = Faults()
        check_schema(whole.schema, source, faults)
        faults.raise_if_any()
        if whole.num_rows == 0:
            raise InputError(f"{source}: holds no rounds; there is one row a round")
        return cls(source=source, table=whole, **read_rounds(whole, source, first_row))

    @classmethod
    def from_pandas(cls, frame: "pd.DataFrame", source: str = "") -> Self:
        """Read and check a frame with one row a round."""
        source = source or "frame"
        try:
            table = pa.Table.from_pandas(frame, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = printable(" ".join(str(error).split()), most=160)
            raise InputError(
                f"{source}: a column holds values of different kinds ({reason}); make them alike"
            ) from error
        return cls.from_arrow(table, source)

    def to_arrow(self) -> pa.Table:
        """Give the rounds as read."""
        return self.table

    def to_pandas(self) -> "pd.DataFrame":
        """Give the rounds as a frame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame


class RoundFiles:
    """Files of rounds as one dataset, walked over in batches; can be walked over again.

    Parameters
    ----------
    paths
        A file, a folder, a glob, or several of those.

    Attributes
    ----------
    paths
        The files, in the order they are read.
    rows
        Number of rounds in all files, prefill rows included.
    column_names
        The columns of the first file.

    Raises
    ------
    InputError
        No file, files without the required columns, no rounds.
    """

    def __init__(self, paths: Paths) -> None:
        self.paths: tuple[File, ...] = find_parquet(paths)
        faults = Faults()
        self.rows = 0
        self.column_names: list[str] = []
        for path, schema, footer in footers(self.paths):
            self.rows += footer.num_rows
            check_schema(schema, shown(path), faults)
            self.column_names = self.column_names or schema.names
            for name in (n for n in OPTIONAL if (n in schema.names) != (n in self.column_names)):
                has, lacks = (self.paths[0], path) if name in self.column_names else (path, self.paths[0])
                faults.add(f"{shown(lacks)}: lacks the column {name}, which {shown(has)} has; give these files apart")
        if self.rows == 0:
            faults.add(f"{shown(self.paths[0])}: holds no rounds; there is one row a round")
        faults.raise_if_any()

    def __iter__(self) -> Iterator[Rounds]:
        for path in self.paths:
            yield from _read(path)

    def read(self, piece: Piece) -> Iterator[Rounds]:
        """Read the batches of a piece, as a walk over everything gives them."""
        return _read(piece.file, piece.groups, piece.first_row)


def _read(path: File, groups: range | None = None, first_row: int = 0) -> Iterator[Rounds]:
    """Read a file, or a run of its row groups; a batch ends with its row group, whoever reads it."""
    row = first_row
    for batch in _batches(path, groups):
        yield Rounds.from_arrow(batch, shown(path), first_row=row)
        row += batch.num_rows


def _batches(path: File, groups: range | None) -> Iterator[pa.RecordBatch]:
    with open_parquet(path) as file, parquet_errors(path):
        limits = ParquetLimits(path)
        for group in range(file.num_row_groups) if groups is None else groups:
            rows = 0
            for batch in file.iter_batches(min(_ROWS_A_BATCH, limits.rows_within(group)), [group]):
                rows += batch.num_rows
                if batch.num_rows:
                    yield batch
            limits.refuse_other_rows(group, rows)


def load_rounds(paths: Paths) -> Rounds:
    """Read files of rounds into one object."""
    parts = list(RoundFiles(paths))
    if len(parts) == 1:
        return parts[0]
    tables = [part.table for part in parts]
    source = ", ".join(dict.fromkeys(part.source for part in parts))
    return Rounds.from_arrow(pa.concat_tables(tables, promote_options="permissive"), source)


def write_rounds(path: PathLike, rounds: Rounds | Iterable[Rounds], metadata: Mapping[str, str] | None = None) -> None:
    """Write rounds as a Parquet file that appears whole or not at all.

    Parameters
    ----------
    path
        File to write; an existing one is replaced.
    rounds
        One object or batches with the same columns, read one after the other.
    metadata
        Provenance, written as given into the schema's metadata.

    Raises
    ------
    InputError
        No rounds, batches of different columns, a path that cannot be written.
    """
    tables = (part.to_arrow() for part in ([rounds] if isinstance(rounds, Rounds) else rounds))
    first = next(tables, None)
    if first is None:
        raise InputError(f"{shown(path)}: there are no rounds to write")
    schema = first.schema.with_metadata(dict(metadata or {}))
    with atomic_output(path) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        writer.write_table(in_schema(first, schema))
        for table in tables:
            if set(table.column_names) != set(schema.names):
                odd = ", ".join(sorted(set(table.column_names) ^ set(schema.names)))
                raise InputError(f"{shown(path)}: not all batches have the columns {odd}; write them apart")
            try:
                alike = in_schema(table, schema)
            except (pa.ArrowException, ValueError) as error:
                reason = printable(" ".join(str(error).split()), most=160)
                raise InputError(
                    f"{shown(path)}: the types of the batches differ ({reason}); write them apart"
                ) from error
            writer.write_table(alike)
