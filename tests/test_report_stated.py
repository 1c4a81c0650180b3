"""Serving levers and the memory pool in the report: what the commands say, never mixed with the traces."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_traces import CASES, STATED, hostile_stated, recorded
from test_cli import HAND, refused, succeeded

from oracle.cli.report_stated import NOTHING, Stated, stated_material
from oracle.levers.cost import accept
from oracle.pages import Absent, Levers, Page, Section, compose
from oracle.pages.acceptances import acceptances
from oracle.pages.html import cells_of
from oracle.tables import Table, words

LEVERS, POOL = CASES / "levers", CASES / "pool"
DAY = Stated(str(LEVERS / "deployment.toml"), str(LEVERS / "day.csv"), None, str(POOL / "post-pool.toml"))
INTERVALS = """
concurrency = 32
prefix_share = 0.4
prefix_share_low = 0.3
prefix_share_high = 0.5
repetitiveness = 0.15
repetitiveness_low = 0.1
repetitiveness_high = 0.2
prompt_tokens = 8192
output_tokens = 512
context_tokens = 16384
"""


def page_with(stated: Stated) -> Page:
    """The report on the recorded traces with what some files state."""
    none = {"levers": Absent("no deployment"), "pool": Absent("no plan")}
    found = none | stated_material(stated)
    return compose(replace(recorded(), **found), "T")


def section(page: Page, anchor: str) -> Section:
    return next(one for one in page.sections if one.anchor == anchor)


def captions(page: Page) -> dict[str, str]:
    return {figure.name: figure.caption for figure in page.figures}


def test_tables_and_digests_are_those_of_the_commands(tmp_path: Path) -> None:
    out, stated = tmp_path / "r.json", [str(path) for path in STATED.paths if path is not None]
    given = ("--deployment", stated[0], "--traffic", stated[1], "--pool", stated[2])
    succeeded("report", HAND, "-m", HAND / "model.json", "-o", out, *given)
    whole = json.loads(out.read_text("utf-8"))
    ours = {one["anchor"]: one for one in whole["sections"]}
    levers = json.loads(succeeded("levers", stated[0], "--traffic", stated[1], "--json"))["tables"]
    pool = json.loads(succeeded("pool", stated[2], "--json"))["tables"]
    assert {name: table["rows"] for name, table in ours["levers"]["tables"].items() if name in levers} == {
        name: table["rows"] for name, table in levers.items()
    }
    assert ours["levers"]["tables"].keys() - levers.keys() == {"levers_acceptance"}
    assert {name: table["rows"] for name, table in ours["pool"]["tables"].items()} == {
        name: table["rows"] for name, table in pool.items()
    }
    names = {one["name"]: one["sha256"] for one in whole["provenance"]["inputs"]}
    assert {"deployment.toml", "coding-agent.toml", "a100.toml"} <= set(names)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in names.values())
    options = {"deployment": "deployment.toml", "traffic": "coding-agent.toml", "pool": "a100.toml"}
    assert whole["provenance"]["options"].items() >= options.items()


def test_without_files_each_section_says_what_to_give(tmp_path: Path) -> None:
    out = tmp_path / "r.md"
    succeeded("report", HAND, "-m", HAND / "model.json", "-o", out)
    text = out.read_text("utf-8")
    said = "- Serving levers, because no deployment was stated (--deployment FILE, its traffic with --traffic FILE)\n"
    assert said in text.replace("\\", "")
    assert "- Memory pool, because no memory plan was stated (--pool FILE)\n" in text.replace("\\", "")
    assert len(page_with(NOTHING).summary) == 3


def test_the_summary_and_the_sections_say_what_they_are() -> None:
    page = compose(recorded(), "T")
    assert page.summary[-1] == (
        "Model output for the deployment stated, not from these traces: serving levers: FP8, speculation on, prefix "
        "cache on (8 draft tokens): 0.06397 ms a token; memory pool: room for 12 tenants at bf16 weights, bf16 KV; at "
        "a full pool draft model 1.7B does not pay, EAGLE-3 head pays, n-gram lookup does not pay."
    )
    assert section(page, "levers").paragraphs[0].startswith("Model output, not a measurement: ")
    assert section(page, "pool").paragraphs[0].startswith("Arithmetic on a memory plan that was stated: ")
    names = {name for name in captions(page) if name.startswith(("levers-", "pool-"))}
    assert names == {
        "levers-repetitiveness", "levers-prefix-share", "levers-matches", "levers-precision", "levers-decisions",
        "levers-regret", "pool-memory", "pool-draft-size", "pool-early-exit",
    }  # fmt: skip


def test_both_acceptances_are_said_and_only_the_stated_one_decides() -> None:
    material = recorded()
    assert isinstance(material.levers, Levers)
    said, table = acceptances(material, material.levers.shown)
    traced = next(score.acceptance for score in material.study.scores if score.policy == "static:1")
    stated, ours = table.rows
    assert ours["acceptance"] == pytest.approx(traced, rel=1e-12)
    assert ours["acceptance_low"] < ours["acceptance"] < ours["acceptance_high"]
    assert stated["acceptance"] == pytest.approx(0.97 * 0.92)
    assert (stated["configuration"], ours["configuration"]) == (
        "FP8, speculation on, prefix cache on",
        "NVFP4, speculation on, prefix cache on",
    )
    assert "r = 0.92 gives each draft token the acceptance 0.892 at FP8; on these traces 59.7 [" in said
    assert "The levers rest on the first alone, all other sections on the second." in said


def test_a_reading_of_all_tokens_takes_nothing_from_the_first_draft_token() -> None:
    material = recorded()
    assert isinstance(material.levers, Levers)
    shown = material.levers.shown
    how = replace(shown.deployment.speculation, reading="renewal", autocorrelation=0.3)
    other = replace(shown, deployment=replace(shown.deployment, speculation=how))
    _, table = acceptances(material, other)
    assert table.rows[1]["configuration"] is table.rows[1]["repetitiveness"] is None
    assert "matches are read as renewal: there r is a share of all tokens" in table.notes[0]
    assert table.rows[0]["acceptance"] == pytest.approx(
        float(accept(other.deployment, other.deployment.precisions[1], other.regime))
    )


def test_a_series_is_a_schedule_and_its_busiest_slot() -> None:
    page = page_with(DAY)
    found = section(page, "levers")
    assert found.figures[0].name == "levers-schedule"
    assert found.paragraphs[1] == (
        "Figures by concurrency, batch and repetitiveness are of slot 14:00, the busiest of 24. There the schedule, "
        "which caps nothing, has NVFP4, speculation off, prefix cache off: 0.08438 ms a token; decided for that slot "
        "alone, whatever runs before and after it: admit at most 96: NVFP4, speculation on, prefix cache on (8 draft "
        "tokens): 0.08083 ms a token; without a cap: NVFP4, speculation off, prefix cache off: 0.08438 ms a token, "
        "4.39 % dearer."
    )
    assert [table.name for table in found.lead] == ["levers_schedule"]
    assert "for slot 14:00, the busiest of 24" in captions(page)["levers-regret"]
    assert {"levers_schedule", "levers_slots", "levers", "levers_break_even"} <= {
        table.name for table in found.all_tables
    }
    assert "NVFP4 over 24 slots, speculation on in 10, prefix cache on in 11, 0.08897 ms a token" in page.summary[-1]
    assert page.summary[-1].endswith("memory pool: 3.80 GiB for KV.")
    assert [figure.name for figure in section(page, "pool").figures] == ["pool-memory", "pool-early-exit"]


def test_several_regimes_are_compared_and_the_first_is_drawn(tmp_path: Path) -> None:
    rows = [
        {"tenant": name, "concurrency": C, "prefix_share": 0.4, "repetitiveness": 0.3, "prompt_tokens": 800,
         "output_tokens": 100, "context_tokens": 2000}
        for name, C in (("a", 8), ("b", 300))
    ]  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps(rows), "utf-8")
    page = page_with(Stated(DAY.deployment, str(tmp_path / "t.json")))
    found = section(page, "levers")
    assert [table.name for table in found.lead] == ["levers_shared", "levers_shared_tenants", "levers_regimes"]
    assert [row["name"] for row in found.lead[2].rows] == ["a", "b"]
    assert "are of a, the first of 2 regimes, alone on a deployment of its own; there: " in found.paragraphs[1]
    assert found.figures[0].name == "levers-shared"
    assert f"serving levers: for 2 tenants on one deployment {found.lead[0].rows[0]['value']}" in page.summary[-1]
    assert "pool" not in {one.anchor for one in page.sections}


def test_intervals_are_drawn_and_said(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(INTERVALS, "utf-8")
    page = page_with(Stated(DAY.deployment, str(tmp_path / "t.toml"), str(LEVERS / "measured.csv")))
    said = captions(page)
    assert said["levers-repetitiveness"].endswith(
        "; model output for what was stated, not a measurement; bar: the interval given for r; bands: 95 % intervals "
        "of eta as fitted."
    )
    assert said["levers-prefix-share"].endswith("; bar: the interval given for rho.")
    assert said["levers-precision"].endswith("; without intervals.")
    found = section(page, "levers")
    assert "eta and overhead fitted from measurements of it" in found.paragraphs[0]
    rows = next(figure for figure in found.figures if figure.name == "levers-repetitiveness").data.rows
    assert (rows[-1]["r_low"], rows[-1]["r"], rows[-1]["r_high"]) == (0.1, 0.15, 0.2)
    bands = [row for row in rows if row["mark"] == "line" and row["r_low"] is not None]
    assert {row["series"] for row in bands} >= {"FP8", "NVFP4"}
    assert all(row["r_low"] <= row["r"] <= row["r_high"] for row in bands)


def test_a_warning_of_the_files_stands_on_the_page(tmp_path: Path) -> None:
    text = (LEVERS / "deployment.toml").read_text("utf-8").replace("eta = 0.70", "eta = 0.99")
    (tmp_path / "d.toml").write_text(text, "utf-8")
    out = tmp_path / "r.md"
    given = ("--deployment", tmp_path / "d.toml", "--traffic", LEVERS / "coding-agent.toml")
    succeeded("report", HAND, "-m", HAND / "model.json", "-o", out, *given)
    said = "\nWarning: d.toml: eta rises from 0.97 (FP8) to 0.99 (NVFP4) as parameters get fewer bytes; "
    assert said in out.read_text("utf-8").replace("\\", "")


def test_names_from_the_files_stay_text(tmp_path: Path) -> None:
    page = page_with(hostile_stated(tmp_path))
    texts = [*page.summary, *(p for one in page.sections for p in one.paragraphs)]
    texts += [text for figure in page.figures for text in (figure.caption, figure.alt)]
    assert not any(re.search("[\x00-\x1f\u202e\u2066]", text) for text in texts)
    assert any("\\u202egnp.exe" in text for text in texts)


def refusals(tmp_path: Path) -> dict[str, tuple[tuple[Any, ...], str]]:
    wrong = tmp_path / "d.toml"
    wrong.write_text((LEVERS / "deployment.toml").read_text("utf-8").replace("eta = 0.97", "eta = 97"), "utf-8")
    plan = tmp_path / "p.toml"
    plan.write_text('format = "draft-oracle/pool"\nversion = 1\n[hardware]\nusable_gib = -1\n', "utf-8")
    agent = LEVERS / "coding-agent.toml"
    return {
        "traffic alone": (("--traffic", agent), "--traffic is of a deployment; give --deployment FILE too"),
        "measured alone": (("--measured", agent), "--measured is of a deployment; give --deployment FILE too"),
        "no traffic": (("--deployment", LEVERS / "deployment.toml"), "states no traffic; add [traffic], or give"),
        "twice stdin": (("--deployment", "-", "--pool", "-"), "stdin (-) can be read once only"),
        "all files": (
            ("--deployment", wrong, "--traffic", agent, "--measured", plan, "--pool", plan),
            "eta is 97; it is a finite number above 0 and at most 1; a percentage is written as a fraction: 0.97",
        ),
        "pool": (("--pool", plan), "hardware.usable_gib is -1"),
        "over": (("--pool", tmp_path / "r.md"), "would replace the input"),
    }


@pytest.mark.parametrize(
    "name", ["traffic alone", "measured alone", "no traffic", "twice stdin", "all files", "pool", "over"]
)
def test_refusals(name: str, tmp_path: Path) -> None:
    options, said = refusals(tmp_path)[name]
    out = tmp_path / "r.md"
    if name == "over":
        out.write_bytes((POOL / "post.toml").read_bytes())
    error = refused("report", HAND, "-m", HAND / "model.json", "-o", out, *options)
    assert said in error
    if name == "all files":
        assert "hardware.usable_gib is -1" in error
        assert re.match(r"error: \d+ faults\n1\. ", error)
    assert out.exists() == (name == "over")


def test_heads_keep_their_minus_signs() -> None:
    table = Table("t", "T", (words("r - r*", "a"), words("accept-\nance", "a"), words("rho* for\ncache", "a")), [])
    assert cells_of(replace(table, rows=[{"a": "x"}]))["heads"] == ["r - r*", "acceptance", "rho* for cache"]


def test_the_answer_stands_before_the_figures(tmp_path: Path) -> None:
    page = page_with(STATED)
    assert [table.name for table in section(page, "levers").lead] == ["levers"]
    out = tmp_path / "r.md"
    given = ("--deployment", STATED.deployment, "--traffic", STATED.traffic)
    succeeded("report", HAND, "-m", HAND / "model.json", "-o", out, *given)
    text = out.read_text("utf-8")
    assert text.index("| set ") < text.index("above which speculation pays, by concurrency")
