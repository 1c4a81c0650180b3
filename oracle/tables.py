"""Tables: computed values first, then text, Markdown or JSON from the same rows."""

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from oracle.errors import printable
from oracle.resampling import DRAWS, Interval

Format = Literal["text", "markdown"]
Row = Mapping[str, Any]
NOT_AVAILABLE = "–"
_WIDEST = 4000  # columns: a number is never cut; a terminal that is narrower wraps the line


@dataclass(frozen=True)
class Column:
    """One column of a table as people read it.

    Attributes
    ----------
    head
        With its unit.
    show
        Makes the cell from the row.
    text
        Whether the cell is words (left) and not a number (right).
    """

    head: str
    show: Callable[[Row], str]
    text: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    name
        Key in JSON output.
    title
        What it shows, with n, units and kind of interval.
    columns
        How people read it.
    rows
        Values at full precision; keys carry the unit. This is what JSON holds.
    notes
        What a reader must know, one sentence each.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[str] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Give the table as JSON values; NaN and inf become null."""
        rows = [{key: plain(value) for key, value in row.items()} for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}


def words(head: str, key: str, most: int = 80) -> Column:
    """Give a column of text; control characters from files are escaped, long text is cut."""
    return Column(head, lambda row: NOT_AVAILABLE if row[key] is None else printable(str(row[key]), most), text=True)


def number(head: str, key: str, spec: str = ".3f", scale: float = 1.0) -> Column:
    """Give a column of numbers."""
    return Column(head, lambda row: show(row[key], spec, scale))


def with_interval(head: str, key: str, spec: str = ".3f", scale: float = 1.0) -> Column:
    """Give a column of numbers with the interval that stands under `<key>_low` and `<key>_high`."""

    def cell(row: Row) -> str:
        low, high = row[f"{key}_low"], row[f"{key}_high"]
        around = "" if low is None or high is None else f" [{show(low, spec, scale)}; {show(high, spec, scale)}]"
        return show(row[key], spec, scale) + around

    return Column(head, cell)


def interval_cells(key: str, value: float | None, interval: Interval | None) -> dict[str, float | None]:
    """Give the three cells of a value with its interval."""
    return {
        key: value,
        f"{key}_low": None if interval is None else interval.low,
        f"{key}_high": None if interval is None else interval.high,
    }


def resampled(clusters: int) -> str:
    """Say how bootstrap intervals came about."""
    if clusters < 2:
        return "no intervals: there is one cluster only"
    return f"95 % intervals from {DRAWS} bootstrap resamples of {clusters:,} clusters"


def show(value: Any, spec: str = ".3f", scale: float = 1.0) -> str:
    """Write one number; a dash where there is none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NOT_AVAILABLE
    if isinstance(value, int) and scale == 1:
        return f"{value:,}"
    return format(value * scale, spec)


def plain(value: Any) -> Any:
    """Turn a value into what JSON can hold."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _filled(table: Table) -> list[Column]:
    """Leave out columns without a head in which no row says anything (a reason that was not needed)."""
    said = [column.head or any(column.show(row) != NOT_AVAILABLE for row in table.rows) for column in table.columns]
    return [column for column, keep in zip(table.columns, said, strict=True) if keep]


def as_json_text(tables: Sequence[Table], extra: Mapping[str, Any] | None = None) -> str:
    """Write tables as one JSON object, at full precision, with further keys before them."""
    whole = {**(extra or {}), "tables": {table.name: table.to_dict() for table in tables}}
    return json.dumps(plain(whole), indent=2, ensure_ascii=False, allow_nan=False)


def render(tables: Sequence[Table], form: Format = "text") -> str:
    """Write tables for people.

    Parameters
    ----------
    form
        `text` for a terminal or a pipe, `markdown` for a page.
    """
    from rich import box  # noqa: PLC0415  # rich takes a while to import
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    out = io.StringIO()
    console = Console(file=out, width=_WIDEST, color_system=None, highlight=False, markup=False, emoji=False)
    for table in tables:
        heading = f"## {table.title}\n" if form == "markdown" else table.title
        console.print(Text(heading), soft_wrap=True)
        headed = any(column.head for column in table.columns)
        style = box.MARKDOWN if form == "markdown" else box.SIMPLE_HEAD if headed else None
        grid = RichTable(box=style, padding=(0, 1, 0, 0), pad_edge=False, show_header=headed or form == "markdown")
        for column in _filled(table):
            head = column.head.replace("\n", " ") if form == "markdown" else column.head
            grid.add_column(Text(head), justify="left" if column.text else "right", no_wrap=True)
        for row in table.rows:
            cells = [column.show(row) for column in _filled(table)]
            grid.add_row(*(Text(cell.replace("|", "\\|") if form == "markdown" else cell) for cell in cells))
        console.print(grid)
        for note in table.notes:
            console.print(Text(("- " if form == "markdown" else "  ") + note), soft_wrap=True)
        console.print()
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().split("\n")) + "\n"
