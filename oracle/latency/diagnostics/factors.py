"""Candidate factors of verification time: alone, on top of unique experts, by budget, and against one another."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.latency.diagnostics.fold_errors import (
    FoldErrors,
    OverFolds,
    fold_errors,
    joined_by_fold,
    rmse_gain_ms,
    variant_of,
)
from oracle.latency.diagnostics.specification import ALPHA, EXPERTS, INTERCEPT, Term, specification
from oracle.latency.estimates import Estimate, estimates_of
from oracle.latency.evidence import Evidence
from oracle.latency.forms import REGRESSORS, RESPONSE, varies
from oracle.latency.linear_form import LinearForm, square_roots
from oracle.latency.moments import Floats, Moments
from oracle.latency.regression import fit_form

EXACT = 1e-12  # share of a factor's variance that the others leave: below it the factor is one of them

Matrix = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class FactorStrength:
    """How well one factor predicts verification time in folds that the fit has not seen.

    Parameters
    ----------
    factor
        Name of the column.
    r2, rmse_ms
        T ~ 1 + factor over all m.
    gain_ms
        RMSE of T ~ 1 + U minus that of T ~ 1 + U + factor, paired by fold; None for U itself, or without U.
    why
        Why something is missing, in words.
    """

    factor: str
    r2: OverFolds
    rmse_ms: OverFolds
    gain_ms: OverFolds | None
    why: str | None


def alone(cells: Moments, factor: str) -> FoldErrors:
    """Held-out errors of T ~ 1 + factor; `cells` are moments by (fold, m)."""
    return fold_errors(cells, variant_of(specification((INTERCEPT, Term(factor, factor)), cells.ms)))


def factor_strengths(evidence: Evidence) -> tuple[FactorStrength, ...]:
    """Each factor of `evidence.factors` alone and on top of unique experts, in that order."""
    cells = joined_by_fold(evidence)
    experts = alone(cells, EXPERTS) if EXPERTS in evidence.factors else None
    rows = []
    for factor in evidence.factors:
        own = experts if factor == EXPERTS and experts is not None else alone(cells, factor)
        gain, why = None, own.why
        if experts is None:
            why = why or f"unique_experts: {evidence.left_out[EXPERTS]}"
        elif factor != EXPERTS:
            both = fold_errors(
                cells, variant_of(specification((INTERCEPT, ALPHA, Term(factor, factor)), evidence.moments.ms))
            )
            gain, why = None if both.nothing else rmse_gain_ms(experts, both), why or both.why
        rows.append(FactorStrength(factor, own.r2, own.rmse_ms, gain, why))
    return tuple(rows)


@dataclass(frozen=True)
class StandardisedRow:
    """Regression of standardised T on standardised U and L at one m; dimensionless (standard deviations).

    Parameters
    ----------
    k, m, rounds, clusters
        Draft length, verified positions, and what was measured there.
    unique_experts, context_len
        Standardised coefficients with the CR1 error, CR3 error and interval scaled like the coefficient; None where
        the factor does not vary or is not identified.
    r2
        In the sample that was fitted; None where T does not vary.
    why
        Why a coefficient is missing, in words.
    """

    k: int
    m: int
    rounds: int
    clusters: int
    unique_experts: Estimate | None
    context_len: Estimate | None
    r2: float | None
    why: str | None


def standardised_by_m(evidence: Evidence) -> tuple[StandardisedRow, ...]:
    """Standardised coefficients of U and L within each m."""
    there = tuple(name for name in REGRESSORS if name in evidence.factors)
    moments = evidence.moments.of((*there, RESPONSE))
    totals = moments.by_m()
    moving = {name: varies(totals, name) for name in (*there, RESPONSE)}
    rows = []
    for i, m in enumerate(totals.m.tolist()):
        cells = moments.where(moments.m == m)
        use = tuple(name for name in there if moving[name][m])
        still = [name for name in REGRESSORS if name not in use]
        why = f"{' and '.join(still)} {'does' if len(still) == 1 else 'do'} not vary" if still else None
        each: dict[str, Estimate] = {}
        r2 = None
        if not moving[RESPONSE][m]:
            why = "target_ms does not vary"
        elif use:
            try:
                each, r2 = _standardised(cells, totals.where(totals.m == m), use)
            except InputError as error:
                why = str(error)
        experts, context = (each.get(name) for name in REGRESSORS)
        rounds = round(float(totals.n[i]))
        rows.append(StandardisedRow(m - 1, m, rounds, len(cells.n), experts, context, r2, why))
    return tuple(rows)


def _standardised(cells: Moments, total: Moments, use: tuple[str, ...]) -> tuple[dict[str, Estimate], float]:
    """Coefficients in standard deviations of one m, and R²."""
    P = len(use) + 1
    fit = fit_form(cells, LinearForm(use, RESPONSE, ("intercept", *use), {int(total.m[0]): np.eye(P)}))
    squares = np.diagonal(total.of((*use, RESPONSE)).comoment[0])
    scale = np.diag(np.sqrt(squares[:-1] / squares[-1]))
    estimates = estimates_of(fit, use, np.hstack([np.zeros((P - 1, 1)), scale]))
    return dict(zip(use, estimates.each, strict=True)), 1 - fit.sse / float(squares[-1])


@dataclass(frozen=True)
class FactorRelations:
    """How the factors move together.

    Parameters
    ----------
    factors
        F names; rows and columns of every matrix.
    pooled, within_m
        Correlations over all rounds, and of the deviations from the mean of each m; None where a factor does not vary.
    by_m
        m -> correlations at that m.
    vif, vif_within_m
        Variance inflation factor of each factor given the others (and an intercept, or a level for each m); None where
        the factor does not vary or the others give it exactly.
    exact
        Factors that the others give exactly over all rounds.
    """

    factors: tuple[str, ...]
    pooled: Matrix
    within_m: Matrix
    by_m: dict[int, Matrix]
    vif: tuple[float | None, ...]
    vif_within_m: tuple[float | None, ...]
    exact: tuple[str, ...]


def factor_relations(evidence: Evidence) -> FactorRelations:
    """Correlations and variance inflation factors of all factors."""
    factors = evidence.factors
    totals = evidence.moments.of(factors).by_m()
    one = np.zeros(1, dtype=np.int64)
    pooled = totals.by_group(one, ("all",)).by_cluster().comoment[0]
    moving = np.array([list(varies(totals, name).values()) for name in factors]).reshape(len(factors), -1)
    within = totals.comoment.sum(axis=0)
    ever = np.asarray(moving.any(axis=1), dtype=np.bool_)
    every = np.ones(len(factors), dtype=np.bool_)
    vif = _inflation(pooled, every)
    return FactorRelations(
        factors,
        _correlations(pooled, every),
        _correlations(within, ever),
        {m: _correlations(totals.comoment[i], moving[:, i]) for i, m in enumerate(totals.m.tolist())},
        vif,
        _inflation(within, ever),
        tuple(name for name, value in zip(factors, vif, strict=True) if value is None),
    )


def _scaled(comoment: Floats, use: NDArray[np.bool_]) -> Floats:
    """Correlations of the factors in `use`."""
    chosen = comoment[np.ix_(use, use)]
    scale = 1 / np.sqrt(np.diagonal(chosen))
    scaled = chosen * scale[:, None] * scale
    np.fill_diagonal(scaled, 1.0)
    return np.asarray(scaled)


def _correlations(comoment: Floats, moving: NDArray[np.bool_]) -> Matrix:
    full = np.full(comoment.shape, np.nan)
    full[np.ix_(moving, moving)] = _scaled(comoment, moving)
    return tuple(tuple(None if np.isnan(value) else float(value) for value in row) for row in full)


def _inflation(comoment: Floats, moving: NDArray[np.bool_]) -> tuple[float | None, ...]:
    """Give 1 / (1 - R²) of each factor on the others, by least squares on the square root of the correlations."""
    values: list[float | None] = [None] * len(moving)
    root = square_roots(_scaled(comoment, moving)[None])[0]
    for j, place in enumerate(np.flatnonzero(moving).tolist()):
        others, own = np.delete(root, j, axis=1), root[:, j]
        if others.shape[1]:
            own = own - others @ np.linalg.lstsq(others, own, rcond=np.sqrt(EXACT))[0]
        left = float(own @ own)
        values[place] = 1 / left if left > EXACT else None
    return tuple(values)
