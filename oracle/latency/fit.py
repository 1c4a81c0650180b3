"""From recorded verification rounds to a latency model, in two passes over the rows.

Two fits of verification time are made, *joint* (one c, what the model carries) and *separate* (an OLS for each m, the
source's table), and two of draft time, line and table. Errors are clustered by `cluster`, else by generation; held-out
errors come from folds of whole clusters. The steps stand in `fit_latency`; each is a module of its own. Batch sizes
share the walks over the rows and nothing else: each is fitted as if the others had not been recorded.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from oracle.errors import InputError, InputWarning
from oracle.latency import draft as drafting
from oracle.latency.draft import DraftFit
from oracle.latency.estimates import estimates_of
from oracle.latency.fit_record import fit_record
from oracle.latency.folds import fold_of_cluster
from oracle.latency.forms import REGRESSORS, RESPONSE, Kind, VerificationForm, fitted_by_m, verification_form
from oracle.latency.metrics import Coefficients, HeldOut, held_out
from oracle.latency.model import DraftLine, DraftTable, LatencyModel, ModelByBatchSize
from oracle.latency.moments import Integers, Moments
from oracle.latency.passes import (
    CellErrors,
    Gathered,
    Variants,
    at_batch_size,
    each_batch_size,
    first_pass,
    repeatable,
    second_pass,
)
from oracle.latency.regression import Fit, fit_form
from oracle.latency.reject import fit_reject
from oracle.latency.remarks import remarks_on
from oracle.latency.tables import CoefficientTable, Counts, FitByBatchSize, FitResult, coefficient_table
from oracle.latency.units import suspect_unit
from oracle.rounds import Rounds

KINDS: tuple[Kind, ...] = ("joint", "separate")


def fit_latency(
    rounds: Rounds | Iterable[Rounds],
    *,
    kind: Kind = "joint",
    folds: int = 5,
    draft: drafting.Option = "auto",
    reject_ms: float | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> FitResult:
    """Fit a latency model to verification rounds.

    Parameters
    ----------
    rounds
        Batches of rounds that can be walked twice (`RoundFiles`, a list), or all rounds in one object.
    kind
        Which fit the model carries: ``"joint"`` (one context coefficient) or ``"separate"`` (one for each m).
    folds
        Folds of whole clusters for held-out errors; fewer are used, with a warning, where there are fewer clusters.
    draft
        ``"line"``, ``"table"``, ``"auto"`` (line, unless the table predicts held-out rounds better by more than one
        standard error), or ``"free"`` (drafting costs nothing).
    reject_ms
        Further time of a round with k >= 1, ms; None takes the mean of the column ``reject_ms``, or 0 without one.
    provenance
        Kept in the model file as it is: input files and digests, versions, options.

    Returns
    -------
    FitResult
        The model and its tables; a `FitByBatchSize` where the rounds hold several batch sizes, each fitted by itself.
        Each of its warnings is also issued as an `InputWarning`.

    Raises
    ------
    InputError
        An option out of range, or rounds that do not identify the coefficients, in words.
    """
    _check_options(kind, folds, draft)
    batches = repeatable(rounds)
    gathered = first_pass(batches)
    begun = each_batch_size(gathered, lambda size: _begin(gathered[size], kind, folds, draft))
    errors = second_pass(batches, {size: each.variants for size, each in begun.items() if each.folds})
    results = [_finish(each, size, errors.get(size, {}), kind, reject_ms, provenance) for size, each in begun.items()]
    result = results[0] if len(results) == 1 else _together(results, list(gathered.values()), kind, provenance)
    for sentence in result.warnings:
        warnings.warn(sentence, InputWarning, stacklevel=2)
    return result


@dataclass(frozen=True)
class _Begun:
    """One batch size after the first pass: fitted, not yet judged on the rounds held out."""

    gathered: Gathered
    fold: Integers
    folds: int
    fitted: Mapping[Kind, tuple[VerificationForm, Fit]]
    variants: Variants
    draft: DraftFit
    said: tuple[str, ...]


def _begin(gathered: Gathered, kind: Kind, folds: int, draft: drafting.Option) -> _Begun:
    """Fit everything, on all clusters and without each fold."""
    verify, drafted = gathered.verify, gathered.draft
    fold, used_folds, said = _folds(verify, folds)
    fitted = _fitted(verify, kind, said)
    trained = {k: _trained(verify, fold, used_folds, partial(fitted_by_m, kind=k)) for k in fitted}
    lines = {"line": drafting.line_by_m, "table": drafting.table_by_m}
    trained_draft = {k: _trained(drafted, fold, used_folds, fit) for k, fit in lines.items()}
    by_fold = drafted.by_group(fold, tuple(map(str, range(used_folds))))
    fold_of = dict(zip(verify.clusters, fold.tolist(), strict=True))
    return _Begun(
        gathered,
        fold,
        used_folds,
        fitted,
        Variants(fold_of, trained, trained_draft),
        _draft_fit(drafted, by_fold, verify.ms, draft, trained_draft),
        tuple(said),
    )


def _finish(
    begun: _Begun,
    batch_size: int | None,
    errors: Mapping[str, CellErrors],
    kind: Kind,
    reject_ms: float | None,
    provenance: Mapping[str, Any] | None,
) -> FitResult:
    """Add the held-out errors; make tables, remarks, record and model of one batch size."""
    gathered, fold, trained, trained_draft = begun.gathered, begun.fold, begun.variants.verify, begun.variants.draft
    tables = {k: _table(*pair, fold, trained[k], errors.get(k)) for k, pair in begun.fitted.items()}
    draft_fit = begun.draft
    if begun.folds and draft_fit.rows:
        by_fold = gathered.draft.by_group(fold, tuple(map(str, range(begun.folds))))
        metrics = {k: held_out(by_fold, (), drafting.RESPONSE, trained_draft[k], errors[k]) for k in trained_draft}
        line = metrics["line"] if draft_fit.line is not None else ()
        draft_fit = replace(draft_fit, line_held_out=line, table_held_out=metrics["table"])

    reject = fit_reject(gathered.reject)
    said = [*begun.said, *remarks_on(gathered.counts, tables["joint"], tables.get("separate"), draft_fit)]
    said += [] if reject is None or reject_ms is not None else reject.remarks
    unit = unit_remark(gathered.verify, gathered.draft, tables["joint"])
    said += [] if unit is None else [unit]
    record = fit_record(
        tables[kind], draft_fit, gathered.counts, reject, folds=begun.folds, warnings=said, provenance=provenance
    )
    carried = reject_ms if reject_ms is not None else 0.0 if reject is None else reject.mean_ms.value
    return FitResult(
        model=_model(tables[kind], draft_fit, carried, record, batch_size),
        joint=tables["joint"],
        separate=tables.get("separate"),
        draft=draft_fit,
        counts=gathered.counts,
        folds=begun.folds,
        fold=fold,
        verify_moments=gathered.verify,
        draft_moments=gathered.draft,
        warnings=tuple(said),
        reject=reject,
        batch_size=batch_size,
    )


def unit_remark(verify: Moments, draft: Moments, joint: CoefficientTable) -> str | None:
    """Say it if the times of a fit look as if they were not milliseconds; it is among the fit's warnings too."""

    def typical(moments: Moments) -> float | None:
        return float(moments.n @ moments.mean[:, -1] / moments.n.sum()) if moments.rounds else None

    target = typical(verify)
    context = joint.rows[0].context_ms_per_token.value
    return None if target is None else suspect_unit(target, typical(draft), context)


