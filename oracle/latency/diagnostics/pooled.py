"""Models that share their coefficients over all budgets, and what they predict at a budget they have not seen."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from oracle.errors import InputError
from oracle.latency.diagnostics.fold_errors import OverFolds, fold_errors, joined_by_fold, variant_of
from oracle.latency.diagnostics.ladder import categorical_errors
from oracle.latency.diagnostics.percentages import LaidOutRounds
from oracle.latency.diagnostics.specification import (
    ALPHA,
    CONTEXT,
    CONTEXT_TERM,
    EXPERTS,
    INTERCEPT,
    Term,
    coefficients_from,
    specification,
)
from oracle.latency.estimates import Estimate, estimates_of
from oracle.latency.evidence import POSITIONS, Evidence
from oracle.latency.forms import REGRESSORS, RESPONSE
from oracle.latency.linear_form import LinearForm
from oracle.latency.metrics import Coefficients
from oracle.latency.moments import Moments
from oracle.latency.regression import fit_form

GAMMA = Term("gamma_ms_per_draft_token", None, lambda m: m - 1.0)

# The source names its smooth forms of the budget only as "other smooth parameterizations"; these are ours.
SMOOTH: Mapping[str, tuple[Callable[[int], float], ...]] = {
    "m": (float,),
    "log m": (math.log,),
    "sqrt m": (math.sqrt,),
    "1/m": (lambda m: 1 / m,),
    "m + m²": (float, lambda m: float(m * m)),
}


@dataclass(frozen=True)
class PooledCoefficient:
    """A coefficient of the pooled model.

    Parameters
    ----------
    name
        The unit is in the name.
    estimate
        With clustered errors and the CR3 interval.
    standardised
        The same in standard deviations of T per standard deviation of the factor, interval scaled; None for beta0.
    """

    name: str
    estimate: Estimate
    standardised: Estimate | None


@dataclass(frozen=True)
class PercentageByK:
    """MAPE at one budget, percent, held out by fold."""

    k: int
    held_out: OverFolds


@dataclass(frozen=True)
class PooledModel:
    """T ~ 1 + U + L + K over all rounds.

    Parameters
    ----------
    coefficients
        Empty where the rounds do not identify the model; `why` says so.
    r2, rmse_ms
        In the sample that was fitted.
    held_out_r2, held_out_rmse_ms, held_out_mape_percent
        By fold.
    by_k
        MAPE at each budget.
    left_out
        Factor -> why it has no term.
    why
        Why there is no model, or no held-out error in some fold.
    """

    coefficients: tuple[PooledCoefficient, ...]
    r2: float | None
    rmse_ms: float | None
    held_out_r2: OverFolds | None
    held_out_rmse_ms: OverFolds | None
    held_out_mape_percent: OverFolds | None
    by_k: tuple[PercentageByK, ...]
    left_out: Mapping[str, str]
    why: str | None


def pooled_model(evidence: Evidence) -> PooledModel:
    """Fit the shared linear model in which the budget is an ordinary coefficient."""
    needs = {ALPHA: EXPERTS, CONTEXT_TERM: CONTEXT, GAMMA: POSITIONS}
    terms = [INTERCEPT, *(term for term, factor in needs.items() if factor in evidence.factors)]
    left_out = {f: evidence.left_out[f] for f in needs.values() if f not in evidence.factors}
    factors = [needs[term] for term in terms[1:]]
    form = specification(terms, evidence.moments.ms)
    try:
        fit = fit_form(evidence.moments, form)
    except InputError as error:
        return PooledModel((), None, None, None, None, None, (), left_out, str(error))
    one = np.zeros(len(evidence.clusters), dtype=np.int64)
    every = evidence.moments.of((*factors, RESPONSE)).by_group(one, ("all",)).by_cluster()
    squares = np.diagonal(every.comoment[0])
    plain = estimates_of(fit, form.parameters, np.eye(len(terms))).each
    standard: tuple[Estimate | None, ...] = (None,) * len(terms)
    if squares[-1] > 0:
        scale = np.diag(np.sqrt(squares[:-1] / squares[-1]))
        rows = np.hstack([np.zeros((len(factors), 1)), scale])
        standard = (None, *estimates_of(fit, form.parameters[1:], rows).each)
    laid_out = LaidOutRounds(evidence)
    errors = fold_errors(joined_by_fold(evidence), variant_of(form))
    outside = laid_out.errors(errors.coefficients, form.regressors)
    return PooledModel(
        tuple(map(PooledCoefficient, form.parameters, plain, standard)),
        1 - fit.sse / float(squares[-1]) if squares[-1] > 0 else None,
        math.sqrt(fit.sse / fit.moments.rounds),
        errors.r2,
        errors.rmse_ms,
        outside.over_folds(),
        tuple(PercentageByK(m - 1, outside.over_folds(m)) for m in laid_out.ms),
        left_out,
        errors.why,
    )


@dataclass(frozen=True)
class BudgetForm:
    """A form of the budget, on rounds and on budgets it has not seen.

    Parameters
    ----------
    name
        ``"none"`` is T ~ U + L; ``"log m, · U"`` has the interaction with U too; the last is the categorical
        form, which says nothing about a budget it has not seen.
    r2, rmse_ms, mape_percent
        Held out by fold, every budget known.
    mape_by_k
        k -> the same at one budget.
    left_out_k_percent
        k -> MAPE of its rounds, predicted from the rounds of all other budgets (of the same clusters, too); None where
        those do not identify the form.
    left_out_mean_percent, worst_k
        Mean over the budgets, each counted once, and the budget with the largest error; None where one has no value.
    why
        Why something is missing, in words.
    """

    name: str
    r2: OverFolds
    rmse_ms: OverFolds
    mape_percent: OverFolds
    mape_by_k: Mapping[int, OverFolds]
    left_out_k_percent: Mapping[int, float | None]
    left_out_mean_percent: float | None
    worst_k: int | None
    why: str | None


def budget_forms(evidence: Evidence) -> tuple[BudgetForm, ...]:
    """No budget, smooth forms of it with and without the interaction with U, and the categorical form."""
    cells, ms, laid_out = joined_by_fold(evidence), evidence.moments.ms, LaidOutRounds(evidence)
    base = [INTERCEPT]
    base += [term for term, factor in ((ALPHA, EXPERTS), (CONTEXT_TERM, CONTEXT)) if factor in evidence.factors]
    forms = {"none": specification(base, ms)}
    for name, functions in SMOOTH.items() if POSITIONS in evidence.factors else ():
        terms = [Term(f"budget {i}", None, by) for i, by in enumerate(functions)]
        forms[name] = specification([*base, *terms], ms)
        if EXPERTS in evidence.factors:
            crossed = [Term(f"budget {i} · U", EXPERTS, by) for i, by in enumerate(functions)]
            forms[f"{name}, · U"] = specification([*base, *terms, *crossed], ms)
    rows = []
    for name, form in forms.items():
        errors = fold_errors(cells, variant_of(form))
        outside, why = _without_each(cells, form)
        table = laid_out.same(outside, form.regressors)
        left = {m - 1: table.together(m) for m in ms}
        there = {k: value for k, value in left.items() if value is not None}
        whole = len(there) == len(left)
        held = laid_out.errors(errors.coefficients, form.regressors)
        rows.append(
            BudgetForm(
                name,
                errors.r2,
                errors.rmse_ms,
                held.over_folds(),
                {m - 1: held.over_folds(m) for m in ms},
                left,
                sum(there.values()) / len(there) if whole else None,
                max(there, key=lambda k: there[k]) if whole else None,
                errors.why or why,
            )
        )
    free = categorical_errors(evidence)
    held = laid_out.errors(free.coefficients, REGRESSORS)
    by_k = {m - 1: held.over_folds(m) for m in ms}
    none: dict[int, float | None] = dict.fromkeys(by_k)
    rows.append(BudgetForm("categorical", free.r2, free.rmse_ms, held.over_folds(), by_k, none, None, None, free.why))
    return tuple(rows)


def _without_each(cells: Moments, form: LinearForm) -> tuple[Coefficients, str | None]:
    """Coefficients of each m from the rounds of all other m, and why some are missing."""
    totals = cells.by_m()
    found, why = {}, None
    for m in totals.ms:
        try:
            found[m] = coefficients_from(totals.where(totals.m != m), form)[m]
        except InputError as error:
            why = why or f"without k = {m - 1}: {error}"
    return found, why
