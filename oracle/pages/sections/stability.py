"""How far decisions and headline numbers hold within the errors of the fit."""

from functools import partial

from oracle.figures.stability import stability_figure
from oracle.pages.drawn import stability_drawn
from oracle.pages.material import Absent, Material
from oracle.pages.page import Figure, LeftOut, Section
from oracle.summaries.stability import stability_tables
from oracle.tables import resampled, show


def stability(material: Material) -> Section | LeftOut:
    """Stable, leaning and open decisions; headline numbers and static lengths under drawn coefficients."""
    title, found = "How stable the decisions are", material.stability
    if isinstance(found, Absent):
        return LeftOut(title, found.why)
    tables = stability_tables(found)
    whole = tables[0].rows[0]
    return Section(
        title,
        "stability",
        (
            f"{show(whole['stable'], '.1f', 100)} % of decisions are stable within the errors of the coefficients, "
            f"{show(whole['open'], '.1f', 100)} % are open: another length is optimal in most draws.",
        ),
        (
            Figure(
                "stability",
                f"Decisions stable, leaning and open by k*, and how many fall below each share of draws; "
                f"{material.sample}, {len(found.draws.models)} draws of the coefficients; intervals "
                f"({resampled(found.clusters)}) stand in the table.",
                f"Left: stacked bars by k*; {show(whole['stable'], '.0f', 100)} % of all decisions are stable. Right: "
                "cumulative shares.",
                partial(stability_figure, found),
                stability_drawn(found),
            ),
        ),
        tuple(tables[1:]),
        folded=(tables[0],),
    )
