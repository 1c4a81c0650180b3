"""Deciding: the joint minimum is the least of all, the ordered procedure never beats it, caps never cost more."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from levers_strategies import deployments, example, letters, plain, regimes, traffic
from naive_levers import cheapest

from oracle.errors import InputError
from oracle.levers.admission import admitted, best_admission
from oracle.levers.cost import TOGGLES, Toggles, batch_size, capacity, cost_parts
from oracle.levers.procedure import Configuration, configurations, decide_joint, decide_ordered, regret
from oracle.levers.regime import make_regime

D = example()


def fits(deployment, regime):
    return any(capacity(deployment, p, regime) >= 1 for p in deployment.precisions)


def random_regimes(n, seed=0):
    """C and lengths spread evenly over their logarithms, shares evenly."""
    rng = np.random.default_rng(seed)
    C, L_in, L_out = (np.exp(rng.uniform(*np.log(ends), n)) for ends in ((1, 2048), (256, 16384), (64, 4096)))
    return make_regime(
        concurrency=np.floor(C),
        prefix_share=rng.uniform(0, 1, n),
        repetitiveness=rng.uniform(0, 1, n),
        prompt_tokens=L_in,
        output_tokens=L_out,
        context_tokens=16384.0,
    )


@given(deployments(), regimes())
def test_joint_is_the_least_of_all(deployment, regime):
    assume(fits(deployment, regime))
    d, precisions = plain(deployment)
    joint = decide_joint(deployment, regime)
    assert float(joint.cost_ms) == pytest.approx(cheapest(d, precisions, letters(regime)), rel=1e-12)
    costs = sorted(
        float(cost_parts(deployment, deployment.precisions[c.precision], regime, c.toggles).total_ms)
        for c in configurations(deployment)
    )
    assert (float(joint.cost_ms), float(joint.runner_up_ms)) == (costs[0], costs[1])


@given(deployments(), regimes())
def test_ordered_never_beats_joint_and_a_cap_never_costs(deployment, regime):
    assume(fits(deployment, regime))
    joint = decide_joint(deployment, regime)
    for aware in (False, True):
        ordered = decide_ordered(deployment, regime, speculation_aware=aware)
        assert float(regret(ordered, joint)) >= -1e-12
        chosen = ordered.configuration()
        parts = cost_parts(deployment, deployment.precisions[chosen.precision], regime, chosen.toggles)
        assert float(parts.total_ms) == float(ordered.cost_ms)
    assert float(decide_joint(deployment, regime, cap=True).cost_ms) <= float(joint.cost_ms)


@given(deployments(), regimes())
def test_toggles_are_separable_once_the_precision_is_fixed(deployment, regime):
    for p in deployment.precisions:
        assume(capacity(deployment, p, regime) >= 1)
        ms = np.array([float(cost_parts(deployment, p, regime, t).total_ms) for t in TOGGLES]).reshape(2, 2)
        assert ms[1, 1] - ms[1, 0] == pytest.approx(ms[0, 1] - ms[0, 0], abs=1e-12 * ms.max())


@given(deployments(), regimes())
def test_without_cache_management_the_aware_order_is_exact(deployment, regime):
    deployment = replace(deployment, cache_ms_per_token=0.0)
    assume(fits(deployment, regime))
    ordered = decide_ordered(deployment, regime, speculation_aware=True)
    assert float(regret(ordered, decide_joint(deployment, regime))) == pytest.approx(0, abs=1e-12)


@given(deployments(kv_read=False), regimes())
def test_capped_and_without_speculation_the_lowest_precision_wins(deployment, regime):
    assume(fits(deployment, regime) and len(deployment.precisions) > 1)
    costs = []
    for p in deployment.precisions:
        toggles = Toggles(False, True)
        B = admitted(deployment, p, regime, toggles)
        costs.append(float(cost_parts(deployment, p, regime, toggles, B).total_ms))
    assert costs[-1] <= min(costs) * (1 + 1e-12)


@given(deployments(), regimes())
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
        assert got == pytest.approx(float(costs.min()), rel=1e-12)
    if deployment.cache_ms_per_token == 0:
        assert float(best_admission(deployment, p, regime, speculation_on=False)) == np.inf


DENSE = dict.fromkeys(("expert_parameters", "experts", "experts_per_token"))


@pytest.mark.parametrize(
    ("name", "change", "literal", "aware", "picks"),
    [
        ("base", {}, (14.5, 1.11), (1.3, 0.14), (1.2, 13.3, 85.5)),
        ("short drafts", {"draft_length": 5}, (1.3, 0.15), (1.3, 0.15), (1.2, 0.1, 98.7)),
        ("shared", {"kv_shared_on_hit": True}, (14.3, 1.4), (1.0, 0.44), (0.0, 13.4, 86.6)),
        ("few read", {"parameters_read": 22e9, **DENSE}, (15.4, 0.8), (2.2, 0.32), (2.2, 13.2, 84.6)),
        ("no management", {"cache_ms_per_token": 0.0}, (13.4, 1.1), (0.0, 0.0), (0.0, 13.4, 86.6)),
    ],
)
def test_regret_over_random_regimes(name, change, literal, aware, picks):
    """The reconstruction's table, on other random regimes of the same spread: shares in percent, to sampling error."""
    deployment = replace(D, **{k: v for k, v in change.items() if k != "draft_length"})
    deployment = deployment.drafting(change.get("draft_length", 8))
    if name == "few read":  # host work is there the same share of the time to read the weights
        host = D.speculation.round_host_ms * 22 / 235
        deployment = replace(deployment, speculation=replace(D.speculation, round_host_ms=host))
    at = random_regimes(200_000)
    joint = decide_joint(deployment, at)
    for is_aware, (wrong, mean) in ((False, literal), (True, aware)):
        lost = regret(decide_ordered(deployment, at, speculation_aware=is_aware), joint)
        assert 100 * float((lost > 1e-12).mean()) == pytest.approx(wrong, abs=0.2)
        assert 100 * float(lost.mean()) == pytest.approx(mean, abs=0.06)
    assert 100 * np.bincount(joint.precision, minlength=3) / 200_000 == pytest.approx(np.array(picks), abs=0.25)


