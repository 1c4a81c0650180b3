"""Intervals of what was resampled, and the p values that invert them."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

LEVEL = 0.95
FEW_CLUSTERS = 10  # below, intervals of resampled clusters cover less than they say
FEW = "few clusters"
NOT_SIGNIFICANT = "not significant"


@dataclass(frozen=True)
class Interval:
    """A two-sided 95 % interval; `low` and `high` in the statistic's unit."""

    low: float
    high: float


def doubt_about(interval: Interval | None, clusters: int) -> str:
    """What speaks against claiming a difference: `few clusters`, `not significant`; "" if nothing does.

    The one rule for all: a difference is significant where `FEW_CLUSTERS` clusters or more were resampled and its
    interval leaves 0 out.

    Parameters
    ----------
    interval
        95 % interval of the difference; None where a resample is undefined or there is one cluster.
    clusters
        How many were resampled.
    """
    if clusters < FEW_CLUSTERS:
        return FEW
    return NOT_SIGNIFICANT if interval is None or interval.low <= 0 <= interval.high else ""


def interval_ends(drawn: NDArray[np.float64], clusters: int) -> NDArray[np.float64]:
    """Expanded percentiles of resampled statistics: the ends of their 95 % intervals.

    Resamples of n clusters vary (n - 1) / n times as much as samples do, and plain percentiles know nothing of
    Student's t: of ratios of skewed sums they cover 88 % with 10 clusters and 81 % with 5, these 94 % and 91 %.
    Hesterberg, "What teachers should know about the bootstrap", The American Statistician 69 (2015), section 5.

    Parameters
    ----------
    drawn : (R, …) float64
        The statistics of each resample.
    clusters
        n >= 2, how many were resampled.

    Returns
    -------
    (2, …) lower and upper ends.
    """
    tail = 100 * float(ndtr(stdtrit(clusters - 1, (1 - LEVEL) / 2) / sqrt(1 - 1 / clusters)))
    ends: NDArray[np.float64] = np.percentile(drawn, [tail, 100 - tail], axis=0)
    return ends


def two_sided_p(share: float, clusters: int) -> float:
    """The p value that inverts `interval_ends`.

    Parameters
    ----------
    share
        Of resamples on the rarer side of the hypothesis, above 0.
    clusters
        n >= 2, how many were resampled.
    """
    return min(1.0, 2 * float(stdtr(clusters - 1, sqrt(1 - 1 / clusters) * ndtri(share))))
