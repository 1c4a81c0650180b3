"""Residuals of the joint fit and of draft times: trends, spread, tails, drift.

In sample, and held out by the fits without the round's fold. With a million rounds every test finds something; each
comes with the size of what it found.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtri

from oracle.latency.diagnostics.draft_residuals import DraftResiduals, draft_residuals
from oracle.latency.diagnostics.drift import BlockDrift, block_drift
from oracle.latency.diagnostics.residual_bins import BinnedResiduals, binned_residuals
from oracle.latency.diagnostics.verified import Verified, held_out_ms, predicted_ms, verified
from oracle.latency.evidence import Evidence
from oracle.latency.forms import REGRESSORS, RESPONSE
from oracle.latency.moments import Floats, moments_of
from oracle.latency.regression import fit_form

BINS = 20
HEAVY_MS = 1.0  # the source counts residuals beyond 1 ms
PROBABILITIES = (0.0005, 0.005, 0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975, 0.995, 0.9995)
BINNED = ("context_len", "kv_usage", "position")
RECORDED = "round_index"


@dataclass(frozen=True)
class Heteroscedasticity:
    """Whether the residuals spread alike everywhere.

    Parameters
    ----------
    lm, degrees, p
        Breusch-Pagan in Koenker's form: n R² of the squared residuals on the regressors of the fit, chi-squared with
        that many degrees of freedom; it takes rounds for independent. p is 0 below 1e-308.
    bottom_sd_ms, top_sd_ms
        Standard deviation of the residuals in the lowest and the highest tenth of the fitted times.
    ratio
        Top over bottom: how much it matters; None where the bottom does not spread.
    """

    lm: float
    degrees: int
    p: float
    bottom_sd_ms: float
    top_sd_ms: float
    ratio: float | None


@dataclass(frozen=True)
class Tails:
    """How the residuals are spread, beside the normal distribution.

    Parameters
    ----------
    held_out, rounds, sd_ms
        Which residuals, how many, and their standard deviation about 0.
    over_1_ms_share, over_3_sd_share
        Shares of rounds with a larger absolute residual (normal: 0.27 % over 3 sd).
    robust_sd_ms, over_3_robust_sd_share
        1.4826 times the median absolute deviation from the median, which a few far rounds do not inflate, and the
        share of rounds farther than three of them from the median.
    largest_ms
        The residual farthest from 0, with its sign.
    quantiles
        (probability, quantile of residual / sd, quantile of the normal distribution); 0 where nothing spreads.
    """

    held_out: bool
    rounds: int
    sd_ms: float
    over_1_ms_share: float
    over_3_sd_share: float
    robust_sd_ms: float
    over_3_robust_sd_share: float
    largest_ms: float
    quantiles: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class Residuals:
    """All residual diagnostics.

    Parameters
    ----------
    rounds, unpredicted
        Rounds of the joint fit, and those without a held-out prediction.
    mean_target_ms
        Mean time, to which percentages refer.
    binned
        For each variable in sample, then held out.
    heteroscedasticity, tails
        Spread; tails in sample, then held out.
    drift
        None with too few rounds.
    draft
        None without draft times.
    notes
        What a reader should know, in words.
    """

    rounds: int
    unpredicted: int
    mean_target_ms: float
    binned: tuple[BinnedResiduals, ...]
    heteroscedasticity: Heteroscedasticity
    tails: tuple[Tails, ...]
    drift: BlockDrift | None
    draft: DraftResiduals | None
    notes: tuple[str, ...]


def residual_diagnostics(evidence: Evidence, *, bins: int = BINS) -> Residuals:
    """Diagnose the residuals.

    Parameters
    ----------
    bins
        Bins of equal size along each variable.

    Raises
    ------
    InputError
        The rounds do not identify the joint fit.
    """
    found = verified(evidence)
    predicted = predicted_ms(evidence, found.by_m)
    rows = np.flatnonzero(~np.isnan(predicted))
    target = evidence.columns[RESPONSE][rows]
    predicted = predicted[rows]
    residual = target - predicted
    kinds = [(False, residual)]
    if evidence.folds:
        kinds.append((True, target - held_out_ms(evidence)[rows]))
    known = [values[~np.isnan(values)] for _, values in kinds]
    index, notes = _recorded(evidence, rows)
    mean_ms = float(target.mean())
    binned, left_out = _binned(evidence, rows, index, kinds, mean_ms, bins)
    return Residuals(
        rounds=len(rows),
        unpredicted=len(rows) - len(known[-1]),
        mean_target_ms=mean_ms,
        binned=tuple(binned),
        heteroscedasticity=_heteroscedasticity(evidence, found, rows, residual, predicted),
        tails=tuple(_tails(held_out, values) for (held_out, _), values in zip(kinds, known, strict=True)),
        drift=block_drift(residual, predicted, index, evidence.cluster[rows]),
        draft=draft_residuals(evidence),
        notes=(*notes, *left_out),
    )


def _binned(
    evidence: Evidence,
    rows: NDArray[Any],
    index: Floats | None,
    kinds: list[tuple[bool, Floats]],
    mean_ms: float,
    bins: int,
) -> tuple[list[BinnedResiduals], list[str]]:
    """Residuals in bins along every variable that was recorded and varies, and which were not or do not."""
    along = {name: evidence.columns[name][rows] for name in BINNED if name in evidence.columns}
    notes = [f"{name}: not recorded" for name in BINNED if name not in along]
    along |= {"row order": np.arange(len(rows), dtype=np.float64)} if index is None else {RECORDED: index}
    found: list[BinnedResiduals] = []
    for name, values in along.items():
        if np.isnan(values).any() or values.min() == values.max():
            notes.append(f"{name}: does not vary, or rounds have no value")
            continue
        found += binned_residuals(
            name,
            values,
            kinds,
            cluster=evidence.cluster[rows],
            clusters=evidence.clusters,
            mean_target_ms=mean_ms,
            bins=bins,
        )
    return found, notes


def _recorded(evidence: Evidence, rows: NDArray[Any]) -> tuple[Floats | None, list[str]]:
    """Recording order of the rounds, if it was recorded for all of them."""
    index = evidence.columns.get(RECORDED)
    if index is None:
        return None, ["round_index was not recorded: the order of the rows stands for the recording order"]
    if np.isnan(index[rows]).any():
        return None, ["some rounds have no round_index: the order of the rows stands for the recording order"]
    return np.asarray(index[rows]), []


def _heteroscedasticity(
    evidence: Evidence, found: Verified, rows: NDArray[Any], residual: Floats, predicted: Floats
) -> Heteroscedasticity:
    """Breusch-Pagan from moments, and the spread in the outer tenths of the fitted times."""
    squared = residual**2
    names = (*REGRESSORS, "squared_residual_ms2")
    columns = [*(evidence.columns[name][rows] for name in REGRESSORS), squared]
    none = np.zeros(len(rows), dtype=np.int64)
    moments = moments_of(names, columns, m=evidence.m[rows], cluster=none, clusters=("all",))
    sse = fit_form(moments, replace(found.chosen.form, response=names[-1])).sse
    apart = squared - squared.mean()
    total = float(apart @ apart)
    lm = len(rows) * (1 - sse / total) if total > 0 else 0.0
    degrees = len(found.fit.theta) - 1
    low, high = np.quantile(predicted, (0.1, 0.9))
    bottom, top = (float(residual[at].std()) for at in (predicted <= low, predicted >= high))
    ratio = top / bottom if bottom > 0 else None
    return Heteroscedasticity(lm, degrees, float(chdtrc(degrees, lm)), bottom, top, ratio)


def _tails(held_out: bool, residual: Floats) -> Tails:
    """Shares and quantiles of residuals."""
    sd = float(np.sqrt(residual @ residual / len(residual)))
    size = np.abs(residual)
    apart = np.abs(residual - np.median(residual))
    robust_sd = float(np.median(apart)) / float(ndtri(0.75))
    quantiles = np.quantile(residual, PROBABILITIES) / (sd if sd > 0 else 1.0)
    return Tails(
        held_out,
        len(residual),
        sd,
        float((size > HEAVY_MS).mean()),
        float((size > 3 * sd).mean()),
        robust_sd,
        float((apart > 3 * robust_sd).mean()),
        float(residual[size.argmax()]),
        tuple(zip(PROBABILITIES, quantiles.tolist(), ndtri(PROBABILITIES).tolist(), strict=True)),
    )
