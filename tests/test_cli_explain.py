"""``draft-oracle explain`` as a user meets it."""

import json
import re
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from test_cli import HAND, PUBLISHED, TINY, refused, succeeded, trace_with
from test_figures import words_of

from oracle.explanation import Explained, explain_decision
from oracle.figures.decision import decision_figure, drawable
from oracle.latency.model import LatencyModel
from oracle.traces import TraceFiles
from oracle.traces.lookup import read_generation

TRACES = TINY / "traces.parquet"


def asked(*words: str | Path) -> tuple[str | Path, ...]:
    return ("explain", TRACES, "-m", PUBLISHED, "-g", "g076", *words)


def explained(path: Path, generation: str, position: int) -> Explained:
    return explain_decision(read_generation(TraceFiles(path), generation), LatencyModel.load(PUBLISHED), position)


def test_the_paper_case_is_explained_in_its_own_numbers(tmp_path: Path) -> None:
    words = ("explain", HAND / "trace.parquet", "-m", HAND / "model.json", "-g", "one-too-many", "-t", "0")
    page = succeeded(*words, "-o", tmp_path / "d.svg")
    assert "the oracle drafts 1 token here; the trace holds no proposals of the draft" in page
    assert "drafting 2 tokens instead would cost 0.5000 ms more; most against it is more experts (+2.000 ms)" in page
    assert "at the full cost that length is 0.5000 ms worse: the change moves the difference by -2.0000 ms" in page
    assert "k* becomes 2 if all alpha are multiplied by less than 0.5000" in page
    assert re.search(r"k\*, cost-optimal draft length +1\n", page)
    assert "Q, ms" not in page
    shown = words_of(tmp_path / "d.svg")
    assert "k* = 1" in shown
    assert "k0* = 2" in shown
    assert "the trace holds no proposals of the draft" in shown


def test_json_holds_everything_at_full_precision() -> None:
    answer = json.loads(succeeded(*asked("-t", "32", "--json")))
    assert answer["provenance"]["options"] == {"generation": "g076", "position": 32, "change": "experts=0"}
    tables = answer["tables"]
    assert list(tables) == ["decision", "panel", "q_values", "attribution", "changed"]
    said = {row["key"]: row["value"] for row in tables["decision"]["rows"]}
    assert said["draft_length"] == 4
    for terms, parts in zip(tables["q_values"]["rows"], tables["attribution"]["rows"], strict=True):
        assert terms["q_difference_ms"] == pytest.approx(parts["q_difference_ms"], abs=1e-10)
        assert terms["q_difference_ms"] >= -1e-12
    emitted = [row["target_id"] for row in tables["panel"]["rows"]]
    recorded = pq.read_table(TRACES).filter(pc.equal(pq.read_table(TRACES)["generation"], "g076"))
    assert emitted == recorded["token_id"].to_pylist()[0][32:43]
    proposed = [row["draft_id"] for row in tables["panel"]["rows"]][:-1]
    assert proposed == recorded["draft_token_id"].to_pylist()[0][32]
    assert [row["sign"] for row in tables["panel"]["rows"]][:4] == ["=", "=", "×", "·"]


def test_it_agrees_with_solve_and_ablate(tmp_path: Path) -> None:
    succeeded("solve", TRACES, "-m", PUBLISHED, "-o", tmp_path / "d.parquet")
    succeeded("ablate", TRACES, "-m", PUBLISHED, "-o", tmp_path / "out")
    decisions, shifts = (
        {row["generation"]: row for row in pq.read_table(tmp_path / name).to_pylist()}
        for name in ("d.parquet", "out/shifts.parquet")
    )
    for generation, t in (("g004", 0), ("g004", 255), ("g029", 31), ("g111", 120)):
        found = explained(TRACES, generation, t).explanation
        solved, shifted = decisions[generation], shifts[generation]
        for name in ("draft_length", "modal_advance", "visit_prob", "q_gap_ms"):
            assert getattr(found, name) == pytest.approx(solved[name][t], rel=1e-9), (generation, t, name)
        assert found.changed_length == shifted["changed_draft_length"][t]
        next_q = None if found.next_one is None else float(found.next_one.changed_ms.sum())
        assert next_q == pytest.approx(shifted["next_q_changed_ms"][t], rel=1e-9)
        assert found.next_match_prob == pytest.approx(shifted["next_match_prob"][t] or float("nan"), nan_ok=True)


def test_another_change_is_named_and_answered() -> None:
    page = succeeded(*asked("-t", "32", "--change", "draft = 0"))
    assert "k0*, with draft=0 and solved again" in page
    assert "What draft=0 changes of the comparison" in page
    assert "'foo' is not a term" in refused(*asked("-t", "32", "--change", "foo=1"))


