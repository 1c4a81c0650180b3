"""At which batch sizes speculation pays, by the experts that batches of these traces touch, and what tenants change."""

from functools import partial

from oracle.crossover.answer import Crossover
from oracle.crossover.readings import Reading, readings
from oracle.crossover.study import Studied
from oracle.figures.batch_experts import mixed_length, tenants_mixed, unique_experts_by_batch
from oracle.figures.crossover import acceptance_by_batch, most_often, speed_up_by_batch
from oracle.pages.material import Absent, Material
from oracle.pages.page import Figure, LeftOut, Section
from oracle.summaries.batch_experts import mixing_said, traffic_tables, unions_said
from oracle.summaries.crossover import crossover_tables
from oracle.summaries.crossover_headline import headline
from oracle.summaries.crossover_prices import assumptions, doubts, prices
from oracle.summaries.crossover_sizes import BANDS
from oracle.summaries.crossover_texts import (
    exits,
    floor_bound,
    large_batches,
    memory,
    off_base,
    reading_exits,
    unclaimed,
    unknown,
)
from oracle.tables import Table

TITLE = "When speculation pays"
_SHOWN = ("crossover", "schedule", "limits", "tenants_mixed")


def serving(material: Material) -> Section | LeftOut:
    """All that ``draft-oracle crossover`` says of these traces where nothing else is asked, with its figures."""
    found, model = material.serving, material.study.model
    if isinstance(found, Absent):
        return LeftOut(TITLE, found.why)
    answer = found.answer
    again = readings(answer, model)
    tables = [
        *crossover_tables(answer, found.shown, assumptions(answer, model), found.notes, again),
        *traffic_tables(found),
    ]
    return Section(
        TITLE,
        "serving",
        (_sentences(headline(answer, again)),),
        (*_of_answer(material, answer, again, tables), *_of_traffic(material, found, tables)),
        tuple(table for table in tables if table.name in _SHOWN),
        folded=tuple(table for table in tables if table.name not in _SHOWN),
        detail=tuple(_detail(material, found, again)),
    )


def _detail(material: Material, found: Studied, again: list[Reading]) -> list[str]:
    """Say what the answer hangs on, which prices it takes, what batches touch, and how it stands beside levers."""
    answer, model = found.answer, material.study.model
    said = [
        _sentences([unclaimed(answer), *unknown(answer), off_base(answer), floor_bound(answer)]),
        _sentences([*reading_exits(answer, again), large_batches(answer), memory(answer)]),
    ]
    if answer.extrapolated.any():
        said.append(
            f"{int(answer.extrapolated.sum()):,} of these {answer.most:,} batch sizes rest on extrapolated prices; "
            f"{prices(answer, model)}. This shows where to time rounds, not what would be measured; `draft-oracle "
            "crossover` takes other prices."
        )
    said.append(_sentences([*doubts(model), unions_said(found), mixing_said(found)]))
    if not isinstance(material.levers, Absent):
        said.append(_beside_levers(answer, grows=material.levers.shown.deployment.reads_grow))
    return said


def _sentences(texts: list[str]) -> str:
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in texts if text)


def _beside_levers(answer: Crossover, *, grows: bool) -> str:
    """Say why the section on levers may find other break-evens at low concurrency."""
    U, E = answer.traffic.unique_experts, answer.traffic.num_experts
    reads = (
        "the parameters read grow with the pass by the uniform formula"
        if grows
        else "every step reads the same parameters at every batch size, as if it always touched all experts"
    )
    why = (
        "the two may differ where real routing stays below that formula"
        if grows
        else "for a mixture of experts its break-evens at low concurrency are therefore lower than such batches allow"
    )
    return (
        f"Serving levers, below, asks the same of another deployment with another model: there {reads}; {why}. Here "
        f"batches are priced by the experts they touch, {U[0, 0]:.1f} of {E:,} a layer for one request without drafts "
        f"and {U[-1, 0]:.1f} for {answer.most:,}, so that drafts have to match more often in small batches than "
        "if all were read."
    )


def _of_answer(material: Material, answer: Crossover, again: list[Reading], tables: list[Table]) -> list[Figure]:
    clusters = f"{len(answer.traffic.left_out_context):,} groups"
    light = f"; light band: K = {most_often(answer)} from one end of the price of a further token to the other"
    light = light if any(each.price == "token" for each in again) else ""
    return [
        Figure(
            "speed-up-by-batch",
            "Speed-up over K = 0 by batch size, expected and in-sample, and the schedule; grey ground where prices are "
            f"extrapolated; {material.sample}; dark bands: 95 % intervals {BANDS}, {clusters}{light}; no band holds "
            "whether the extrapolation is right.",
            f"Speed-up against batch size from 1 to {answer.most}: {'; '.join(headline(answer, again))}.",
            partial(speed_up_by_batch, answer, readings=again),
            _named(tables, "lengths"),
        ),
        Figure(
            "acceptance-by-batch",
            "Match probability, the same at all positions, from which on some K ≥ 1 pays; shaded where it pays on "
            f"these traces; {material.sample}; without intervals: those of the speed-ups say what is settled.",
            f"Match probability needed against batch size from 1 to {answer.most}; {exits(answer)}.",
            partial(acceptance_by_batch, answer),
            _named(tables, "batch_sizes"),
        ),
    ]


def _of_traffic(material: Material, found: Studied, tables: list[Table]) -> list[Figure]:
    unions = Figure(
        "unique-experts-by-batch",
        "Unique experts of batches, measured by drawing batches from the traces, beside what the popularity formula "
        f"and the uniform formula say of independent tokens; {material.sample}; bands: 95 % intervals, clusters left "
        "out one at a time.",
        f"{unions_said(found)}.",
        partial(unique_experts_by_batch, found),
        _named(tables, "unique_experts"),
    )
    if not found.mixing:
        return [unions]
    mixed = Figure(
        "tenants-mixed",
        f"What more tenants at the same batch size add at K = {mixed_length(found)}: measured (filled) and by the "
        f"popularity formula (hollow, dotted), which alone tells of larger batches; {material.sample}; bars: paired "
        "95 % intervals, clusters left out one at a time, tenants as given.",
        f"{mixing_said(found)}.",
        partial(tenants_mixed, found),
        _named(tables, "tenants_mixed"),
    )
    return [unions, mixed]


def _named(tables: list[Table], name: str) -> Table:
    return next(table for table in tables if table.name == name)
