"""Where a deployment's own experts contradict reading them all: said first, nothing certain, and the way out."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from levers_strategies import LEVERS, example, growing, letters, plain, regimes, traffic
from naive_levers import cost
from test_cli import succeeded

from oracle.levers.advised import advice, counted, set_in
from oracle.levers.answer import answer, plan
from oracle.levers.cost import TOGGLES
from oracle.levers.schedule import schedule
from oracle.levers.shared import shared_by
from oracle.levers.traffic_file import traffic_from_text
from oracle.levers.uncertainty import agreed
from oracle.summaries.levers_schedule import slots_otherwise
from oracle.summaries.levers_sentences import otherwise
from oracle.summaries.levers_shared import shared_setting

DEPLOYMENT = LEVERS / "deployment.toml"
# Qwen3-30B-A3B on two H100
SMALL = """
format = "draft-oracle/deployment"
version = 1
[hardware]
hbm_bytes = 160e9
bandwidth_bytes_per_s = 6.7e12
price_per_hour = 5
[model]
parameters = 30.5e9
parameters_read = 30.5e9
expert_parameters = 29.0e9
experts = 128
experts_per_token = 8
kv_bytes_per_token = 98304
[costs]
prefill_ms_per_token = 0.01
cache_ms_per_token = 1e-6
[speculation]
draft_length = 4
round_host_ms = 0.8
verify_batch = 300
[[precision]]
name = "BF16"
bytes_per_parameter = 2
eta = 1.0
[[precision]]
name = "FP8"
bytes_per_parameter = 1
eta = 0.98
"""
TRAFFIC = """
[traffic]
concurrency = {}
prefix_share = 0.5
repetitiveness = 0.6
repetitiveness_low = 0.5
repetitiveness_high = 0.7
prompt_tokens = 3000
output_tokens = 500
context_tokens = 3250
"""
TENANTS = "tenant,concurrency,prefix_share,repetitiveness,prompt_tokens,output_tokens,context_tokens\n"
TENANTS += "a,2,0.5,0.6,3000,500,3250\nb,3,0.2,0.5,2000,400,2200\n"


@pytest.mark.parametrize(("C", "hit"), [(1, "6.25"), (2, "12.1"), (4, "22.8"), (8, "40.3")])
def test_a_small_batch_of_a_mixture_is_not_settled(C, hit):
    page = succeeded("levers", "-", stdin=SMALL + TRAFFIC.format(C))
    said = (
        f"set                    not settled: a step of {C} request{'' if C == 1 else 's'} hits {hit} % of the experts"
    )
    assert f"{said}; if those are counted, FP8, speculation off, prefix cache on: " in page
    assert "[assumptions] reads_grow = true counts them. As the deployment states it, every pass reading all" in page
    assert (
        "certain                nothing: what to set rests on how many experts a pass reads, see set; at FP8: " in page
    )
    assert "speculation undecided, prefix cache on" in page
    assert "cheapest everywhere" not in page
    row = json.loads(succeeded("levers", "-", "--json", stdin=SMALL + TRAFFIC.format(C)))["tables"]["levers"]["rows"]
    first, certain = row[0], next(one for one in row if one["fact"] == "certain")
    assert (first["setting"]["speculation_on"], first["counted"]["speculation_on"]) == (True, False)
    assert certain["speculation"] == "undecided"
    assert len(certain["possible"]) == 2


def test_the_way_out_settles_it():
    page = succeeded("levers", "-", stdin=SMALL + "[assumptions]\nreads_grow = true\n" + TRAFFIC.format(2))
    assert (
        "set                    FP8, speculation off, prefix cache on: 0.40402 ms a token, 0.561 a million tokens"
        in page
    )
    assert "not settled" not in page
    assert "this configuration is the cheapest everywhere within the intervals" in page


@pytest.mark.parametrize("C", [16, 40])
def test_what_both_readings_set_is_certain(C):
    page = succeeded("levers", "-", stdin=SMALL + TRAFFIC.format(C))
    both = ", with all experts read or those counted that a step goes to" if C < 36 else ""
    assert "at FP8: speculation on, prefix cache on; this configuration is the cheapest everywhere within the " in page
    assert f"cheapest everywhere within the intervals{both}\n" in page
    assert "not settled" not in page


def cheapest(deployment, regime):
    """Levers of the cheapest configuration by the naive costs, and how clearly it is."""
    d, precisions = plain(deployment)
    priced = sorted(
        (sum(parts), i, bool(s), bool(k))
        for i, p in enumerate(precisions)
        for s, k in TOGGLES
        if (parts := cost(d, p, letters(regime), s, k)) is not None
    )
    assume(len(priced) > 1 and priced[1][0] > priced[0][0] * (1 + 1e-9))
    return priced[0][1:]


@given(growing(), regimes())
@settings(max_examples=60, deadline=None)
def test_it_is_not_settled_exactly_where_the_readings_differ_and_the_batch_is_small(grown, regime):
    stated = replace(grown, reads_grow=False)
    one, two = cheapest(stated, regime), cheapest(grown, regime)
    found = answer(stated, regime)
    B = float(set_in(found)[0].batch)
    hit = 1 - (1 - stated.experts_per_token / stated.experts) ** B
    assume(abs(hit - 0.9) > 1e-9)
    small = hit < 0.9 and math.ceil(math.log(0.1) / math.log1p(-stated.experts_per_token / stated.experts)) > B
    assert (counted(found) is not None) == small
    if set_in(found)[1] is None and (found.counted is None or set_in(found.counted)[1] is None):
        assert (otherwise(found) is not None) == (small and one != two)
    if otherwise(found) is not None:
        assert len(advice(found).possible) > 1


def test_verdicts_stand_where_all_readings_agree():
    assert agreed(("on", "off")) == ("on", "off")
    assert agreed(("on", "off"), ("off", "off")) == ("undecided", "off")
    assert agreed(("undecided", "on"), ("on", "on")) == ("undecided", "on")


def test_slots_of_a_schedule_that_rest_on_it_are_named():
    page = succeeded("levers", DEPLOYMENT, "--traffic", LEVERS / "day.csv")
    assert page.splitlines()[1].startswith("not settled in 2 of 24 slots (01:00, 02:00) a step leaves many experts out")
    assert "undecided   speculation in 2 slots (01:00, 02:00)" in page
    (series,) = traffic_from_text((LEVERS / "day.csv").read_text("utf-8"), "day.csv", {})
    made = plan(example(), series, schedule(example(), series.regime))
    for t, other in enumerate(slots_otherwise(made)):
        found = answer(example(), series.regime.at(t))
        grown = answer(replace(example(), reads_grow=True), series.regime.at(t))
        small = float(series.regime.concurrency[t]) < 36
        assert other == (small and not found.joint.same_as(grown.joint))
        assert (made.speculation[t] == "undecided") == other  # no intervals are given there
    grown = replace(example(), reads_grow=True)
    assert not slots_otherwise(plan(grown, series, schedule(grown, series.regime))).any()


def test_tenants_that_share_a_deployment_are_told_too():
    few = traffic_from_text(TENANTS, "tenants.csv", {})
    found = shared_by(example(), few)
    assert found.counted is not None
    assert found.counted.deployment.reads_grow
    assert shared_setting(found).startswith(
        "not settled: a step of 5 requests hits 27.6 % of the experts; if those are "
    )
    many = traffic_from_text(TENANTS.replace("a,2", "a,200"), "tenants.csv", {})
    assert shared_by(example(), many).counted is None


def test_a_dense_model_and_a_full_batch_have_one_reading():
    dense = replace(example(), expert_parameters=None, experts=None, experts_per_token=None)
    assert answer(dense, traffic(1.0)).counted is None
    assert answer(example(), traffic(36.0)).counted is None
    assert answer(example(), traffic(35.0)).counted is not None