def test_a_folder_holds_picture_and_tables(tmp_path: Path) -> None:
    out = tmp_path / "out"
    succeeded(*asked("-t", "32", "-o", out))
    assert sorted(path.name for path in out.iterdir()) == ["decision.svg", "tables.json", "tables.md"]
    assert json.loads((out / "tables.json").read_text())["provenance"]["command"] == "explain"
    assert "or give --overwrite" in refused(*asked("-t", "32", "-o", out))
    succeeded(*asked("-t", "33", "-o", out, "--overwrite"))
    assert "33" in (out / "tables.md").read_text()


def test_what_is_not_there_is_refused_with_what_is(tmp_path: Path) -> None:
    said = refused("explain", TRACES, "-m", PUBLISHED, "-g", "g07", "-t", "0")
    assert said == (
        "error: cases/tiny-moe/traces.parquet: no generation 'g07' among 78 generations; "
        "the nearest names: 'g070', 'g071', 'g074'\n"
    ).replace("cases/tiny-moe/traces.parquet", str(TRACES))
    said = refused(*asked("-t", "256"))
    assert said == f"error: {TRACES}, generation 'g076': position is 256; its positions are 0 … 255\n"
    assert "the picture is SVG; give a name that ends in .svg, or a folder" in refused(
        *asked("-t", "1", "-o", tmp_path / "a.png")
    )
    assert not list(tmp_path.iterdir())
    twice = tmp_path / "twice"
    twice.mkdir()
    for name in ("a", "b"):
        pq.write_table(pq.read_table(TRACES).slice(0, 1), twice / f"{name}.parquet")
    first = pq.read_table(TRACES)["generation"][0].as_py()
    said = refused("explain", twice, "-m", PUBLISHED, "-g", first, "-t", "0")
    assert f"generation '{first}' occurs 2 times" in said
    assert "ids are unique" in said


def test_only_the_named_generation_is_read(tmp_path: Path) -> None:
    wrong = pq.read_table(TRACES)["match_prob"].to_pylist()
    wrong[3][7] = 1.5
    path = trace_with(tmp_path, match_prob=wrong)
    names = pq.read_table(path)["generation"].to_pylist()
    succeeded("explain", path, "-m", PUBLISHED, "-g", names[4], "-t", "0")
    assert "match_prob is 1.5" in refused("explain", path, "-m", PUBLISHED, "-g", names[3], "-t", "0")


def test_rows_are_found_in_any_row_group(tmp_path: Path) -> None:
    table = pq.read_table(TRACES)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=20)
    files = TraceFiles(tmp_path / "t.parquet")
    for row in (0, 15, 16, 19, 20, 59, 77):
        name = table["generation"][row].as_py()
        found = read_generation(files, name)
        assert found.generation == (name,)
        assert found.table["token_id"][0].as_py() == table["token_id"][row].as_py()


HOSTILE = [
    "中文",
    "<script>&",
    "\x1b[2J\x07",
    "العربية",
    "$x^2$",
    "x" * 60,
    "a|b`c`",
    "\u202eevil",
    "🙂",
    "\ufffd",
    "\n",
]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """One generation whose tokens from position 32 on are hard to show."""
    table = pq.read_table(TRACES)
    table = table.filter(pc.equal(table["generation"], "g076"))
    for name in ("token_text", "draft_text"):
        values = table[name].to_pylist()
        if name == "token_text":
            values[0][32:43] = HOSTILE
        else:
            values[0][32] = HOSTILE[:10]
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values))
    path = tmp_path / "hostile.parquet"
    pq.write_table(table, path)
    return path


def test_hostile_texts_are_shown_and_do_nothing(hostile: Path) -> None:
    words = ("explain", hostile, "-m", PUBLISHED, "-g", "g076", "-t", "32")
    page, markdown = succeeded(*words), succeeded(*words, "--markdown")
    assert "\x1b" not in page + markdown
    assert "\u202e" not in page + markdown
    assert "\\x1b[2J\\x07" in page
    assert "<script>" not in markdown
    assert "a byte piece of a character" in page
    assert "\ufffd#" in page


@pytest.mark.parametrize(("generation", "position"), [("g004", 179), ("g004", 253), ("g076", 32), ("hostile", 32)])
def test_the_picture_is_whole_labelled_and_reproducible(
    generation: str, position: int, hostile: Path, tmp_path: Path
) -> None:
    path, name = (hostile, "g076") if generation == "hostile" else (TRACES, generation)
    one = explained(path, name, position)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, again = (decision_figure(one, tmp_path / f"{i}.svg") for i in (1, 2))
    assert first.read_bytes() == again.read_bytes()
    assert ET.parse(first).getroot().tag.endswith("svg")
    shown = words_of(first)
    assert "nan" not in shown
    for word in (f"k* = {one.explanation.draft_length}", "modal advance", "target", "draft", "new experts", "× first"):
        assert word in shown
    for token in (*one.panel.target, *(one.panel.draft or ())):
        assert drawable(token.shown)[:13] in shown


def test_characters_without_a_glyph_are_drawn_as_code_points() -> None:
    assert drawable("Привет ␣↵") == "Привет ␣↵"
    assert drawable("中🙂") == "\\u4e2d\\U0001f642"
