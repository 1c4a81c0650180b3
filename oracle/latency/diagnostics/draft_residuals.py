"""How well a line describes draft times, and how their residuals are spread."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.latency import draft as drafting
from oracle.latency.estimates import Estimate, Estimates, estimates_of
from oracle.latency.evidence import Evidence
from oracle.latency.linear_form import LinearForm
from oracle.latency.metrics import Coefficients
from oracle.latency.moments import Floats, Integers, Moments, moments_of
from oracle.latency.regression import fit_form

HEAVY_MS = 1.0  # the source counts residuals beyond 1 ms
VISIBLE_PERCENT = 1.0  # a bend that moves no mean by more than this is not worth a word


@dataclass(frozen=True)
class DraftResiduals:
    """Draft times at k >= 1 against the line a k + b, and against a table of means.

    Parameters
    ----------
    rounds
        Rounds with a positive draft_ms.
    zero_share
        Share of rounds with k >= 1 whose draft_ms is 0 or less (left out of everything else).
    line
        a (``ms_per_token``) and b (``base_ms``); None with one draft length.
    rows
        Means by k with the line's deviation.
    mean_deviation_percent, worst_deviation_percent, worst_k
        Of the line from the means: mean absolute, the largest (line minus mean) and where; None without a line.
    line_r2
        Of single rounds about the line, in sample.
    line_medape_percent, table_medape_percent
        Median absolute percentage error of held-out rounds; None without folds.
    over_1_ms_share, over_3_sd_share
        Shares of rounds with a larger absolute residual from the table (normal: 0.27 % over 3 sd).
    sd_ms
        Standard deviation of those residuals.
    curvature
        Coefficient of k² in a parabola, ms; None with fewer than three draft lengths.
    shape
        ``"concave"`` or ``"convex"`` where the interval of the curvature leaves out 0 and the line is off by more than
        1 % of the mean somewhere, ``"straight"`` otherwise; None where it cannot be told.
    """

    rounds: int
    zero_share: float
    line: Estimates | None
    rows: tuple[drafting.DraftRow, ...]
    mean_deviation_percent: float | None
    worst_deviation_percent: float | None
    worst_k: int | None
    line_r2: float | None
    line_medape_percent: float | None
    table_medape_percent: float | None
    over_1_ms_share: float
    over_3_sd_share: float
    sd_ms: float
    curvature: Estimate | None
    shape: Literal["concave", "convex", "straight"] | None


def draft_residuals(evidence: Evidence) -> DraftResiduals | None:
    """Diagnose draft times; None where no round with k >= 1 has one."""
    times = evidence.columns.get("draft_ms")
    drafts = evidence.m > 1
    if times is None or not drafts.any():
        return None
    rows = np.flatnonzero(drafts & (times > 0))
    zero_share = 1 - len(rows) / int(drafts.sum())
    ms = np.unique(evidence.m[rows])
    if len(rows) <= len(ms):
        return None
    m, t = evidence.m[rows], times[rows]
    moments = moments_of((drafting.RESPONSE,), [t], m=m, cluster=evidence.cluster[rows], clusters=evidence.clusters)
    fit = drafting.fit_draft(moments, "table", np.zeros(0))
    means = np.zeros(int(ms[-1]) + 1)
    means[ms] = [row.mean_ms.value for row in fit.rows]
    residual = t - means[m]
    sd = float(np.sqrt(residual @ residual / len(residual)))
    worst = max(
        (row for row in fit.rows if row.deviation_percent is not None),
        key=lambda row: abs(row.deviation_percent or 0.0),
        default=None,
    )
    line_r2 = None
    if fit.line is not None:
        off = t - (fit.line.each[0].value * (m - 1) + fit.line.each[1].value)
        about = t - t.mean()
        line_r2 = 1 - float(off @ off) / float(about @ about) if about.any() else None
    curvature = _curvature(moments)
    worst_percent = None if worst is None else worst.deviation_percent
    size = np.abs(residual)
    return DraftResiduals(
        rounds=len(rows),
        zero_share=zero_share,
        line=fit.line,
        rows=fit.rows,
        mean_deviation_percent=fit.mean_deviation_percent,
        worst_deviation_percent=worst_percent,
        worst_k=None if worst is None else worst.k,
        line_r2=line_r2,
        line_medape_percent=_held_out_medape(evidence, moments, m, t, rows, drafting.line_by_m) if fit.line else None,
        table_medape_percent=_held_out_medape(evidence, moments, m, t, rows, drafting.table_by_m),
        over_1_ms_share=float((size > HEAVY_MS).mean()),
        over_3_sd_share=float((size > 3 * sd).mean()) if sd > 0 else 0.0,
        sd_ms=sd,
        curvature=curvature,
        shape=_shape(curvature, worst_percent),
    )


def _held_out_medape(
    evidence: Evidence,
    moments: Moments,
    m: Integers,
    times: Floats,
    rows: NDArray[Any],
    by_m: Callable[[Moments], Coefficients],
) -> float | None:
    """Median absolute percentage error of the rounds by fits without their fold."""
    if not evidence.folds:
        return None
    table = np.full((evidence.folds, int(m.max()) + 1), np.nan)
    for f in range(evidence.folds):
        rest = moments.of_clusters(evidence.fold != f)
        try:
            known = by_m(rest) if rest.rounds else {}
        except InputError:
            continue  # one draft length in the other folds: no line to predict with
        for each, value in known.items():
            if each < table.shape[1]:
                table[f, each] = value[0]
    percent = 100 * np.abs(table[evidence.fold_of_round[rows], m] / times - 1)
    percent = percent[~np.isnan(percent)]
    return float(np.median(percent)) if len(percent) else None


def _curvature(moments: Moments) -> Estimate | None:
    """Coefficient of k² with clustered errors."""
    ms = moments.ms
    if len(ms) < 3:
        return None
    matrices = {m: np.array([[1.0, m - 1.0, (m - 1.0) ** 2]]) for m in ms}
    form = LinearForm((), drafting.RESPONSE, ("level", "slope", "curvature"), matrices)
    return estimates_of(fit_form(moments, form), form.parameters, np.eye(3))["curvature"]


def _shape(curvature: Estimate | None, worst_percent: float | None) -> Literal["concave", "convex", "straight"] | None:
    if curvature is None or curvature.low is None or worst_percent is None:
        return None
    if curvature.spans_zero() or abs(worst_percent) <= VISIBLE_PERCENT:
        return "straight"
    return "concave" if curvature.value < 0 else "convex"
