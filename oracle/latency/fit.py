"""From recorded verification rounds to a latency model, in two passes over the rows.

Two fits of verification time are made, *joint* (one c, what the model carries) and *separate* (an OLS for each m, the
source's table), and two of draft time, line and table. Errors are clustered by `cluster`, else by generation; held-out
errors come from folds of whole clusters. The steps stand in `fit_latency`; each is a module of its own.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
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
from oracle.latency.model import DraftLine, DraftTable, LatencyModel
from oracle.latency.moments import Integers, Moments
from oracle.latency.passes import CellErrors, first_pass, repeatable, second_pass
from oracle.latency.regression import Fit, fit_form
from oracle.latency.remarks import remarks_on
from oracle.latency.tables import CoefficientTable, FitResult, coefficient_table
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
        The model and its tables. Each of its warnings is also issued as an `InputWarning`.

    Raises
    ------
    InputError
        An option out of range, or rounds that do not identify the coefficients, in words.
    """
    _check_options(kind, folds, draft)
    batches = repeatable(rounds)
    gathered = first_pass(batches)
    verify, drafted = gathered.verify, gathered.draft
    fold, used_folds, said = _folds(verify, folds)

    fitted = _fitted(verify, kind, said)
    trained = {k: _trained(verify, fold, used_folds, partial(fitted_by_m, kind=k)) for k in fitted}
    lines = {"line": drafting.line_by_m, "table": drafting.table_by_m}
    trained_draft = {k: _trained(drafted, fold, used_folds, fit) for k, fit in lines.items()}
    by_fold = drafted.by_group(fold, tuple(map(str, range(used_folds))))
    draft_fit = _draft_fit(drafted, by_fold, verify.ms, draft, trained_draft)

    fold_of = dict(zip(verify.clusters, fold.tolist(), strict=True))
    errors = second_pass(batches, fold_of, trained, trained_draft) if used_folds else {}
    tables = {k: _table(*pair, fold, trained[k], errors.get(k)) for k, pair in fitted.items()}
    if used_folds and draft_fit.rows:
        metrics = {k: held_out(by_fold, (), drafting.RESPONSE, trained_draft[k], errors[k]) for k in lines}
        line = metrics["line"] if draft_fit.line is not None else ()
        draft_fit = replace(draft_fit, line_held_out=line, table_held_out=metrics["table"])

    said += remarks_on(gathered.counts, tables["joint"], tables.get("separate"), draft_fit)
    record = fit_record(
        tables[kind], draft_fit, gathered.counts, folds=used_folds, warnings=said, provenance=provenance
    )
    reject = (gathered.reject_ms or 0.0) if reject_ms is None else reject_ms
    model = _model(tables[kind], draft_fit, reject, record)
    for sentence in said:
        warnings.warn(sentence, InputWarning, stacklevel=2)
    return FitResult(
        model=model,
        joint=tables["joint"],
        separate=tables.get("separate"),
        draft=draft_fit,
        counts=gathered.counts,
        folds=used_folds,
        fold=fold,
        verify_moments=verify,
        draft_moments=drafted,
        warnings=tuple(said),
    )


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


def _model(table: CoefficientTable, draft: DraftFit, reject_ms: float, record: Mapping[str, Any]) -> LatencyModel:
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
    )
