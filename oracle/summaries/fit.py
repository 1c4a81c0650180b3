"""What is shown of a latency fit."""

from dataclasses import replace
from typing import Any

from oracle.latency.estimates import Estimate
from oracle.latency.tables import CoefficientTable, FitResult
from oracle.summaries.diagnostics import estimate_cells
from oracle.tables import Table, number, show, with_interval, words


def fit_tables(result: FitResult) -> list[Table]:
    """Tables of a latency fit, for each batch size: the coefficients by m, and the draft times by k."""
    return [of_batch_size(table, each.batch_size) for each in result.each for table in tables_at_one_batch_size(each)]


def of_batch_size(table: Table, size: int | None) -> Table:
    """Name the batch size a table is of; as it is where there is none."""
    if size is None:
        return table
    return replace(table, name=f"{table.name}_batch_{size}", title=f"{table.title}; batch size {size}")


def tables_at_one_batch_size(result: FitResult) -> list[Table]:
    """Tables of a fit to rounds of one batch size."""
    carried = carried_table(result)
    tables = [_coefficients(carried, result)]
    if result.separate is not None and carried is not result.separate:
        tables.append(_separate(result.separate))
    return [*tables, _draft_times(result)] if result.draft.rows else tables


def carried_table(result: FitResult) -> CoefficientTable:
    """The verification fit that the model carries."""
    carried = result.joint if result.model.fit is None or result.model.fit["kind"] == "joint" else result.separate
    assert carried is not None
    return carried


def error_table(result: FitResult) -> Table:
    """Both standard errors of every coefficient that the model carries."""
    columns = [number("m", "m")]
    for head, key, spec, scale in (
        ("beta0 ms", "beta0_ms", ".3f", 1),
        ("alpha ms/expert", "alpha_ms_per_expert", ".4f", 1),
        ("c µs/token", "context_ms_per_token", ".3f", 1e3),
    ):
        columns.append(number(f"{head}\nCR1 error", f"{key}_error_cr1", spec, scale))
        columns.append(number(f"{head}\nCR3 error", f"{key}_error_cr3", spec, scale))
    notes = [
        "CR1: clustered errors as other programs give them, too small with few or unequal clusters; CR3: leaving out "
        "one cluster at a time, what every interval here is made of"
    ]
    rows = _coefficient_rows(carried_table(result))
    return Table("latency_errors", "Standard errors of the coefficients, clustered", columns, rows, notes)


def _estimate_cells(key: str, estimate: Estimate) -> dict[str, float | None]:
    errors = {f"{key}_error_cr1": estimate.error_cr1, f"{key}_error_cr3": estimate.error_cr3}
    return estimate_cells(key, estimate) | errors


def _coefficient_rows(table: CoefficientTable) -> list[dict[str, Any]]:
    held_out = {row.m: row for row in table.held_out}
    rows = []
    for row in table.rows:
        outside = held_out.get(row.m)
        rows.append(
            {
                "m": row.m,
                "rounds": row.rounds,
                "clusters": row.clusters,
                "mean_unique_experts": row.mean_unique_experts,
                **_estimate_cells("beta0_ms", row.beta0_ms),
                **_estimate_cells("alpha_ms_per_expert", row.alpha_ms_per_expert),
                "alpha_source": row.alpha_source,
                **_estimate_cells("context_ms_per_token", row.context_ms_per_token),
                "context_source": row.context_source,
                "r2": row.r2,
                "rmse_ms": row.rmse_ms,
                "held_out_r2": outside.r2.pooled if outside else None,
                "held_out_rmse_ms": outside.rmse_ms.pooled if outside else None,
                "held_out_mape_percent": outside.mape_percent.pooled if outside else None,
                "held_out_medape_percent": outside.medape_percent.pooled if outside else None,
            }
        )
    return rows


_COEFFICIENT_COLUMNS = (
    number("m", "m"),
    number("rounds", "rounds"),
    number("clusters", "clusters"),
    number("mean U", "mean_unique_experts", ".2f"),
    with_interval("beta0 ms", "beta0_ms", ".2f"),
    with_interval("alpha ms/expert", "alpha_ms_per_expert", ".4f"),
    with_interval("c µs/token", "context_ms_per_token", ".2f", 1e3),
)
_ERROR_COLUMNS = (
    number("held-out\nR²", "held_out_r2", ".3f"),
    number("held-out\nRMSE ms", "held_out_rmse_ms", ".3f"),
    number("held-out\nMAPE %", "held_out_mape_percent", ".2f"),
    number("held-out\nMedAPE %", "held_out_medape_percent", ".2f"),
)


def _coefficients(table: CoefficientTable, result: FitResult) -> Table:
    counts = result.counts
    context = "one c for all m" if table.kind == "joint" else "one c for each m"
    notes = [
        f"{counts.verify_rounds:,} rounds of {counts.generations:,} generations; errors clustered over "
        f"{counts.clusters:,} clusters, CR3 intervals (95 %, t); held out: {result.folds} folds of clusters",
        f"left out: {counts.prefill:,} prefill rows, {counts.target_not_positive:,} rounds with target_ms ≤ 0, "
        f"{counts.draft_not_positive:,} with draft_ms ≤ 0 at k ≥ 1 (from the draft fit only)",
        *(
            f"m = {row.m}: U does not vary, so alpha is {row.alpha_source} and only beta0 + alpha·U is measured"
            for row in table.rows
            if row.alpha_source.startswith("borrowed")
        ),
        *(f"m = {m}: {why}" for m, why in table.left_out.items()),
        *result.warnings,
    ]
    return Table(
        "latency_model",
        f"Verification time: T = beta0(m) + alpha(m)·U + c·L, {context}",
        (*_COEFFICIENT_COLUMNS, words("alpha from", "alpha_source"), *_ERROR_COLUMNS),
        _coefficient_rows(table),
        notes,
    )


def _separate(table: CoefficientTable) -> Table:
    return Table(
        "latency_separate",
        "The same, fitted for each m by itself (for comparison; the model carries the table above)",
        (*_COEFFICIENT_COLUMNS, *_ERROR_COLUMNS),
        _coefficient_rows(table),
    )


def _draft_times(result: FitResult) -> Table:
    fit = result.draft
    rows = [
        {
            "k": row.k,
            "rounds": row.rounds,
            **_estimate_cells("mean_ms", row.mean_ms),
            "line_ms": row.line_ms,
            "deviation_percent": row.deviation_percent,
        }
        for row in fit.rows
    ]
    notes = [f"the model takes the {fit.choice}: {fit.reason}"]
    if fit.line is not None:
        a, b = fit.line.each
        notes.append(f"line: {show(a.value, '.4f')} ms a step + {show(b.value, '.4f')} ms")
    columns = (
        number("k", "k"),
        number("rounds", "rounds"),
        with_interval("mean ms", "mean_ms", ".3f"),
        number("line ms", "line_ms", ".3f"),
        number("line − mean %", "deviation_percent", "+.1f"),
    )
    return Table("draft_times", "Draft time by draft length (means, 95 % CR3 intervals)", columns, rows, notes)
