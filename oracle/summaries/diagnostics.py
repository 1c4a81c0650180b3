"""What is shown of the diagnostics: factors, specifications, the budget as a factor, the source's hypotheses."""

from collections.abc import Mapping
from typing import Any

from oracle.latency.diagnostics.factors import FactorRelations, FactorStrength, StandardisedRow
from oracle.latency.diagnostics.fold_errors import OverFolds
from oracle.latency.diagnostics.hypotheses import Hypotheses
from oracle.latency.diagnostics.ladder import Ladder
from oracle.latency.diagnostics.pooled import BudgetForm, PooledModel
from oracle.latency.estimates import Estimate
from oracle.tables import Table, interval_cells, number, with_interval, words

OVER_FOLDS = "intervals: 95 % t over the folds (descriptive: training sets overlap)"


def folds_cells(key: str, values: OverFolds | None) -> dict[str, float | None]:
    """The three cells of a metric over folds."""
    return interval_cells(key, None if values is None else values.mean, values)


def estimate_cells(key: str, estimate: Estimate | None) -> dict[str, float | None]:
    """The three cells of a coefficient."""
    return interval_cells(key, None if estimate is None else estimate.value, estimate)


def factor_table(strengths: tuple[FactorStrength, ...], left_out: Mapping[str, str]) -> Table:
    """Each candidate factor alone, and on top of U.

    Parameters
    ----------
    strengths
        The factors that were tried.
    left_out
        Those that were not -> why.
    """
    rows = [
        {
            "factor": s.factor,
            **folds_cells("r2", s.r2),
            **folds_cells("rmse_ms", s.rmse_ms),
            **folds_cells("gain_ms", s.gain_ms),
            "why": s.why,
        }
        for s in strengths
    ]
    columns = (
        words("factor", "factor"),
        with_interval("R² alone", "r2"),
        with_interval("RMSE ms alone", "rmse_ms"),
        with_interval("RMSE ms saved on top of U", "gain_ms"),
        words("", "why", most=120),
    )
    notes = [OVER_FOLDS, *(f"{name}: not among the factors, {why}" for name, why in left_out.items())]
    title = "Candidate factors: how well each predicts verification time, held out"
    return Table("factors", title, columns, rows, notes)


def standardised_table(rows: tuple[StandardisedRow, ...]) -> Table:
    """Standardised coefficients of U and L within each m."""
    cells: list[dict[str, Any]] = [
        {
            "k": row.k,
            "rounds": row.rounds,
            **estimate_cells("unique_experts", row.unique_experts),
            **estimate_cells("context_len", row.context_len),
            "r2": row.r2,
            "why": row.why,
        }
        for row in rows
    ]
    columns = (
        number("K", "k"),
        number("rounds", "rounds"),
        with_interval("U", "unique_experts"),
        with_interval("L", "context_len"),
        number("R²", "r2"),
        words("", "why", most=120),
    )
    title = "Standardised association of verification time with U and L within each K"
    return Table("standardised", title, columns, cells, ["in standard deviations; intervals: 95 %, CR3"])


def relation_table(relations: FactorRelations) -> Table:
    """Correlations between the factors, and variance inflation."""
    rows = []
    for i, factor in enumerate(relations.factors):
        row: dict[str, Any] = {"factor": factor}
        row |= {f"r_{other}": relations.pooled[i][j] for j, other in enumerate(relations.factors)}
        row |= {f"r_{other}_within_m": relations.within_m[i][j] for j, other in enumerate(relations.factors)}
        rows.append(row | {"vif": relations.vif[i], "vif_within_m": relations.vif_within_m[i]})
    columns = (
        words("factor", "factor"),
        *(number(f"r with\n{other}", f"r_{other}") for other in relations.factors),
        number("VIF", "vif", ".2f"),
        number("VIF\nwithin m", "vif_within_m", ".2f"),
    )
    notes = [f"exactly determined by the others: {', '.join(relations.exact)}"] if relations.exact else []
    return Table("relations", "How the factors move together (correlations over all rounds)", columns, rows, notes)


