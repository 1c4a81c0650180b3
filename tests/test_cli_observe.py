"""``draft-oracle observe`` as a user meets it: a log, tables, pictures, and the series that `levers` takes."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import naive_observe as naive
import pytest
from click import ClickException
from in_process import printed
from naive_observe import Logged
from test_cli import CASES, refused, succeeded

from oracle.errors import InputError
from oracle.observe.times import seconds_of

LOG = CASES / "observe" / "requests.jsonl"
DEPLOYMENT = CASES / "levers" / "deployment.toml"
ASKED = ("observe", LOG, "--slot-minutes", "10", "--cache-tokens", "1024")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    out = tmp_path_factory.mktemp("observe") / "out"
    return json.loads(printed(*ASKED, "-o", out, "--json"))["tables"], out


@pytest.fixture(scope="module")
def log() -> list[Logged]:
    rows = [json.loads(line) for line in LOG.read_text().splitlines()]
    names = ("arrival", "first_token", "end")
    times = [[seconds_of(row[name], name, "", None, "s", None) for name in names] for row in rows]  # type: ignore[arg-type]
    return [
        Logged(*at, tuple(row["prompt_ids"]), tuple(row["output_ids"]), row["tenant"])  # type: ignore[arg-type]
        for at, row in zip(times, rows, strict=True)
    ]


def test_the_example_log_is_what_its_script_writes(tmp_path: Path) -> None:
    script = tmp_path / "make_requests.py"
    script.write_text((CASES / "observe" / "make_requests.py").read_text())
    subprocess.run([sys.executable, script], check=True)
    assert (tmp_path / "requests.jsonl").read_text() == LOG.read_text()


def test_sharing_by_capacity_is_that_of_caches_played_one_by_one(
    seen: tuple[dict[str, Any], Path], log: list[Logged]
) -> None:
    prompts = sum(len(r.prompt) for r in log)
    rows = seen[0]["prefix_sharing"]["rows"]
    assert [row["capacity_tokens"] for row in rows[-3:]] == [1024, 2048, None]
    for row in rows:
        capacity = None if row["capacity_tokens"] is None else row["capacity_tokens"] // 16
        assert row["prefix_share"] == sum(naive.hit_tokens(log, 16, capacity)) / prompts
        assert row["delayed_share"] == sum(naive.hit_tokens(log, 16, capacity, delayed=True)) / prompts
        assert row["prefix_share_low"] <= row["prefix_share"] <= row["prefix_share_high"]
    (taken,) = [row for row in rows if row["used"]]
    assert taken["prefix_share"] == seen[0]["slots"]["rows"][-1]["prefix_share"]


def test_acceptance_is_that_of_rounds_played_one_by_one(seen: tuple[dict[str, Any], Path], log: list[Logged]) -> None:
    counts = [naive.lookup_counts(r.prompt, r.output, 1, 3, 8) for r in log]
    total = [sum(column) for column in zip(*counts, strict=True)]
    rows = seen[0]["acceptance"]["rows"]
    assert [row["at_risk"] for row in rows] == total[:8]
    assert [row["accepted"] for row in rows] == total[8:16]
    readings = {row["reading"]: row for row in seen[0]["readings"]["rows"]}
    assert readings["stationary"]["repetitiveness"] == total[8] / total[16]
    assert readings["renewal"]["repetitiveness"] == total[23] / total[22]
    assert readings["renewal"]["after_match"] == total[25] / total[24]
    assert readings["gated"]["observed"] == total[21] / total[20]
    agent = [c for c, r in zip(counts, log, strict=True) if r.tenant == "agent"]
    tenants = {row["tenant"]: row for row in seen[0]["tenants"]["rows"]}
    assert tenants["agent"]["repetitiveness"] == sum(c[8] for c in agent) / sum(c[16] for c in agent)
    assert 0.6 < readings["renewal"]["autocorrelation_low"] < readings["renewal"]["autocorrelation_high"] < 0.85


def test_the_series_is_the_table_and_levers_takes_it(seen: tuple[dict[str, Any], Path]) -> None:
    tables, out = seen
    with open(out / "traffic.csv", newline="", encoding="utf-8") as file:
        series = list(csv.DictReader(file))
    for row, shown in zip(series, tables["slots"]["rows"], strict=False):
        assert row["slot"] == shown["slot"]
        names = ("tokens", "concurrency", "prefix_share", "repetitiveness_high", "context_tokens")
        for name in (*names, "autocorrelation", "autocorrelation_low", "autocorrelation_high"):
            assert float(row[name]) == shown[name]
    assert [row["slot"][-5:] for row in series] == ["08:00", "08:10", "08:20", "08:30", "08:40", "08:50"]
    said = succeeded("levers", DEPLOYMENT, "--traffic", out / "traffic.csv")
    assert said.startswith("Serving levers over 6 slots\n")
    assert "2026-01-05 08:50" in said


def test_a_folder_holds_tables_pictures_and_the_series(seen: tuple[dict[str, Any], Path]) -> None:
    tables, out = seen
    names = ["acceptance.svg", "concurrency.svg", "prefix-sharing.svg", "tables.json", "tables.md", "traffic.csv"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert json.loads((out / "tables.json").read_text())["tables"] == tables
    for name, word in (
        ("acceptance", "if independent"),
        ("concurrency", "requests in flight"),
        ("prefix-sharing", "Ki"),
    ):
        assert word in (out / f"{name}.svg").read_text()
    assert "will not be" not in printed(*ASKED, "-o", out, "--overwrite")


def test_each_tenant_may_have_slots_of_its_own(tmp_path: Path) -> None:
    printed(*ASKED, "--by-tenant", "--isolate-tenants", "--reading", "renewal", "-o", tmp_path / "series.csv")
    rows = list(csv.DictReader((tmp_path / "series.csv").read_text().splitlines()))
    assert {row["tenant"] for row in rows} == {"agent", "chat"}
    said = printed("levers", DEPLOYMENT, "--traffic", tmp_path / "series.csv")
    stated = {
        name: [float(row["autocorrelation"]) for row in rows if row["tenant"] == name] for name in ("agent", "chat")
    }
    for each in stated.values():
        assert f"renewal with x = {min(each):.3g} – {max(each):.3g}, each slot its own" in said
    assert "slots of tenant agent" in said
    assert "Serving levers over 6 slots of tenant chat" in said


def test_counts_alone_give_concurrency_and_leave_shares_to_the_deployment(tmp_path: Path) -> None:
    row = {"arrival": 0, "end": 3600, "prompt_tokens": 100, "output_tokens": 50}
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row | {"arrival": 600 * i}) + "\n" for i in range(4)))
    tables = json.loads(printed("observe", path, "--tokens", "counts", "-o", tmp_path / "s.csv", "--json"))["tables"]
    assert "prefix_sharing" not in tables
    (flight,) = tables["concurrency"]["rows"]
    assert (flight["mean"], flight["busy_share"], flight["peak"], flight["p50"], flight["p90"]) == (3.0, 1.0, 4, 3, 4)
    head, first = (tmp_path / "s.csv").read_text().splitlines()
    assert head == "slot,tokens,concurrency,prompt_tokens,output_tokens,context_tokens"
    assert first == "00:00,200,3.0,100.0,50.0,125.0"
    with pytest.raises(InputError, match="prefix_share is missing"):
        printed("levers", DEPLOYMENT, "--traffic", tmp_path / "s.csv")


def test_hostile_texts_change_nothing(tmp_path: Path) -> None:
    tenant = 'a,"b"\x1b[31m\n=1+1 <b>|`'
    row = {"tenant": tenant, "end": 60, "prompt": "x y " * 20, "output": "x y " * 9, "cluster": "$\\alpha$"}
    path = tmp_path / "log\x1b[2J.jsonl"
    path.write_text("".join(json.dumps(row | {"arrival": i, "request": f"\x1b{i}"}) + "\n" for i in range(50)))
    asked = ("observe", path, "--tokens", "words", "--by-tenant", "-o", tmp_path / "out")
    said = printed(*asked)
    assert "\x1b" not in said
    assert "\\x1b[31m\\n=1+1 <b>" in said
    assert "words between blanks: not the tokens of any model" in said
    assert "no intervals: there is one cluster only (clusters)" in said
    assert "\x1b" not in "".join(file.read_text() for file in (tmp_path / "out").iterdir())
    assert "one cell" not in printed("levers", DEPLOYMENT, "--traffic", tmp_path / "out" / "traffic.csv")
    (tmp_path / "twice.jsonl").write_text((json.dumps(row | {"arrival": 1, "request": "\x1b"}) + "\n") * 2)
    with pytest.raises(InputError) as refusal:
        printed("observe", tmp_path / "twice.jsonl", "--tokens", "words")
    assert "the id '\\x1b' was there before" in str(refusal.value)


REFUSALS = [
    (("--ngram-min", "4"), "--ngram-min is 4, above --ngram 3; swap them, or lower it"),
    (("--cache-tokens", "15"), "--cache-tokens is 15, less than one block of 16; raise it"),
    (("--column", "when=x"), "--column when=x: write NAME=YOURS with a name of arrival, end, "),
    (("--column", "end=a", "--column", "end=b"), "--column end is given twice; keep one"),
    (("--time-zone", "Mars"), "'Mars' is no time zone; name one as UTC or Europe/Berlin"),
    (("--interval-by", "cluster"), "--interval-by cluster: the logs have no column cluster; take another, or add it"),
    (("--slot-minutes", "nan"), "nan is not a finite number"),
    (("-o", LOG), "would replace the input"),
    (("--column", "arrival=created_at"), "arrival is missing; add it, or name your column with --column arrival=…"),
]


@pytest.mark.parametrize(("options", "fault"), REFUSALS)
def test_refusals_say_the_rule_and_the_way_out(options: tuple[str, ...], fault: str) -> None:
    with pytest.raises((InputError, ClickException)) as refusal:
        printed("observe", LOG, *options)
    assert fault in str(refusal.value)


def test_a_refusal_prints_nothing_but_the_fault(tmp_path: Path) -> None:
    said = refused("observe", LOG, "--tokens", "words", "-o", tmp_path / "out")
    assert said.startswith("error: 340 faults, the first 20 shown\n1. ")
    assert list(tmp_path.iterdir()) == []


def test_slots_that_the_levers_cannot_take_are_said(tmp_path: Path) -> None:
    rows = [{"arrival": 0, "end": 60, "prompt_ids": [1] * 40, "output_ids": [1] * 40}]
    rows += [{"arrival": 7200, "end": 7260, "prompt_ids": [1] * 40, "output_ids": []}]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = printed("observe", path, "-o", tmp_path / "s.csv")
    assert "less than one token a prompt or an output" in said
    assert "1 of 2 rows are not in the series for the levers: something is unknown" in said
    assert "1 slots without arrivals are left out" in said
    assert (tmp_path / "s.csv").read_text().count("\n") == 2
    path.write_text(json.dumps(rows[1]) + "\n")
    with pytest.raises(InputError, match="no slot holds all that the levers take"):
        printed("observe", path, "-o", tmp_path / "t.csv")
