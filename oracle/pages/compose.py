"""From the material to the page: every section in its order, and those that are left out."""

from collections.abc import Callable

from oracle.pages.headline import summary
from oracle.pages.material import Material
from oracle.pages.page import LeftOut, Page, Section
from oracle.pages.sections.ablation import ablation
from oracle.pages.sections.contrasts import contrasts
from oracle.pages.sections.illustrations import cases, gallery
from oracle.pages.sections.latency import latency
from oracle.pages.sections.lengths import chosen, maximum, round_cost
from oracle.pages.sections.limits import limits
from oracle.pages.sections.policies import policies
from oracle.pages.sections.stability import stability

SECTIONS: tuple[Callable[[Material], Section | LeftOut], ...] = (
    policies,
    maximum,
    round_cost,
    chosen,
    latency,
    ablation,
    stability,
    contrasts,
    cases,
    gallery,
    limits,
)


def compose(material: Material, title: str) -> Page:
    """Write every section that the material gives."""
    made = [section(material) for section in SECTIONS]
    return Page(
        title=title,
        summary=summary(material),
        sections=tuple(one for one in made if isinstance(one, Section)),
        left_out=tuple(one for one in made if isinstance(one, LeftOut)),
        provenance=material.provenance,
    )
