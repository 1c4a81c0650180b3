"""How well one slope separates the extensions an oracle makes from those it refuses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.condition.extensions import ACCEPTED, EDGES, REFUSED, VISITS, ConditionTally
from oracle.intervals import Interval
from oracle.resampling import bootstrap

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Separation:
    """The slope that separates made and refused extensions best.

    Attributes
    ----------
    slope_ms, slope_interval
        λ, milliseconds an expected token; one of `EDGES`, so known to 1.2 %. Chosen anew in every resample.
    error, error_interval
        Share of extensions on the wrong side of the best λ, chosen anew in every resample.
    refused_made, accepted_left
        Its parts: refused ones that λ would make, accepted ones that it would not.
    accepted_share
        Share of extensions that the oracle makes; always the larger of it and its complement is right without
        looking, so the error of not looking is the smaller one.
    auc
        Chance that an accepted extension has a lower ratio than a refused one, ties counted half.
    """

    slope_ms: float
    slope_interval: Interval | None
    error: float
    error_interval: Interval | None
    refused_made: float
    accepted_left: float
    accepted_share: float
    auc: float

    @property
    def error_unseen(self) -> float:
        """Error of always, or never, drafting on: what any slope must beat."""
        return min(self.accepted_share, 1 - self.accepted_share)


def separate(tally: ConditionTally, weight: int = VISITS) -> Separation | None:
    """Find the slope with the fewest extensions on the wrong side; None if nothing was accepted or refused."""
    counts = tally.counts[:, weight]
    whole = counts.sum(axis=0)
    if not (whole.sum(axis=1) > 0).all():
        return None
    per_unit = counts.reshape(len(counts), -1)
    intervals = bootstrap(per_unit, _best)
    at, error = _wrong(whole[None])
    made = whole[:, : at[0] + 1].sum(axis=1)
    everything = float(whole.sum())
    refused, accepted = whole[REFUSED], whole[ACCEPTED]
    below = np.cumsum(accepted) - accepted / 2
    return Separation(
        slope_ms=float(EDGES[at[0]]),
        slope_interval=intervals[0],
        error=float(error[0]),
        error_interval=intervals[1],
        refused_made=float(made[REFUSED]) / everything,
        accepted_left=float(accepted.sum() - made[ACCEPTED]) / everything,
        accepted_share=float(accepted.sum()) / everything,
        auc=float((refused * below).sum() / (refused.sum() * accepted.sum())),
    )


def _wrong(counts: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Index of the best edge and its error, for counts (R, 2, BINS); the lowest of equally good ones."""
    made = np.cumsum(counts, axis=2)[:, :, :-1]
    wrong = made[:, REFUSED] - made[:, ACCEPTED] + counts[:, ACCEPTED].sum(axis=1, keepdims=True)
    at = wrong.argmin(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return at, wrong[np.arange(len(at)), at] / counts.sum(axis=(1, 2))


def _best(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    at, error = _wrong(sums.reshape(len(sums), 2, -1))
    return np.column_stack([EDGES[at], error])


def quantiles(counts: NDArray[np.float64], shares: Sequence[float] = QUANTILES) -> list[float]:
    """Quantiles of binned values, to half a bin (0.6 %); 0 for the lowest bin, inf for the highest, NaN if empty."""
    whole = counts.sum()
    if whole == 0:
        return [float("nan")] * len(shares)
    values = np.concatenate([[0.0], np.sqrt(EDGES[1:] * EDGES[:-1]), [np.inf]])
    at = np.searchsorted(np.cumsum(counts), np.asarray(shares) * whole * (1 - 1e-12))
    return [float(values[min(i, len(values) - 1)]) for i in at]
