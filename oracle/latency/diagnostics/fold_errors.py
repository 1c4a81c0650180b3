"""Held-out error of variants of the model: trained on the other folds, measured on each fold in turn.

Squares come from moments joined by (fold, m): a training set is all joined cells but one fold's, so a variant costs
some small least-squares problems however many rounds there are. Percentages need the rounds: they are laid out by
(fold, m) once, so that the coefficients are constant over long stretches and a variant takes one pass.

Intervals over folds are 95 % t intervals with one degree of freedom less than folds. Training sets of two folds share
rounds, so these intervals are descriptive (the source reports the same), not exact.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import stdtrit

from oracle.errors import InputError
from oracle.latency.diagnostics.specification import coefficients_from
from oracle.latency.evidence import Evidence
from oracle.latency.forms import RESPONSE
from oracle.latency.linear_form import LinearForm, residual_sums
from oracle.latency.metrics import Coefficients
from oracle.latency.moments import Floats, Moments

ONE_CLUSTER = "one cluster only: no held-out error; record more generations"


@dataclass(frozen=True)
class OverFolds:
    """A number of each fold with its mean and 95 % t interval.

    Parameters
    ----------
    by_fold
        None where a fold has no value.
    mean, low, high
        None without values; no interval with fewer than two.
    """

    by_fold: tuple[float | None, ...]
    mean: float | None
    low: float | None
    high: float | None

    @property
    def values(self) -> Floats:
        """The folds' values that exist."""
        return np.array([value for value in self.by_fold if value is not None], dtype=np.float64)


def over_folds(values: Floats) -> OverFolds:
    """Summarise one value for each fold, (F,) float64, NaN where there is none."""
    each = tuple(float(value) if math.isfinite(value) else None for value in values)
    there = values[np.isfinite(values)]
    if not there.size:
        return OverFolds(each, None, None, None)
    mean = float(there.mean())
    if there.size == 1:
        return OverFolds(each, mean, None, None)
    half = float(stdtrit(there.size - 1, 0.975) * there.std(ddof=1) / math.sqrt(there.size))
    return OverFolds(each, mean, mean - half, mean + half)


@dataclass(frozen=True)
class Variant:
    """A way to get coefficients from some of the rounds.

    Parameters
    ----------
    regressors
        What the slopes belong to.
    fit
        Moments -> for each m the intercept and slopes. May raise InputError: those rounds do not identify it.
    """

    regressors: tuple[str, ...]
    fit: Callable[[Moments], Coefficients]


def variant_of(form: LinearForm) -> Variant:
    """Fit a linear form whose parameters are the same whatever the training set."""
    return Variant(form.regressors, lambda cells: coefficients_from(cells, form))


def joined_by_fold(evidence: Evidence, moments: Moments | None = None) -> Moments:
    """Join the clusters of each fold; with one cluster there is one fold."""
    names = tuple(map(str, range(max(evidence.folds, 1))))
    return (evidence.moments if moments is None else moments).by_group(evidence.fold, names)


@dataclass(frozen=True)
class FoldErrors:
    """Held-out residuals of one variant.

    Parameters
    ----------
    cells
        Moments by (fold, m).
    coefficients
        For each fold what the others gave; empty where they do not identify the variant.
    squares
        (C,) residual sum of squares of every cell, ms²; NaN where there is no prediction.
    why
        Why some fold has no prediction, else None.
    """

    cells: Moments
    coefficients: tuple[Coefficients, ...]
    squares: Floats
    why: str | None

    @property
    def nothing(self) -> bool:
        """Whether no fold could be predicted."""
        return not any(self.coefficients)

    @cached_property
    def rmse_ms(self) -> OverFolds:
        """Root mean squared error of each fold."""
        return over_folds(_rmse(self.cells, self.squares))

    @cached_property
    def r2(self) -> OverFolds:
        """1 - residual sum / squares about the fold's own mean."""
        known = ~np.isnan(self.squares)
        folds = len(self.cells.clusters)
        total = np.full(folds, np.nan)
        own = self.cells.of((RESPONSE,)).where(known).by_cluster()
        total[own.cluster] = own.comoment[:, 0, 0]
        left = np.bincount(self.cells.cluster[known], weights=self.squares[known], minlength=folds)
        with np.errstate(divide="ignore", invalid="ignore"):
            return over_folds(1 - left / total)


def _rmse(cells: Moments, squares: Floats) -> Floats:
    """(F,) root mean squared error over the cells that have squares; NaN for a fold without any."""
    known, folds = ~np.isnan(squares), len(cells.clusters)
    left = np.bincount(cells.cluster[known], weights=squares[known], minlength=folds)
    n = np.bincount(cells.cluster[known], weights=cells.n[known], minlength=folds)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(left / n))


def fold_errors(cells: Moments, variant: Variant) -> FoldErrors:
    """Train a variant on all folds but one and take its residuals there, for each fold.

    Parameters
    ----------
    cells
        Moments by (fold, m), see `joined_by_fold`.
    """
    squares = np.full(len(cells.n), np.nan)
    trained: list[Coefficients] = []
    why = ONE_CLUSTER if len(cells.clusters) < 2 else None
    for f in range(len(cells.clusters)):
        at = cells.cluster == f
        try:
            beta = variant.fit(cells.where(~at)) if not at.all() else {}
        except InputError as error:
            beta, why = {}, why or str(error)
        trained.append(beta)
        squares[at] = residual_sums(cells.where(at), variant.regressors, RESPONSE, beta)
    return FoldErrors(cells, tuple(trained), squares, why)


def rmse_gain_ms(before: FoldErrors, after: FoldErrors, ms: Sequence[int] | None = None) -> OverFolds:
    """By how much `after` lowers the held-out RMSE of `before`, fold by fold, on the rounds that both predict.

    Parameters
    ----------
    ms
        Only these m; None takes all.
    """
    out = np.isnan(before.squares) | np.isnan(after.squares)
    if ms is not None:
        out |= ~np.isin(before.cells.m, ms)
    first, second = (_rmse(errors.cells, np.where(out, np.nan, errors.squares)) for errors in (before, after))
    return over_folds(first - second)
