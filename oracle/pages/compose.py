"""From the material to the page: every section in its order, and those that are left out."""

from collections.abc import Callable, Mapping

from oracle.errors import printable
from oracle.pages.headline import summary
from oracle.pages.material import DESCRIBED, Material
from oracle.pages.page import LeftOut, Page, Section
from oracle.pages.sections.ablation import ablation
from oracle.pages.sections.contrasts import contrasts
from oracle.pages.sections.illustrations import cases, gallery
from oracle.pages.sections.latency import latency
from oracle.pages.sections.lengths import chosen, maximum, round_cost
from oracle.pages.sections.levers import levers
from oracle.pages.sections.limits import limits
from oracle.pages.sections.policies import policies
from oracle.pages.sections.pool import pool
from oracle.pages.sections.serving import serving
from oracle.pages.sections.stability import stability

SECTIONS: tuple[Callable[[Material], Section | LeftOut], ...] = (
    policies,
    maximum,
    round_cost,
    chosen,
    latency,
    serving,
    levers,
    pool,
    ablation,
    stability,
    contrasts,
    cases,
    gallery,
    limits,
)


def recorded_on(described: Mapping[str, str]) -> str:
    """Say what the traces were recorded on, in the words of their metadata."""
    return "; ".join(f"{name}: {printable(described[name], 200)}" for name in DESCRIBED if described.get(name))


def compose(material: Material, title: str, made: str | None = None) -> Page:
    """Write every section that the material gives; `made` is the day that the page names, if any."""
    written = [section(material) for section in SECTIONS]
    return Page(
        title=title,
        summary=summary(material),
        sections=tuple(one for one in written if isinstance(one, Section)),
        left_out=tuple(one for one in written if isinstance(one, LeftOut)),
        provenance=material.provenance,
        made=made,
        recorded_on=recorded_on(material.described),
    )