def _together(
    results: Sequence[FitResult], gathered: Sequence[Gathered], kind: Kind, provenance: Mapping[str, Any] | None
) -> FitByBatchSize:
    """One model of all batch sizes."""
    sums = {key: sum(vars(each.counts)[key] for each in gathered) for key in vars(gathered[0].counts)}
    sums["longest_context"] = max(each.counts.longest_context for each in gathered)
    sums["generations"] = len(frozenset[str]().union(*(each.generations for each in gathered)))
    sums["clusters"] = len(set[str]().union(*(each.verify.clusters for each in gathered)))
    said = [at_batch_size(each.batch_size, sentence) for each in results for sentence in each.warnings]
    record = {
        "kind": kind,
        "by_batch_size": {str(each.batch_size): each.model.fit for each in results},
        "warnings": said,
        "provenance": dict(provenance or {}),
    }
    return FitByBatchSize(ModelByBatchSize([each.model for each in results], record), Counts(**sums), results, said)


def _check_options(kind: str, folds: int, draft: str) -> None:
    faults = []
    if kind not in KINDS:
        faults.append(f"kind is {kind!r}; it is 'joint' or 'separate'")
    if draft not in ("auto", "line", "table", "free"):
        faults.append(f"draft is {draft!r}; it is 'auto', 'line', 'table' or 'free'")
    if folds < 2:
        faults.append(f"folds is {folds}; held-out metrics need at least 2 folds")
    if faults:
        raise InputError(faults)


