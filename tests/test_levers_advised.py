"""One answer: where a cap is advised every row speaks of the capped setting; a cap that saves little is to consider."""

import itertools
import json
from dataclasses import replace

import naive_levers as naive
import numpy as np
import pytest
from hypothesis import assume, given, settings
from levers_strategies import LEVERS, deployments, example, having_eta, letters, plain, regimes, traffic
from test_cli import succeeded

from oracle.levers.advised import NOISE, admitted_regime, advice, advise, advised_in_slots, set_in
from oracle.levers.answer import answer
from oracle.levers.procedure import Configuration

DEPLOYMENT, AGENT = LEVERS / "deployment.toml", LEVERS / "coding-agent.toml"
D = example()
BUSY = {"C": 500.0, "rho": 0.85, "r": 0.92, "L_in": 12000.0, "L_out": 300.0}
FEW = 700  # batches that the twin prices one by one


@pytest.fixture(scope="module")
def busy():
    text = AGENT.read_text("utf-8").replace("concurrency = 24", "concurrency = 500")
    return json.loads(succeeded("levers", DEPLOYMENT, "--traffic", "-", "--json", stdin=text))["tables"]


def facts(tables, name="levers"):
    return {row["fact"]: row for row in tables[name]["rows"]}


@given(deployments(most_precisions=2), regimes())
@settings(max_examples=40, deadline=None)
def test_the_advice_is_the_least_over_batches_where_that_saves_enough(deployment, regime):
    d, precisions = plain(deployment)
    t = letters(regime)
    assume(max(naive.requests_that_fit(d, p, t) for p in precisions) >= 1)
    most = {i: min(t["C"], naive.requests_that_fit(d, p, t)) for i, p in enumerate(precisions)}
    assume(max(most.values()) <= FEW)
    free, capped = [], []
    for i, s, k in itertools.product(most, (0, 1), (0, 1)):
        if most[i] >= 1:
            free.append(sum(naive.cost(d, precisions[i], t, s, k)))
            batches = [*range(1, int(most[i]) + 1), most[i]]
            capped += [sum(naive.cost(d, precisions[i], t, s, k, batch=B)) for B in batches]
    saved = 1 - min(capped) / min(free)
    assume(abs(saved - NOISE) > 1e-9)
    made = advise(deployment, regime)
    assert bool(made.capped) == (saved > NOISE)
    assert float(made.decided.cost_ms) == pytest.approx(min(capped if saved > NOISE else free), rel=1e-9)


def test_every_row_is_of_the_capped_setting(busy):
    page = facts(busy)
    setting = page["set"]["setting"]
    assert (setting["precision"], setting["speculation_on"], setting["cache_on"]) == ("FP8", True, True)
    assert (setting["cap"], setting["draft_length"]) == (48, 8)
    for row in ("why", "draft length", "flips with concurrency", "with repetitiveness", "look again"):
        assert "FP16" not in page[row]["value"], row
    assert "the cap admits 48 of 500 requests" in page["why"]["value"]
    assert page["look again"]["value"].endswith(
        "with concurrency below 65, repetitiveness below 0.859, prefix share below 0.145"
    )
    assert busy["levers_cost"]["rows"][0]["cost_ms"] == setting["cost_ms"]
    assert {row["batch"] for row in busy["levers_break_even"]["rows"]} == {48}
    assert [row["batch"] for row in busy["levers_by_batch"]["rows"] if row["here"]] == [48]
    stated = next(row for row in busy["levers_draft_length"]["rows"] if row["stated"])
    assert (stated["capped"], stated["batch"], stated["over_joint"]) == (True, 48, 0)


