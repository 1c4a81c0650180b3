"""Frames with one row a position, for people who hold traces in pandas."""

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from oracle.columns import frozen, item_type
from oracle.errors import Faults, printable
from oracle.traces.checks import Places
from oracle.traces.lists import BadCellsError, cells, is_text_list, list_array, rows_array, take_apart
from oracle.traces.schema import BY_NAME, LOGGED_COLUMNS, MATCH_COLUMNS

_ORDER = ("generation", "position")


def table_of(frame: pd.DataFrame, source: str, per_generation: Collection[str] = ()) -> pa.Table:
    """Turn a frame with one row a position into a table with one row a generation; see `Traces.from_pandas`.

    Raises
    ------
    InputError
        Rows that cannot be put in order, values that should be the same within a generation and are not, cells that
        cannot be read. The values themselves are checked when the table is read.
    """
    faults = Faults()
    _check_columns(frame, source, per_generation, faults)
    faults.raise_if_any()
    order, places = _in_order(frame, source, faults)
    faults.raise_if_any()
    frame = frame.iloc[order] if not np.array_equal(order, np.arange(len(frame))) else frame
    starts = places.offsets[:-1]
    columns: dict[str, Any] = {"generation": pa.array(places.ids, pa.string())}
    for name in frame.columns:
        known = BY_NAME.get(name)
        if name in _ORDER:
            continue
        if name in per_generation or (known is not None and known.kind in {"name", "count"}):
            columns[name] = _once(frame[name], starts, places, faults)
        elif known is not None and known.kind == "rounds":
            columns[name] = _rounds(frame[name], places, faults)
        else:
            columns[name] = list_array(places.offsets, _items(frame[name], places, faults))
    if set(LOGGED_COLUMNS) <= columns.keys():
        _check_starts(frame, places, faults)
    faults.raise_if_any()
    return pa.table(columns)


def _check_columns(frame: pd.DataFrame, source: str, per_generation: Collection[str], faults: Faults) -> None:
    """Check names of columns and that there are rows."""
    for name in frame.columns:
        if not isinstance(name, str):
            faults.add(f"{source}: the column {printable(repr(name))} is not named by a string; rename it")
    for name in frame.columns[frame.columns.duplicated()].unique():
        faults.add(f"{source}: the column {printable(str(name))} occurs more than once; keep one")
    for name in sorted(set(per_generation) - set(frame.columns)):
        faults.add(f"{source}: per_generation names '{printable(name)}', which is no column of the frame")
    if "generation" not in frame.columns:
        faults.add(f"{source}: has no column generation; if it is in the index, use frame.reset_index()")
    if len(frame) == 0:
        faults.add(f"{source}: holds no generations; a frame has one row a position")


