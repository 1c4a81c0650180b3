"""Errors of acceptance rates, and mixes of tenants, from their definitions."""

import numpy as np
import pytest

from oracle.acceptance import acceptance_from_text, joined, mixed
from oracle.acceptance.curves import Acceptance, clustered, counted
from oracle.errors import InputError


def test_binomial_errors_from_the_definition() -> None:
    """Variance of the accepted tokens of one round, by enumerating its outcomes, over the rounds."""
    survival = np.array([0.8, 0.5, 0.2])
    chance = -np.diff([1.0, *survival, 0.0])
    accepted = np.arange(4)
    variance = float(chance @ accepted**2 - (chance @ accepted) ** 2)
    curve = counted(survival, 3, None, 50)
    assert curve.covariance is not None
    assert float(curve.covariance.sum()) == pytest.approx(variance / 50)
    assert curve.covariance[0, 0] == pytest.approx(0.8 * 0.2 / 50)


def test_clustered_errors_are_those_of_leaving_one_request_out() -> None:
    rng = np.random.default_rng(5)
    requests = [[(min(int(rng.geometric(0.4)) - 1, 3), 3) for _ in range(rng.integers(3, 9))] for _ in range(12)]
    counts = [
        ([sum(a >= j for a, _ in steps) for j in range(3)], [sum(a >= j for a, _ in steps) for j in range(1, 4)])
        for steps in requests
    ]
    curve = clustered(np.array([r for r, _ in counts], float), np.array([h for _, h in counts], float), 3, None)
    without = []
    for out in range(12):
        kept = [step for i, steps in enumerate(requests) if i != out for step in steps]
        without.append([sum(a >= j for a, _ in kept) / len(kept) for j in (1, 2, 3)])
    expected = 11 / 12 * sum(np.outer(d, d) for d in np.array(without) - np.mean(without, axis=0))
    assert curve.covariance is not None
    np.testing.assert_allclose(curve.covariance, expected, rtol=1e-9)
    assert curve.quantile == pytest.approx(2.200985, abs=1e-6)  # Student's t, 11 degrees of freedom


def test_a_mix_weighs_tenants_by_their_rounds() -> None:
    """Two requests of a and one of b in flight: in each step a emits two rounds and b one. Enumerated."""
    a, b = counted(np.array([0.9, 0.6]), 2, "a", 400), counted(np.array([0.3, 0.0]), 2, "b", 100)
    mix = mixed(Acceptance((a, b)), {"a": 2, "b": 1}).curves[0]
    rounds = [a.mean_length(2), a.mean_length(2), b.mean_length(2)]
    assert mix.mean_length(2) == pytest.approx(sum(rounds) / 3)
    assert a.covariance is not None
    assert b.covariance is not None
    assert mix.covariance is not None
    np.testing.assert_allclose(mix.covariance, 4 / 9 * a.covariance + 1 / 9 * b.covariance)
    assert mixed(Acceptance((a, b))).curves[0].mean_length(2) == pytest.approx((2.5 + 1.3) / 2)


def test_a_mix_holds_the_depths_that_all_tenants_have() -> None:
    a4, b2 = counted(np.array([0.9, 0.6, 0.4, 0.2]), 4, "a", None), counted(np.array([0.3, 0.1]), 2, "b", None)
    mix = mixed(Acceptance((a4, b2)), {"a": 1, "b": 1})
    assert [curve.draft_length for curve in mix.curves] == [2]
    assert "K = 2 of the mix: measured at a longer draft for a" in mix.notes
    assert "K = 4 is left out of the mix: no acceptance at that depth for b" in mix.notes


def test_weights_that_do_not_fit() -> None:
    acceptance = Acceptance((counted(np.array([0.9]), 1, "a", 4), counted(np.array([0.3]), 1, "b", 1)))
    with pytest.raises(InputError, match="tenant weights name a, c; the acceptance is of a, b"):
        mixed(acceptance, {"a": 1, "c": 1})
    with pytest.raises(InputError, match="the weight of tenant b is 0; weights are positive"):
        mixed(acceptance, {"a": 1, "b": 0})


def test_files_joined_under_tenants_names() -> None:
    part = acceptance_from_text("[0.5, 0.4]", "f", "survival")
    assert joined([("a", part), ("b", part)]).tenants == ("a", "b")
    with pytest.raises(InputError, match="acceptance at K = 2 is given twice; keep one, or name tenants"):
        joined([(None, part), (None, part)])