def test_ranges_are_fields_and_hold_what_pricing_says(busy):
    page = facts(busy)
    for row, name in (
        ("flips with concurrency", "concurrency"),
        ("with repetitiveness", "repetitiveness"),
        ("with the prefix share", "prefix_share"),
    ):
        for run in page[row]["ranges"]:
            for value in (run["low"], run["high"] or 5000.0):
                made = advise(D, traffic(**BUSY).having(**{name: value}))
                each = made.decided.configuration()
                assert D.precisions[each.precision].name == run["precision"]
                assert (each.speculation_on, each.cache_on) == (run["speculation_on"], run["cache_on"])
                assert bool(made.capped) == (run["cap_low"] is not None)
                if made.capped:
                    assert run["cap_low"] <= float(made.decided.batch) <= run["cap_high"]
    ends = [(run["low"], run["high"]) for run in page["flips with concurrency"]["ranges"]]
    assert ends == [(1, 64), (65, None)]


def test_certainty_is_of_the_cap():
    """With 48 admitted NVFP4's r* is 0.17, with all that fit 0.62: between them the cap makes speculation certain."""
    only = replace(D, precisions=D.precisions[2:])
    at = traffic(**BUSY | {"r": 0.5})
    found = answer(only, at, at.having(repetitiveness=0.45), at.having(repetitiveness=0.55))
    assert (found.speculation, found.prefix) == ("off", "on")
    asked = advice(found)
    assert asked.cap is not None
    assert (asked.speculation, asked.prefix) == ("on", "on")
    assert asked.possible == ((Configuration(0, True, True), True),)
    assert float(admitted_regime(found).concurrency) == asked.cap


def test_every_advice_within_a_box_is_among_the_possible():
    at = traffic(**BUSY | {"C": 70.0})
    low, high = at.having(repetitiveness=0.7, prefix_share=0.05), at.having(repetitiveness=0.95, prefix_share=0.95)
    found = set(advice(answer(D, at, low, high)).possible)
    for r, rho in itertools.product(np.linspace(0.7, 0.95, 9), np.linspace(0.05, 0.95, 9)):
        made = advise(D, at.having(repetitiveness=r, prefix_share=rho))
        assert (made.decided.configuration(), bool(made.capped)) in found
    assert {capped for _, capped in found} == {True, False}


def test_a_small_saving_is_to_consider():
    text = succeeded("levers", DEPLOYMENT, "--traffic", LEVERS / "saturated-batch.toml", "--json")
    page = facts(json.loads(text)["tables"])
    assert page["set"]["setting"]["cap"] is None
    assert page["set"]["value"].startswith("NVFP4, speculation off, prefix cache off: 0.06409 ms a token")
    assert page["admission"]["value"] == (
        "not capped; to consider: at most 151 (NVFP4, speculation off, prefix cache on) would cost 1.33 % less a "
        "token, under the 2 % that stated coefficients can carry; the others would wait"
    )


def test_nothing_changes_where_no_cap_saves():
    found = answer(having_eta(D), traffic(24.0, 0.85, 0.92, 12000.0, 300.0))
    asked = advice(found)
    decided, cap = set_in(found)
    assert (asked.cap, cap, asked.saved) == (None, None, 0.0)
    assert asked.cost_ms == float(decided.cost_ms) == float(found.joint.cost_ms)
    assert asked.priced == found.priced
    assert [(run.low, run.high, run.configuration) for run in asked.by_repetitiveness] == [
        (run.low, run.high, run.configuration) for run in found.by_repetitiveness
    ]


def test_slots_of_a_schedule_say_what_a_cap_would_do():
    text = succeeded("levers", DEPLOYMENT, "--traffic", LEVERS / "day.csv", "--json")
    rows = json.loads(text)["tables"]["levers_slots"]["rows"]
    C = np.array([row["concurrency"] for row in rows])
    made = advised_in_slots(D, 2, traffic(C))
    assert [row["cap"] for row in rows] == [
        float(B) if capped else None for B, capped in zip(made.decided.batch, made.capped, strict=True)
    ]
    busiest = rows[14]
    assert (busiest["slot"], busiest["cap"], busiest["capped_speculation_on"]) == ("14:00", 96, True)
    assert (busiest["speculation_on"], busiest["cache_on"]) == (False, False)
    assert busiest["capped_ms"] < (1 - NOISE) * busiest["cost_ms"]
