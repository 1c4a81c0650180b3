"""A ladder of nested specifications of verification time, each rung judged on rounds it has not seen."""

from collections.abc import Mapping
from dataclasses import dataclass

from oracle.latency.diagnostics.fold_errors import (
    FoldErrors,
    OverFolds,
    Variant,
    fold_errors,
    joined_by_fold,
    rmse_gain_ms,
    variant_of,
)
from oracle.latency.diagnostics.percentages import LaidOutRounds, PercentageTable, mape_gain_percent
from oracle.latency.diagnostics.specification import (
    ALPHA,
    CONTEXT,
    CONTEXT_TERM,
    EXPERTS,
    INTERCEPT,
    Term,
    specification,
)
from oracle.latency.evidence import POSITIONS, Evidence
from oracle.latency.forms import REGRESSORS, RESPONSE, fitted_by_m
from oracle.latency.moments import Moments, moments_of

MAX_EXPERTS = "max_unique_experts"
CATEGORICAL = "categorical m"

# Name of a rung, the term it adds, and the factors that must vary for it.
RUNGS: tuple[tuple[str, Term, tuple[str, ...]], ...] = (
    ("U", ALPHA, (EXPERTS,)),
    ("+ L", CONTEXT_TERM, (CONTEXT,)),
    ("+ m", Term("m", None, float), (POSITIONS,)),
    ("+ m·L", Term("m·L", CONTEXT, float), (CONTEXT, POSITIONS)),
    ("+ m·U", Term("m·U", EXPERTS, float), (EXPERTS, POSITIONS)),
    ("+ E_max", Term("E_max", MAX_EXPERTS), (MAX_EXPERTS,)),
)


@dataclass(frozen=True)
class Rung:
    """One specification and what it gains on the one before.

    Parameters
    ----------
    name
        What is added to the rung before; the last rung is the joint model: beta0 and alpha free at each m, one c.
    r2, rmse_ms, mape_percent
        Held-out, by fold.
    over
        Name of the rung it is compared with; None for the first.
    rmse_gain_ms, mape_gain_percent
        Held-out error of that rung minus its own, paired by fold; positive is better. None for the first rung.
    why
        Why some fold has no value, in words.
    """

    name: str
    r2: OverFolds
    rmse_ms: OverFolds
    mape_percent: OverFolds
    over: str | None
    rmse_gain_ms: OverFolds | None
    mape_gain_percent: OverFolds | None
    why: str | None


@dataclass(frozen=True)
class Ladder:
    """The rungs that the rounds can carry, and why the others are missing."""

    rungs: tuple[Rung, ...]
    left_out: Mapping[str, str]


def verification_moments(evidence: Evidence) -> Moments:
    """Moments of U, L and T, also where U or L does not vary and so is no factor."""
    if all(name in evidence.factors for name in REGRESSORS):
        return evidence.moments.of((*REGRESSORS, RESPONSE))
    columns = [evidence.columns[name] for name in (*REGRESSORS, RESPONSE)]
    return moments_of(
        (*REGRESSORS, RESPONSE), columns, m=evidence.m, cluster=evidence.cluster, clusters=evidence.clusters
    )


CATEGORICAL_VARIANT = Variant(REGRESSORS, lambda cells: fitted_by_m(cells, "joint"))


def categorical_errors(evidence: Evidence) -> FoldErrors:
    """Held-out errors of the joint model."""
    return fold_errors(joined_by_fold(evidence, verification_moments(evidence)), CATEGORICAL_VARIANT)


def specification_ladder(evidence: Evidence) -> Ladder:
    """Climb from U alone to the categorical form."""
    cells, ms, laid_out = joined_by_fold(evidence), evidence.moments.ms, LaidOutRounds(evidence)
    terms = [INTERCEPT]
    rungs: list[Rung] = []
    left_out: dict[str, str] = {}
    before: tuple[FoldErrors, PercentageTable] | None = None

    def climb(name: str, errors: FoldErrors, regressors: tuple[str, ...]) -> bool:
        nonlocal before
        if errors.nothing:
            left_out[name] = errors.why or "not identified"
            return False
        table = laid_out.errors(errors.coefficients, regressors)
        over = rungs[-1].name if rungs else None
        gains: tuple[OverFolds | None, OverFolds | None] = (None, None)
        if before is not None:
            gains = (rmse_gain_ms(before[0], errors), mape_gain_percent(before[1], table))
        rungs.append(Rung(name, errors.r2, errors.rmse_ms, table.over_folds(), over, *gains, errors.why))
        before = errors, table
        return True

    for name, term, needs in RUNGS:
        missing = [factor for factor in needs if factor not in evidence.factors]
        if missing:
            left_out[name] = "; ".join(f"{factor}: {evidence.left_out[factor]}" for factor in missing)
            continue
        form = specification([*terms, term], ms)
        if climb(name, fold_errors(cells, variant_of(form)), form.regressors):
            terms.append(term)
    climb(CATEGORICAL, categorical_errors(evidence), REGRESSORS)
    return Ladder(tuple(rungs), left_out)
