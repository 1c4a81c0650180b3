"""The report as Markdown and as JSON: the same paragraphs, tables and captions."""

import json
from collections.abc import Iterator
from typing import Any

from oracle.pages.html import tokens_of
from oracle.pages.page import Figure, Page, Section, Shown
from oracle.tables import Table, escaped, plain, printed, render

FORMAT, VERSION = "draft-oracle/report", 1


def markdown_text(page: Page, folder: str | None = None) -> str:
    """Write a report as Markdown.

    Parameters
    ----------
    folder
        Where the figures are, seen from the page; None: captions only.
    """
    made = [page.provenance["program"], *([page.made] if page.made else [])]
    parts = [f"# {_said(page.title)}\n", f"{_said(', '.join(made))}\n"]
    parts += [f"{_said(page.recorded_on)}\n"] if page.recorded_on else []
    parts += [f"{_said(sentence)}\n" for sentence in page.summary]
    for section in page.sections:
        parts += _section(section, folder)
    if page.left_out:
        parts.append("## Not in this report\n")
        parts.append("".join(f"- {_said(one.title)}, because {_said(one.why)}\n" for one in page.left_out))
    return "\n".join(parts)


def _said(text: str) -> str:
    return escaped(printed(text))


def _section(section: Section, folder: str | None) -> Iterator[str]:
    yield f"## {_said(section.title)}\n"
    for paragraph in section.paragraphs:
        yield f"{_said(paragraph)}\n"
    for table in section.lead:
        yield _table(table)
    for figure in section.figures:
        if folder is not None:
            yield f"![{_said(figure.alt)}]({folder}/{figure.name}.svg)\n"
        yield f"{_said(figure.caption)}\n"
    for paragraph in section.detail:
        yield f"{_said(paragraph)}\n"
    for table in section.tables:
        yield _table(table)
    for shown in section.panels:
        yield from _panel(shown)
    for table in section.folded:
        yield _table(table)


def _table(table: Table) -> str:
    return f"#{render([table], 'markdown')}"


def _panel(shown: Shown) -> Iterator[str]:
    panel = shown.panel
    yield f"### {_said(shown.heading)}\n"
    yield f"{_said(panel.title)}: {_said(panel.context)} ▸\n"
    heads = "| j | target | draft | | match prob | new experts | |\n| --: | --- | --- | --- | --: | --: | --- |\n"
    rows = ""
    for step in tokens_of(panel):
        lines = ", ".join(text for _, text in step["lines"])
        cells = (step["target"], step["draft"], step["sign"])
        written = [escaped(cell) if cell is not None else "" for cell in cells]
        number = "" if step["only_lines"] else str(step["step"])
        numbers = ("", "") if step["only_lines"] else (step["match_prob"], step["new_experts"])
        rows += f"| {number} | {' | '.join((*written, *numbers, _said(lines)))} |\n"
    yield f"{heads}{rows}"
    for sentence in (*shown.sentences,):
        yield f"- {_said(sentence)}\n"
    if shown.tables:
        names = ", ".join(table.title for table in shown.tables)
        yield f"- {_said(f'in the HTML and JSON forms of this report: {names}')}\n"


def json_report(page: Page) -> str:
    """Write a report as JSON, values at full precision."""
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "title": page.title,
        "made": page.made,
        "recorded_on": page.recorded_on,
        "summary": list(page.summary),
        "sections": [_section_values(section) for section in page.sections],
        "left_out": [{"title": one.title, "because": one.why} for one in page.left_out],
        "provenance": page.provenance,
    }
    return json.dumps(plain(whole), indent=2, ensure_ascii=False, allow_nan=False)


def _section_values(section: Section) -> dict[str, Any]:
    return {
        "title": section.title,
        "anchor": section.anchor,
        "paragraphs": [*section.paragraphs, *section.detail],
        "figures": [_figure_values(figure) for figure in section.figures],
        "tables": {table.name: table.to_dict() for table in section.all_tables},
        "panels": [_panel_values(shown) for shown in section.panels],
    }


def _figure_values(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "caption": figure.caption,
        "alt": figure.alt,
        "data": {"name": figure.data.name, **figure.data.to_dict()},
    }


def _panel_values(shown: Shown) -> dict[str, Any]:
    panel = shown.panel

    def tokens(some: Any) -> list[dict[str, Any]]:
        return [{"text": token.text, "token_id": token.token_id} for token in some]

    return {
        "heading": shown.heading,
        "title": panel.title,
        "caption": panel.caption,
        "before": tokens(panel.before),
        "target": tokens(panel.target),
        "draft": None if panel.draft is None else tokens(panel.draft),
        "marks": list(panel.marks),
        "match_prob": panel.match_prob.tolist(),
        "new_experts": panel.new_experts.tolist(),
        "draft_length": panel.draft_length,
        "changed_length": panel.changed_length,
        "change": shown.change,
        "modal_advance": panel.modal_advance,
        "sentences": list(shown.sentences),
        "tables": {table.name: table.to_dict() for table in shown.tables},
    }
