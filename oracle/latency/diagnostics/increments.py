"""What one more unique expert costs wherever it comes: at every m of a regime, and at every level of U.

Compared with the joint model (alpha free at each m) is the same model with one alpha for the regime, and the joint
model with a square of U at each m.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from oracle.errors import InputError
from oracle.latency.diagnostics.fold_errors import (
    FoldErrors,
    OverFolds,
    Variant,
    fold_errors,
    joined_by_fold,
    rmse_gain_ms,
)
from oracle.latency.diagnostics.ladder import verification_moments
from oracle.latency.diagnostics.specification import EXPERTS
from oracle.latency.estimates import Estimate, estimates_of, half_widths
from oracle.latency.evidence import Evidence
from oracle.latency.forms import COLLINEAR, REGRESSORS, RESPONSE, VerificationForm, verification_form
from oracle.latency.linear_form import LinearForm
from oracle.latency.moments import Floats, Moments, moments_of
from oracle.latency.regression import Fit, fit_form

SQUARE = "squared_experts"


@dataclass(frozen=True)
class Share:
    """A share of the regime's alpha (0.1 is a tenth) with its 95 % CR3 interval."""

    value: float
    low: float | None
    high: float | None

    def within(self, most: float) -> bool:
        """Whether the whole interval lies within ± most."""
        return self.low is not None and self.high is not None and -most <= self.low and self.high <= most

    def beyond(self, most: float) -> bool:
        """Whether the whole interval lies outside ± most."""
        return self.low is not None and self.high is not None and (self.low > most or self.high < -most)


@dataclass(frozen=True)
class Increments:
    """What one more unique expert costs in a regime.

    Parameters
    ----------
    ms
        The m compared.
    common
        One alpha for all of them, ms per expert (the other coefficients as in the joint model).
    alphas
        Alpha of each m, from the joint model.
    deviations
        Of each alpha from their mean, weighted by the spread of U.
    wald_f, freedom, p
        All alphas equal: Wald statistic with the stacked CR3 covariance, scaled as Hotelling's T² to F with
        (q, G - q) degrees of freedom, and its p-value.
    rmse_ms, free_gain_ms
        Held-out RMSE at these m with one alpha, and what a free alpha takes off it.
    free_rmse_ms, square_gain_ms
        Held-out RMSE with a free alpha, and what a square of U at each m takes off it.
    bend
        By what share of alpha the increment changes from a round of average U to one a standard deviation above, mean
        over m; None where the squares are not identified.
    """

    ms: tuple[int, ...]
    common: Estimate
    alphas: tuple[Estimate, ...]
    deviations: tuple[Share, ...]
    wald_f: float | None
    freedom: tuple[int, int] | None
    p: float | None
    rmse_ms: OverFolds
    free_gain_ms: OverFolds
    free_rmse_ms: OverFolds
    square_gain_ms: OverFolds
    bend: Share | None


def tied(chosen: VerificationForm, regime: Sequence[int]) -> LinearForm:
    """Give the m of a regime one alpha between them."""
    form = chosen.form
    mine = {f"alpha[{m}]" for m in regime}
    kept = [name for name in form.parameters if name not in mine]
    tie = np.zeros((len(form.parameters), len(kept) + 1))
    for j, name in enumerate(form.parameters):
        tie[j, len(kept) if name in mine else kept.index(name)] = 1.0
    matrices = {m: matrix @ tie for m, matrix in form.matrices.items()}
    return LinearForm(form.regressors, form.response, (*kept, "alpha"), matrices)


def bent(chosen: VerificationForm, totals: Moments) -> LinearForm:
    """Add the square of U at each m that has an alpha of its own, where more than two values of U let it be told."""
    form, pair = chosen.form, totals.of((EXPERTS, SQUARE)).comoment
    with np.errstate(divide="ignore", invalid="ignore"):
        left = 1 - pair[:, 0, 1] ** 2 / (pair[:, 0, 0] * pair[:, 1, 1])
    told = dict(zip(totals.m.tolist(), (left > COLLINEAR).tolist(), strict=True))
    own = [m for m, said in zip(chosen.ms, chosen.alpha_source, strict=True) if said == "own" and told[m]]
    P = len(form.parameters)
    matrices = {}
    for m, matrix in form.matrices.items():
        wider = np.zeros((matrix.shape[0] + 1, P + len(own)))
        wider[:-1, :P] = matrix
        if m in own:
            wider[-1, P + own.index(m)] = 1.0
        matrices[m] = wider
    parameters = (*form.parameters, *(f"square[{m}]" for m in own))
    return LinearForm((*form.regressors, SQUARE), form.response, parameters, matrices)


def with_squares(evidence: Evidence) -> Moments:
    """Moments of U, L, T and the square of U about its mean at each m."""
    experts, m = evidence.columns[EXPERTS], evidence.m
    totals = verification_moments(evidence).by_m()
    square = (experts - totals.mean[np.searchsorted(totals.m, m), 0]) ** 2
    columns = [evidence.columns[REGRESSORS[0]], evidence.columns[REGRESSORS[1]], square, evidence.columns[RESPONSE]]
    names = (*REGRESSORS, SQUARE, RESPONSE)
    return moments_of(names, columns, m=m, cluster=evidence.cluster, clusters=evidence.clusters)


