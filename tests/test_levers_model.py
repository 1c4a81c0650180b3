"""Cost per token and break-evens: the naive twin, ordering, monotonicity, closed forms against direct search."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from levers_strategies import deployments, example, letters, plain, regimes, traffic
from naive_levers import cost, requests_that_fit

from oracle.errors import InputError
from oracle.levers.break_even import (
    critical_concurrency,
    phase,
    precision_ratio,
    prefix_batch,
    prefix_share_needed,
    repetitiveness_for_higher,
    repetitiveness_needed,
    speculation_batches,
)
from oracle.levers.cost import TOGGLES, Toggles, batch_size, capacity, cost_parts
from oracle.levers.deployment import Deployment, Precision
from oracle.levers.regime import make_regime

D = example()


@given(deployments(), regimes())
def test_cost_equals_the_definition(deployment, regime):
    d, precisions = plain(deployment)
    t = letters(regime)
    for precision, p in zip(deployment.precisions, precisions, strict=True):
        assert float(capacity(deployment, precision, regime)) == requests_that_fit(d, p, t)
        for toggles in TOGGLES:
            parts = cost_parts(deployment, precision, regime, toggles)
            expected = cost(d, p, t, *toggles)
            if expected is None:
                assert float(parts.total_ms) == math.inf
            else:
                got = [float(part) for part in (parts.decode_ms, parts.prefill_ms, parts.cache_ms)]
                assert got == pytest.approx(expected, rel=1e-12)


@given(deployments(), regimes())
def test_break_evens_are_where_the_cost_is_the_same(deployment, regime):
    p = deployment.precisions[0]
    B = batch_size(deployment, p, regime)
    assume(B >= 1)
    r = float(repetitiveness_needed(deployment, p, regime))
    off = cost_parts(deployment, p, regime, Toggles(False, False))

    def with_speculation(value):
        return float(cost_parts(deployment, p, regime.having(repetitiveness=value), Toggles(True, False)).decode_ms)

    if math.isinf(r):
        assert with_speculation(1.0) >= float(off.decode_ms) * (1 - 1e-9)
    elif r > 1e-9:
        assert with_speculation(r) == pytest.approx(float(off.decode_ms), rel=1e-9)
    else:
        assert with_speculation(0.0) <= float(off.decode_ms) * (1 + 1e-9)
    rho = float(prefix_share_needed(deployment, p, regime))
    if rho <= 1:
        on = cost_parts(deployment, p, regime.having(prefix_share=rho), Toggles(False, True))
        assert float(on.prefill_ms + on.cache_ms) == pytest.approx(float(off.prefill_ms), rel=1e-9)


@given(deployments(kv_read=False), regimes())
def test_lower_precision_needs_more_repetition(deployment, regime):
    """In a batch that both hold; kappa is the same for all and eta falls with the bytes."""
    needed = [
        float(repetitiveness_needed(deployment, p, regime, np.minimum(regime.concurrency, 64.0)))
        for p in deployment.precisions
    ]
    assert all(low <= high + 1e-12 for low, high in pairwise(needed))


@given(deployments(kv_read=False, most_precisions=2), regimes(), st.floats(0, 0.9))
@settings(max_examples=50)
def test_the_order_survives_every_reading_of_autocorrelation(deployment, regime, x):
    for reading in ("stationary", "gated", "renewal"):
        how = replace(deployment.speculation, reading=reading, autocorrelation=x)
        chained = replace(deployment, speculation=how)
        needed = [float(repetitiveness_needed(chained, p, regime, np.array(32.0))) for p in chained.precisions]
        assert needed == sorted(needed) or max(np.diff(np.array(needed))) > -1e-9


@given(deployments(kv_read=False), regimes())
def test_more_concurrency_needs_more_of_both(deployment, regime):
    grid = regime.having(concurrency=np.arange(1.0, 600.0, 7.0))
    for p in deployment.precisions:
        if capacity(deployment, p, regime) >= 1:
            r, rho = (needed(deployment, p, grid) for needed in (repetitiveness_needed, prefix_share_needed))
            assert (r[1:] >= r[:-1] - 1e-12).all()
            assert (np.diff(rho) >= 0).all()


@given(deployments(), regimes(), st.floats(1, 5000), st.floats(1.0, 4.0))
def test_prefix_break_even_ignores_the_output_and_falls_with_the_prompt(deployment, regime, L_out, longer):
    p = deployment.precisions[0]
    B = np.array(40.0)
    rho = float(prefix_share_needed(deployment, p, regime, B))
    assert float(prefix_share_needed(deployment, p, regime.having(output_tokens=L_out), B)) == rho
    prompt = regime.having(prompt_tokens=regime.prompt_tokens * longer)
    assert float(prefix_share_needed(deployment, p, prompt, B)) == pytest.approx(rho / longer)
    assert float(prefix_share_needed(deployment, p, regime, 2 * B)) == pytest.approx(2 * rho)


@given(deployments(), regimes())
@settings(max_examples=60)
def test_critical_batches_equal_direct_search(deployment, regime):
    p = deployment.precisions[-1]
    B = np.arange(1.0, 1500.0)
    low, high = speculation_batches(deployment, p, regime)
    on, off = (
        cost_parts(deployment, p, regime.having(concurrency=B), Toggles(spec, False), batch=B).decode_ms
        for spec in (True, False)
    )
    clear = np.abs(on / off - 1) > 1e-9
    assert ((on < off) == ((low < B) & (high > B)))[clear].all()
    cached = cost_parts(deployment, p, regime.having(concurrency=B), Toggles(False, True), batch=B)
    gain = float(regime.prefix_share) * deployment.prefill_ms_per_token * regime.prompt_tokens / regime.output_tokens
    clear = np.abs(cached.cache_ms / np.maximum(gain, 1e-300) - 1) > 1e-9
    assert ((cached.cache_ms < gain) == (prefix_batch(deployment, p, regime) > B))[clear].all()


@given(deployments(), regimes(), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=60)
def test_more_repetition_keeps_every_batch_that_pays(deployment, regime, r0, r1):
    """Sets of batch sizes at which speculation pays are nested in r, and intervals: also with KV reads."""
    less, more = (regime.having(repetitiveness=r) for r in sorted((r0, r1)))
    for p in deployment.precisions:
        (low, high), (wider_low, wider_high) = (speculation_batches(deployment, p, each) for each in (less, more))
        assert low >= high or (wider_low <= low * (1 + 1e-12) and wider_high >= high * (1 - 1e-12))


def test_critical_concurrency_equals_direct_search():
    C = np.arange(1.0, 600.0)
    grid = traffic(C)
    for p in D.precisions:
        spec, prefix = critical_concurrency(D, p, traffic())
        on, off = (cost_parts(D, p, grid, Toggles(state, False)).decode_ms for state in (True, False))
        assert ((on < off) == (spec > C)).all()
        cached = cost_parts(D, p, grid, Toggles(False, True))
        assert (
            (cached.cache_ms + cached.prefill_ms < cost_parts(D, p, grid, TOGGLES[0]).prefill_ms) == (prefix > C)
        ).all()


def test_precision_gains_in_three_phases():
    lower, higher = D.named("NVFP4"), D.named("FP16")
    C = np.arange(1.0, 1000.0)
    at, where = traffic(C), phase(D, lower, higher, traffic(C))
    ratio = precision_ratio(D, lower, higher, at)
    assert (ratio[where == 0] == 0.25).all()
    assert ratio[where == 1] == pytest.approx(0.25 * 337 / C[where == 1])
    assert ratio[where == 2] == pytest.approx(0.25 * 337 / 449)
    assert np.diff(1 / ratio[where == 1]) == pytest.approx(4 / 337)  # the inverse is what widens linearly
    assert list(np.flatnonzero(np.diff(where)) + 1) == [337, 449]


@given(deployments(most_precisions=2), regimes())
@settings(max_examples=60)
def test_the_higher_precision_wins_from_one_repetitiveness_on(deployment, regime):
    assume(len(deployment.precisions) == 2)
    higher, lower = deployment.precisions
    assume(batch_size(deployment, higher, regime) >= 1)
    found = float(repetitiveness_for_higher(deployment, higher, lower, regime))
    r = np.linspace(0, 1, 201)
    ms = [
        cost_parts(deployment, p, regime.having(repetitiveness=r), Toggles(True, False)).decode_ms
        for p in (higher, lower)
    ]
    clear = np.abs(ms[0] / ms[1] - 1) > 1e-9
    assert ((ms[0] < ms[1]) == (r > found) if found > 0 else ms[0] <= ms[1] * (1 + 1e-9))[clear].all()


def test_this_break_even_is_refused_for_chains():
    chained = replace(D, speculation=replace(D.speculation, reading="renewal", autocorrelation=0.1))
    with pytest.raises(InputError) as refusal:
        repetitiveness_for_higher(chained, *D.precisions[:2], traffic())
    assert str(refusal.value) == (
        "this break-even holds for independent matches; set speculation.reading to independent"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"C": 0.5}, "traffic: concurrency is 0.5; it is a finite number of at least 1"),
        ({"rho": 40}, "traffic: prefix_share is 40; it lies in [0, 1]; a percentage is written as a fraction: 0.4"),
        ({"r": float("nan")}, "traffic: repetitiveness is nan; it lies in [0, 1]"),
        ({"L_out": float("inf")}, "traffic: output_tokens is inf; it is a finite number of at least 1"),
        (
            {"L_in": 0.5},
            "traffic: prompt_tokens is 0.5; it is a finite number of at least 1; tokens are counted one by one, not in "
            "thousands",
        ),
        (
            {"L_ctx": 100.0},
            "traffic: context_tokens is 100, less than the prompt's 8192; a request holds its whole prompt in the KV "
            "cache; tokens are counted one by one, not in thousands",
        ),
        (
            {"L_ctx": 8000.0},
            "traffic: context_tokens is 8000, less than the prompt's 8192; a request holds its whole prompt in the KV "
            "cache",
        ),
        ({"C": np.zeros(0)}, "traffic: holds no regimes; give at least one"),
        (
            {"r": np.array([0.1, 1.5])},
            "traffic, regime 2: repetitiveness is 1.5; it lies in [0, 1]; a percentage is written as a fraction: 0.015",
        ),
    ],
)
def test_regimes_out_of_range_are_refused(values, message):
    with pytest.raises(InputError) as refusal:
        traffic(**values)
    assert str(refusal.value) == message


def test_all_faults_of_a_regime_at_once():
    with pytest.raises(InputError) as refusal:
        make_regime(
            concurrency=0, prefix_share=2, repetitiveness=-1, prompt_tokens=1, output_tokens=1, context_tokens=1
        )
    assert len(refusal.value.faults) == 3
    with pytest.raises(InputError, match="traffic: concurrency is missing; add it") as refusal:
        make_regime(load=3)
    assert len(refusal.value.faults) == 7


def test_all_faults_of_a_deployment_at_once():
    with pytest.raises(InputError) as refusal:
        replace(
            D,
            hbm_bytes=-1.0,
            parameters_read=1e12,
            precisions=(Precision("a", 0.0, 1.2), Precision("a", 16, 0.5, eta_interval=(0.6, 0.7))),
            speculation=replace(D.speculation, draft_length=2.5, base_match=1.0),
        )
    assert refusal.value.faults == (
        "hbm_bytes is -1; it is a finite number above 0",
        "parameters_read is 1e+12, more than the 2.35e+11 that there are; give what a decode step of a full batch "
        "reads",
        "speculation.draft_length is 2.5; it is a whole number from 1 to 128",
        "speculation.base_match is 1; it is a finite number at least 0 and below 1",
        "precision a is there 2 times; names are unique",
        "precision a: bytes_per_parameter is 0; it is a finite number above 0 and at most 8",
        "precision a: eta is 1.2; it is a finite number above 0 and at most 1; a measured ratio above 1 is "
        "outside this model, where it counts as 1; if it is 1.2 %, write 0.012",
        "precision a: bytes_per_parameter is 16; it is a finite number above 0 and at most 8",
        "precision a: eta_interval is [0.6, 0.7]; it holds eta (0.5) and lies in (0, 1]",
    )
    assert isinstance(D, Deployment)
    with pytest.raises(InputError, match="there is no precision; give at least one"):
        replace(D, precisions=())
    with pytest.raises(InputError, match="precision FP16: quality is missing, and there is a min_quality; add it"):
        replace(D, min_quality=0.5)
