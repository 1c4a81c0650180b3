"""What a report says of its basis: few clusters, no experts, no plateau, recording, day; and the files inside it."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from report_traces import TINY, material, recorded
from test_cli import HAND, succeeded

from oracle.cli.report import _today
from oracle.errors import InputError
from oracle.pages import compose
from oracle.pages.downloads import csv_text
from oracle.pages.html import html_text, named_downloads
from oracle.pages.sections.lengths import maximum
from oracle.pages.text import json_report, markdown_text
from oracle.panels import Token
from oracle.tables import Table, words

RUNS = (
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\u00a0=1",
    "\ufeff=1",
    "\u3000@x",
    "＝1",
    "|calc",
)


def some_traces(path: Path, generations: int, *, without: tuple[str, ...] = ()) -> Path:
    table = pq.read_table(TINY / "traces.parquet").slice(0, generations)
    pq.write_table(table.drop([name for name in without if name in table.column_names]), path)
    return path


def test_no_cell_and_no_head_of_a_csv_file_is_a_formula() -> None:
    rows = [{"safe": text, text: "a\rb"} for text in RUNS]
    text = csv_text(Table("t", "T", (words("safe", "safe"),), rows))
    read = list(csv.reader(io.StringIO(text, newline="")))
    for cell in (cell for line in read for cell in line):
        assert not re.match(r"[\s\u200b\ufeff]*[=+\-@|＝＋－＠]", cell)
    assert read[0][1:] == [f"'{name}" for name in RUNS]
    assert [line[0] for line in read[1:]] == [f"'{name}" for name in RUNS]
    assert all("a\rb" in line for line in read[1:])  # a lone carriage return parts no row
    assert len(read) == 1 + len(RUNS)


def test_numbers_below_zero_stay_numbers() -> None:
    assert csv_text(Table("t", "T", (), [{"x": -1.5, "y": "x=1"}])) == "x,y\r\n-1.5,x=1\r\n"


def test_a_token_is_never_cut_inside_an_escape_or_a_count() -> None:
    for text in ("abc\x1b[2J" * 4, "\u202e" * 9, "ab" + " " * 40 + "c" * 9, "a" * 30, "x\x00\U000e0001" * 3):
        whole = Token(text, None).shown
        for most in range(2, len(whole)):
            cut = Token(text, None).cut(most)
            assert len(cut) <= most
            assert cut.endswith("…")
            assert whole.startswith(cut[:-1])
            assert re.fullmatch(r"(\\x..|\\u.{4}|\\U.{8}|␣\(\d+\)|[^\\␣])*", cut[:-1])
    assert Token("short", None).cut(14) == "short"


def test_a_page_gives_every_table_a_file_name_of_its_own() -> None:
    named = named_downloads()
    one, other = (Table("t", title, (), []) for title in ("one", "other"))
    files = [[file for _, file, _ in named(table)] for table in (one, other, one)]
    assert files == [["t.csv", "t.json"], ["t-2.csv", "t-2.json"], ["t.csv", "t.json"]]
    links = dict(re.findall(r'download="([^"]+)" href="([^"]+)"', page := html_text(compose(recorded(), "T"))))
    pairs = set(re.findall(r'download="([^"]+)" href="([^"]+)"', page))
    assert len(pairs) == len(links)  # one name never stands for two files


def test_where_only_the_longest_draft_reaches_everything_there_is_no_plateau() -> None:
    found = recorded()
    rising = np.linspace(1.0, 0.5, found.lengths.capped_ms.shape[1]) * found.lengths.static_ms[:, :1]
    (said,) = maximum(replace(found, lengths=replace(found.lengths, capped_ms=rising))).paragraphs
    assert said.startswith("No plateau within 10: no shorter maximum reaches 99 % of what the oracle gains")
    assert "(k = 9: 90.0 %)" in said
    early = np.minimum(rising, 0) + np.where(np.arange(rising.shape[1]) >= 3, 0.5, 1.0) * found.lengths.static_ms[:, :1]
    (said,) = maximum(replace(found, lengths=replace(found.lengths, capped_ms=early))).paragraphs
    assert said.startswith("A maximum of 3 already reaches 99 %")
    flat = np.broadcast_to(found.lengths.static_ms[:, :1], rising.shape)
    (said,) = maximum(replace(found, lengths=replace(found.lengths, capped_ms=flat))).paragraphs
    assert said.startswith("The oracle gains nothing")


def test_the_summary_says_what_it_rests_on(tmp_path: Path) -> None:
    first, _, last, _ = compose(recorded(), "T").summary
    assert first.endswith("; expected, held out, n = 19,746 tokens, 39 clusters.")
    assert "without the expert cost" in last
    few = compose(material(some_traces(tmp_path / "few.parquet", 4)), "T").summary
    assert re.search(r"expected, (held out|in-sample), n = [\d,]+ tokens, \d clusters: fewer than 10, so no", few[0])


def test_a_dense_trace_under_a_model_of_experts_is_named_in_the_first_sentence(tmp_path: Path) -> None:
    lacking = ("experts", "unique_experts", "new_experts", "layers", "top_k", "num_experts")
    first, _, last = compose(material(some_traces(tmp_path / "dense.parquet", 12, without=lacking)), "T").summary
    assert "hold no expert columns but the latency model prices experts: costs are without them" in first
    assert "expert cost" not in last


def test_no_form_of_the_report_says_where_files_are(tmp_path: Path) -> None:
    path = some_traces(tmp_path / "named.parquet", 12, without=("token_text", "draft_text", "draft_token_id"))
    page = compose(material(path), "T")
    assert any("named.parquet" in one.why for one in page.left_out)
    for text in (html_text(page), markdown_text(page), json_report(page)):
        assert str(tmp_path) not in text


def test_the_page_names_what_was_recorded_and_when_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"target": "a <b>target</b>", "engine": "vllm\x1b[31m", "secret": "kept apart"}
    table = pq.read_table(HAND / "trace.parquet")
    kept = table.schema.metadata | {f"draft_oracle.{key}".encode(): value.encode() for key, value in said.items()}
    pq.write_table(table.replace_schema_metadata(kept), tmp_path / "t.parquet")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    outputs = []
    for name in ("a.html", "b.html", "r.json"):
        succeeded("report", tmp_path / "t.parquet", "-m", HAND / "model.json", "-o", tmp_path / name)
        outputs.append((tmp_path / name).read_text())
    assert outputs[0] == outputs[1]
    assert ", 1970-01-02" in outputs[0]
    assert "target: a &lt;b&gt;target&lt;/b&gt;; " in outputs[0]
    assert "engine: vllm\\x1b[31m" in outputs[0]
    assert "kept apart" not in outputs[0]
    assert json.loads(outputs[2])["made"] == "1970-01-02"


@pytest.mark.parametrize("said", ["yesterday", "9" * 17, ""])
def test_a_day_that_is_none_is_refused(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", said)
    with pytest.raises(InputError, match=f"SOURCE_DATE_EPOCH is '{said}'; it must be whole seconds since 1970"):
        _today()


def test_markdown_leaves_the_terms_of_single_decisions_to_the_other_forms() -> None:
    page = compose(recorded(), "T")
    text = markdown_text(page)
    assert "in the HTML and JSON forms of this report: " in text
    panels = [shown for section in page.sections for shown in section.panels]
    assert panels
    assert not [table for shown in panels for table in shown.tables if f"## {table.title}" in text]