class IncrementTests:
    """Everything about increments that the regimes of one set of rounds share; raises InputError like `fit_form`."""

    def __init__(self, evidence: Evidence) -> None:
        self.moments = with_squares(evidence)
        self.totals = self.moments.by_m()
        self.chosen = verification_form(self.totals, "joint")
        self.own = tuple(m for m, said in zip(self.chosen.ms, self.chosen.alpha_source, strict=True) if said == "own")
        self.fit = fit_form(self.moments, self.chosen.form)
        self.cells = joined_by_fold(evidence, self.moments)
        self.free = self._errors(REGRESSORS, lambda chosen, _: chosen.form)
        self.squared = self._errors((*REGRESSORS, SQUARE), bent)

    def _errors(
        self, regressors: tuple[str, ...], form_of: Callable[[VerificationForm, Moments], LinearForm]
    ) -> FoldErrors:
        """Held-out errors of a form chosen anew from each training set."""

        def fit(cells: Moments) -> dict[int, Floats]:
            totals = cells.by_m()
            form = form_of(verification_form(totals, "joint"), totals)
            return form.coefficients(fit_form(cells, form).theta)

        return fold_errors(self.cells, Variant(regressors, fit))

    def of(self, regime: Sequence[int]) -> Increments:
        """Compare the alphas of some m, each of which has one of its own; at least two."""
        form = tied(self.chosen, regime)
        common = estimates_of(fit_form(self.moments, form), ("alpha",), np.eye(len(form.parameters))[-1:]).each[0]
        one = self._errors(REGRESSORS, lambda chosen, _: tied(chosen, regime))
        at = [self.chosen.form.parameters.index(f"alpha[{m}]") for m in regime]
        report = np.eye(len(self.fit.theta))[at]
        weights = self._spread_of_experts(regime)
        alphas = estimates_of(self.fit, tuple(self.chosen.form.parameters[j] for j in at), report)
        level = float(weights @ [each.value for each in alphas.each])
        wald_f, freedom, p = self._wald(alphas.covariance_cr3, [each.value for each in alphas.each], at)
        return Increments(
            tuple(regime),
            common,
            alphas.each,
            _shares(self.fit, report - weights @ report, level),
            wald_f,
            freedom,
            p,
            _at(one, regime),
            rmse_gain_ms(one, self.free, regime),
            _at(self.free, regime),
            rmse_gain_ms(self.free, self.squared, regime),
            self._bend(regime, weights, level),
        )

    def _spread_of_experts(self, regime: Sequence[int]) -> Floats:
        """Weights of the m by the squares of U about its mean, adding up to 1."""
        squares = self.totals.comoment[np.searchsorted(self.totals.m, regime), 0, 0]
        return np.asarray(squares / squares.sum())

    def _wald(
        self, covariance: Floats, alphas: Sequence[float], at: Sequence[int]
    ) -> tuple[float | None, tuple[int, int] | None, float | None]:
        """Test that all alphas are equal."""
        q, G = len(alphas) - 1, int(self.fit.clusters_of[list(at)].min())
        if q >= G or not np.isfinite(covariance).all():
            return None, None, None
        contrast = np.hstack([-np.ones((q, 1)), np.eye(q)])
        difference = contrast @ np.array(alphas)
        try:
            statistic = float(difference @ np.linalg.solve(contrast @ covariance @ contrast.T, difference))
        except np.linalg.LinAlgError:
            return None, None, None  # rounds without noise have no errors
        F = statistic * (G - q) / (q * (G - 1))
        return F, (q, G - q), float(fdtrc(q, G - q, F))

    def _bend(self, regime: Sequence[int], weights: Floats, level: float) -> Share | None:
        """By what share of the level the increment changes a standard deviation above the mean of U."""
        form = bent(self.chosen, self.totals)
        spread = self.totals.spread()[np.searchsorted(self.totals.m, regime), 0]
        report = np.zeros((1, len(form.parameters)))
        counted = 0.0
        for m, weight, sd in zip(regime, weights.tolist(), spread.tolist(), strict=True):
            if f"square[{m}]" in form.parameters:
                report[0, form.parameters.index(f"square[{m}]")] = 2 * sd * weight
                counted += weight
        try:
            return _shares(fit_form(self.moments, form), report / counted, level)[0] if counted else None
        except InputError:
            return None


def _at(errors: FoldErrors, ms: Sequence[int]) -> OverFolds:
    """RMSE at some m."""
    squares = np.where(np.isin(errors.cells.m, ms), errors.squares, np.nan)
    return FoldErrors(errors.cells, errors.coefficients, squares, errors.why).rmse_ms


def _shares(fit: Fit, report: Floats, level: float) -> tuple[Share, ...]:
    """Combinations ``report @ theta`` as shares of a level that is taken as known."""
    estimates = estimates_of(fit, ("",) * len(report), report)
    clusters = np.array([each.clusters for each in estimates.each], dtype=np.int64)
    half = half_widths(np.sqrt(np.diagonal(estimates.covariance_cr3)), clusters) / abs(level)
    return tuple(
        Share(
            each.value / level, *((each.value / level - h, each.value / level + h) if np.isfinite(h) else (None, None))
        )
        for each, h in zip(estimates.each, half.tolist(), strict=True)
    )
