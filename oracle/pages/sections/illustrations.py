"""Single decisions token by token: cases and the gallery."""

from collections.abc import Sequence
from functools import partial

from oracle.figures.decision import decision_figure
from oracle.figures.illustrations import gallery_figure
from oracle.illustrations import Chosen, Illustration
from oracle.pages.material import Absent, Material
from oracle.pages.page import Figure, LeftOut, Section, Shown
from oracle.summaries.explanation import explanation_tables
from oracle.summaries.illustrations import illustration_tables
from oracle.tables import Table

_FOLDED = ("q_values", "attribution", "changed")


def cases(material: Material) -> Section | LeftOut:
    """Decisions that the change of the costs moves."""
    found = material.cases
    figures = []
    if isinstance(found, Chosen):
        for number, one in enumerate(found.illustrations, 1):
            tables = {table.name: table for table in explanation_tables(one.explained)}
            figures.append(
                Figure(
                    f"case-{number}",
                    f"{one.explained.panel.title}: both texts, and what every draft length would cost by its parts.",
                    "A panel of target and draft tokens above two charts by draft length.",
                    partial(decision_figure, one.explained),
                    tables["q_values"],
                    apart=True,
                )
            )
    return _section("Cases", "cases", found, material, figures)


def gallery(material: Material) -> Section | LeftOut:
    """The stratified gallery."""
    found = material.gallery
    figures = []
    if isinstance(found, Chosen) and found.illustrations:
        picture = Figure(
            "gallery",
            "The decisions of the gallery on one page, chosen by rule, no sample; lines: the cut k*, the cut k0* under "
            "the changed cost, and the modal advance.",
            f"{len(found.illustrations)} panels of target and draft tokens; the same decisions stand below as text.",
            partial(gallery_figure, found),
            illustration_tables(gallery=found)[0],
            apart=True,
        )
        figures.append(picture)
    return _section("Gallery", "gallery", found, material, figures)


def _section(
    title: str, anchor: str, found: Chosen | Absent, material: Material, figures: Sequence[Figure]
) -> Section | LeftOut:
    if isinstance(found, Absent):
        return LeftOut(title, found.why)
    if not found.illustrations:
        return LeftOut(title, "; ".join(found.missing) or "no decision satisfies the rules")
    table = illustration_tables(found)[0] if anchor == "cases" else illustration_tables(gallery=found)[0]
    count = len(found.illustrations)
    said = (
        f"{count} of {material.study.positions:,} decisions, token by token: chosen by the rules that stand below the "
        "panels, no sample, so they say nothing of how often anything happens."
    )
    return Section(
        title,
        anchor,
        (said,),
        tuple(figures),
        panels=tuple(_shown(one, number, found.change) for number, one in enumerate(found.illustrations, 1)),
        folded=(table,),
    )


def _shown(one: Illustration, number: int, change: str) -> Shown:
    tables: list[Table] = explanation_tables(one.explained)
    heading = f"{number}. {one.group}: {one.candidate.rule}" if one.group != "cases" else f"Case {number}"
    return Shown(
        heading,
        one.explained.panel,
        change,
        tuple(tables[0].notes),
        tuple(table for table in tables if table.name in _FOLDED),
    )
