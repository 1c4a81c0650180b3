"""Walking over trace files in batches, within bounded memory."""

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Self, TypeVar

import pyarrow as pa

from oracle.columns import item_type
from oracle.errors import Faults, InputError, printable
from oracle.files import File, Paths, find_parquet, open_parquet, parquet_errors, shown
from oracle.footers import footers
from oracle.parquet_limits import ParquetLimits
from oracle.pieces import Piece
from oracle.pipeline import Elsewhere
from oracle.traces.budget import Budget
from oracle.traces.dataset import Dataset
from oracle.traces.gate import check_match_is
from oracle.traces.schema import (
    ALWAYS_READ,
    BY_NAME,
    COLUMNS,
    EXPERT_COLUMNS,
    LOGGED_COLUMNS,
    METADATA_PREFIX,
    TARGET_COLUMNS,
    VERSION,
    check_schema,
)
from oracle.traces.traces import Traces, joined

_MOST_FAULTS_GATHERED = 1000

_Item = TypeVar("_Item")


class TraceFiles:
    """Trace files as one dataset, walked over in batches of generations; can be walked over again.

    Opening reads schemas and footers only. Every walk checks everything: `InputError` is raised at the first batch with
    faults and names all faults of that batch.

    Parameters
    ----------
    paths
        A file, a folder, a glob, or several of those.
    columns
        Which optional columns to read; None reads all of them, further columns too. What is needed to make sense of a
        trace is always read. A known column that the files lack reads as missing.
    match_is
        What `match_probs` are: ``"conditional"``, or ``"survival"`` products, which are converted. None says nothing:
        they are taken as conditional, with an `InputWarning` at the end of a walk if they look like survival products.
    batch_bytes
        Decoded size of a batch, bytes; a batch holds at least one generation.

    Attributes
    ----------
    paths
        The files, in the order they are read.
    schema
        The columns of the first file.
    column_names
        The columns that will be read, in the order of the first file.
    generations
        Number of generations in all files.
    metadata
        What the files say of their making, ``draft_oracle.`` left out of the keys; differing values joined by ``"; "``.

    Raises
    ------
    InputError
        No file, files that are no traces or not of one kind, a column asked for that is neither known nor there.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        columns: Collection[str] | None = None,
        match_is: str | None = None,
        batch_bytes: int = 8 << 20,
    ) -> None:
        check_match_is(match_is)
        if batch_bytes < 1:
            raise InputError(f"batch_bytes is {batch_bytes}; it must be at least 1")
        self.paths: tuple[File, ...] = find_parquet(paths)
        self.match_is = match_is
        self._batch_bytes = batch_bytes
        self._budget: Budget | None = None
        self._left_out: frozenset[tuple[File, int]] = frozenset()
        faults = Faults()
        schemas: list[pa.Schema] = []
        rows = 0
        self.metadata: dict[str, str] = {}
        for path, schema, footer in footers(self.paths):
            schemas.append(schema)
            rows += footer.num_rows
            check_schema(schema, shown(path), faults)
            if match_is == "survival" and "match_probs" not in schema.names:
                faults.add(
                    f"{shown(path)}: holds no match_probs to read as survival; match_prob is conditional by its meaning"
                )
            self._take_metadata(schema, path, faults)
        if rows == 0:
            faults.add(f"{shown(self.paths[0])}: holds no generations; a trace has one row a generation")
        self._check_same_columns(schemas, faults)
        self.schema = schemas[0]
        self.generations = rows
        self._wanted = None if columns is None else self._known(columns, schemas, faults)
        faults.raise_if_any()
        self._routed = not set(EXPERT_COLUMNS).isdisjoint(self.schema.names)
        self.column_names = self._names_read(self.schema)

    def _take_metadata(self, schema: pa.Schema, path: File, faults: Faults) -> None:
        for key, value in (schema.metadata or {}).items():
            name, text = key.decode(errors="replace"), value.decode(errors="replace")
            if not name.startswith(METADATA_PREFIX):
                continue
            name = name.removeprefix(METADATA_PREFIX)
            if name == "version" and text != str(VERSION):
                faults.add(
                    f"{shown(path)}: the format version is '{printable(text)}'; this program reads version {VERSION}. "
                    "Use a newer program"
                )
            had = self.metadata.get(name)
            if had is None:
                self.metadata[name] = text
            elif text not in had.split("; "):
                self.metadata[name] = f"{had}; {text}"

    def _check_same_columns(self, schemas: list[pa.Schema], faults: Faults) -> None:
        """Check that files agree on the known columns; a missing one would silently change what is computed."""
        first = set(schemas[0].names)
        for path, schema in zip(self.paths[1:], schemas[1:], strict=True):
            for name in (c.name for c in COLUMNS if (c.name in first) != (c.name in schema.names)):
                has, lacks = (self.paths[0], path) if name in first else (path, self.paths[0])
                faults.add(f"{shown(lacks)}: lacks the column {name}, which {shown(has)} has; give these files apart")

    def _known(self, columns: Collection[str], schemas: list[pa.Schema], faults: Faults) -> frozenset[str]:
        """Check the columns asked for; a logged round needs both of its columns."""
        if isinstance(columns, str):
            columns = [columns]
        there = {name for schema in schemas for name in schema.names}
        for name in sorted(set(columns) - there - BY_NAME.keys()):
            listed = ", ".join(printable(other, most=40) for other in schemas[0].names)
            faults.add(f"{shown(self.paths[0])}: has no column '{printable(name)}'; the columns there: {listed}")
        logged = LOGGED_COLUMNS if set(columns) & set(LOGGED_COLUMNS) else ()
        return frozenset({*columns, *logged})

    def _names_read(self, schema: pa.Schema) -> list[str]:
        wanted = self._wanted
        return [name for name in schema.names if wanted is None or name in wanted or name in ALWAYS_READ]

    def __iter__(self) -> Iterator[Traces]:
        dataset = Dataset(self._routed)
        for path in self.paths:
            for batch, first_row in self._batches(path):
                traces = self._read(batch, path, first_row, dataset)
                dataset.faults.raise_if_any()
                yield traces
        dataset.warn()

    def within(self, budget: Budget) -> Self:
        """Give the same files in batches that stay within a budget of memory."""
        sized = copy.copy(self)
        sized._batch_bytes, sized._budget = budget.batch_bytes, budget
        return sized

    def with_columns(self, columns: Collection[str]) -> "TraceFiles":
        """Give the same files, in batches of the same budget, with those of other optional columns that there are."""
        everything = TraceFiles(self.paths, match_is=self.match_is, batch_bytes=self._batch_bytes)
        there = [name for name in dict.fromkeys(columns) if name in everything.schema.names]
        chosen = TraceFiles(self.paths, columns=there, match_is=self.match_is, batch_bytes=self._batch_bytes)
        chosen._budget, chosen._left_out = self._budget, self._left_out
        return chosen

    def batches_said(self) -> dict[str, int]:
        """What decides how generations are batched, as JSON values."""
        beside = {} if self._budget is None else {"working_bytes": self._budget.working_bytes}
        return {"batch_bytes": self._batch_bytes, **beside}

    def without(self, row_groups: Collection[tuple[File, int]]) -> Self:
        """Give the same files without some of their row groups."""
        fewer = copy.copy(self)
        fewer._left_out = frozenset(row_groups)
        return fewer

    def dataset(self) -> Dataset:
        """Give what follows a walk over these files, for who reads them piece by piece."""
        return Dataset(self._routed)

    def check(self) -> None:
        """Walk over everything and raise the faults of all batches together.

        Raises
        ------
        InputError
            All faults, up to about a thousand; then the walk stops.
        """
        dataset = Dataset(self._routed)
        found: list[str] = []
        for path in self.paths:
            for batch, first_row in self._batches(path):
                try:
                    self._read(batch, path, first_row, dataset)
                except InputError as error:
                    found += error.faults
                if len(found) >= _MOST_FAULTS_GATHERED:
                    raise InputError(found)
        try:
            dataset.faults.raise_if_any()
        except InputError as error:
            found += error.faults
        if found:
            raise InputError(found)
        dataset.warn()

    def read(self, piece: Piece) -> Iterator[tuple[Traces, Dataset]]:
        """Read the batches of a piece, each with what it alone shows of the dataset, for `Dataset.join`."""
        for batch, first_row in self._batches(piece.file, piece.groups, piece.first_row):
            alone = Dataset(self._routed)
            yield self._read(batch, piece.file, first_row, alone), alone

    def in_pieces(
        self, pieces: Sequence[Piece], read: Callable[["TraceFiles", Piece], Iterator[_Item]]
    ) -> Iterable[_Item] | Elsewhere[_Item]:
        """Give what `read` makes of each piece of these files, one after the other."""
        return chain.from_iterable(read(self, piece) for piece in pieces)

    def _read(self, batch: pa.RecordBatch, path: File, first_row: int, dataset: Dataset) -> Traces:
        traces = Traces.from_arrow(batch, shown(path), self.match_is or "conditional", first_row=first_row)
        shape: dict[str, int | None] = {name: getattr(traces, name) for name in TARGET_COLUMNS}
        for name in ("match_probs", "new_experts", "unique_experts"):
            values = getattr(traces, name)
            shape[f"the width of {name}"] = None if values is None or not len(values) else values.shape[1]
        dataset.add(
            traces.source,
            traces.offsets,
            ids=traces.generation,
            shape=shape,
            match_probs=traces.match_probs if self.match_is is None else None,
            experts=traces.experts,
        )
        return traces

    def _batches(
        self, path: File, groups: range | None = None, first_row: int = 0
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Decode a file, or a run of its row groups, in batches of about `batch_bytes`; each with its first row."""
        row = first_row
        with open_parquet(path) as file, parquet_errors(path):
            names = self._names_read(file.schema_arrow)
            limits = ParquetLimits(path)
            for group in range(file.num_row_groups) if groups is None else groups:
                if (path, group) in self._left_out:
                    row += file.metadata.row_group(group).num_rows
                    continue
                rows, last = limits.rows_within(group, names, self._batch_bytes), row
                if self._budget is not None:
                    generations = file.metadata.row_group(group).num_rows
                    rows = min(rows, self._budget.rows(generations, self._positions(limits.values_of(group))))
                for batch in file.iter_batches(rows, [group], names, use_threads=False):
                    if batch.num_rows:
                        yield batch, row
                        row += batch.num_rows
                limits.refuse_other_rows(group, row - last)

    def _positions(self, values: Mapping[str, int]) -> int:
        """Give the positions of a row group that has so many values in each column."""
        name = "match_prob" if "match_prob" in values else "match_probs"
        kind = item_type(self.schema.field(name).type)
        return values.get(name, 0) // (kind.list_size if kind is not None and pa.types.is_fixed_size_list(kind) else 1)


def load_traces(paths: Paths, *, columns: Collection[str] | None = None, match_is: str | None = None) -> Traces:
    """Read trace files into one object; for data that fits in memory twice.

    See Also
    --------
    TraceFiles : the same in batches, with the meaning of the arguments.
    """
    return joined(list(TraceFiles(paths, columns=columns, match_is=match_is)))
