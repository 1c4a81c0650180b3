"""Chosen decisions as tables and pictures, and the text tests that the gallery is chosen by."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_cli import TINY
from test_figures import words_of
from test_illustrations import LENGTHS, random_table, search_of
from test_real_cases import CASES
from traces_factory import lists

from oracle.explanation import explain_decision
from oracle.figures.illustrations import is_picture, write_pictures
from oracle.illustrations import CASE_RULES, COLUMNS, GALLERY_RULES, Chosen, Search, choose_cases, choose_gallery
from oracle.illustrations.texts import dedents, script_changes, sentence_starts, tags, token_texts
from oracle.latency.model import LatencyModel
from oracle.summaries.illustrations import illustration_tables
from oracle.tables import as_json_text, render
from oracle.traces import TraceFiles, Traces
from oracle.traces.lookup import read_generation


@pytest.mark.parametrize(
    ("test", "tokens", "found"),
    [
        (dedents, ["  ", "a\n", "    b", "\n", "\n", "  c", "\n", "d"], [3, 6]),  # the first line's own indent is open
        (dedents, ["x\n\tif", "\n        y", "\n\t", "z", "\n    w"], [4]),  # a tab reaches the eighth column
        (dedents, ["\n  a\nb\n c"], [0]),
        (dedents, ["a", "\n"], []),
        (sentence_starts, ["It ", "ends", ".", " Then", " on"], [3]),
        (sentence_starts, ["He said “yes.”", " She", " left 3.14", ".5 and 3.X", "? no", "! Да"], [1, 5]),
        (sentence_starts, ["e.g", ". the"], []),
        (sentence_starts, ["a. )", " B"], []),  # a bracket behind a blank closes no sentence
        (tags, ["<", "p", ">", " a <", " b", "</", "a>", "<!--", "i<3"], [0, 5, 7]),
        (script_changes, ["abc", " где", " 12", ".", "x", "ы", "z"], [1, 4, 5, 6]),
        (script_changes, ["漢字かな", "カナ", " kanji"], [2]),
        (script_changes, ["\ufffd", "а", "\ufffd", "б"], []),
    ],
)
def test_boundaries_are_where_a_reader_sees_them(
    test: Callable[[Sequence[str]], Iterator[int]], tokens: list[str], found: list[int]
) -> None:
    assert sorted(set(test(tokens))) == found


def test_contents_of_tokens() -> None:
    texts = ["<p", " = x", "слово", "\ufffd 12.", "a\\"]
    table = random_table(0)
    everything = (texts * sum(LENGTHS))[: sum(LENGTHS)]
    at = table.column_names.index("token_text")
    found = token_texts(Traces.from_arrow(table.set_column(at, "token_text", lists(LENGTHS, pa.array(everything)))))
    held = {name: flags[:5].tolist() for name, flags in found.content.items()}
    assert held == {
        "markup": [True, False, False, False, False],
        "symbol": [False, True, False, False, True],
        "latin": [True, True, False, False, True],
        "other_letter": [False, False, True, False, False],
    }


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Chosen, Chosen]:
    search = search_of(tmp_path_factory.mktemp("traces"), random_table(2))
    cases = choose_cases(search, 3)
    return cases, choose_gallery(search, cases)


def test_tables_say_rules_and_numbers(shown: tuple[Chosen, Chosen]) -> None:
    cases, gallery = shown
    first, second = illustration_tables(cases, gallery)
    assert first.title == "3 cases in which experts=0 moves the cut, chosen by rule: no sample"
    assert set(CASE_RULES) < set(first.notes)
    assert set(GALLERY_RULES) < set(second.notes)
    for row, one in zip(first.rows, cases.illustrations, strict=True):
        found = one.explained.explanation
        assert found.next_one is not None
        assert row["next_q_ms"] == float(found.next_one.full_ms.sum()) > 0
        assert row["next_q_changed_ms"] < 0
        assert row["next_match_prob"] >= 0.8
        assert row["effect"] == pytest.approx(-row["next_q_changed_ms"] * row["visit_prob"], abs=1e-9)
        assert row["changed_length"] > row["draft_length"]
    for row, rule in zip(second.rows, [one.candidate.rule for one in gallery.illustrations], strict=True):
        assert row["rule"] == rule
    for sentence in gallery.missing:
        assert f"not found: {sentence}" in second.notes
    assert illustration_tables(cases)[0].rows == first.rows


def test_pictures_are_written_and_reproducible(shown: tuple[Chosen, Chosen], tmp_path: Path) -> None:
    written = write_pictures(tmp_path, *shown)
    assert [path.name for path in written] == ["case-1.svg", "case-2.svg", "case-3.svg", "gallery.svg"]
    assert all(is_picture(path.name) for path in written)
    assert not is_picture("case-0.svg")
    words = words_of(tmp_path / "gallery.svg")
    for one in shown[1].illustrations:
        assert f"{one.group}: {one.candidate.rule}, {one.candidate.generation}" in words
    kept = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in write_pictures(tmp_path, *shown)] == kept


def test_hostile_texts_are_escaped(tmp_path: Path) -> None:
    hostile = "\x1b[2J<script>|$x$\n"
    table = random_table(2)
    texts = pa.array([hostile] * sum(LENGTHS))
    table = table.set_column(table.column_names.index("token_text"), "token_text", lists(LENGTHS, texts))
    names = pa.array([f"g\x1b[31m{g}" for g in range(len(LENGTHS))])
    search = search_of(tmp_path, table.set_column(table.column_names.index("generation"), "generation", names))
    cases = choose_cases(search, 2)
    gallery = choose_gallery(search, cases)
    tables = illustration_tables(cases, gallery)
    for page in (render(tables), render(tables, "markdown")):
        assert "\x1b" not in page
    assert "<script>" not in render(tables, "markdown")
    for path in write_pictures(tmp_path, cases, gallery):
        assert b"\x1b" not in path.read_bytes()


def test_traces_without_texts_show_ids(tmp_path: Path) -> None:
    cases = choose_cases(search_of(tmp_path, random_table(2).drop_columns(["token_text", "draft_token_id"])), 1)
    (table,) = illustration_tables(cases)
    assert "▸ #" in table.rows[0]["text"]
    assert [path.name for path in write_pictures(tmp_path, cases)] == ["case-1.svg"]


def test_nothing_chosen_draws_nothing(tmp_path: Path) -> None:
    nothing = Chosen((), ("none",), (), (), "experts=0")
    assert write_pictures(tmp_path, nothing, nothing) == []
    assert [table.title for table in illustration_tables(nothing, nothing)] == [
        "0 cases in which experts=0 moves the cut, chosen by rule: no sample",
        "Gallery of 0 decisions, chosen by rule: no sample",
    ]


def test_recorded_traces_give_cases_and_all_twelve_pictures() -> None:
    files = TraceFiles(TINY / "traces.parquet", columns=COLUMNS)
    model = LatencyModel.load(CASES / "alpha-prose-reference" / "model.json")
    search = Search(files, model, 0, 10)
    cases = choose_cases(search, 4)
    first = cases.illustrations[0]
    assert (first.candidate.generation, first.candidate.position) == ("g037", 191)  # cases/alpha-prose-reference
    assert first.explained.explanation.scale.below == pytest.approx(
        json.loads((CASES / "alpha-prose-reference" / "expected.json").read_text())["scale_below"], rel=1e-9
    )
    assert len({one.candidate.boundary for one in cases.illustrations}) == 4
    assert len(cases.clusters) == 4
    gallery = choose_gallery(search, cases)
    assert gallery.missing == ()
    assert len(gallery.generations) == len(gallery.clusters) == 12
    assert not gallery.clusters & cases.clusters
    rows = {row["generation"]: row for row in pq.read_table(TINY / "traces.parquet").to_pylist()}
    for one in gallery.illustrations[:4]:
        row, t, k = rows[one.candidate.generation], one.candidate.position, one.candidate.draft_length
        assert row["draft_token_id"][t][:k] == row["token_id"][t : t + k]
        alone = explain_decision(read_generation(files, one.candidate.generation), model, t)
        assert alone.explanation.draft_length == k >= 4
    assert (
        json.loads(as_json_text(illustration_tables(cases, gallery)))["tables"]["gallery"]["rows"][11]["number"] == 12
    )
