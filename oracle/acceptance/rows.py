"""Rows typed by people, as CSV or JSON, with the place of each for messages."""

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from oracle.errors import Faults, InputError, printable
from oracle.latency.strict_json import read_strictly

Row = dict[str, Any]
LONGEST = 16 << 20  # characters of CSV; a year by the hour for a hundred tenants takes half of it


def csv_rows(text: str, source: str, known: Sequence[str], later: Faults | None = None) -> list[tuple[str, Row]]:
    """Read CSV with a header line; an empty cell is a value not given. Numbers stay text.

    Parameters
    ----------
    later
        Takes the lines with too many or too few cells, where the others are to be checked too; None: they are raised.

    Raises
    ------
    InputError
        No header, an unknown or repeated column, a line with too many or too few cells, no rows.
    """
    if len(text) > LONGEST:
        raise InputError(
            f"{source}: {len(text)} characters of CSV; at most {LONGEST} are read; is this the right file?"
        )
    try:
        lines = list(csv.reader(io.StringIO(text.removeprefix("\ufeff")), skipinitialspace=True))
    except csv.Error as error:
        raise InputError(f"{source}: cannot be read as CSV ({error}); give a table of short lines") from error
    while lines and not any(cell.strip() for cell in lines[0]):
        lines.pop(0)
    header = [cell.strip() for cell in lines[0]] if lines else []
    faults = Faults()
    for name in header:
        if name not in known:
            faults.add(f"{source}: {printable(name)!r} is not a column here; known: {', '.join(known)}")
    for name in (name for name, count in Counter(header).items() if count > 1):
        faults.add(f"{source}: the column {printable(name)} is there twice; keep one")
    faults.raise_if_any()
    rows, wrong = [], faults if later is None else later
    for number, cells in enumerate(lines[1:], 2):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            wrong.add(f"{source}, line {number}: {len(cells)} cells under {len(header)} columns")
            continue
        row = {name: cell.strip() for name, cell in zip(header, cells, strict=True) if cell.strip()}
        rows.append((f"{source}, line {number}", row))
    faults.raise_if_any()
    if not rows and not wrong:
        raise InputError(f"{source}: holds no rows; the first line names the columns ({', '.join(known)})")
    return rows


def json_rows(text: str, source: str, key: str, known: Sequence[str]) -> list[tuple[str, Row]]:
    """Read JSON: a list of objects, or an object that holds it under `key`.

    Raises
    ------
    InputError
        Something else, an unknown key, an empty list.
    """
    tree = read_strictly(text, source)
    if isinstance(tree, dict) and set(tree) == {key}:
        tree = tree[key]
    if isinstance(tree, dict):
        tree = [tree]
    if not isinstance(tree, list) or not tree or not all(isinstance(row, dict) for row in tree):
        raise InputError(f"{source}: holds no list of objects; write one object a row, with {', '.join(known)}")
    faults = Faults()
    rows = []
    for i, row in enumerate(tree):
        place = source if len(tree) == 1 else f"{source}, row {i + 1}"
        for name in row:
            if name not in known:
                faults.add(f"{place}: {printable(name)!r} is not a key here; known: {', '.join(known)}")
        rows.append((place, {name: value for name, value in row.items() if value is not None}))
    faults.raise_if_any()
    return rows


def number_of(
    row: Row, name: str, place: str, faults: Faults, *, whole: bool = False, least: float, most: float = math.inf
) -> float | None:
    """Take a finite number from `least` to `most` from a row; None if it is not given, or a fault was noted."""
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = math.nan
    well = isinstance(value, int | float) and not isinstance(value, bool)
    if not well or not math.isfinite(value) or not least <= value <= most or (whole and value != int(value)):
        kind = "whole number" if whole else "number"
        bounds = "" if math.isinf(least) else f" of at least {least:g}"
        bounds += "" if math.isinf(most) else f" and at most {most:,g}"
        faults.add(f"{place}: {name} is {printable(repr(row[name]), 40)}; it is a {kind}{bounds}")
        return None
    return float(value)


def text_of(row: Row, name: str, place: str, faults: Faults) -> str | None:
    """Take a text from a row; None if it is not given."""
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        faults.add(f"{place}: {name} is {printable(repr(value), 40)}; it is a text")
        return None
    return value
