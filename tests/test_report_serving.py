"""The section of a report on batch sizes: what ``draft-oracle crossover`` says, and why it may be left out."""

import functools
import json
from pathlib import Path

import pyarrow.parquet as pq
from report_traces import TINY, material, write_model
from test_cli import succeeded

from oracle.pages.material import Material
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
    for table in (*section.tables, *section.folded):
        assert json.loads(json.dumps(list(table.rows))) == said[table.name]["rows"], table.name
    headline = said["crossover"]["notes"][0]
    assert section.paragraphs[0].startswith(headline[:1].upper() + headline[1:])
    assert "255 of these 256 batch sizes rest on extrapolated prices" in section.paragraphs[1]
    assert [figure.name for figure in section.figures] == ["speed-up-by-batch", "acceptance-by-batch"]


def test_traces_without_routing_leave_it_out(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pq.read_table(TINY / "traces.parquet").slice(0, 12).drop(["experts"]), path)
    left = serving(material(path))
    assert isinstance(left, LeftOut)
    assert left.title == TITLE
    assert "t.parquet: has no column experts; the experts of a batch are a union of ids" in left.why
