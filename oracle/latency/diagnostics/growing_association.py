"""The third hypothesis of the source: as the budget grows, unique experts gain on context length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oracle.intervals import FEW_CLUSTERS, interval_ends
from oracle.latency.diagnostics.factors import StandardisedRow, standardised_by_m
from oracle.latency.diagnostics.verdicts import (
    CONTRADICTED,
    NOT_SUPPORTED,
    SUPPORTED,
    UNTESTABLE,
    Verdict,
    span,
)
from oracle.latency.estimates import Estimate
from oracle.latency.evidence import Evidence
from oracle.latency.forms import COLLINEAR, REGRESSORS, RESPONSE
from oracle.latency.moments import Floats, Moments

DRAWS = 999
FEWEST_BUDGETS = 3  # two make a difference, not a trend


@dataclass(frozen=True)
class GrowingAssociation:
    """H3.

    Parameters
    ----------
    verdict, sentence
        What may be said.
    rows
        Standardised coefficients of U and L at each budget.
    ks
        The budgets where both are identified.
    trend, low, high
        Change per draft token of (standardised coefficient of U - that of L), least squares over the budgets, and its
        95 % interval over resamples of clusters. None where it was not tested.
    trend_of_sizes
        The same of the coefficients' absolute values, in the sample.
    draws, undefined
        Resamples, and how many of them did not identify every coefficient (left out of the interval).
    """

    verdict: Verdict
    sentence: str
    rows: tuple[StandardisedRow, ...]
    ks: tuple[int, ...]
    trend: float | None = None
    low: float | None = None
    high: float | None = None
    trend_of_sizes: float | None = None
    draws: int = 0
    undefined: int = 0


def growing_association(evidence: Evidence, *, draws: int = DRAWS, seed: int = 0) -> GrowingAssociation:
    """Judge H3.

    Supported: the trend of the difference lies above 0 with its whole interval, the same difference of absolute values
    grows too (a coefficient of L that falls below 0 is not a weaker one), and at the largest budget U has an
    association to speak of (interval above 0). Contradicted: the interval of the trend lies below 0.

    Parameters
    ----------
    draws, seed
        Resamples of whole clusters, and the seed of the random generator.
    """
    rows = standardised_by_m(evidence)
    both = [row for row in rows if row.unique_experts is not None and row.context_len is not None]
    ks = tuple(row.k for row in both)
    why = None
    still = [name for name in REGRESSORS if evidence.left_out.get(name) == "does not vary"]
    if still:
        why = f"{' and '.join(still)} {'does' if len(still) == 1 else 'do'} not vary"
    elif len(ks) < FEWEST_BUDGETS:
        why = f"both coefficients are identified at {_counted(len(ks), 'budget')}; a trend needs {FEWEST_BUDGETS}"
    elif len(evidence.clusters) < FEW_CLUSTERS:
        why = f"{_counted(len(evidence.clusters), 'cluster')}; resampling needs at least {FEW_CLUSTERS}"
    if why is not None:
        return GrowingAssociation(UNTESTABLE, f"H3 cannot be tested: {why}.", rows, ks)
    ms = [k + 1 for k in ks]
    G = len(evidence.clusters)
    weights = np.random.default_rng(seed).multinomial(G, np.full(G, 1 / G), size=draws).astype(np.float64)
    moments = evidence.moments.of((*REGRESSORS, RESPONSE))
    sample = standardised_under(moments, ms, np.ones((1, G)))
    resampled = _trend(ks, standardised_under(moments, ms, weights))
    defined = resampled[np.isfinite(resampled)]
    if len(defined) < 0.95 * draws:
        why = f"{draws - len(defined)} of {draws} resamples of clusters do not identify every coefficient"
        return GrowingAssociation(UNTESTABLE, f"H3 cannot be tested: {why}.", rows, ks)
    trend, sizes = float(_trend(ks, sample)[0]), float(_trend(ks, np.abs(sample))[0])
    low, high = (float(bound) for bound in interval_ends(defined, G))
    verdict, reason = _third_verdict((low, high), sizes, both[-1])
    first, last = both[0], both[-1]
    sentence = (
        f"From K = {first.k} to {last.k} the standardised coefficient of unique experts goes from "
        f"{_value(first.unique_experts)} to {_value(last.unique_experts)} and that of context length from "
        f"{_value(first.context_len)} to {_value(last.context_len)}; their difference changes by {trend:+.3g} "
        f"{span(low, high)} a draft token: {reason}."
    )
    return GrowingAssociation(verdict, sentence, rows, ks, trend, low, high, sizes, draws, draws - len(defined))


def standardised_under(moments: Moments, ms: Sequence[int], weights: Floats) -> Floats:
    """Standardised coefficients of U and L with the clusters counted `weights` times.

    Parameters
    ----------
    moments
        Of U, L and T, by (cluster, m).
    weights
        (B, G) float64 >= 0.

    Returns
    -------
    (B, len(ms), 2) float64; NaN where a draw does not identify them.
    """
    out = np.full((len(weights), len(ms), 2), np.nan)
    totals = moments.by_m()
    for i, m in enumerate(ms):
        cells = moments.where(moments.m == m)
        apart = cells.shifted_mean - totals.shifted_mean[totals.m == m]
        first = cells.n[:, None] * apart
        second = cells.comoment + first[:, :, None] * apart[:, None, :]
        counted = weights[:, cells.cluster]
        n, sums = counted @ cells.n, counted @ first
        squares = (counted @ second.reshape(len(second), -1)).reshape(-1, 3, 3)
        with np.errstate(divide="ignore", invalid="ignore"):
            squares -= sums[:, :, None] * sums[:, None, :] / n[:, None, None]
            scale = 1 / np.sqrt(np.diagonal(squares, axis1=1, axis2=2))
            r = squares * scale[:, :, None] * scale[:, None, :]
            left = 1 - r[:, 0, 1] ** 2
            found = np.stack([r[:, 0, 2] - r[:, 0, 1] * r[:, 1, 2], r[:, 1, 2] - r[:, 0, 1] * r[:, 0, 2]], axis=1)
            found /= left[:, None]
        out[:, i] = np.where((left > COLLINEAR)[:, None], found, np.nan)
    return out


def _trend(ks: Sequence[int], standardised: Floats) -> Floats:
    """(B,) slope over k of the coefficient of U minus that of L."""
    k = np.array(ks, dtype=np.float64)
    k -= k.mean()
    return np.asarray((standardised[:, :, 0] - standardised[:, :, 1]) @ k / (k @ k))


def _third_verdict(interval: tuple[float, float], sizes: float, last: StandardisedRow) -> tuple[Verdict, str]:
    if interval[1] < 0:
        return CONTRADICTED, "unique experts lose on context length as the budget grows"
    if interval[0] <= 0:
        return NOT_SUPPORTED, "no trend can be told from none"
    experts = last.unique_experts
    if experts is None or experts.low is None or experts.low <= 0:
        return NOT_SUPPORTED, f"but at K = {last.k} unique experts have no association to speak of"
    if sizes <= 0:
        return NOT_SUPPORTED, "but only because the coefficient of context length falls below 0, not because it weakens"
    return SUPPORTED, "unique experts gain on context length as the budget grows"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _value(estimate: Estimate | None) -> str:
    return "none" if estimate is None else f"{estimate.value:.2f}"