def test_the_two_ways_in_which_the_literal_order_errs():
    """High repetition where eta counts, and a prefix cache that a larger batch makes dearer: nothing else."""
    at = random_regimes(200_000)
    joint, literal = decide_joint(D, at), decide_ordered(D, at)
    wrong = regret(literal, joint) > 1e-12
    by_eta = at.repetitiveness >= 0.857  # where FP8 with speculation overtakes NVFP4 at the smallest batches
    by_cache = joint.cache_on & (at.concurrency > 337)
    assert not (wrong & ~by_eta & ~by_cache).any()
    assert 0.90 < float((wrong & by_eta).sum() / wrong.sum()) < 0.94
    gain = joint.cost_ms / decide_joint(D, at, cap=True).cost_ms - 1
    assert 100 * float(gain.mean()) == pytest.approx(4.5, abs=0.15)


def test_a_million_regimes_in_one_call(record_property):
    """Vectorised: the time is reported, not asserted."""
    import time  # noqa: PLC0415

    at = random_regimes(1_000_000, seed=1)
    start = time.perf_counter()
    joint = decide_joint(D, at)
    record_property("seconds_for_a_million_regimes", round(time.perf_counter() - start, 3))
    assert joint.cost_ms.shape == (1_000_000,)
    some = at.at(slice(None, None, 100_003))
    for i, regime in enumerate(some):
        assert decide_joint(D, regime).configuration() == joint.configuration((100_003 * i,))


def test_ties_go_to_the_wider_precision_and_fewer_levers():
    same = tuple(replace(p, eta=1.0, bytes_per_parameter=1.0) for p in D.precisions)
    free = replace(D.speculation, round_host_ms=0.0)
    d = replace(D, precisions=same, speculation=free, cache_ms_per_token=0.0)
    assert decide_joint(d, traffic(rho=0.0, r=0.0)).configuration() == Configuration(0, False, False)
    assert decide_ordered(d, traffic(rho=0.0, r=0.0)).configuration() == Configuration(0, False, False)
    d = replace(d, precisions=(*same[:2], replace(D.precisions[2], bytes_per_parameter=2.0)))
    assert d.admissible == (2, 0, 1)


def test_a_precision_that_does_not_fit_is_left_out_and_one_that_fails_the_bar_too():
    small = replace(D, hbm_bytes=300e9)
    assert decide_joint(small, traffic(r=0.95)).configuration().precision in (1, 2)
    judged = tuple(replace(p, quality=q) for p, q in zip(D.precisions, (1.0, 0.9, 0.5), strict=True))
    barred = replace(small, precisions=judged, min_quality=0.95)
    with pytest.raises(InputError) as refusal:
        decide_joint(barred, traffic())
    assert refusal.value.faults == (
        "FP16: does not fit: 470.0 GB of weights and 3.2 GB of KV cache for one request of 16384 tokens, on 300.0 GB; "
        "give more memory, a lower precision or a shorter context",
        "FP8: quality 0.9 is below the bar of 0.95",
        "NVFP4: quality 0.5 is below the bar of 0.95",
    )
    with pytest.raises(InputError, match="no precision can be used: FP16: quality 1 is below the bar of 2"):
        decide_joint(replace(barred, min_quality=2.0), traffic())
