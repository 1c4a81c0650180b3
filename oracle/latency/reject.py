"""Time of rejection sampling: one mean over all rounds that draft, and whether it holds at each draft length."""

from dataclasses import dataclass

import numpy as np

from oracle.latency.estimates import Estimate, estimates_of, half_widths
from oracle.latency.linear_form import LinearForm
from oracle.latency.moments import Moments
from oracle.latency.regression import fit_form

RESPONSE = "reject_ms"
LEVEL = 0.95


@dataclass(frozen=True)
class RejectRow:
    """Rejection time at one draft length k.

    Parameters
    ----------
    k, rounds
        Draft length and its rounds.
    mean_ms
        Mean with clustered errors.
    """

    k: int
    rounds: int
    mean_ms: Estimate


@dataclass(frozen=True)
class RejectFit:
    """Rejection time of rounds with k >= 1.

    Parameters
    ----------
    mean_ms
        Mean over all rounds, what a model carries.
    rows
        By rising k.
    differs_at
        The k whose mean differs from the mean over all by more than its error: the 95 % interval of the difference,
        widened for the number of k compared (Bonferroni), leaves out 0.
    """

    mean_ms: Estimate
    rows: tuple[RejectRow, ...]
    differs_at: tuple[int, ...]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know, in words."""
        if not self.differs_at:
            return ()
        low, high = (pick(self.rows, key=lambda row: row.mean_ms.value) for pick in (min, max))
        return (
            f"reject_ms varies with draft length by more than its error: {low.mean_ms.value:.4g} ms at k = {low.k}, "
            f"{high.mean_ms.value:.4g} ms at k = {high.k}; the model carries the mean over all rounds, "
            f"{self.mean_ms.value:.4g} ms",
        )


def fit_reject(moments: Moments) -> RejectFit | None:
    """Fit rejection time.

    Parameters
    ----------
    moments
        Moments of reject_ms at k >= 1.

    Returns
    -------
    RejectFit or None
        None where no round holds it. Without errors and rows where there are no more rounds than draft lengths.
    """
    if not moments.rounds:
        return None
    ms = moments.ms
    if moments.rounds <= len(ms):
        value = float(moments.n @ moments.mean[:, 0] / moments.n.sum())
        return RejectFit(Estimate(value, None, None, None, None, len(np.unique(moments.cluster))), (), ())
    one = LinearForm((), RESPONSE, (RESPONSE,), {m: np.ones((1, 1)) for m in ms})
    mean = estimates_of(fit_form(moments, one), one.parameters, np.eye(1)).each[0]
    eye = np.eye(len(ms))
    each = LinearForm(
        (), RESPONSE, tuple(f"reject_ms[{m - 1}]" for m in ms), {m: eye[i : i + 1] for i, m in enumerate(ms)}
    )
    fit = fit_form(moments, each)
    means = estimates_of(fit, each.parameters, eye)
    n = moments.by_m().n
    rows = tuple(RejectRow(m - 1, round(n[i]), means.each[i]) for i, m in enumerate(ms))
    apart = estimates_of(fit, each.parameters, eye - n / n.sum())
    differs = []
    for m, e in zip(ms, apart.each, strict=True):
        error = np.array(np.nan if e.error_cr3 is None else e.error_cr3)
        wide = half_widths(error, np.array(e.clusters), 1 - (1 - LEVEL) / len(ms))
        if len(ms) > 1 and abs(e.value) > wide:
            differs.append(m - 1)
    return RejectFit(mean, rows, tuple(differs))
