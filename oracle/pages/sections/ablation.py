"""What the expert cost moves: shifts by boundary, the price of blindness, the path in alpha."""

from functools import partial

from oracle.figures.ablation import boundaries_moved
from oracle.figures.alpha_path import decisions_by_scale
from oracle.pages.material import Material
from oracle.pages.page import Figure, LeftOut, Section
from oracle.summaries.ablation import ablation_tables
from oracle.summaries.alpha_path import alpha_path_tables
from oracle.tables import Column, Table, number, resampled, show

_VISIBLE = ("changes",)


def ablation(material: Material) -> Section | LeftOut:
    """Shifts, their terms and their price; the exact path along a scale on all alpha."""
    title, study = "What the expert cost moves", material.study
    if study.experts_from == "none":
        return LeftOut(title, "the traces hold no expert columns (a dense target): there is no expert cost to take out")
    tables = ablation_tables(study)
    path = alpha_path_tables(material.scales)
    named = {table.name: table for table in tables}
    first = study.ablations[0]
    row = named["changes"].rows[0]
    said = (
        f"Solved again with {first.name}, {show(row['moved'], '.2f', 100)} % of positions take another draft length "
        f"({show(row['longer'], '.2f', 100)} % a longer one); choosing so and paying for experts costs "
        f"{show(row['price_share'], '.2f', 100)} % more time than the oracle."
    )
    figures = []
    if named["boundaries"].rows:
        figures.append(
            Figure(
                "boundaries",
                f"Share of decisions that move at each boundary when experts cost nothing; {material.sample}; bars: "
                f"{resampled(study.clusters)}.",
                "Percent of all decisions that get longer, and that get shorter, by k*.",
                partial(boundaries_moved, first.prevalence),
                named["boundaries"],
            )
        )
    figures.append(
        Figure(
            "alpha-path",
            "Share of positions by k* along a scale s on all alpha (0: without the expert cost, 1: as fitted); above: "
            f"the best static length; exact, {material.sample}; no intervals here: they stand in the tables.",
            f"Stacked shares of positions by k* for s from 0 to {material.scales.s_max:g}.",
            partial(decisions_by_scale, material.scales),
            _by_scale(material),
        )
    )
    return Section(
        title,
        "ablation",
        (said,),
        tuple(figures),
        tuple(table for table in tables if table.name in _VISIBLE),
        folded=(*(table for table in tables if table.name not in _VISIBLE), *path),
    )


def _by_scale(material: Material) -> Table:
    """The shares that the figure of the path draws."""
    found = material.scales
    lengths = material.study.costs.lengths
    rows = [
        {"s": float(s), **{f"k_{k}": float(counts[k]) for k in lengths}}
        for s, counts in zip(found.grid, found.by_length, strict=True)
    ]
    columns: tuple[Column, ...] = (number("s", "s"), *(number(f"k* = {k}", f"k_{k}", ".0f") for k in lengths))
    return Table("decisions_by_scale", "Decisions by k* along a scale s on all alpha", columns, rows)
