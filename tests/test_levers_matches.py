"""Tokens a round and the acceptance it takes: definition, simulation, closed forms, limits, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_levers import simulated_tokens, tokens_a_round

from oracle.errors import InputError
from oracle.levers.matches import READINGS, accept_needed, mean_length

unit = st.floats(0, 1)
lengths = st.integers(1, 24)


@given(unit, lengths)
def test_tokens_a_round_is_the_sum_of_survivals(a, g):
    assert float(mean_length(a, g)) == pytest.approx(tokens_a_round(a, g), rel=1e-13)


@pytest.mark.parametrize("reading", ["stationary", "gated", "renewal"])
@pytest.mark.parametrize(("a", "x", "g"), [(0.3, 0.4, 8), (0.7, 0.2, 4), (0.5, -0.3, 6), (0.15, 0.6, 3)])
def test_chains_agree_with_simulation(reading, a, x, g):
    simulated = simulated_tokens(a, x, g, reading, 200_000, seed=7)
    assert float(mean_length(a, g, reading, x)) == pytest.approx(simulated, abs=0.02)


@given(unit, lengths, st.sampled_from(READINGS))
def test_without_autocorrelation_all_readings_agree(a, g, reading):
    assert float(mean_length(a, g, reading, 0.0)) == pytest.approx(float(mean_length(a, g)), rel=1e-12)


@given(lengths, st.sampled_from(READINGS), st.floats(0, 0.95))
def test_more_acceptance_emits_more(g, reading, x):
    a = np.linspace(0, 1, 101)
    length = mean_length(a, g, reading, x)
    assert (np.diff(length) > -1e-12).all()
    assert length[-1] == pytest.approx(g + 1)


@given(lengths, st.floats(0, 0.95), unit)
def test_a_chain_helps_when_rounds_start_at_the_marginal_only(g, x, a):
    """The source's prediction: true of first-position acceptance, false of the match rate of all tokens."""
    independent = float(mean_length(a, g))
    assert float(mean_length(a, g, "stationary", x)) >= independent - 1e-9
    assert float(mean_length(a, g, "gated", x)) >= float(mean_length(a, g, "stationary", x)) - 1e-9
    assert float(mean_length(a, g, "renewal", x)) <= independent + 1e-9


@given(st.floats(0, 30), lengths, st.sampled_from(READINGS), st.floats(0, 0.95))
def test_the_root_is_where_speculation_begins_to_pay(w, g, reading, x):
    a = float(accept_needed(w, g, reading, x))
    if w > g:
        assert a == math.inf
        return
    assert 0 <= a <= 1
    assert float(mean_length(a, g, reading, x)) >= 1 + w - 1e-9 * (1 + w)
    if a > 1e-9:
        assert float(mean_length(a * (1 - 1e-6), g, reading, x)) <= 1 + w + 1e-9 * (1 + w)


@given(st.floats(0, 24), lengths)
def test_the_root_lies_in_its_bracket(w, g):
    a = float(accept_needed(w, g))
    if w <= g:
        assert max(w / (1 + w), w / g) - 1e-12 <= a <= min(1, w, (w / g) ** (1 / g)) + 1e-12


@pytest.mark.parametrize("w", [0.0, 0.065, 0.5, 1.0])
def test_closed_forms(w):
    assert float(accept_needed(w, 1)) == w
    assert float(accept_needed(w, 2)) == pytest.approx((math.sqrt(1 + 4 * w) - 1) / 2, abs=1e-15)
    assert float(accept_needed(w, math.inf)) == w / (1 + w)
    x = 0.3
    assert float(accept_needed(w, math.inf, "renewal", x)) == w / (1 + w)
    assert float(accept_needed(w, math.inf, "stationary", x)) == pytest.approx(w * (1 - x) / (1 + w * (1 - x)))
    assert float(accept_needed(w, 8, "gated", x)) == pytest.approx(
        max(0.0, (float(accept_needed(w, 8)) - x) / (1 - x)), abs=1e-12
    )
    assert float(mean_length(0.6, math.inf, "renewal", x)) == pytest.approx(1 / 0.4)


def test_limits_are_exact():
    assert float(mean_length(0.0, 8)) == 1.0
    assert float(mean_length(1.0, 8)) == 9.0
    assert float(mean_length(1.0, math.inf)) == math.inf
    for reading in READINGS:
        assert float(accept_needed(8.0, 8, reading, 0.0)) == 1.0
        assert float(accept_needed(0.0, 8, reading, 0.4)) == 0.0
        assert float(accept_needed(np.nextafter(8.0, 9), 8, reading, 0.4)) == math.inf


@given(st.floats(1e-3, 1))
def test_from_eight_draft_tokens_on_the_root_is_nearly_that_of_an_endless_draft(w):
    assert abs(float(accept_needed(w, 8)) - w / (1 + w)) < 1e-3 or w / (1 + w) > 0.45


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_length(1.2, 4), "acceptance is 1.2; a probability lies in [0, 1]"),
        (lambda: mean_length(float("nan"), 4), "acceptance is nan; a probability lies in [0, 1]"),
        (lambda: mean_length(0.5, 2.5), "draft length is 2.5; it is a whole number of at least 1"),
        (lambda: mean_length(0.5, 0), "draft length is 0; it is a whole number of at least 1"),
        (lambda: mean_length(0.5, 4, "renewal", 1.0), "autocorrelation is 1.0; it lies from -1 up to below 1"),
        (
            lambda: mean_length(0.2, 4, "stationary", -0.5),
            "autocorrelation -0.5 is impossible where the acceptance is 0.2: a match would follow with a probability "
            "outside [0, 1]; give a larger one",
        ),
        (lambda: accept_needed(float("nan"), 4), "overhead is nan; it is a number of at least 0"),
        (lambda: accept_needed(-0.1, 4), "overhead is -0.1; it is a number of at least 0"),
        (
            lambda: accept_needed(0.1, 4, "renewal", -0.1),
            "autocorrelation is -0.1; to solve for the acceptance it lies from 0 up to below 1",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError) as refusal:
        call()
    assert str(refusal.value) == message
