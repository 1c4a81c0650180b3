"""One table of a trace while it is being read: its columns, the names of its places, the faults found so far."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.columns import frozen, is_bytes_type, item_type, names_of, nulls_of, numpy_of
from oracle.errors import Faults
from oracle.traces.checks import Places
from oracle.traces.lists import BadCellsError, Lists, cells, refuse_nulls, take_apart
from oracle.traces.schema import BY_NAME, MATCH_COLUMNS


class Batch:
    """Reads the columns of one table; whatever cannot be read leaves a fault and gives None.

    Attributes
    ----------
    table
        One row a generation; its schema has been checked and it has rows.
    faults
        The faults so far.
    ids
        Generation ids, None where null; None altogether where they are no text.
    match_name
        Which of ``match_prob`` and ``match_probs`` there is.
    match
        Its lists, which say where each generation begins; None until `read_match`, or if they cannot be read.
    places
        Names generations and positions.
    """

    def __init__(self, table: pa.Table, source: str, first_row: int) -> None:
        self.table = table
        self.faults = Faults()
        self.present = frozenset(table.column_names)
        self.match_name = next(name for name in MATCH_COLUMNS if name in self.present)
        self.match: Lists | None = None
        no_ids: tuple[str | None, ...] = (None,) * table.num_rows
        self.places = Places(source, no_ids, np.zeros(table.num_rows + 1, np.int64), first_row)
        self.ids = self.names("generation")
        self.places = Places(source, self.ids or no_ids, self.places.offsets, first_row)

    def read_match(self) -> bool:
        """Take the match probabilities apart, so that positions can be named; False if they cannot be."""
        self.match = self.lists(self.match_name)
        if self.match is not None:
            self.places = Places(self.places.source, self.places.ids, self.match.offsets, self.places.first_row)
        return self.match is not None

    def at(self, g: int | np.int64) -> str:
        """Name generation number `g`."""
        return self.places.generation(int(g))

    # One value a generation.

    def names(self, name: str) -> tuple[str | None, ...] | None:
        """Read a text column; None if it is missing or not UTF-8."""
        if name not in self.present:
            return None
        try:
            return names_of(self.table.column(name))
        except (UnicodeDecodeError, pa.ArrowInvalid):
            last = self.places.first_row + self.table.num_rows - 1
            self.faults.add(
                f"{self.places.source}, rows {self.places.first_row} … {last}: {name} holds bytes that are not UTF-8; "
                "write it as text"
            )
            return None

    def whole(self, name: str) -> NDArray[np.int64] | None:
        """Read a column of integers; None if some are null."""
        column = self.table.column(name)
        null = nulls_of(column)
        for g in np.flatnonzero(null):
            self.faults.add(f"{self.at(g)}: {name} is null; give the number")
        if null.any():
            return None
        try:
            whole = column if pa.types.is_signed_integer(column.type) else column.cast(pa.int64())
            return frozen(numpy_of(whole).astype(np.int64))
        except pa.ArrowInvalid:  # uint64 beyond int64
            self.faults.add(f"{self.places.source}: {name} holds {max(column.to_pylist())}; it is an int32")
            return None

    # Lists.

    def lists(self, name: str) -> Lists | None:
        """Take a list column apart; None if lists are null."""
        try:
            lists = take_apart(self.table.column(name))
        except BadCellsError as error:
            self.faults.add(
                f"{self.at(error.bad[0])}: {name} {error.describe(int(error.bad[0]))}; write the table again"
            )
            return None
        for g in np.flatnonzero(lists.null):
            self.faults.add(f"{self.at(g)}: {name} is null; an empty list says that there is nothing")
        return None if lists.null.any() else lists

    def positions(self, name: str) -> Lists | None:
        """Take a per-position column apart; None if it is missing or not as long as the match probabilities."""
        if name == self.match_name:
            return self.match
        lists = self.lists(name) if name in self.present else None
        if lists is None:
            return None
        had, wanted = np.diff(lists.offsets), np.diff(self.places.offsets)
        for g in np.flatnonzero(had != wanted):
            self.faults.add(
                f"{self.at(g)}: {name} has {had[g]} positions, {self.match_name} has {wanted[g]}; "
                "every per-position column has one entry a position"
            )
        return lists if np.array_equal(had, wanted) else None

    def cells(self, name: str) -> NDArray[Any] | None:
        """Read the entries of a per-position column; None if it is missing or entries cannot be read."""
        lists = self.positions(name)
        if lists is None:
            return None
        try:
            return cells(lists.items)
        except BadCellsError as error:
            self._note(name, error)
            return None

    def floats(self, name: str) -> NDArray[np.float32] | None:
        """Read a per-position column of numbers, or of equally long rows of numbers, as float32."""
        found = self.cells(name)
        if found is None:
            return None
        if BY_NAME[name].kind == "number rows" and found.ndim == 1:  # no position at all, of unknown type
            found = found.reshape(0, 0)
        with np.errstate(over="ignore"):  # beyond float32 becomes infinite, which the checks refuse
            return frozen(found.astype(np.float32, copy=False))

    def holds_bytes(self, name: str) -> bool:
        """Say whether the entries of a per-position column are raw bytes."""
        return is_bytes_type(item_type(self.table.schema.field(name).type))

    def refuse_null_entries(self, name: str) -> None:
        """Check lengths and nulls of a per-position column that stays in the table."""
        lists = self.positions(name)
        start = 0
        for items in lists.items if lists is not None else ():
            try:
                refuse_nulls(items)
            except BadCellsError as error:
                self._note(name, BadCellsError(error.bad + start, error.describe))
            start += len(items)

    def _note(self, name: str, error: BadCellsError) -> None:
        self.places.note(
            self.faults,
            error.bad,
            lambda i: f"{name} {error.describe(i)}; every position needs a value of the same kind",
        )
