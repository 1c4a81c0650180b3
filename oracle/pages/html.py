"""The report as one HTML page: no script, nothing from outside, every text escaped."""

import base64
import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from oracle.figures.narrow import narrow
from oracle.pages.downloads import csv_text, data_uri, json_text
from oracle.pages.inline import inline_svg, width_of
from oracle.pages.marked import coded, pieces
from oracle.pages.page import Figure, Page
from oracle.panels import SIGNS, Panel
from oracle.tables import Table, filled, printed

_MOST_STACKED = 12  # rows that are set one below the other on a narrow screen, of a table in which words are compared
_FEW_COLUMNS = 3
_LONG = 40  # characters of a token's text on the page
_KINDS = {
    "match": "match",
    "first mismatch": "mismatch",
    "after the mismatch": "after",
    "past the end": "past",
    "unknown": "unknown",
}


class Drawing(NamedTuple):
    """A figure as markup: laid out at `width` CSS pixels, and for narrow screens, of which a page shows one."""

    wide: Markup
    width: int
    narrow: Markup


def html_text(page: Page) -> str:
    """Write a report as HTML; figures are drawn on the way."""
    style = resources.files("oracle.pages").joinpath("templates/report.css").read_text("utf-8")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("oracle.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"coded": coded, "pieces": pieces}
    environment.globals |= {"cells_of": cells_of, "tokens_of": tokens_of, "downloads_of": named_downloads()}
    return environment.get_template("report.html.j2").render(
        page=page,
        style=Markup(style),  # a file of this package
        policy=content_security_policy(style),
        drawings=drawings([figure for figure in page.figures if not figure.apart]),
    )


def content_security_policy(style: str) -> str:
    """Nothing may be loaded or run; the one style sheet is named by its digest, figures carry style attributes."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; style-src-elem 'sha256-{digest}'; style-src-attr 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def drawings(figures: Sequence[Figure]) -> Mapping[str, Drawing]:
    """Draw every figure twice: as wide as it was laid out, and for narrow screens."""
    drawn = {}
    with tempfile.TemporaryDirectory() as folder:
        for figure in figures:
            path = figure.draw(Path(folder, f"{figure.name}.svg"))
            wide = inline_svg(path, f"fig-{figure.name}", figure.alt)
            width = round(width_of(path))
            with narrow():
                path = figure.draw(Path(folder, f"{figure.name}.svg"))
            drawn[figure.name] = Drawing(wide, width, inline_svg(path, f"narrow-{figure.name}", figure.alt))
    return drawn


def cells_of(table: Table) -> dict[str, Any]:
    """A table as its template takes it: heads and cells as people read them, and which columns are words."""
    columns = filled(table)
    return {
        "heads": [printed(column.head).replace("-\n", "").replace("\n", " ") for column in columns],
        "words": [column.text for column in columns],
        "stacked": len(columns) > _FEW_COLUMNS
        and sum(column.text for column in columns) > 1
        and len(table.rows) <= _MOST_STACKED,
        "headed": any(column.head for column in columns),
        "rows": [[column.show(row) for column in columns] for row in table.rows],
        "title": printed(table.title),
        "notes": [printed(note) for note in table.notes],
    }


def named_downloads() -> Callable[[Table], list[tuple[str, str, str]]]:
    """Give what says what can be had of each table of a page: kind, name of the file, link; one name a table."""
    named: dict[str, list[Table]] = {}

    def downloads_of(table: Table) -> list[tuple[str, str, str]]:
        alike = named.setdefault(table.name, [])
        at = next((i for i, one in enumerate(alike) if one is table), len(alike))
        if at == len(alike):
            alike.append(table)
        name = table.name if at == 0 else f"{table.name}-{at + 1}"
        return [
            ("CSV", f"{name}.csv", data_uri(csv_text(table), "text/csv")),
            ("JSON", f"{name}.json", data_uri(json_text(table), "application/json")),
        ]

    return downloads_of


def tokens_of(panel: Panel) -> list[dict[str, Any]]:
    """A panel as its template takes it: one entry a step, with the lines that stand before it."""
    steps = max(len(panel.target), len(panel.draft or ()), panel.draft_length)
    found = []
    for j in range(steps + 1):
        lines = _lines(panel, j)
        if j == steps and not lines:
            break
        proposed = panel.draft[j] if panel.draft is not None and j < len(panel.draft) else None
        mark = panel.marks[j] if proposed is not None else None
        found.append(
            {
                "step": j + 1,
                "lines": lines,
                "only_lines": j == steps,
                "target": panel.target[j].cut(_LONG) if j < len(panel.target) else None,
                "draft": None if proposed is None else proposed.cut(_LONG),
                "mark": mark,
                "sign": None if mark is None else SIGNS[mark],
                "kind": "none" if mark is None else _KINDS[mark],
                "beyond": j >= panel.draft_length,
                "match_prob": _number(panel.match_prob, j),
                "new_experts": _number(panel.new_experts, j),
            }
        )
    return found


def _lines(panel: Panel, j: int) -> list[tuple[str, str]]:
    """Lines before step j: kind, and what is written on it."""
    lines = []
    if panel.draft_length == j:
        lines.append(("cut", f"k* = {panel.draft_length}"))
    if panel.changed_length == j and panel.changed_length != panel.draft_length:
        lines.append(("changed", f"k0* = {panel.changed_length}"))
    if panel.modal_advance == j:
        lines.append(("mode", f"modal advance {panel.modal_advance}"))
    return lines


def _number(values: Any, j: int) -> str:
    return f"{values[j]:.2f}" if j < len(values) and values[j] == values[j] else "–"
