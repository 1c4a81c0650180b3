"""Draft lengths and new experts by language context, beside what the source found."""

from functools import partial

from oracle.contexts import label_definitions
from oracle.contrasts import Contrasts, Finding
from oracle.contrasts.estimates import DRAWS
from oracle.contrasts.findings import counted
from oracle.figures.contrasts import experts_figure, lengths_figure
from oracle.pages.drawn import experts_drawn, lengths_drawn
from oracle.pages.material import Absent, Material
from oracle.pages.page import Figure, LeftOut, Section
from oracle.summaries.contrasts import contrast_tables
from oracle.tables import Table, resampled, words


def contrasts(material: Material) -> Section | LeftOut:
    """Findings, k* by label, differences between labels, new experts by label and at the first mismatch."""
    title, found = "Language contexts", material.contrasts
    if isinstance(found, Absent):
        return LeftOut(title, found.why)
    tables = {table.name: table for table in contrast_tables(found)}
    if "lengths_by_context" not in tables:
        return LeftOut(title, "the traces hold no positions with a context")
    basis = f"{material.sample}; bars: {resampled(found.clusters, DRAWS)}"
    figures = [
        Figure(
            "context-lengths",
            "k* by language context, and their differences from the rest, pooled and within "
            f"generations; hollow: cannot be claimed (not significant after Holm's correction, few clusters); {basis}.",
            "One row a language context: left its draft lengths, right the difference from all other contexts.",
            partial(lengths_figure, found),
            lengths_drawn(found),
        )
    ]
    if "new_experts_by_context" in tables:
        figures.append(
            Figure(
                "context-experts",
                "New experts of a position by language context against the rest, at the same step of a continuation, "
                f"and where a draft first differs; step 0 left out; {basis}.",
                "One row a language context: the difference in new experts from the rest; then the first mismatch.",
                partial(experts_figure, found),
                experts_drawn(found),
            )
        )
    findings = tables.pop("findings", None)
    return Section(
        title,
        "contexts",
        _said(found),
        tuple(figures),
        () if findings is None else (findings,),
        folded=(*tables.values(), _definitions()),
    )


def _said(found: Contrasts) -> tuple[str, ...]:
    """Count what shows here of what the source found, every finding once."""
    together = list(counted(found.findings).values())
    counts = "; ".join(f"{word}: {together.count(word)}" for word in dict.fromkeys(together))
    said = [f"{len(together)} findings of the source, held against these traces, each counted once ({counts})."]
    lengths = [one for one in found.findings if one.verdict_from_1 is not None]
    if lengths:
        other = [one for one in lengths if (one.verdict, one.verdict_within) != _from_1(one)]
        said.append(
            f"With draft lengths from 1 on, as in the source, {len(other)} of {len(lengths)} verdicts on draft lengths "
            "differ" + (f" ({'; '.join(one.claim.name for one in other)})." if other else ".")
        )
    return (" ".join(said),)


def _from_1(one: Finding) -> tuple[str | None, str | None]:
    return one.verdict_from_1, one.verdict_within_from_1


def _definitions() -> Table:
    rows = [one._asdict() for one in label_definitions()]
    columns = (words("", "kind"), words("name", "name"), words("a token that …", "meaning", most=400))
    return Table("definitions", "What labels, modes and flags mean", columns, rows)
