"""All diagnostics of one batch size, in the order in which they lean on one another."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from oracle.errors import InputError
from oracle.latency.diagnostics.column_comparison import ColumnComparison, compare_with_others
from oracle.latency.diagnostics.factors import (
    FactorRelations,
    FactorStrength,
    StandardisedRow,
    factor_relations,
    factor_strengths,
    standardised_by_m,
)
from oracle.latency.diagnostics.hypotheses import Hypotheses, judge_hypotheses
from oracle.latency.diagnostics.ladder import Ladder, specification_ladder
from oracle.latency.diagnostics.pooled import BudgetForm, PooledModel, budget_forms, pooled_model
from oracle.latency.diagnostics.regime_tables import Regimes
from oracle.latency.diagnostics.regimes import find_regimes
from oracle.latency.diagnostics.residuals import Residuals, residual_diagnostics
from oracle.latency.diagnostics.robustness import Robustness, robustness
from oracle.latency.diagnostics.transfer import transfer
from oracle.latency.diagnostics.transfer_tables import Transfer
from oracle.latency.diagnostics.weak_spot import WeakSpot
from oracle.latency.diagnostics.weak_spots import weak_spots
from oracle.latency.evidence import Evidence

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Diagnosis:
    """What the diagnostics found; None where one could not be carried out, with the reason in `untested`.

    Attributes
    ----------
    evidence
        The rounds behind it.
    factors, standardised, relations, ladder, pooled, budget_forms
        Candidate factors, alone and together, and the budget as a factor.
    regimes
        Runs of m with one alpha and beta0 linear in m.
    levels
        Runs of m with one alpha, beta0 free at every m: whether alpha itself has steps.
    transfer
        Interpolation inside and transfer across regimes; None if none were found.
    hypotheses
        Verdicts on the source's three hypotheses, H2 within the runs of m that `levels` found.
    robust_at_one_m, robust_joint
        Bootstrap, Huber, trimming, halves, leave-outs: at one m, and of the joint fit.
    residuals
        Bins, heteroscedasticity, tails, drift, draft times.
    columns
        Every other recorded `unique_experts…` against the one that was fitted.
    weak_spots
        What to distrust, most severe first.
    untested
        Name of a diagnostic -> why it was not carried out.
    """

    evidence: Evidence
    factors: tuple[FactorStrength, ...] | None
    standardised: tuple[StandardisedRow, ...] | None
    relations: FactorRelations | None
    ladder: Ladder | None
    pooled: PooledModel | None
    budget_forms: tuple[BudgetForm, ...] | None
    regimes: Regimes | None
    levels: Regimes | None
    transfer: Transfer | None
    hypotheses: Hypotheses | None
    robust_at_one_m: Robustness | None
    robust_joint: Robustness | None
    residuals: Residuals | None
    columns: tuple[ColumnComparison, ...]
    weak_spots: tuple[WeakSpot, ...] | None
    untested: dict[str, str] = field(default_factory=dict)


def diagnose(evidence: Evidence, on_step: Callable[[str], None] = lambda step: None) -> Diagnosis:
    """Carry out every diagnostic that the rounds allow.

    Parameters
    ----------
    evidence
        Rounds of one batch size (`gather_evidence`).
    on_step
        Told what is worked on next.
    """
    untested: dict[str, str] = {}

    def attempt(name: str, step: Callable[[], _Result]) -> _Result | None:
        on_step(name)
        try:
            return step()
        except InputError as error:
            untested[name] = str(error)
            return None

    regimes = attempt("regimes", lambda: find_regimes(evidence))
    levels = attempt("steps of alpha", lambda: find_regimes(evidence, levels="free"))
    runs = levels.partition if levels is not None and levels.found else None
    robust = attempt("robustness", lambda: robustness(evidence))
    residuals = attempt("residuals", lambda: residual_diagnostics(evidence))
    moved = None
    if regimes is not None and regimes.found:
        moved = attempt("transfer", lambda: transfer(evidence, regimes.partition))
    elif regimes is not None:
        untested["transfer"] = "no regimes were found, so there is nothing to transfer between"
    on_step("columns")
    compared, failed = compare_with_others(evidence)
    untested |= failed
    return Diagnosis(
        evidence=evidence,
        factors=attempt("factors", lambda: factor_strengths(evidence)),
        standardised=attempt("standardised", lambda: standardised_by_m(evidence)),
        relations=attempt("relations", lambda: factor_relations(evidence)),
        ladder=attempt("ladder", lambda: specification_ladder(evidence)),
        pooled=attempt("pooled", lambda: pooled_model(evidence)),
        budget_forms=attempt("budget forms", lambda: budget_forms(evidence)),
        regimes=regimes,
        levels=levels,
        transfer=moved,
        hypotheses=attempt("hypotheses", lambda: judge_hypotheses(evidence, runs)),
        robust_at_one_m=None if robust is None else robust[0],
        robust_joint=None if robust is None else robust[1],
        residuals=residuals,
        columns=compared,
        weak_spots=attempt(
            "weak spots",
            lambda: weak_spots(
                evidence,
                robust=None if robust is None else robust[1],
                residuals=residuals,
                boundaries=None if runs is None or levels is None else levels.boundaries,
                compared=compared,
                untested=dict(untested),
            ),
        ),
        untested=untested,
    )
