"""Levers as [running] states them, and what measurements that do not suffice or do not fit are said to be."""

import json

import numpy as np
import pytest
from levers_strategies import LEVERS, example, letters, plain, traffic
from naive_levers import cost
from test_cli import succeeded

from oracle.levers.fitted import Measured, fit_overhead, missing

DEPLOYMENT, AGENT = LEVERS / "deployment.toml", LEVERS / "coding-agent.toml"
RUNNING = '\n[running]\nprecision = "FP16"\nspeculation = false\nprefix_cache = true\n'


@pytest.fixture
def running(tmp_path):
    path = tmp_path / "running.toml"
    path.write_text(DEPLOYMENT.read_text("utf-8") + RUNNING, "utf-8")
    return path


def rows_of(*arguments, **options):
    return json.loads(succeeded("levers", *arguments, "--json", **options))["tables"]["levers_running"]["rows"]


def test_how_it_runs_is_priced_beside_the_best(running):
    (row,) = rows_of(running, "--traffic", AGENT)
    d, precisions = plain(example())
    agent = letters(traffic(24.0, 0.85, 0.92, 12000.0, 300.0))
    assert row["running_ms"] == pytest.approx(sum(cost(d, precisions[0], agent, 0, 1)))
    assert row["best_ms"] == pytest.approx(sum(cost(d, precisions[1], agent, 1, 1)))
    assert row["over_best"] == pytest.approx(row["running_ms"] / row["best_ms"] - 1)
    assert row["changes"] == ["precision FP8", "speculation on"]
    page = succeeded("levers", running, "--traffic", AGENT)
    assert "How the levers run now" in page
    assert "precision FP8; speculation on" in page
    assert "How the levers run now" not in succeeded("levers", DEPLOYMENT, "--traffic", AGENT)


def test_over_a_day_and_by_tenant(running):
    (row,) = rows_of(running, "--traffic", LEVERS / "day.csv")
    d, precisions = plain(example())
    C = [float(line.split(",")[1]) for line in (LEVERS / "day.csv").read_text("utf-8").splitlines()[1:]]
    each = [sum(cost(d, precisions[0], letters(traffic(c)), 0, 1)) for c in C]
    assert row["running_ms"] == pytest.approx(np.mean(each))
    assert row["changes"][0] == "precision NVFP4"
    assert [change.split(" in ")[0] for change in row["changes"][1:]] == ["speculation on", "prefix cache off"]
    text = "tenant,concurrency,prefix_share,repetitiveness,prompt_tokens,output_tokens,context_tokens\n"
    text += "agent,24,0.85,0.92,12000,300,16384\nchat,64,0.05,0.05,600,400,800\n"
    names = [(row["name"], row["changes"][0]) for row in rows_of(running, "--traffic", "-", stdin=text)]
    assert names == [("agent", "precision FP8"), ("chat", "precision NVFP4")]


def test_what_runs_right_or_does_not_fit_is_said(running):
    text = running.read_text("utf-8")
    right = text.replace('precision = "FP16"\nspeculation = false', 'precision = "FP8"\nspeculation = true')
    running.write_text(right, "utf-8")
    (row,) = rows_of(running, "--traffic", AGENT)
    assert (row["over_best"], row["changes"]) == (0.0, [])
    running.write_text(text.replace("1536e9", "300e9"), "utf-8")
    (row,) = rows_of(running, "--traffic", AGENT)
    assert (row["running_ms"], row["over_best"]) == (None, None)
    assert "does not fit" in succeeded("levers", running, "--traffic", AGENT)


def test_slots_left_out_are_named():
    day = (LEVERS / "day.csv").read_text("utf-8").replace("02:00,21,", "02:00,0,")
    page = succeeded("levers", DEPLOYMENT, "--traffic", "-", stdin=day)
    assert page.startswith("Serving levers over 23 slots")
    assert "nothing in flight, so nothing to decide: 02:00" in page


def timed(*rounds):
    """Steps of 7 ms and rounds at growing batches."""
    return [Measured("FP16", 32.0 * i, step_off_ms=7.0, step_on_ms=each) for i, each in enumerate(rounds, 1)]


def test_a_line_held_at_no_host_work_and_a_loose_one_are_told():
    good = fit_overhead(example(), timed(7.5, 7.9, 8.3))
    assert (good.is_held, good.is_loose) == (False, False)
    assert good.added_ms == pytest.approx(0.9)
    held = fit_overhead(example(), timed(7.1, 8.0, 9.0))
    assert (held.is_held, held.round_host_ms) == (True, 0.0)
    assert fit_overhead(example(), timed(7.5, 9.5, 7.6)).is_loose


def test_the_page_says_what_was_not_fitted_and_what_fits_badly(tmp_path):
    assert missing([]) == (
        "eta: acceptance was measured at 0 of the two precisions or more that it takes",
        "overhead of a round: step times were measured at 0 of the two points or more that it takes",
    )
    path = tmp_path / "m.csv"
    path.write_text("precision,batch_size,step_off_ms,step_on_ms,acceptance\nFP16,32,7.3,7.8,0.4\n", "utf-8")
    page = succeeded("levers", DEPLOYMENT, "--traffic", AGENT, "--measured", path)
    assert "not fitted, so as stated below: eta: acceptance was measured at 1 of the two precisions" in page
    assert "not fitted, so as stated below: overhead of a round: step times were measured at 1 of the two" in page
    rows = "FP16,32,7.0,7.1\nFP16,64,7.0,9.9\nFP16,96,7.0,7.9\nFP16,128,7,12\n"
    path.write_text("precision,batch_size,step_off_ms,step_on_ms\n" + rows, "utf-8")
    page = succeeded("levers", DEPLOYMENT, "--traffic", AGENT, "--measured", path)
    assert "the measured steps ask for negative host work, so it is held at 0" in page
    assert "the overhead fits the measured steps badly: 1.32 ms are left over where speculation adds 2.2" in page
    page = succeeded("levers", DEPLOYMENT, "--traffic", AGENT, "--measured", LEVERS / "measured.csv")
    assert "not fitted" not in page
    assert "badly" not in page
