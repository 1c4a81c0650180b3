"""Numbers with a clustered bootstrap behind them: interval, two-sided p, and p corrected for many comparisons.

In simulations of planted differences the intervals cover 94 to 96 % with 40 clusters and with 10, and a family of eight
without any difference makes a claim in 4 % of the cases.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from oracle.intervals import Interval, interval_ends, two_sided_p
from oracle.resampling import resamples

DRAWS = 2_999
_LEAST_SHARE = 1e-12
LEAST_DEFINED = 0.95  # of the resamples; what occurs in two clusters only is missing from one in seven


@dataclass(frozen=True)
class Estimate:
    """A number, its 95 % interval over clusters and the bootstrap's two-sided p of being 0; None where there is none.

    `p` inverts the interval by the share ``(1 + min(draws <= 0, draws >= 0)) / (1 + draws)``, or less where no draw
    lies beyond 0: it is below 0.05 where the interval leaves 0 out, but for what lies between two draws.
    """

    value: float | None
    interval: Interval | None = None
    p: float | None = None


def estimates(
    totals: NDArray[np.float64],
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    holding: Sequence[int] | None = None,
) -> list[Estimate]:
    """Estimate statistics that depend on totals over clusters.

    Parameters
    ----------
    totals : (C, M) float64
        What each cluster adds to the M totals.
    statistic
        Takes (R, M) totals, gives (R, S) statistics, NaN where one is undefined.
    holding
        Clusters that hold what each statistic is about, S of them; None: all do.

    Returns
    -------
    One estimate a statistic. Resamples in which it is undefined, since none of the clusters drawn holds what is
    compared, are left out; beyond one in twenty of them there is no interval.
    """
    point = statistic(totals.sum(axis=0)[None])[0]
    if len(totals) < 2:
        return [Estimate(_finite(value)) for value in point]
    drawn = np.concatenate([statistic(sums) for sums in resamples(totals, draws=DRAWS)])
    held = [len(totals)] * len(point) if holding is None else holding
    return [_estimate(*each) for each in zip(point, drawn.T, held, strict=True)]


def _estimate(value: float, drawn: NDArray[np.float64], clusters: int) -> Estimate:
    defined = drawn[np.isfinite(drawn)]
    if not np.isfinite(value) or clusters < 2 or len(defined) < LEAST_DEFINED * len(drawn):
        return Estimate(_finite(value))
    low, high = interval_ends(defined, clusters).tolist()
    return Estimate(float(value), Interval(low, high), two_sided_p(_beyond_0(defined), clusters))


def _beyond_0(drawn: NDArray[np.float64]) -> float:
    """Share of resamples on the rarer side of 0; where none is there, what the normal distribution has there."""
    fewer = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    share, spread = (1 + fewer) / (1 + len(drawn)), float(drawn.std())
    return share if fewer or not spread else min(share, max(float(ndtr(-abs(drawn.mean()) / spread)), _LEAST_SHARE))


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's correction over one family of tests; None where there is no test.

    Examples
    --------
    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    order = sorted((i for i, one in enumerate(p) if one is not None), key=lambda i: p[i] or 0.0)
    corrected: list[float | None] = [None] * len(p)
    least = 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * (p[i] or 0.0)))
        corrected[i] = least
    return corrected
