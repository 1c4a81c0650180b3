"""Ends of intervals over resampled clusters, and the p that inverts them, against scipy.stats and by simulation."""

import numpy as np
import pytest
from scipy import stats

from oracle.intervals import interval_ends, two_sided_p


@pytest.mark.parametrize("clusters", [5, 10, 39, 2000])
def test_a_normal_mean_gets_the_interval_of_students_t(clusters: int) -> None:
    """Resamples of a mean are normal about it with the divisor n; the textbook has t and the divisor n - 1."""
    values = np.random.default_rng(1).normal(3.0, 1.0, clusters)
    spread = values.std() / np.sqrt(clusters)
    drawn = values.mean() + spread * stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    low, high = interval_ends(drawn[:, None], clusters)[:, 0]
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=2e-3 * spread)
    at_zero = stats.norm.cdf(-values.mean() / spread)
    assert two_sided_p(at_zero, clusters) == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue, rel=1e-6)


def test_two_clusters_reach_to_the_outermost_draws() -> None:
    drawn = np.random.default_rng(2).normal(size=999)
    assert interval_ends(drawn, 2) == pytest.approx([drawn.min(), drawn.max()], rel=1e-3)


def test_p_is_one_in_the_middle_and_never_above() -> None:
    assert two_sided_p(0.5, 10) == 1.0
    assert two_sided_p(0.8, 10) == 1.0


@pytest.mark.parametrize(("clusters", "least"), [(5, 0.87), (10, 0.91), (40, 0.92)])
def test_skewed_ratios_are_covered(clusters: int, least: float) -> None:
    """1,500 runs covered 91 %, 94 % and 93 %, plain percentiles 81 %, 88 % and 93 %; 400 err by 1.4 points at most."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        weight = rng.gamma(1.0, 1.0, clusters) + 0.1
        value = weight * (1 + 0.3 * rng.standard_normal(clusters))
        drawn = rng.multinomial(clusters, np.full(clusters, 1 / clusters), 999).astype(float)
        low, high = interval_ends((drawn @ value) / (drawn @ weight), clusters)
        covered += low <= 1.0 <= high
    assert least <= covered / 400 <= 0.985
