"""The section of a report on batch sizes: what ``draft-oracle crossover`` says, and why it may be left out."""

import functools
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
from report_traces import TINY, material, recorded, write_model
from test_cli import succeeded

from oracle.pages.material import Absent, Levers, Material
from oracle.pages.page import LeftOut, Section
from oracle.pages.sections.serving import TITLE, serving


@functools.cache
def whole() -> Material:
    return material(TINY / "traces.parquet")


def test_it_says_what_the_command_says(tmp_path: Path) -> None:
    section = serving(whole())
    assert isinstance(section, Section)
    model = write_model(tmp_path / "model.json")
    said = json.loads(succeeded("crossover", TINY / "traces.parquet", "-m", model, "--json"))["tables"]
    tables = {table.name: table for table in (*section.tables, *section.folded)}
    assert set(tables) == set(said)
    for name, table in tables.items():
        assert json.loads(json.dumps(list(table.rows))) == said[name]["rows"], name
        assert list(table.notes) == said[name]["notes"], name
    first = section.paragraphs[0]
    for sentence in said["crossover"]["notes"][:4]:
        assert f"{sentence[:1].upper()}{sentence[1:]}." in first
    assert [figure.name for figure in section.figures] == [
        "speed-up-by-batch", "acceptance-by-batch", "unique-experts-by-batch", "tenants-mixed",
    ]  # fmt: skip


def test_it_says_what_the_answer_hangs_on() -> None:
    section = serving(whole())
    assert isinstance(section, Section)
    (first,) = section.paragraphs
    assert first.startswith("At batch size 1, measured, some K ≥ 1 pays, not significantly (K = 1: speed-up 1.0")
    assert " At batch sizes 2 … 256, if prices are what they are extrapolated to be, some K ≥ 1 pays at 2 … " in first
    assert " The exit rests on prices that were not timed: if a further token takes 0.01" in first
    assert (
        "if as much as for the first request, exit not seen (on to 256). The schedule sets K = 0 at 1, K = 1" in first
    )
    set_, beyond, prices, traffic = section.detail
    assert "K = 0 is set too at batch sizes 1, " in set_
    assert "At batch size 1 some K ≥ 1 pays if the base time of a K = 0 round is above " in set_
    assert beyond.startswith("As batches grow without end and touch all experts, K = 1 is the best K ≥ 1")
    assert "No KV cache was stated (--kv-tokens)" in beyond
    assert "255 of these 256 batch sizes rest on extrapolated prices; price of a further token: 0.1" in prices
    assert "compute floor of a token: none (--floor-ms)" in prices
    assert "batch size 1 at K = 10: 17.7, by formula 32.5" in traffic
    assert "5 tenants in a batch of 7 touch +" in traffic


def test_the_caption_says_what_the_bands_hold() -> None:
    section = serving(whole())
    assert isinstance(section, Section)
    caption = section.figures[0].caption
    assert "dark bands: 95 % intervals of acceptance, experts and context alone (clusters left out one at a" in caption
    assert "light band: K = 1 from one end of the price of a further token to the other; no band holds" in caption


def test_it_is_tied_to_the_section_on_levers() -> None:
    levers = recorded().levers
    assert isinstance(levers, Levers)
    shown = levers.shown
    for grows, said in ((False, "as if it always touched all experts"), (True, "grow with the pass by the uniform")):
        deployment = replace(shown.deployment, reads_grow=grows)
        other = replace(whole(), levers=replace(levers, shown=replace(shown, deployment=deployment)))
        section = serving(other)
        assert isinstance(section, Section)
        assert section.detail[-1].startswith("Serving levers, below, asks the same of another deployment")
        assert said in section.detail[-1]


def test_traces_without_routing_leave_it_out(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pq.read_table(TINY / "traces.parquet").slice(0, 12).drop(["experts"]), path)
    left = serving(material(path))
    assert isinstance(left, LeftOut)
    assert left.title == TITLE
    assert "t.parquet: has no column experts; the experts of a batch are a union of ids" in left.why
    assert isinstance(whole().levers, Absent)
