"""Mean residual along a variable: bins of equal size with clustered intervals, and a slope as a test for a trend."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from oracle.latency.estimates import Estimate, estimates_of
from oracle.latency.linear_form import LinearForm
from oracle.latency.moments import Floats, Integers, moments_of
from oracle.latency.regression import fit_form


@dataclass(frozen=True)
class Bin:
    """Rounds with a value from `low` to `high` (the variable's unit; `low` belongs to the bin, `high` to the next).

    Parameters
    ----------
    low, high, rounds, clusters
        The bin, and what lies in it.
    mean_ms
        Mean residual.
    mean_low_ms, mean_high_ms
        95 % interval, leaving out one cluster at a time (CR3), t; None with one cluster.
    """

    low: float
    high: float
    rounds: int
    clusters: int
    mean_ms: float
    mean_low_ms: float | None
    mean_high_ms: float | None


@dataclass(frozen=True)
class Trend:
    """A straight line through the residuals along the variable.

    Parameters
    ----------
    slope
        Milliseconds per unit of the variable, errors clustered.
    p
        Of no slope, two-sided t with G - 1 degrees of freedom; None without an error.
    rise_percent
        Slope times the distance between the 5th and the 95th percentile of the variable, in percent of the mean
        target_ms: how much the trend matters.
    """

    slope: Estimate
    p: float | None
    rise_percent: float


@dataclass(frozen=True)
class BinnedResiduals:
    """Residuals along one variable.

    Parameters
    ----------
    variable
        A column of the rounds, or ``"row order"`` where the recording order was not recorded.
    held_out
        Whether the residuals are those of the fits without the round's fold.
    bins, trend
        By rising value; the line through all rounds.
    largest_percent
        The bin mean farthest from 0, in percent of the mean target_ms.
    """

    variable: str
    held_out: bool
    bins: tuple[Bin, ...]
    trend: Trend
    largest_percent: float


def quantile_bins(values: Floats, bins: int) -> tuple[Floats, Integers]:
    """Edges of bins of about equal size, (B + 1,), and the bin of each value, (N,)."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)))
    return edges, np.searchsorted(edges[1:-1], values, side="right")


def binned_residuals(
    variable: str,
    values: Floats,
    residuals: Sequence[tuple[bool, Floats]],
    *,
    cluster: Integers,
    clusters: tuple[str, ...],
    mean_target_ms: float,
    bins: int,
) -> tuple[BinnedResiduals, ...]:
    """Bin residuals along a variable.

    Parameters
    ----------
    variable, values
        Name and (N,) values, finite.
    residuals
        Pairs of (held out, (N,) residuals in ms); NaN where a round has no prediction.
    cluster, clusters
        (N,) int64 index of each round's cluster, and the names.
    bins
        How many; fewer where values repeat.
    """
    edges, at = quantile_bins(values, bins)
    low, high = np.quantile(values, (0.05, 0.95))
    found = []
    for held_out, residual in residuals:
        known = ~np.isnan(residual)
        take = slice(None) if known.all() else known
        r, g = residual[take], cluster[take]
        rows = _bin_means(r, at[take], g, len(clusters), edges)
        trend = _trend(values[take], r, g, clusters, (high - low) / mean_target_ms)
        largest = max((row.mean_ms for row in rows), key=abs)
        found.append(BinnedResiduals(variable, held_out, rows, trend, 100 * largest / mean_target_ms))
    return tuple(found)


def _bin_means(residual: Floats, at: Integers, cluster: Integers, clusters: int, edges: Floats) -> tuple[Bin, ...]:
    """Means of bins with CR3 intervals: without cluster g the mean is (S - s_g) / (n - n_g)."""
    B = len(edges) - 1
    key = cluster * B + at
    n = np.bincount(key, minlength=clusters * B).reshape(clusters, B)
    s = np.bincount(key, weights=residual, minlength=clusters * B).reshape(clusters, B)
    rounds, present = n.sum(axis=0), (n > 0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = s.sum(axis=0) / rounds
        moved = np.where(n > 0, (s - mean * n) / (rounds - n), 0.0)
        error = np.sqrt((present - 1) / present * (moved**2).sum(axis=0))
        half = np.asarray(stdtrit(np.maximum(present - 1, 1), 0.975)) * error
    rows = []
    for i in np.flatnonzero(rounds):
        wide = float(half[i]) if present[i] > 1 else None
        middle = float(mean[i])
        ends = (None, None) if wide is None else (middle - wide, middle + wide)
        rows.append(Bin(float(edges[i]), float(edges[i + 1]), int(rounds[i]), int(present[i]), middle, *ends))
    return tuple(rows)


def _trend(values: Floats, residual: Floats, cluster: Integers, clusters: tuple[str, ...], scale: float) -> Trend:
    """Fit residual = a + b value with clustered errors."""
    together = np.ones(len(values), dtype=np.int64)
    moments = moments_of(("value", "residual_ms"), [values, residual], m=together, cluster=cluster, clusters=clusters)
    form = LinearForm(("value",), "residual_ms", ("level", "slope"), {1: np.eye(2)})
    slope = estimates_of(fit_form(moments, form), form.parameters, np.eye(2))["slope"]
    p = None
    if slope.error_cr3:
        p = float(2 * stdtr(slope.clusters - 1, -abs(slope.value) / slope.error_cr3))
    return Trend(slope, p, 100 * slope.value * scale)
