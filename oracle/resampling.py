"""Intervals by resampling clusters: generations, or the larger unit that repeats across them."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from oracle.intervals import Interval, interval_ends
from oracle.traces.schema import AVERAGES

DRAWS = 999
MOST_UNITS = 2_000  # beyond, clusters are resampled in this many random groups: as valid, and time stays bounded
NO_INTERVALS = (
    "no intervals, and no difference is called significant: match probabilities are averages over requests, and "
    "resampling them does not hold their own sampling error; record, or read the table of rates that convert shows, "
    "whose intervals do"
)
_CELLS = 1 << 22  # weights held at a time


def cluster_sums(values: NDArray[np.float64], clusters: Sequence[str]) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Add up rows that share a cluster, in order of first appearance; all are one if averages are among them.

    Parameters
    ----------
    values : (G, …) float64
    clusters
        Cluster of each row, length G.

    Returns
    -------
    (C, …) sums and the C names.
    """
    if AVERAGES in clusters:
        clusters = [AVERAGES] * len(clusters)
    names = tuple(dict.fromkeys(clusters))
    at = {name: i for i, name in enumerate(names)}
    sums = np.zeros((len(names), *values.shape[1:]))
    np.add.at(sums, [at[c] for c in clusters], values)
    return sums, names


def bootstrap(
    totals: NDArray[np.float64],
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    draws: int = DRAWS,
    seed: int = 0,
    holding: Sequence[int] | None = None,
) -> list[Interval | None]:
    """Intervals of statistics that depend on totals over clusters, as `interval_ends` has them.

    Parameters
    ----------
    totals : (C, M) float64
        What each cluster adds to the M totals.
    statistic
        Takes (R, M) totals, gives (R, S) statistics.
    draws
        Resamples of C clusters with replacement.
    seed
        Of the random generator; the same seed gives the same intervals.
    holding
        Clusters that each statistic rests on, S of them, where not all of them hold what it is about.

    Returns
    -------
    One 95 % interval a statistic; None where it rests on fewer than two clusters or a resample is undefined.
    """
    if len(totals) < 2:
        return [None] * statistic(totals.sum(axis=0)[None]).shape[1]
    values = [statistic(sums) for sums in resamples(totals, draws=draws, seed=seed)]
    drawn = np.concatenate(values)
    if holding is None:
        bounds = interval_ends(drawn, len(totals)).T
    else:
        each = zip(drawn.T, holding, strict=True)
        bounds = np.array([interval_ends(column, n) if n > 1 else (np.nan, np.nan) for column, n in each])
    return [Interval(float(a), float(b)) if np.isfinite(a + b) else None for a, b in bounds]


def resamples(totals: NDArray[np.float64], *, draws: int = DRAWS, seed: int = 0) -> Iterator[NDArray[np.float64]]:
    """Totals of resampled clusters, (R, M) at a time, `draws` rows in all; for whoever needs more than percentiles."""
    rng = np.random.default_rng(seed)
    if len(totals) > MOST_UNITS:
        grouped = np.zeros((MOST_UNITS, totals.shape[1]))
        np.add.at(grouped, rng.permutation(len(totals)) % MOST_UNITS, totals)
        totals = grouped
    count = len(totals)
    at_once = max(1, min(draws, _CELLS // count))
    for start in range(0, draws, at_once):
        weights = rng.multinomial(count, np.full(count, 1 / count), size=min(at_once, draws - start))
        yield weights.astype(np.float64) @ totals
