"""The report: one page from traces, a latency model and everything that is asked of them, as HTML, Markdown or JSON."""

from oracle.pages.compose import compose
from oracle.pages.material import Absent, Levers, Material, Policies, Rounds
from oracle.pages.page import Figure, LeftOut, Page, Section, Shown

__all__ = [
    "Absent",
    "Figure",
    "LeftOut",
    "Levers",
    "Material",
    "Page",
    "Policies",
    "Rounds",
    "Section",
    "Shown",
    "compose",
]
