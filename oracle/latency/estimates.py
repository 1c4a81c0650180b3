"""A coefficient with its clustered errors and interval, as tables and the model file show it."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from oracle.latency.moments import Floats, Integers
from oracle.latency.regression import Fit


@dataclass(frozen=True)
class Estimate:
    """A coefficient; the unit is that of the column it stands in.

    Parameters
    ----------
    value
        The least-squares coefficient.
    error_cr1, error_cr3
        Clustered standard errors: CR1 to compare with other programs, CR3 (leave one cluster out) for the interval.
        None where there is none: one cluster only, or leaving a cluster out leaves the coefficient unknown.
    low, high
        95 % interval, value ± t(G - 1) CR3.
    clusters
        Clusters with rounds at an m where the coefficient acts, G.
    """

    value: float
    error_cr1: float | None
    error_cr3: float | None
    low: float | None
    high: float | None
    clusters: int

    def spans_zero(self) -> bool:
        """Whether there is an interval and it holds 0."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high


@dataclass(frozen=True)
class Estimates:
    """Reported coefficients of one fit with their stacked covariances.

    Parameters
    ----------
    names
        What each coefficient is, for example ``alpha_ms_per_expert[5]``.
    each
        The coefficients, in the order of `names`.
    covariance_cr1, covariance_cr3
        (len(names), len(names)) float64; NaN where there is none.
    """

    names: tuple[str, ...]
    each: tuple[Estimate, ...]
    covariance_cr1: Floats
    covariance_cr3: Floats

    def __getitem__(self, name: str) -> Estimate:
        return self.each[self.names.index(name)]


def estimates_of(fit: Fit, names: tuple[str, ...], report: Floats) -> Estimates:
    """Coefficients ``report @ theta`` with errors.

    Parameters
    ----------
    names, report
        Names and (len(names), P) float64; a row of zeros is a coefficient set to 0, which has no error.
    """
    cr1, cr3 = _carried(report, fit.covariance_cr1()), _carried(report, fit.covariance_cr3())
    used = report != 0
    clusters = np.where(used, fit.clusters_of, np.iinfo(np.int64).max).min(axis=1)
    clusters[~used.any(axis=1)] = 0
    values = report @ fit.theta
    error1, error3 = np.sqrt(np.diagonal(cr1)), np.sqrt(np.diagonal(cr3))
    half = half_widths(error3, clusters)
    each = []
    for i, value in enumerate(values.tolist()):
        some = bool(clusters[i] > 1)
        e1, e3, h = (_number(x[i]) if some else None for x in (error1, error3, half))
        low, high = (None, None) if h is None else (value - h, value + h)
        each.append(Estimate(value, e1, e3, low, high, int(clusters[i])))
    return Estimates(names, tuple(each), cr1, cr3)


def _carried(report: Floats, covariance: Floats) -> Floats:
    """Covariance of report @ theta; NaN only where a row uses a parameter without covariance."""
    missing = np.isnan(np.diagonal(covariance))
    carried = np.asarray(report @ np.where(np.isnan(covariance), 0.0, covariance) @ report.T)
    without = (report[:, missing] != 0).any(axis=1)
    carried[without, :] = carried[:, without] = np.nan
    return carried


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def half_widths(errors: Floats, clusters: Integers, level: float = 0.95) -> Floats:
    """Half-widths of t intervals with (clusters - 1) degrees of freedom; NaN where there are none."""
    freedom = np.maximum(clusters - 1, 1)
    quantile = np.asarray(stdtrit(freedom, 0.5 + level / 2))
    return np.asarray(np.where(clusters > 1, quantile * errors, np.nan))
