"""What a report is made of, whatever it is written as: sections with paragraphs, figures, tables and panels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oracle.panels import Panel
from oracle.tables import Table


@dataclass(frozen=True)
class Figure:
    """A figure, drawn when it is wanted.

    Attributes
    ----------
    name
        Of its file, without an ending; unique in a report.
    caption
        What it shows, with n and the kind of interval.
    alt
        What it says to those who cannot see it.
    draw
        Writes it to a path that ends in .svg or .png.
    data
        The numbers it shows.
    apart
        Whether it is only drawn into the folder of figures: the page shows the same as text.
    """

    name: str
    caption: str
    alt: str
    draw: Callable[[Path], Path]
    data: Table
    apart: bool = False


@dataclass(frozen=True)
class Shown:
    """A decision shown token by token.

    Attributes
    ----------
    heading
        Why it is shown.
    panel
        Its texts.
    change
        The changed cost that k0* belongs to.
    sentences
        What it says.
    tables
        What every length would cost, term by term: folded away.
    """

    heading: str
    panel: Panel
    change: str
    sentences: tuple[str, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True)
class Section:
    """One section, in the order in which its parts stand.

    Attributes
    ----------
    title, anchor
        Heading, and its name in links.
    paragraphs, figures, tables, panels
        What it says and shows.
    folded
        Further tables, folded away.
    lead
        Tables that hold the answer and stand before the figures.
    detail
        What it says below the figures.
    """

    title: str
    anchor: str
    paragraphs: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    panels: tuple[Shown, ...] = ()
    folded: tuple[Table, ...] = ()
    lead: tuple[Table, ...] = ()
    detail: tuple[str, ...] = ()

    @property
    def all_tables(self) -> tuple[Table, ...]:
        """All tables, in the order in which they stand."""
        return (*self.lead, *self.tables, *self.folded)


@dataclass(frozen=True)
class LeftOut:
    """A section that these inputs do not give, and why."""

    title: str
    why: str


@dataclass(frozen=True)
class Page:
    """A whole report.

    Attributes
    ----------
    title
        Heading.
    summary
        What it says in three sentences.
    sections, left_out
        What it holds, and what it does not.
    provenance
        What it rests on.
    made
        The day on which it was made, UTC; None where it is not to be said.
    recorded_on
        What the traces say of target, draft, engine, device and recorder, in words; "" if nothing.
    """

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    left_out: tuple[LeftOut, ...]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    made: str | None = None
    recorded_on: str = ""

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All figures, in order."""
        return tuple(figure for section in self.sections for figure in section.figures)
