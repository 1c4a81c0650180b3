"""Tables: computed values first, then text, Markdown or JSON from the same rows."""

import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from oracle.errors import printable
from oracle.resampling import DRAWS

Format = Literal["text", "markdown"]
Row = Mapping[str, Any]
NOT_AVAILABLE = "–"
MARGIN = 40  # characters: a wider column of a Markdown table is not filled up with spaces
_DIGITS = 1e15  # from here on digits say nothing, and 300 of them would stand in a cell
_WIDEST = 4000  # columns: a number is never cut; a terminal that is narrower wraps the line


class Ends(Protocol):
    """Whatever has the ends of an interval."""

    @property
    def low(self) -> float | None:
        """Lower end; None where there is none."""

    @property
    def high(self) -> float | None:
        """Upper end."""


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


def interval_cells(key: str, value: float | None, interval: Ends | None) -> dict[str, float | None]:
    """Give the three cells of a value with its interval."""
    return {
        key: value,
        f"{key}_low": None if interval is None else interval.low,
        f"{key}_high": None if interval is None else interval.high,
    }


def resampled(clusters: int, draws: int = DRAWS) -> str:
    """Say how bootstrap intervals came about."""
    if clusters < 2:
        return "no intervals: there is one cluster only"
    return f"95 % intervals from {draws:,} bootstrap resamples of {clusters:,} clusters"


def show(value: Any, spec: str = ".3f", scale: float = 1.0) -> str:
    """Write one number; a dash where there is none; what rounds to nothing has no minus."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NOT_AVAILABLE
    if abs(value * scale) >= _DIGITS:
        return format(value * scale, ".4g")
    if isinstance(value, int) and scale == 1:
        return f"{value:,}"
    text = format(value * scale, spec)
    return format(0.0, spec) if text.startswith("-") and not re.search("[1-9]", text.split("e")[0]) else text


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


def filled(table: Table) -> list[Column]:
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
        `text` for a terminal or a pipe, `markdown` for a page; there, names from files never become markup.
    """
    written = "\n".join(_markdown(table) for table in tables) if form == "markdown" else _text(tables)
    return "\n".join(line.rstrip() for line in written.rstrip().split("\n")) + "\n"


def escaped(text: str) -> str:
    r"""Write text so that Markdown shows it as it is: no markup, HTML or links.

    Signs that mean nothing where they stand stay as they are (``unique_experts``, ``k*,``, ``3 [2; 4]``).

    Examples
    --------
    >>> escaped("<b>a|b</b> [x](y) unique_experts 3 [2; 4]")
    '&lt;b&gt;a\\|b&lt;/b&gt; [x\\](y) unique_experts 3 [2; 4]'
    """
    text = re.sub(r"\\(?=[!-/:-@\[-`{-~]|$)", r"\\\\", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([`|]|~(?=\S))", r"\\\1", text)
    text = re.sub(r"](?=[(\[:])", r"\\]", text)
    text = re.sub(r"\*(?<!\w\*)|\*(?=\w)", r"\\*", text)  # `a*` at the end of a word opens nothing
    text = re.sub(r"_(?<![^\W_]_)|_(?![^\W_])", r"\\_", text)  # inside a word it means nothing
    return re.sub(r"\b(https?|ftp|www)(?=://|\.)(.)", r"\1\\\2", text)


def printed(text: str, most: int = 4000) -> str:
    """Escape control characters; line breaks stay."""
    return "\n".join(printable(line, most) for line in text.split("\n"))


def _text(tables: Sequence[Table]) -> str:
    from rich import box  # noqa: PLC0415  # rich takes a while to import
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    out = io.StringIO()
    console = Console(file=out, width=_WIDEST, color_system=None, highlight=False, markup=False, emoji=False)
    for table in tables:
        console.print(Text(printed(table.title)), soft_wrap=True)
        headed = any(column.head for column in table.columns)
        box_style = box.SIMPLE_HEAD if headed else None
        grid = RichTable(box=box_style, padding=(0, 1, 0, 0), pad_edge=False, show_header=headed)
        columns = filled(table)
        for column in columns:
            grid.add_column(Text(printed(column.head, 80)), justify="left" if column.text else "right", no_wrap=True)
        for row in table.rows:
            grid.add_row(*(Text(column.show(row)) for column in columns))
        console.print(grid)
        for note in table.notes:
            console.print(Text("  " + printed(note)), soft_wrap=True)
        console.print()
    return out.getvalue()


def _markdown(table: Table) -> str:
    from rich.cells import cell_len  # noqa: PLC0415  # rich takes a while to import

    columns = filled(table)
    lines = [[escaped(printed(column.head, 80).replace("\n", " ").strip()) for column in columns]]
    lines += [[escaped(column.show(row).replace("\n", " ")) for column in columns] for row in table.rows]
    widths = [max(3, *(cell_len(line[i]) for line in lines)) for i in range(len(columns))]

    def padded(i: int, cell: str) -> str:
        space = " " * (widths[i] - cell_len(cell)) if widths[i] <= MARGIN else ""
        return cell + space if columns[i].text else space + cell

    rows = ["| " + " | ".join(padded(i, cell) for i, cell in enumerate(line)) + " |" for line in lines]
    rules = ["-" * min(width, MARGIN) for width in widths]
    rules = [rule if column.text else rule[:-1] + ":" for rule, column in zip(rules, columns, strict=True)]
    rows.insert(1, "| " + " | ".join(rules) + " |")
    notes = [f"- {escaped(printed(note))}" for note in table.notes]
    return "\n".join([f"## {escaped(printed(table.title))}", "", *rows, "", *notes, *([""] if notes else [])])
