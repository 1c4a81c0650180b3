"""Held-out error of coefficients fitted on the other folds: R² and RMSE from moments, percentages from a pass."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from oracle.latency.linear_form import residual_sums
from oracle.latency.moments import Floats, Integers, Moments

Coefficients = Mapping[int, Floats]  # m -> intercept and slopes


@dataclass(frozen=True)
class FoldMetric:
    """One metric over the held-out folds.

    Parameters
    ----------
    by_fold
        The metric of each fold; None where the fold holds no round that the other folds can predict.
    pooled
        The metric of all held-out predictions taken together; None if there are none.
    """

    by_fold: tuple[float | None, ...]
    pooled: float | None

    @property
    def values(self) -> Floats:
        """The folds' metrics that exist."""
        return np.array([value for value in self.by_fold if value is not None], dtype=np.float64)

    @property
    def mean(self) -> float | None:
        """Mean over folds."""
        return float(self.values.mean()) if self.values.size else None

    @property
    def half_width(self) -> float | None:
        """Half-width of the 95 % t interval over folds; None with fewer than two."""
        folds = self.values.size
        if folds < 2:
            return None
        return float(stdtrit(folds - 1, 0.975) * self.values.std(ddof=1) / np.sqrt(folds))


@dataclass(frozen=True)
class HeldOut:
    """Held-out error at one m, or over all m (`m` is None).

    Parameters
    ----------
    rounds, unpredicted
        Rounds with a prediction, and rounds whose m the other folds do not know.
    r2, rmse_ms
        1 - residual sum / squares about the fold's own mean; root mean squared error.
    mape_percent, medape_percent
        Mean and median absolute percentage error.
    """

    m: int | None
    rounds: int
    unpredicted: int
    r2: FoldMetric
    rmse_ms: FoldMetric
    mape_percent: FoldMetric
    medape_percent: FoldMetric


class PercentageErrors:
    """Absolute percentage errors of held-out predictions, gathered in one pass over the rounds.

    Keeps 12 bytes a round, since a median needs every value.

    Parameters
    ----------
    by_fold
        For each fold the coefficients fitted on the others.
    regressors
        How many regressors there are besides the intercept.
    """

    def __init__(self, by_fold: Sequence[Coefficients], regressors: int) -> None:
        self.ms = np.array(sorted({m for fold in by_fold for m in fold}), dtype=np.int64)
        self._table = np.full(
            (len(by_fold), len(self.ms) + 1, regressors + 1), np.nan
        )  # the last row answers an unknown m
        for f, fold in enumerate(by_fold):
            for m, beta in fold.items():
                self._table[f, np.searchsorted(self.ms, m)] = beta
        self._errors: list[Floats] = []
        self._keys: list[NDArray[np.int32]] = []

    def add(self, fold: Integers, m: Integers, regressors: Sequence[Floats], response_ms: Floats) -> None:
        """Take in one batch of rounds with positive `response_ms`."""
        place = np.minimum(np.searchsorted(self.ms, m), max(len(self.ms) - 1, 0))
        if len(self.ms):
            place = np.where(self.ms[place] == m, place, len(self.ms))
        beta = self._table[fold, place]
        predicted = beta[:, 0].copy()
        for i, x in enumerate(regressors):
            predicted += beta[:, i + 1] * x
        known = np.isfinite(predicted)
        self._errors.append(100 * np.abs(response_ms - predicted)[known] / response_ms[known])
        self._keys.append((fold * (len(self.ms) + 1) + place)[known].astype(np.int32))

    def join(self, later: "PercentageErrors") -> None:
        """Take in what was gathered over further batches, of the same variants."""
        self._errors += later._errors
        self._keys += later._keys

    def by_cell(self) -> dict[tuple[int, int], Floats]:
        """(fold, m) -> the errors, in percent."""
        errors = np.concatenate(self._errors) if self._errors else np.zeros(0)
        keys = np.concatenate(self._keys) if self._keys else np.zeros(0, dtype=np.int32)
        order = np.argsort(keys, kind="stable")
        found, first = np.unique(keys[order], return_index=True)
        parts = np.split(errors[order], first[1:]) if len(found) else []
        width = len(self.ms) + 1
        return {(int(k) // width, int(self.ms[int(k) % width])): part for k, part in zip(found, parts, strict=True)}


def held_out(
    by_fold_moments: Moments,
    regressors: tuple[str, ...],
    response: str,
    by_fold: Sequence[Coefficients],
    errors: Mapping[tuple[int, int], Floats] | None,
) -> tuple[HeldOut, ...]:
    """Held-out metrics over all m (first) and at every m.

    Parameters
    ----------
    by_fold_moments
        Moments whose clusters are the folds (`Moments.by_group`).
    by_fold
        For each fold the coefficients fitted on the others.
    errors
        Percentage errors by (fold, m); None leaves them out (metrics None).
    """
    cells = by_fold_moments
    sse = np.full(len(cells.n), np.nan)
    for f, beta in enumerate(by_fold):
        at = cells.cluster == f
        sse[at] = residual_sums(cells.where(at), regressors, response, beta)
    rows = []
    for m in (None, *cells.ms):
        here = np.ones(len(cells.n), dtype=np.bool_) if m is None else cells.m == m
        known = here & ~np.isnan(sse)
        r2, rmse = _squares(cells.of((response,)), known, sse, len(by_fold))
        chosen = {} if errors is None else {key: e for key, e in errors.items() if m is None or key[1] == m}
        unpredicted = round(float(cells.n[here & ~known].sum()))
        rows.append(
            HeldOut(m, round(float(cells.n[known].sum())), unpredicted, r2, rmse, *_percentages(chosen, len(by_fold)))
        )
    return tuple(rows)


def _squares(response: Moments, known: NDArray[np.bool_], sse: Floats, folds: int) -> tuple[FoldMetric, FoldMetric]:
    """R² and RMSE of the cells marked in `known`."""

    def both(cells: NDArray[np.bool_]) -> tuple[float | None, float | None]:
        n, residual = float(response.n[cells].sum()), float(sse[cells].sum())
        if n == 0:
            return None, None
        every = response.where(cells).by_group(np.zeros(folds, dtype=np.int64), ("all",)).by_cluster()
        squares = float(every.comoment[0, 0, 0])
        return (1 - residual / squares if squares > 0 else None), float(np.sqrt(residual / n))

    by_fold = [both(known & (response.cluster == f)) for f in range(folds)]
    pooled = both(known)
    return (
        FoldMetric(tuple(r2 for r2, _ in by_fold), pooled[0]),
        FoldMetric(tuple(rmse for _, rmse in by_fold), pooled[1]),
    )


def _percentages(chosen: Mapping[tuple[int, int], Floats], folds: int) -> tuple[FoldMetric, FoldMetric]:
    """MAPE and MedAPE of some (fold, m) cells."""

    def both(parts: Iterable[Floats]) -> tuple[float | None, float | None]:
        together = np.concatenate([np.zeros(0), *parts])
        return (float(together.mean()), float(np.median(together))) if together.size else (None, None)

    by_fold = [both([e for key, e in chosen.items() if key[0] == f]) for f in range(folds)]
    pooled = both(chosen.values())
    return (
        FoldMetric(tuple(mape for mape, _ in by_fold), pooled[0]),
        FoldMetric(tuple(medape for _, medape in by_fold), pooled[1]),
    )
