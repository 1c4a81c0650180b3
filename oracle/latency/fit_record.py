"""The ``fit`` part of a model file: how the coefficients came about, as plain JSON values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from oracle.latency.draft import DraftFit
from oracle.latency.estimates import Estimates
from oracle.latency.metrics import FoldMetric, HeldOut
from oracle.latency.moments import Floats
from oracle.latency.reject import RejectFit
from oracle.latency.tables import CoefficientTable, Counts


def fit_record(
    carried: CoefficientTable,
    draft: DraftFit,
    counts: Counts,
    reject: RejectFit | None,
    *,
    folds: int,
    warnings: Sequence[str],
    provenance: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Everything of a fit that the model file keeps; null stands where there is no value.

    Parameters
    ----------
    carried
        The table whose coefficients the model carries.
    provenance
        What the caller knows of the origin (input files and their digests, versions, options); JSON values.
    """
    return {
        "kind": carried.kind,
        "rounds": counts.verify_rounds,
        "generations": counts.generations,
        "clusters": counts.clusters,
        "counts": dict(vars(counts)),
        "per_m": [_row(row) for row in carried.rows],
        "alpha_source": [row.alpha_source for row in carried.rows],
        "context_source": [row.context_source for row in carried.rows],
        "left_out": {str(m): why for m, why in carried.left_out.items()},
        "coefficients": _estimates(carried.estimates),
        "metrics": {
            "r2": carried.r2,
            "rmse_ms": carried.rmse_ms,
            "folds": folds,
            "held_out": [_held_out(row) for row in carried.held_out],
        },
        "draft": _draft(draft),
        "reject": None if reject is None else _reject(reject),
        "warnings": list(warnings),
        "provenance": dict(provenance or {}),
    }


def _row(row: Any) -> dict[str, Any]:
    plain = {key: value for key, value in vars(row).items() if isinstance(value, int | float) or value is None}
    return {key: value for key, value in plain.items() if not key.endswith("_source")}


def _estimates(estimates: Estimates) -> dict[str, Any]:
    each = estimates.each
    return {
        "names": list(estimates.names),
        "values": [e.value for e in each],
        "error_cr1": [e.error_cr1 for e in each],
        "error_cr3": [e.error_cr3 for e in each],
        "low": [e.low for e in each],
        "high": [e.high for e in each],
        "clusters": [e.clusters for e in each],
        "covariance_cr1": _matrix(estimates.covariance_cr1),
        "covariance_cr3": _matrix(estimates.covariance_cr3),
    }


def _matrix(matrix: Floats) -> list[list[float | None]]:
    return [[value if math.isfinite(value) else None for value in row] for row in matrix.tolist()]


def _metric(metric: FoldMetric) -> dict[str, Any]:
    return {
        "mean": metric.mean,
        "half_width": metric.half_width,
        "pooled": metric.pooled,
        "by_fold": list(metric.by_fold),
    }


def _held_out(row: HeldOut) -> dict[str, Any]:
    return {
        "m": row.m,
        "rounds": row.rounds,
        "unpredicted": row.unpredicted,
        "r2": _metric(row.r2),
        "rmse_ms": _metric(row.rmse_ms),
        "mape_percent": _metric(row.mape_percent),
        "medape_percent": _metric(row.medape_percent),
    }


def _draft(draft: DraftFit) -> dict[str, Any]:
    return {
        "choice": draft.choice,
        "reason": draft.reason,
        "line": None if draft.line is None else _estimates(draft.line),
        "table": [
            {
                "k": row.k,
                "rounds": row.rounds,
                "mean_ms": row.mean_ms.value,
                "error_cr1": row.mean_ms.error_cr1,
                "error_cr3": row.mean_ms.error_cr3,
                "line_ms": row.line_ms,
                "deviation_percent": row.deviation_percent,
            }
            for row in draft.rows
        ],
        "mean_deviation_percent": draft.mean_deviation_percent,
        "line_held_out": [_held_out(row) for row in draft.line_held_out[:1]],
        "table_held_out": [_held_out(row) for row in draft.table_held_out[:1]],
    }


def _reject(reject: RejectFit) -> dict[str, Any]:
    return {
        "mean_ms": reject.mean_ms.value,
        "error_cr1": reject.mean_ms.error_cr1,
        "error_cr3": reject.mean_ms.error_cr3,
        "table": [
            {
                "k": row.k,
                "rounds": row.rounds,
                "mean_ms": row.mean_ms.value,
                "error_cr1": row.mean_ms.error_cr1,
                "error_cr3": row.mean_ms.error_cr3,
            }
            for row in reject.rows
        ],
        "differs_at": list(reject.differs_at),
    }
