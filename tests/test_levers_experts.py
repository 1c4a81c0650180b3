"""Experts read that grow with the pass: the uniform formula, a simulation of routing, searches one by one."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from levers_strategies import LEVERS, example, growing, letters, plain, regimes, traffic
from naive_levers import cost, read_parameters, tokens_a_round
from scipy.optimize import brentq
from test_cli import refused, succeeded

from oracle.errors import InputError
from oracle.levers.admission import admitted
from oracle.levers.answer import answer
from oracle.levers.break_even import repetitiveness_needed, speculation_batches
from oracle.levers.cost import TOGGLES, Toggles, batch_size, capacity, cost_parts, more_read_ms, weights_ms
from oracle.levers.experts import batch_hitting, hit_share, read_share
from oracle.levers.fitted import Measured, fit_overhead
from oracle.levers.identified import identify

D = example()
GROWING = replace(D, reads_grow=True)
DEPLOYMENT = LEVERS / "deployment.toml"


def test_experts_hit_are_those_of_routing_at_random():
    rng = np.random.default_rng(1)
    for tokens in (1, 4, 36):
        hits = [
            len(set(np.concatenate([rng.choice(128, 8, replace=False) for _ in range(tokens)]))) for _ in range(300)
        ]
        assert float(hit_share(D, tokens)) == pytest.approx(np.mean(hits) / 128, abs=0.005)


def test_one_token_reads_what_the_model_s_name_says():
    """A22B: 22e9 parameters are read by one token, 235e9 by a full batch."""
    assert float(read_share(GROWING, 1)) * 235e9 == pytest.approx(22e9, rel=0.01)
    assert float(read_share(GROWING, 1e6)) == 1.0
    assert (read_share(D, np.arange(1, 9)) == 1.0).all()
    assert batch_hitting(D) == 36
    assert float(hit_share(D, 35)) < 0.9 <= float(hit_share(D, 36))
    assert batch_hitting(GROWING) is None
    assert batch_hitting(replace(D, experts_per_token=128)) == 1


@pytest.mark.parametrize(
    ("batch", "printed"),
    [
        (1, (0.847, 0.882, np.inf)),
        (4, (0.746, 0.775, np.inf)),
        (16, (0.369, 0.390, 0.565)),
        (24, (0.245, 0.263, 0.394)),
        (32, (0.176, 0.193, 0.299)),
        (128, (0.177, 0.193, 0.295)),
    ],
)
def test_break_evens_solved_from_the_uniform_formula(batch, printed):
    d, precisions = plain(GROWING)
    for own, p, shown in zip(GROWING.precisions, precisions, printed, strict=True):
        per_byte = 1e3 * p["b"] / d["BW"]
        off = per_byte * read_parameters(d, batch)
        on = per_byte * (read_parameters(d, 9 * batch) + d["N_read"] * batch / d["B_v"]) + d["host"]
        got = float(repetitiveness_needed(GROWING, own, traffic(), np.array(float(batch))))
        if on / off > tokens_a_round(p["eta"], 8):
            assert got == shown == np.inf
        else:
            ratio = on / off
            solved = brentq(lambda a, w=ratio: tokens_a_round(a, 8) - w, 0, 1, xtol=1e-14) / p["eta"]
            assert got == pytest.approx(solved, abs=1e-12)
            assert round(got, 3) == shown


@given(growing(), regimes())
@settings(max_examples=60)
def test_cost_equals_the_definition(deployment, regime):
    d, precisions = plain(deployment)
    for precision, p in zip(deployment.precisions, precisions, strict=True):
        for toggles in TOGGLES:
            expected = cost(d, p, letters(regime), *toggles)
            if expected is not None:
                parts = cost_parts(deployment, precision, regime, toggles)
                got = [float(part) for part in (parts.decode_ms, parts.prefill_ms, parts.cache_ms)]
                assert got == pytest.approx(expected, rel=1e-9)


@given(growing(), regimes())
@settings(max_examples=60)
def test_reads_that_grow_never_cost_more_without_speculation(deployment, regime):
    whole = replace(deployment, reads_grow=False)
    for p in deployment.precisions:
        assume(capacity(deployment, p, regime) >= 1)
        less, all_read = (float(cost_parts(each, p, regime, TOGGLES[0]).total_ms) for each in (deployment, whole))
        assert less <= all_read * (1 + 1e-12)


@given(growing(), regimes())
@settings(max_examples=60)
def test_the_last_range_of_batches_equals_direct_search(deployment, regime):
    p = deployment.precisions[-1]
    B = np.arange(1.0, 1500.0)
    low, high = speculation_batches(deployment, p, regime)
    on, off = (
        cost_parts(deployment, p, regime.having(concurrency=B), Toggles(spec, False), batch=B).decode_ms
        for spec in (True, False)
    )
    clear = np.abs(on / off - 1) > 1e-7
    pays = on < off
    inside = (low < B) & (high > B)
    assert pays[inside & clear].all()
    assert not pays[(high <= B) & clear].any()
    below = np.flatnonzero((low >= B) & clear)
    assert not len(below) or low >= high or not pays[below[-1]]  # the one next to the range does not


@given(growing(), regimes())
@settings(max_examples=60)
def test_admission_equals_direct_search(deployment, regime):
    p = deployment.precisions[-1]
    most = float(batch_size(deployment, p, regime))
    assume(1 <= most < 3000)
    for toggles in (Toggles(False, True), Toggles(True, True)):
        every = np.append(np.arange(1.0, np.floor(most) + 1), most)
        costs = cost_parts(deployment, p, regime.having(concurrency=every), toggles, every).total_ms
        B = admitted(deployment, p, regime, toggles)
        got = float(cost_parts(deployment, p, regime, toggles, B).total_ms)
        assert got == pytest.approx(float(costs.min()), rel=1e-9)


def test_what_is_fitted_and_identified_is_given_back():
    how, rows = GROWING.speculation, []
    for p in GROWING.precisions:
        for B in (2.0, 16.0, 64.0):
            off = float(weights_ms(GROWING, p, B))
            verified = GROWING.read_ms_per_byte * p.bytes_per_parameter * B / how.verify_batch
            on = off + how.round_host_ms + verified + float(more_read_ms(GROWING, p, B, 8))
            rows.append(Measured(p.name, B, 8, off, on))
    found = fit_overhead(GROWING, rows)
    assert (found.round_host_ms, found.verify_batch) == (pytest.approx(how.round_host_ms), pytest.approx(640))
    rows = []
    for name, B in (("FP16", 16.0), ("NVFP4", 16.0), ("FP16", 64.0), ("NVFP4", 64.0)):
        r = float(repetitiveness_needed(GROWING, GROWING.named(name), traffic(), np.array(B)))
        rows.append(Measured(name, B, break_even=(r, r)))
    (told,) = identify(GROWING, rows)
    assert told.eta == pytest.approx((0.7, 0.7), rel=1e-6)
    assert told.round_host_ms == pytest.approx((how.round_host_ms,) * 2, rel=1e-4)
    assert told.verification[0].verify_batch == pytest.approx((640, 640), rel=1e-4)


def test_the_assumption_is_tried_and_can_change_the_answer():
    """4 requests that repeat half: NVFP4 with speculation, unless the experts of 36 positions are to be read."""
    found = answer(D, traffic(4.0, 0.4, 0.5))
    other = dict(found.by_assumption)["experts read grow with the pass"]
    assert (bool(found.joint.speculation_on), bool(other.speculation_on)) == (True, False)
    assert "every pass reads all experts" in dict(answer(GROWING, traffic(4.0, 0.4, 0.5)).by_assumption)
    dense = replace(D, expert_parameters=None, experts=None, experts_per_token=None)
    assert not any("expert" in name for name, _ in answer(dense, traffic()).by_assumption)


def test_the_page_says_where_not_all_experts_are_hit(tmp_path):
    page = succeeded("levers", DEPLOYMENT, "--traffic", LEVERS / "coding-agent.toml")
    assert "below a batch of 36 a step hits less than 90 % of the 128 experts (routed uniformly), 78.8 % here" in page
    page = succeeded("levers", DEPLOYMENT, "--traffic", LEVERS / "open-chat.toml")
    assert "(routed uniformly), not at the batch here: this model reads all experts" in page
    page = succeeded("levers", DEPLOYMENT, "--traffic", LEVERS / "day.csv")
    assert "(routed uniformly), which is in 3 of 24 slots" in page
    grown = tmp_path / "grown.toml"
    grown.write_text(DEPLOYMENT.read_text("utf-8") + "\n[assumptions]\nreads_grow = true\n", "utf-8")
    tables = json.loads(succeeded("levers", grown, "--traffic", LEVERS / "coding-agent.toml", "--json"))["tables"]
    assert not any("routed uniformly" in row["value"] for row in tables["levers"]["rows"])
    by_batch = {row["batch"]: row for row in tables["levers_by_batch"]["rows"]}
    assert round(by_batch[24]["repetitiveness_needed_FP16"], 3) == 0.245


def test_experts_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(InputError) as refusal:
        replace(D, experts=8, experts_per_token=9, expert_parameters=300e9)
    assert refusal.value.faults == (
        "experts_per_token is 9, more than the 8 experts of a layer",
        "expert_parameters is 3e+11, more than the 2.35e+11 that a step of a full batch reads, which are all experts "
        "and the rest",
    )
    with pytest.raises(InputError) as refusal:
        replace(D, experts=10**6, experts_per_token=5e-324)
    assert refusal.value.faults == (
        "experts is 1e+06; it is a finite number at least 1 and at most 10000",
        "experts_per_token is 4.94066e-324; it is a finite number at least 0.1 and at most 10000",
    )
    with pytest.raises(InputError) as refusal:
        replace(D, experts=None, expert_parameters=None, reads_grow=True)
    assert refusal.value.faults == (
        "experts_per_token without the others; expert_parameters, experts, experts_per_token go together",
    )
    with pytest.raises(InputError) as refusal:
        replace(D, experts=None, expert_parameters=None, experts_per_token=None, reads_grow=True)
    assert str(refusal.value) == (
        "reads_grow is set and no experts are stated; add expert_parameters, experts and experts_per_token"
    )
    path = tmp_path / "d.toml"
    path.write_text(DEPLOYMENT.read_text("utf-8").replace("experts = 128", "experts = 12.5"), "utf-8")
    assert "model.experts is 12.5; it is a whole number" in refused("levers", path)
