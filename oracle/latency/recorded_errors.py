"""The errors that a model file keeps of its own coefficients, as covariances that numbers can be drawn from.

A record belongs to the numbers beside it: where they differ (a file edited by hand), nothing is taken from it.

Where alpha[m] is borrowed from another m, only beta0[m] + alpha[m] · mean U was measured. That sum is the parameter
here; alpha[m] follows the m it is borrowed from, and beta0[m] moves against it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracle.errors import InputError, printable
from oracle.latency.model import DraftTable, LatencyModel
from oracle.latency.moments import Floats

NOT_PSD = 1e-8  # of the largest eigenvalue: below minus this a matrix is no covariance
_MOST_MS = 1e9
AGREE = 1e-9  # of the larger number: a model and its record, which hold the same doubles
WAY_OUT = "fit the rounds again (draft-oracle fit), or give the rounds themselves (--rounds)"


@dataclass(frozen=True)
class Spread:
    """How V numbers of a model move together, by P parameters that were estimated.

    Parameters
    ----------
    report
        (V, P) float64: numbers moved = report @ parameters moved.
    covariance
        (P, P) float64, CR3.
    clusters
        Clusters behind the covariance, the fewest of any parameter.
    """

    report: Floats
    covariance: Floats
    clusters: int

    def root(self) -> Floats:
        """A matrix F, (P, P), with F F' = covariance, which may be singular.

        Raises
        ------
        InputError
            The matrix is no covariance.
        """
        variance = np.diagonal(self.covariance)
        error = np.sqrt(np.where(variance > 0, variance, 1.0))
        with np.errstate(over="ignore", invalid="ignore"):
            correlation = self.covariance / np.outer(error, error)
            skewed = ~(np.abs(correlation - correlation.T) <= NOT_PSD)  # no number: skewed too
        if (variance < 0).any() or skewed.any():
            raise _no_covariance()
        values, vectors = np.linalg.eigh(correlation)
        if values[0] < -NOT_PSD * max(values[-1], 1.0):
            raise _no_covariance()
        return np.asarray(error[:, None] * vectors * np.sqrt(np.maximum(values, 0.0)))

    def errors(self) -> Floats:
        """Standard errors of the V numbers; raises as `root` does."""
        return np.asarray(np.linalg.norm(self.report @ self.root(), axis=1))


def _no_covariance() -> InputError:
    return InputError(
        "latency model: a covariance_cr3 of the fit is not symmetric and positive semidefinite, so it is no "
        "covariance; fit the rounds again (draft-oracle fit), or give the rounds themselves (--rounds)"
    )


def names_of(model: LatencyModel) -> list[str]:
    """Names of the coefficients of verification time, as a record has them: beta0, alpha, then c."""
    names = [f"{name}[{m}]" for name in ("beta0_ms", "alpha_ms_per_expert") for m in model.m]
    own = isinstance(model.context_ms_per_token, tuple)
    return names + ([f"context_ms_per_token[{m}]" for m in model.m] if own else ["context_ms_per_token"])


def values_of(model: LatencyModel) -> Floats:
    """The coefficients of verification time in the order of `names_of`."""
    context = model.context_ms_per_token
    context = context if isinstance(context, tuple) else (context,)
    return np.array([*model.beta0_ms, *model.alpha_ms_per_expert, *context])


def verify_spread(model: LatencyModel) -> Spread:
    """Spread of the numbers of `values_of`.

    Raises
    ------
    InputError
        The file keeps no covariance, one with gaps, or one that belongs to other numbers.
    """
    names = names_of(model)
    record = _part(model.fit, "coefficients")
    covariance = _covariance(record, "fit.coefficients", names, values_of(model))
    free, report = _tied(model, record_means(model)[:, 0])
    return Spread(report, free @ covariance @ free.T, _fewest(record))


def draft_spread(model: LatencyModel) -> Spread:
    """Spread of the draft times: of (ms_per_token, base_ms) of a line, or of the entries of a table.

    The file keeps no covariance between the entries of a table: they count as independent.

    Raises
    ------
    InputError
        As `verify_spread`.
    """
    record, draft = _part(model.fit, "draft"), model.draft
    if not isinstance(draft, DraftTable):
        values = np.array([draft.ms_per_token, draft.base_ms])
        if record.get("choice") == "free" and not values.any():
            return fixed(2)
        line = _part(record, "line", "fit.draft.")
        covariance = _covariance(line, "fit.draft.line", ["ms_per_token", "base_ms"], values)
        return Spread(np.eye(2), covariance, _fewest(line))
    by_k = _rows_by(record.get("table"), "k")
    errors = []
    for k, ms in zip(draft.k, draft.ms, strict=True):
        row = by_k.get(k, {})
        _same(f"draft time at k = {k}", ms, row.get("mean_ms"), f"fit.draft.table, k = {k}")
        errors.append(_error(row.get("error_cr3"), f"fit.draft.table, k = {k}: error_cr3"))
    return Spread(np.eye(len(errors)), np.diag(np.square(errors)), _clusters(model.fit))


def reject_spread(model: LatencyModel) -> Spread:
    """Spread of reject_ms; none where it was set by hand (``fit --reject-ms``) and not estimated."""
    record = (model.fit or {}).get("reject")
    mean = record.get("mean_ms") if isinstance(record, Mapping) else None
    if not isinstance(record, Mapping) or not _agree(model.reject_ms, mean):
        return fixed(1)
    error = _error(record.get("error_cr3"), "fit.reject.error_cr3")
    return Spread(np.eye(1), np.array([[error**2]]), _clusters(model.fit))


def record_means(model: LatencyModel) -> Floats:
    """Mean U and mean L of the rounds behind each m, (M, 2).

    Raises
    ------
    InputError
        The file does not keep them.
    """
    by_m = _rows_by((model.fit or {}).get("per_m"), "m")
    means = [[by_m.get(m, {}).get(f"mean_{name}") for name in ("unique_experts", "context_len")] for m in model.m]
    for m, pair in zip(model.m, means, strict=True):
        if not all(is_number(value) for value in pair):
            raise InputError(
                f"latency model: fit.per_m does not keep mean_unique_experts and mean_context_len of m = {m}; {WAY_OUT}"
            )
    return np.array(means, dtype=np.float64)


def fixed(count: int) -> Spread:
    """The spread of numbers that are known."""
    return Spread(np.eye(count), np.zeros((count, count)), 0)


def _rows_by(rows: object, key: str) -> dict[int, Mapping[str, Any]]:
    """Find the rows of a table by a whole number; what is none of that is left out."""
    found = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return {row[key]: row for row in found if isinstance(row.get(key), int)}


def _tied(model: LatencyModel, mean_unique: Floats) -> tuple[Floats, Floats]:
    """What was measured from what is reported (P, V), and back (V, P)."""
    M, count = len(model.m), len(names_of(model))
    free, report, keep = np.eye(count), np.eye(count), np.ones(count, dtype=np.bool_)
    for i, source in enumerate(_sources(model)):
        if source is not None:
            keep[M + i] = False
            free[i, M + i] = mean_unique[i]
            report[M + i, M + i] = 0.0
            report[M + i, M + source] = 1.0
            report[i, M + source] = -mean_unique[i]
    return free[keep], report[:, keep]


def _sources(model: LatencyModel) -> list[int | None]:
    """For each m the index of the m whose alpha it borrows; None where it has its own, or no experts."""
    said = (model.fit or {}).get("alpha_source")
    if not isinstance(said, list) or len(said) != len(model.m):
        raise InputError(f"latency model: fit.alpha_source does not say where each alpha comes from; {WAY_OUT}")
    sources: list[int | None] = []
    for i, words in enumerate(said):
        borrowed = re.fullmatch(r"borrowed from m = (\d{1,6})", str(words))
        m = int(borrowed[1]) if borrowed else 0
        if m in model.m and m != model.m[i]:
            sources.append(model.m.index(m))
        elif words in ("own", "no experts"):
            sources.append(None)
        else:
            raise InputError(
                f"latency model: fit.alpha_source[{i}] is {printable(repr(words), 40)}; it is 'own', 'no experts' or "
                f"'borrowed from m = ' with a measured m; {WAY_OUT}"
            )
    return sources


def _part(record: Mapping[str, Any] | None, name: str, place: str = "fit.") -> Mapping[str, Any]:
    part = (record or {}).get(name)
    if not isinstance(part, Mapping):
        raise InputError(
            f"latency model: {place}{name} is not in the file, so the errors of its coefficients are not known and "
            f"nothing can be drawn; {WAY_OUT}"
        )
    return part


def _covariance(record: Mapping[str, Any], place: str, names: Sequence[str], values: Floats) -> Floats:
    """The CR3 covariance of some names, once they are known to belong to the values."""
    known: Any = record.get("names")
    recorded: Any = record.get("values")
    rows: Any = record.get("covariance_cr3")
    count = len(known) if isinstance(known, list) else 0
    square = (
        isinstance(rows, list) and len(rows) == count and all(isinstance(r, list) and len(r) == count for r in rows)
    )
    if not isinstance(known, list) or not isinstance(recorded, list) or len(recorded) != count or not square:
        raise InputError(
            f"latency model: {place} does not keep names, values and a square covariance_cr3 of one length; {WAY_OUT}"
        )
    for name, value in zip(names, values.tolist(), strict=True):
        _same(name, value, recorded[known.index(name)] if name in known else None, place)
    at = [known.index(name) for name in names]
    picked = [[rows[i][j] for j in at] for i in at]
    without = [name for name, row in zip(names, picked, strict=True) if not all(is_number(value) for value in row)]
    lone = [name for name in without if not is_number(picked[names.index(name)][names.index(name)])]
    if without:
        raise InputError(
            f"latency model: {place}.covariance_cr3 has no value for {', '.join((lone or without)[:4])}: there is one "
            "cluster only, or leaving one out leaves the coefficient unknown; record more generations and fit again, "
            "or give the rounds themselves (--rounds)"
        )
    return np.array(picked, dtype=np.float64)


def _same(name: str, value: float, recorded: Any, place: str) -> None:
    if not _agree(value, recorded):
        said = f"{recorded:.9g}" if is_number(recorded) else "not kept"
        raise InputError(
            f"latency model: {name} is {value:.9g} in the model but {said} in {place}: the errors there belong to "
            "other numbers; fit the rounds again (draft-oracle fit)"
        )


def _agree(value: float, recorded: Any) -> bool:
    return is_number(recorded) and bool(abs(value - recorded) <= AGREE * max(abs(value), abs(recorded)))


def _error(value: Any, place: str) -> float:
    if not is_number(value) or value < 0:
        raise InputError(f"latency model: {place} holds no error; record more generations and fit again")
    if value > _MOST_MS:
        raise InputError(f"latency model: {place} is {value:g}; an error is at most {_MOST_MS:g} ms; fit again")
    return float(value)


def is_number(value: Any) -> bool:
    """Whether a value from a file is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _fewest(record: Mapping[str, Any]) -> int:
    """The fewest clusters of any coefficient that has an error; those set to 0 have none."""
    counts = record.get("clusters")
    some = [n for n in counts if isinstance(n, int) and n > 0] if isinstance(counts, list) else []
    return _at_least_two(min(some, default=0))


def _clusters(fit: Mapping[str, Any] | None) -> int:
    count = (fit or {}).get("clusters")
    return _at_least_two(count if isinstance(count, int) else 0)


def _at_least_two(clusters: int) -> int:
    if clusters < 2:
        known = "1 cluster" if clusters == 1 else "no known clusters"
        raise InputError(
            f"latency model: the fit rests on {known}; errors need at least two: record more generations and fit again"
        )
    return clusters