def _in_order(frame: pd.DataFrame, source: str, faults: Faults) -> tuple[NDArray[np.int64], Places]:
    """Find the order of the rows: generations as they first appear, positions ascending."""
    codes, names = pd.factorize(frame["generation"])
    for row in np.flatnonzero(codes < 0):
        faults.add(f"{source}, row {row}: generation is missing; every row needs one")
    ids = tuple(str(name) for name in names)
    lengths = np.bincount(codes[codes >= 0], minlength=len(ids))
    places = Places(source, ids, frozen(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)))
    if len(set(ids)) < len(ids):
        faults.add(f"{source}: two generations have the same name as text; ids are unique, rename one")
    if faults:
        return np.arange(len(frame)), places
    if "position" not in frame.columns:
        order = np.argsort(codes, kind="stable")
        for row in np.flatnonzero(np.diff(codes) < 0)[:1] + 1:
            faults.add(
                f"{source}, row {row}: generation '{printable(ids[codes[row]])}' goes on after others; keep the rows "
                "of a generation together, or give their position in a column `position`"
            )
        return order, places
    position = pd.to_numeric(frame["position"], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    order = np.lexsort((position, codes))
    wanted = np.arange(len(codes)) - np.repeat(places.offsets[:-1], lengths)
    had = position[order]

    def describe(i: int) -> str:
        if i and had[i] == had[i - 1]:
            return f"position {had[i]:g} occurs twice; each of 0 … N-1 occurs once"
        return f"position is {had[i]:g} where {wanted[i]} should be; each of 0 … N-1 occurs once"

    places.note(faults, ~(had == wanted), describe)
    return order, places


def _once(series: pd.Series, starts: NDArray[np.int64], places: Places, faults: Faults) -> pa.Array:
    """Take what is repeated on all rows of a generation once."""
    codes, values = pd.factorize(series, use_na_sentinel=True)
    first = np.repeat(codes[starts], np.diff(places.offsets))

    def value(code: int) -> str:
        return "missing" if code < 0 else printable(str(values[code]))

    places.note(
        faults,
        codes != first,
        lambda i: (
            f"{series.name} is {value(codes[i])}, but {value(first[i])} at the generation's begin; a generation has one"
        ),
    )
    taken = series.iloc[starts]
    if pd.api.types.is_float_dtype(taken.dtype) and (taken.isna() | (taken % 1 == 0)).all():
        taken = taken.astype("Int64")  # integers beside missing ones become floats in pandas
    return pa.array(taken, from_pandas=True)


def _rounds(series: pd.Series, places: Places, faults: Faults) -> pa.Array:
    """Gather the rows on which a logged round starts."""
    there = series.notna().to_numpy()
    numbers = pd.to_numeric(series[there], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    odd = ~(numbers % 1 == 0)
    rows = np.flatnonzero(there)
    places.note(faults, rows[odd], lambda i: f"{series.name} is {printable(str(series.iloc[i]))}; it is a whole number")
    counts = np.add.reduceat(np.append(there, False), places.offsets[:-1], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return list_array(offsets, pa.array(np.where(odd, 0, numbers).astype(np.int64)))


def _check_starts(frame: pd.DataFrame, places: Places, faults: Faults) -> None:
    """Check that each logged round stands on the row where the round before it ends."""
    length, advance = (frame[name] for name in LOGGED_COLUMNS)
    alone = (length.notna() != advance.notna()).to_numpy()
    places.note(
        faults, alone, lambda _: "logged_draft_length and logged_advance are not both there; a logged round has both"
    )
    if faults:
        return
    rows = np.flatnonzero(length.notna().to_numpy())
    of = np.searchsorted(places.offsets, rows, side="right") - 1
    ends = rows + advance.to_numpy()[rows].astype(np.int64)
    opens = np.ones(len(rows), np.bool_)
    opens[1:] = of[1:] != of[:-1]
    wanted = np.where(opens, places.offsets[of], np.append(0, ends[:-1]))
    shift = dict(zip(rows.tolist(), (wanted - places.offsets[of]).tolist(), strict=True))
    places.note(
        faults,
        rows[rows != wanted],
        lambda i: (
            f"a logged round stands here, but the one before it ends at position {shift[i]}; it stands where it starts"
        ),
    )


def _items(series: pd.Series, places: Places, faults: Faults) -> pa.Array:
    """Turn what there is one of a position into Arrow items."""
    known = BY_NAME.get(str(series.name))
    if known is not None and known.kind in {"number rows", "bytes"}:
        return _row_items(series, places, faults)
    try:
        if series.dtype == object or pd.api.types.is_extension_array_dtype(series.dtype):
            return pa.array(series.tolist() if series.dtype == object else series, from_pandas=True)
        return pa.array(series.to_numpy(), from_pandas=False)  # a NaN stays one, and is refused as one
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = printable(" ".join(str(error).split()))
        faults.add(
            f"{places.source}: the column {series.name} holds values of different kinds ({reason}); make them alike"
        )
        return pa.nulls(len(series))


def _row_items(series: pd.Series, places: Places, faults: Faults) -> pa.Array:
    """Turn arrays, lists or bytes, one a position and all alike, into Arrow items."""
    values = series.tolist()
    if all(isinstance(value, bytes) for value in values):
        return pa.array(values, pa.large_binary())
    rows = [_row(value) for value in values]
    shapes = [None if row is None else row.shape for row in rows]
    shape = next((s for s in shapes if s is not None), None)
    bad = np.array([s is None or s != shape for s in shapes])

    def describe(i: int) -> str:
        if shapes[i] is None:
            return f"{series.name} is {printable(repr(values[i]))}; it is an array or list of numbers"
        return f"{series.name} has the shape {shapes[i]} where the others have {shape}; all positions hold equally many"

    places.note(faults, bad, describe)
    if bad.any():
        return pa.nulls(len(series))
    stacked = np.stack([row for row in rows if row is not None])
    return rows_array(stacked.reshape(len(rows), -1))


def _row(value: object) -> NDArray[Any] | None:
    """Read one cell as an array of numbers; None if it is none."""
    if value is None or isinstance(value, str | bytes | float | int):
        return None
    try:
        row = np.asarray(value)
        if row.dtype == object:
            row = np.stack([np.asarray(part) for part in row]) if row.size else row.astype(np.float32)
    except (ValueError, TypeError):
        return None
    return row if row.dtype.kind in "biuf" and row.ndim else None


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Turn a table with one row a generation into a frame with one row a position; see `Traces.to_pandas`."""
    match = next(name for name in MATCH_COLUMNS if name in table.column_names)
    offsets = take_apart(table.column(match)).offsets
    lengths = np.diff(offsets)
    of = np.repeat(np.arange(len(lengths)), lengths)
    columns: dict[str, Any] = {}
    for name in table.column_names:
        column = table.column(name)
        known = BY_NAME.get(name)
        if known is not None and known.kind == "rounds":
            columns[name] = _placed(table, name, offsets)
        elif item_type(column.type) is not None and _as_long(column, offsets):
            columns[name] = _exploded(column, _shape_of(table, name))
        else:
            columns[name] = column.to_pandas().iloc[of].reset_index(drop=True)
    frame = pd.DataFrame(columns)
    frame.insert(1, "position", np.arange(len(of)) - np.repeat(offsets[:-1], lengths))
    return frame


def _as_long(column: pa.ChunkedArray, offsets: NDArray[np.int64]) -> bool:
    return np.array_equal(take_apart(column).offsets, offsets)


def _shape_of(table: pa.Table, name: str) -> tuple[int, ...] | None:
    """Give the shape of one position's ids."""
    if name != "experts":
        return None
    return tuple(table.column(of)[0].as_py() for of in ("layers", "top_k"))


def _exploded(column: pa.ChunkedArray, ids_shape: tuple[int, ...] | None) -> Any:
    """Give the items of all lists, one a row."""
    items = take_apart(column).items
    if is_text_list(column.type):
        return [value for part in items for value in part.to_pylist()]
    try:
        values = cells(items)
    except BadCellsError:  # a further column, or chains of different lengths
        return [value for part in items for value in part.to_pylist()]
    if ids_shape is not None:
        ids: int = int(np.prod(ids_shape))
        width = values.shape[1] if values.ndim > 1 else ids
        values = values.view("<u2" if width == 2 * ids else "u1").reshape(len(values), *ids_shape)
    elif values.dtype == np.uint8 and values.ndim == 2 and pa.types.is_fixed_size_binary(item_type(column.type)):
        values = values.view("<u2")  # counts of new experts
    return values if values.ndim == 1 else pd.Series(list(values), dtype=object)


def _placed(table: pa.Table, name: str, offsets: NDArray[np.int64]) -> Any:
    """Put logged rounds on the rows where they start; the other rows are missing."""
    values = take_apart(table.column(name))
    advance = np.concatenate([part.to_numpy() for part in take_apart(table.column("logged_advance")).items])
    lengths = np.diff(values.offsets)
    before = np.concatenate([[0], np.cumsum(advance)])
    starts = before[:-1] - np.repeat(before[values.offsets[:-1]], lengths) + np.repeat(offsets[:-1], lengths)
    placed = np.full(int(offsets[-1]), np.nan)
    placed[starts] = np.concatenate([part.to_numpy() for part in values.items])
    return pd.array(placed, dtype="Int16")