def _folds(verify: Moments, folds: int) -> tuple[Integers, int, list[str]]:
    """Fold of each cluster, how many folds, and what to say if they are fewer than asked for."""
    sizes = verify.cluster_sizes()
    occupied = int(np.count_nonzero(sizes))
    if occupied == 1:
        alone = "one cluster only: no errors, intervals or held-out metrics; record more generations"
        return np.zeros(len(sizes), dtype=np.int64), 0, [alone]
    said = [f"{occupied} clusters: held-out metrics use {occupied} folds, not {folds}"] if folds > occupied else []
    used = min(folds, occupied)
    return fold_of_cluster(sizes, used), used, said


def _trained(
    moments: Moments, fold: Integers, folds: int, fit: Callable[[Moments], Coefficients]
) -> list[Coefficients]:
    """For each fold the coefficients fitted on the others; empty where those do not identify any."""
    by_fold: list[Coefficients] = []
    for f in range(folds):
        rest = moments.of_clusters(fold != f)
        try:
            by_fold.append(fit(rest) if rest.rounds else {})
        except InputError:
            by_fold.append({})  # counted as unpredicted rounds and reported there
    return by_fold


def _fitted(verify: Moments, kind: Kind, said: list[str]) -> dict[Kind, tuple[VerificationForm, Fit]]:
    """Both verification fits; a separate fit that is not carried may be impossible, which is said."""
    fitted: dict[Kind, tuple[VerificationForm, Fit]] = {}
    for each in KINDS:
        try:
            chosen = verification_form(verify.by_m(), each)
            fitted[each] = chosen, fit_form(verify, chosen.form)
        except InputError as error:
            if each in (kind, "joint"):
                raise
            said.append(f"no separate fit for each m: {error}")
    return fitted


def _table(
    chosen: VerificationForm, fit: Fit, fold: Integers, trained: Sequence[Coefficients], errors: CellErrors | None
) -> CoefficientTable:
    """Give one verification fit with its errors and held-out errors."""
    metrics: tuple[HeldOut, ...] = ()
    if trained:
        by_fold = fit.moments.by_group(fold, tuple(map(str, range(len(trained)))))
        metrics = held_out(by_fold, REGRESSORS, RESPONSE, trained, errors)
    return coefficient_table(chosen, fit, estimates_of(fit, chosen.names, chosen.report), metrics)


def _draft_fit(
    drafted: Moments,
    by_fold: Moments,
    measured: tuple[int, ...],
    option: drafting.Option,
    trained: Mapping[str, Sequence[Coefficients]],
) -> DraftFit:
    """Both draft fits; a target measured at k = 0 only has nothing to draft."""
    if not drafted.rounds and measured == (1,):
        return DraftFit("free", "no rounds with draft length 1 or more", None, ())
    return drafting.fit_draft(drafted, option, drafting.fold_differences(by_fold, trained["line"], trained["table"]))


def _model(
    table: CoefficientTable, draft: DraftFit, reject_ms: float, record: Mapping[str, Any], batch_size: int | None
) -> LatencyModel:
    """Take over the coefficients of a table and of the chosen draft fit."""
    if draft.choice == "line" and draft.line is not None:
        times: DraftLine | DraftTable = DraftLine(*(e.value for e in draft.line.each))
    elif draft.choice == "table":
        times = DraftTable(tuple(row.k for row in draft.rows), tuple(row.mean_ms.value for row in draft.rows))
    else:
        times = DraftLine(0.0, 0.0)
    context = tuple(row.context_ms_per_token.value for row in table.rows)
    return LatencyModel(
        m=tuple(row.m for row in table.rows),
        beta0_ms=tuple(row.beta0_ms.value for row in table.rows),
        alpha_ms_per_expert=tuple(row.alpha_ms_per_expert.value for row in table.rows),
        context_ms_per_token=context[0] if table.kind == "joint" else context,
        draft=times,
        reject_ms=reject_ms,
        fit=record,
        batch_size=batch_size,
    )
