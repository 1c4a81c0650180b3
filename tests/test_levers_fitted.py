"""eta, overhead and autocorrelation from measurements: given back, refused, and against numpy's least squares."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from levers_strategies import example

from oracle.errors import InputError
from oracle.levers.fitted import Measured, fit_autocorrelation, fit_eta, fit_overhead, with_fitted

D = example()


def measured(deployment, batches=(16, 64, 200), noise=0.0, seed=0):
    """Steps of the model itself, with relative noise on what speculation adds."""
    rng = np.random.default_rng(seed)
    rows = []
    for p, B in itertools.product(deployment.precisions, batches):
        step = deployment.read_ms_per_byte * p.bytes_per_parameter
        how = deployment.speculation
        added = (
            how.round_host_ms + step * p.kappa * how.draft_length / how.reference_draft_length * B / how.verify_batch
        )
        rows.append(Measured(p.name, B, None, step, step + added * (1 + noise * rng.standard_normal())))
    return rows


def test_overhead_is_given_back():
    found = fit_overhead(D, measured(D))
    assert found.round_host_ms == pytest.approx(D.speculation.round_host_ms, rel=1e-9)
    assert found.verify_batch == pytest.approx(640, rel=1e-9)
    assert (found.n, found.residual_ms) == (9, pytest.approx(0, abs=1e-12))
    noisy = fit_overhead(D, measured(D, batches=tuple(range(16, 400, 8)), noise=0.05))
    assert noisy.verify_batch == pytest.approx(640, rel=0.05)
    assert fit_overhead(D, measured(D)[:1]) is None


def test_eta_is_given_back_with_its_interval():
    """95 % intervals hold the true eta in about 95 % of binomial samples."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        rates = [rng.binomial(2000, 0.5 * eta) / 2000 for eta in (1.0, 0.7)]
        rows = [Measured(n, acceptance=a, rounds=2000) for n, a in zip(("FP16", "NVFP4"), rates, strict=True)]
        low, high = fit_eta(D, rows)[1].interval
        held += low <= 0.7 <= high
    assert 0.92 < held / 400 < 0.98
    uncounted = fit_eta(D, [Measured("FP16", acceptance=0.4), Measured("NVFP4", survival=(0.3, 0.1))])
    assert [(each.eta, each.interval, each.rounds) for each in uncounted] == [(1.0, None, 0), (0.3 / 0.4, None, 0)]
    used = with_fitted(D, uncounted, None)
    assert [p.eta for p in used.precisions] == [1.0, 0.97, 0.3 / 0.4]
    assert fit_eta(D, [Measured("FP16", acceptance=0.4)]) == ()


def test_autocorrelation_is_given_back():
    a, x = 0.4, 0.3
    p11 = a + x * (1 - a)
    (chain,) = fit_autocorrelation([Measured("FP16", survival=tuple(a * p11**j for j in range(5)))])
    assert (chain.first, chain.autocorrelation) == (a, pytest.approx(x))
    assert fit_autocorrelation([Measured("FP16", survival=(0.4,))]) == ()


NO_GROWTH = (
    "measured step times do not grow with the batch by speculation, which this model cannot hold; check that "
    "step_on_ms is a whole round and step_off_ms a step without speculation, at the same batch size"
)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [Measured("FP16", 32, None, 7.0, 7.5), Measured("FP16", 32, None, 7.0, 7.6)],
            "step times with and without speculation were measured where verification weighs the same; measure at "
            "another batch size, to tell it from host work",
        ),
        (
            [Measured("FP16", 32, None, 7.0, 6.5), Measured("FP16", 64, None, 7.0, 6.0)],
            NO_GROWTH,
        ),
        *(  # the slope is 0, and what is computed of it rounding
            ([Measured("FP16", B, None, off, on) for B in batches], NO_GROWTH)
            for off, on in ((10.0, 10.0), (10.0, 12.0), (7.3, 7.4), (0.1, 0.3))
            for batches in ((8, 32), (3, 7, 11, 200))
        ),
    ],
)
def test_measurements_that_cannot_tell(rows, message):
    with pytest.raises(InputError) as refusal:
        fit_overhead(D, rows)
    assert str(refusal.value) == message


@given(
    st.lists(st.tuples(st.integers(1, 500), st.floats(0.1, 3)), min_size=2, max_size=8, unique_by=lambda row: row[0])
)
@settings(max_examples=50, deadline=None)
def test_the_line_is_numpy_s_or_none(added):
    """Against another library's least squares; what it calls growth beyond the floor is fitted, anything else not."""
    rows = [Measured("FP16", B, None, 7.0, 7.0 + each) for B, each in added]
    how, p = D.speculation, D.named("FP16")
    unit = D.read_ms_per_byte * p.bytes_per_parameter * p.kappa * how.draft_length / how.reference_draft_length
    x, y = np.array([unit * B for B, _ in added]), np.array([each for _, each in added])
    slope, host = np.polynomial.polynomial.polyfit(x, y, 1)[::-1]
    growth = slope * np.ptp(x) / (7.0 + y.max())
    assume(abs(growth - 1e-6) > 1e-8)
    assume(abs(host) > 1e-6)
    if host < 0:
        slope, host = np.linalg.lstsq(x[:, None], y, rcond=None)[0][0], 0.0
    if growth < 1e-6:
        with pytest.raises(InputError):
            fit_overhead(D, rows)
        return
    found = fit_overhead(D, rows)
    assert found.round_host_ms == pytest.approx(host, rel=1e-6, abs=1e-9)
    assert found.verify_batch == pytest.approx(1 / slope, rel=1e-6)


def test_time_proportional_to_the_batch_asks_for_no_negative_host_work():
    """Host time 0 up to rounding, of either sign, is none: not held, and with its intervals."""
    for B_v in (3.0, 7.0, 640.0, 1000.0):
        how = replace(D.speculation, round_host_ms=0.0, verify_batch=B_v)
        found = fit_overhead(D, measured(replace(D, speculation=how)))
        assert (found.is_held, found.host_interval is not None) == (False, True)
        assert found.round_host_ms == pytest.approx(0.0, abs=1e-9)
        assert found.verify_batch == pytest.approx(B_v)


def test_measurements_of_unknown_precisions_or_without_a_match():
    with pytest.raises(InputError) as refusal:
        fit_eta(D, [Measured("INT4", acceptance=0.5)])
    assert str(refusal.value) == "'INT4' is not a precision of this deployment; it has FP16, FP8, NVFP4"
    with pytest.raises(InputError) as refusal:
        fit_eta(D, [Measured("FP16", acceptance=0.0), Measured("FP8", acceptance=0.1)])
    assert str(refusal.value) == "FP16: acceptance is 0, so no eta can be measured against it"


def test_an_eta_above_one_is_kept_and_counts_as_one():
    rows = [Measured("FP16", acceptance=0.5, rounds=1000), Measured("NVFP4", acceptance=0.6, rounds=1000)]
    found = fit_eta(D, rows)[1]
    assert (found.eta, found.is_outside) == (pytest.approx(1.2), True)
    assert found.interval is not None
    assert found.interval[0] < 1.2 < found.interval[1]
    used = with_fitted(D, [found], None).named("NVFP4")
    assert used.eta == 1.0
    assert used.eta_interval is not None
    assert used.eta_interval[1] == 1.0