def ladder_table(ladder: Ladder) -> Table:
    """Nested specifications, each against the one before."""
    rows = [
        {
            "specification": rung.name,
            **folds_cells("mape_percent", rung.mape_percent),
            **folds_cells("r2", rung.r2),
            **folds_cells("rmse_ms", rung.rmse_ms),
            "over": rung.over,
            **folds_cells("rmse_gain_ms", rung.rmse_gain_ms),
            "why": rung.why,
        }
        for rung in ladder.rungs
    ]
    columns = (
        words("specification", "specification"),
        with_interval("MAPE %", "mape_percent", ".2f"),
        with_interval("R²", "r2"),
        with_interval("RMSE ms", "rmse_ms"),
        words("over", "over"),
        with_interval("RMSE ms saved", "rmse_gain_ms"),
        words("", "why", most=120),
    )
    notes = [OVER_FOLDS, *(f"{name}: left out, {why}" for name, why in ladder.left_out.items())]
    return Table(
        "ladder", "Ladder of specifications, held out; saved: over the rung named, paired", columns, rows, notes
    )


def pooled_table(pooled: PooledModel) -> Table:
    """The linear model with K that shares its coefficients over all K."""
    rows = [
        {"coefficient": c.name, **estimate_cells("value", c.estimate), **estimate_cells("standardised", c.standardised)}
        for c in pooled.coefficients
    ]
    columns = (
        words("coefficient", "coefficient"),
        with_interval("value", "value", ".5g"),
        with_interval("standardised", "standardised"),
    )
    notes = ["intervals: 95 %, CR3", *([pooled.why] if pooled.why else [])]
    if pooled.held_out_mape_percent is not None and pooled.held_out_mape_percent.mean is not None:
        by_k = ", ".join(
            f"K = {row.k}: {row.held_out.mean:.1f}" for row in pooled.by_k if row.held_out.mean is not None
        )
        notes.append(f"held-out MAPE {pooled.held_out_mape_percent.mean:.2f} %; by K: {by_k}")
    return Table("pooled", "One linear model for all K: T = beta0 + alpha·U + c·L + gamma·K", columns, rows, notes)


def budget_table(forms: tuple[BudgetForm, ...]) -> Table:
    """Smooth forms of the budget, and what they predict at a K they have not seen."""
    rows = [
        {
            "form": f.name,
            **folds_cells("mape_percent", f.mape_percent),
            "left_out_mean_percent": f.left_out_mean_percent,
            "worst_k": f.worst_k,
            "worst_percent": None if f.worst_k is None else f.left_out_k_percent[f.worst_k],
            "left_out_k_percent": dict(f.left_out_k_percent),
            "why": f.why,
        }
        for f in forms
    ]
    columns = (
        words("form of the budget", "form"),
        with_interval("held-out MAPE %", "mape_percent", ".2f"),
        number("MAPE % at a\nK left out", "left_out_mean_percent", ".2f"),
        number("worst K", "worst_k"),
        number("MAPE %\nthere", "worst_percent", ".1f"),
        words("", "why", most=120),
    )
    title = "The budget as a smooth factor, and leave-one-K-out"
    return Table(
        "budget_forms",
        title,
        columns,
        rows,
        ["categorical: free beta0 and alpha for each m, which says nothing of another m"],
    )


def hypothesis_table(found: Hypotheses) -> Table:
    """The source's three hypotheses, each with a verdict and its evidence."""
    claims = {
        "H1": "the routing signal U predicts best",
        "H2": "constant increment per expert within a regime",
        "H3": "U gains on L as K grows",
    }
    rows = [
        {"hypothesis": name, "claim": claims[name], "verdict": each.verdict, "evidence": each.sentence}
        for name, each in (("H1", found.h1), ("H2", found.h2), ("H3", found.h3))
    ]
    columns = (
        words("", "hypothesis"),
        words("claim", "claim"),
        words("verdict", "verdict", most=200),
        words("evidence", "evidence", most=2000),
    )
    return Table("hypotheses", "Three hypotheses of the source on these rounds", columns, rows)
