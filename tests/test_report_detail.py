"""What a section says below its figures stands there in every form of a report."""

import json
from pathlib import Path

from oracle.figures.drawing import panels, save
from oracle.pages.html import html_text
from oracle.pages.page import Figure, Page, Section
from oracle.pages.text import json_report, markdown_text
from oracle.tables import Table, number


def drawn(path: Path) -> Path:
    with panels(1) as (figure, (axes,)):
        axes.plot([1, 2], [1, 2])
        return save(figure, path)


def test_details_stand_below_the_figures_and_above_the_tables() -> None:
    table = Table("numbers", "Some numbers", (number("value", "value"),), ({"value": 1.25},))
    figure = Figure("curve", "What the curve shows", "A line", drawn, table)
    section = Section("Title", "anchor", ("Said first.",), (figure,), (table,), detail=("Said below, --k-max too.",))
    page = Page("Report", ("Summary.",), (section,), (), {"program": "draft-oracle", "inputs": []})
    for text, below in (
        (html_text(page), "Said below, <code>--k-max</code> too."),
        (markdown_text(page), "Said below"),
    ):
        order = [text.index(said) for said in ("Said first.", "What the curve shows", below)]
        assert order == sorted(order)
        assert order[-1] < text.rindex("Some numbers")
    (told,) = json.loads(json_report(page))["sections"]
    assert told["paragraphs"] == ["Said first.", "Said below, --k-max too."]
