"""Schedules with hysteresis, changes of setting, intervals."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from levers_strategies import deployments, example, having_eta, regimes, traffic

from oracle.errors import InputError
from oracle.levers.break_even import critical_concurrency
from oracle.levers.cost import TOGGLES, capacity, cost_parts
from oracle.levers.procedure import decide_joint
from oracle.levers.schedule import schedule
from oracle.levers.toggles import Setting, check_change, precision_moves
from oracle.levers.uncertainty import possible_configurations, toggle_verdicts

D = example()
days = st.lists(st.floats(1, 600), min_size=2, max_size=20)


@given(days, st.floats(0, 0.5))
@settings(max_examples=60)
def test_hysteresis_as_defined(C, band):
    """Off above (1 + band) B_c, on below (1 - band) B_c, in between as before; where the cache is full, by B itself."""
    made = schedule(D, traffic(np.array(C)), band=band)
    p = D.precisions[made.precision]
    K = float(capacity(D, p, traffic()))
    for critical, states in zip(
        critical_concurrency(D, p, traffic()), (made.speculation_on, made.cache_on), strict=True
    ):
        B_c = float(critical)
        for t, value in enumerate(C):
            B = min(value, K)
            if t == 0 or B == K:
                expected = B_c > B
            elif B_c * (1 + band) < B:
                expected = False
            elif B_c * (1 - band) > B or (np.isinf(B_c)):
                expected = True
            else:
                expected = states[t - 1]
            if abs(B / B_c - 1 - band) > 1e-9 and abs(B / B_c - 1 + band) > 1e-9:
                assert states[t] == expected, (t, B, B_c)


@given(deployments(), days)
@settings(max_examples=60)
def test_without_hysteresis_nothing_beats_the_schedule_but_a_free_precision(deployment, C):
    slots = traffic(np.array(C))
    fitting = [p for p in deployment.precisions if (capacity(deployment, p, slots) >= 1).all()]
    if not fitting:
        with pytest.raises(InputError, match="does not fit"):
            schedule(deployment, slots)
        return
    made = schedule(deployment, slots, band=0.0)
    assert made.free_ms <= made.mean_ms * (1 + 1e-12)
    assert made.mean_ms == pytest.approx(made.undamped_ms, rel=1e-9)
    assert made.mean_ms <= made.static_ms * (1 + 1e-9)


def test_weights_are_tokens_of_slots():
    slots = traffic(np.array([20.0, 400.0]))
    first, second = (float(schedule(D, slots, weights).mean_ms) for weights in ([1, 0], [0, 1]))
    both = schedule(D, slots, [1, 3])
    assert both.mean_ms == pytest.approx((first + 3 * second) / 4)
    assert (both.speculation_on == [True, False]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: schedule(D, traffic()), "a schedule needs slots in one row; the regimes have the shape ()"),
        (lambda: schedule(D, traffic(np.ones(3)), [1, 2]), "2 weights for 3 slots; give one for each"),
        (
            lambda: schedule(D, traffic(np.ones(2)), [1, float("nan")]),
            "weights of slots are finite, not negative and not all 0",
        ),
        (lambda: schedule(D, traffic(np.ones(2)), [0, 0]), "weights of slots are finite, not negative and not all 0"),
        (
            lambda: schedule(D, traffic(np.ones(2)), band=1.0),
            "the hysteresis band is 1.0; it is a share of at least 0 and below 1",
        ),
        (
            lambda: schedule(
                replace(D, hbm_bytes=200e9, precisions=D.precisions[2:]),
                traffic(np.ones(2), L_ctx=np.array([16384.0, 1e6])),
            ),
            "slot 2: NVFP4: does not fit: 117.5 GB of weights and 192.5 GB of KV cache for one request of 1e+06 "
            "tokens, on 200.0 GB; give more memory, a lower precision or a shorter context",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError) as refusal:
        call()
    assert str(refusal.value) == message


@given(deployments(kv_read=False), regimes())
@settings(max_examples=60)
def test_a_move_between_precisions_is_judged_by_the_cost(deployment, regime):
    """What a lever saves or costs after the move is what pricing it says."""
    for old, new, levers in precision_moves(deployment, regime):
        del old
        ms = {t: cost_parts(deployment, new, regime, t) for t in TOGGLES}
        assert levers[0].after.pays == (ms[TOGGLES[2]].decode_ms < ms[TOGGLES[0]].decode_ms)
        cached = ms[TOGGLES[1]].prefill_ms + ms[TOGGLES[1]].cache_ms
        assert levers[1].after.pays == (cached < ms[TOGGLES[0]].prefill_ms)
        assert levers[0].invalidated == (levers[0].was_on != levers[0].after.pays)


def test_a_toggle_that_runs_is_checked_as_it_runs():
    at = traffic(256)
    setting = Setting(D, D.named("NVFP4"), at)
    speculation, prefix = check_change(setting, setting, TOGGLES[3])
    assert speculation.invalidated
    assert prefix.invalidated
    assert not check_change(setting, setting)[0].invalidated


def ends(low, high, **fixed):
    """Lower and upper end of a box: r and rho as pairs."""
    return traffic(r=low[0], rho=low[1], **fixed), traffic(r=high[0], rho=high[1], **fixed)


def test_intervals_decide_or_leave_undecided():
    p = D.named("NVFP4")  # r* = 0.1416, rho* = 0.064 at 32 requests
    assert toggle_verdicts(D, p, *ends((0.15, 0.07), (0.3, 0.5))) == ("on", "on")
    assert toggle_verdicts(D, p, *ends((0.0, 0.0), (0.14, 0.06))) == ("off", "off")
    assert toggle_verdicts(D, p, *ends((0.1, 0.05), (0.2, 0.1))) == ("undecided", "undecided")
    unsure = replace(p, eta_interval=(0.5, 0.9))
    assert toggle_verdicts(D, unsure, *ends((0.15, 0.1), (0.15, 0.1))) == ("undecided", "on")


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(1, 500))
@settings(max_examples=40)
def test_every_decision_within_a_box_is_among_the_possible(r0, r1, rho0, rho1, C):
    lows, highs = ((min(a, b), max(a, b)) for a, b in ((r0, r1), (rho0, rho1)))
    low, high = ends((lows[0], highs[0]), (lows[1], highs[1]), C=C)
    unsure = replace(D, precisions=(*D.precisions[:2], replace(D.precisions[2], eta_interval=(0.6, 0.8))))
    found = set(possible_configurations(unsure, low, high))
    for r, rho, eta in itertools.product(lows, highs, (0.6, 0.7, 0.8)):
        decided = decide_joint(having_eta(D, NVFP4=eta), traffic(C, rho, r))
        near_tie = float(decided.runner_up_ms / decided.cost_ms) - 1 < 1e-9
        assert near_tie or decided.configuration() in found


def test_hysteresis_keeps_speculation_within_the_band():
    """NVFP4 flips at B_c = 169: 160 lies within 10 % of it, so what was off at 300 stays off, and goes on at 150."""
    only = replace(D, precisions=D.precisions[2:])
    assert round(float(critical_concurrency(only, only.precisions[0], traffic())[0])) == 169
    assert schedule(only, traffic(np.array([300.0, 160.0]))).speculation_on.tolist() == [False, False]
    assert schedule(only, traffic(np.array([300.0, 160.0, 150.0]))).speculation_on.tolist() == [False, False, True]
    assert schedule(only, traffic(np.array([120.0, 180.0, 190.0]))).speculation_on.tolist() == [True, True, False]
    assert schedule(only, traffic(np.array([300.0, 160.0])), band=0.0).speculation_on.tolist() == [False, True]


@given(days)
@settings(max_examples=30, deadline=None)
def test_a_schedule_says_what_a_cap_would_save(C):
    slots = traffic(np.array(C), rho=0.9)
    made = schedule(D, slots)
    p = D.precisions[made.precision]
    least, uncapped = [], []
    for slot in slots:
        most = int(min(float(slot.concurrency), float(capacity(D, p, slot))))
        own = [float(cost_parts(D, p, slot, toggles).total_ms) for toggles in TOGGLES]
        cached = [t for t in TOGGLES if t.cache_on]
        capped = [float(cost_parts(D, p, slot, t, float(B)).total_ms) for t in cached for B in range(1, most + 1)]
        least.append(min(own + capped))
        uncapped.append(min(own))
    assert made.capped_ms == pytest.approx(np.mean(least), rel=1e-9)
    assert made.cap_slots.tolist() == [a < b * (1 - 1e-12) for a, b in zip(least, uncapped, strict=True)]
