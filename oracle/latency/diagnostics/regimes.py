"""Regimes: runs of m with one alpha and beta0 linear in m, and whether the rounds show where one ends.

The partition of the measured m that leaves the smallest residual sum is found for each number of regimes, inside every
training fold and every bootstrap resample anew (the source chose its boundary on all rounds). The number of regimes is
the smallest whose held-out RMSE lies within one standard error (of the paired fold differences) of the best. Where that
is as many regimes as there are places, regimes predict worse than free alpha and beta0 at every m: none are found.
Neither are any where no regime holds three m, since two always lie on a line.

With ``levels="free"`` beta0 is free at every m and only alpha is shared by a run: that separates steps of alpha from
bends of beta0, which the linear form also answers with boundaries.
"""

from collections.abc import Sequence

import numpy as np

from oracle.errors import InputError
from oracle.latency.diagnostics.fold_errors import OverFolds, over_folds
from oracle.latency.diagnostics.percentages import LaidOutRounds
from oracle.latency.diagnostics.regime_form import RegimeFit, fit_partition, regime_form
from oracle.latency.diagnostics.regime_tables import Boundary, NumberRow, Regimes
from oracle.latency.diagnostics.regime_words import JUMP, said, why_none
from oracle.latency.diagnostics.runs import Candidates, Levels, Partition, Search, candidates, search
from oracle.latency.estimates import Estimate
from oracle.latency.evidence import Evidence
from oracle.latency.forms import RESPONSE
from oracle.latency.metrics import Coefficients
from oracle.latency.moments import Floats
from oracle.latency.regression import fit_form

DRAWS = 999
NOTHING = 1e-6  # of the mean time: a smaller difference is rounding, not evidence
SETTLED = 0.9  # share of resamples that must find a boundary, besides every fold, for its place to count as settled


def find_regimes(
    evidence: Evidence,
    *,
    levels: Levels = "line",
    draws: int = DRAWS,
    seed: int = 0,
    rounds: LaidOutRounds | None = None,
) -> Regimes:
    """Search for regimes.

    Parameters
    ----------
    levels
        ``"line"``: beta0 linear in m inside a regime (the definition); ``"free"``: beta0 free at every m.
    draws
        Bootstrap resamples of clusters, for the search on its own and for the whole procedure with its folds.
    rounds
        The rounds laid out, if they are already.

    Raises
    ------
    InputError
        unique_experts varies at no m, or no m has four rounds.
    """
    if "unique_experts" not in evidence.factors:
        raise InputError("regimes: unique_experts varies at no m, so there is no alpha that could change with m")
    found = candidates(evidence.moments.by_m())
    if not found.atoms:
        raise InputError("regimes: no m has rounds enough and unique experts that vary; record more rounds")
    G, moments = len(evidence.clusters), evidence.moments
    everything = search(moments, found, np.ones((1, G)), levels=levels)
    inside = np.array([evidence.fold == f for f in range(evidence.folds)], dtype=np.float64).reshape(-1, G)
    folds = search(moments, found, 1 - inside, inside, levels)
    counts = np.random.default_rng(seed).multinomial(G, np.full(G, 1 / G), size=draws if G > 1 else 0)
    weights = counts.astype(np.float64)
    resamples = search(moments, found, weights, levels=levels)
    chosen_in = _chosen_in(evidence, found, weights, inside, levels)
    enough = chosen_in if 2 * len(chosen_in) >= draws else []  # the few that hold every m in every fold are a selection

    rows = _by_number(evidence, found, everything, folds, resamples, enough, levels, rounds)
    index = _chosen([row.held_out_rmse_ms for row in rows], _floor_ms(evidence))[0]
    by_mape = _chosen([row.held_out_mape_percent for row in rows], 100 * NOTHING)[0]
    none = "not searched: held-out errors need two folds whose complements hold every m"
    if index is not None:
        none = why_none(rows[index].runs, found, levels)
    fit = None if index is None or none else fit_partition(rows[index].runs, moments, levels)
    boundaries = _boundaries(found, index, fit, folds, resamples, everything, _floor_ms(evidence) / _experts(evidence))
    share = None if index is None else rows[index].share_chosen
    return Regimes(
        levels=levels,
        places=found.atoms,
        found=fit is not None,
        number=None if index is None else found.numbers[index],
        number_by_mape=None if by_mape is None else found.numbers[by_mape],
        regimes=() if fit is None else fit.regimes,
        context_ms_per_token=None if fit is None else fit.context,
        by_number=rows,
        boundaries=boundaries,
        folds=int(folds.complete.sum()),
        resamples=int(resamples.complete.sum()),
        resamples_with_folds=len(chosen_in),
        left_out=found.left_out,
        said=tuple(said(levels, fit, boundaries, share)) if fit is not None else (f"no regimes found: {none}",),
    )


def within_one_error(errors: Floats, floor: float = 0.0) -> tuple[int, Floats, Floats]:
    """Apply the one-standard-error rule to (numbers, F) held-out errors, fewest regimes first.

    Parameters
    ----------
    floor
        A mean excess up to this is none: rounds without noise differ by rounding only.

    Returns
    -------
    Index of the first number whose mean excess over the best is at most the standard error of that excess (or the
    floor); the mean excesses and their errors. Both are paired by fold.
    """
    excess = errors - errors[errors.mean(axis=1).argmin()]
    mean, error = excess.mean(axis=1), excess.std(axis=1, ddof=1) / np.sqrt(errors.shape[1])
    return int(np.argmax(mean <= np.maximum(error, floor))), mean, error


def _chosen(errors: Sequence[OverFolds], floor: float) -> tuple[int | None, Floats, Floats]:
    """Apply the rule to the folds that every number has an error for; no choice with fewer than two."""
    table = np.array([[np.nan if e is None else e for e in each.by_fold] for each in errors])
    usable = table[:, np.isfinite(table).all(axis=0)]
    if usable.shape[1] < 2:
        nothing = np.full(len(errors), np.nan)
        return None, nothing, nothing
    return within_one_error(usable, floor)


def _chosen_in(evidence: Evidence, found: Candidates, draws: Floats, inside: Floats, levels: Levels) -> list[int]:
    """Index of the number that the whole procedure chooses in each resample that holds every m in every fold."""
    folds, G = inside.shape
    if folds < 2 or not len(draws):
        return []
    training = (draws[:, None, :] * (1 - inside)).reshape(-1, G)
    each = search(evidence.moments, found, training, (draws[:, None, :] * inside).reshape(-1, G), levels)
    errors = each.rmse_held_out.reshape(-1, len(draws), folds)
    usable = each.complete.reshape(-1, folds).all(axis=1) & np.isfinite(errors).all(axis=(0, 2))
    return [within_one_error(errors[:, b], _floor_ms(evidence))[0] for b in np.flatnonzero(usable)]


def _by_number(
    evidence: Evidence,
    found: Candidates,
    everything: Search,
    folds: Search,
    resamples: Search,
    chosen_in: Sequence[int],
    levels: Levels,
    rounds: LaidOutRounds | None,
) -> tuple[NumberRow, ...]:
    """Lay out the best partition of every number of regimes with its held-out errors and its stability."""
    laid_out = LaidOutRounds(evidence) if rounds is None and evidence.folds else rounds
    rmse = np.where(folds.complete, folds.rmse_held_out, np.nan)
    excess, error = _chosen([over_folds(each) for each in rmse], _floor_ms(evidence))[1:]
    total = float(evidence.moments.where(np.isin(evidence.moments.m, found.ms)).n.sum())
    rows = []
    for i, number in enumerate(found.numbers):
        best = int(everything.best[i, 0])
        parts = [found.partition(int(p)) if ok else None for p, ok in zip(folds.best[i], folds.complete, strict=True)]
        mape = over_folds(np.zeros(0))
        if laid_out is not None:
            fitted = [_trained(evidence, f, part, levels) for f, part in enumerate(parts)]
            mape = laid_out.errors(fitted, _regressors(evidence)).over_folds()
        rows.append(
            NumberRow(
                regimes=number,
                runs=found.partition(best),
                rmse_ms=float(np.sqrt(everything.sse[i, 0] / total)),
                held_out_rmse_ms=over_folds(rmse[i]),
                held_out_mape_percent=mape,
                excess_ms=_number(excess[i]),
                excess_error_ms=_number(error[i]),
                by_fold=tuple(parts),
                share_of_folds=_share(folds.best[i] == best, folds),
                share_of_resamples=_share(resamples.best[i] == best, resamples),
                share_chosen=chosen_in.count(i) / len(chosen_in) if chosen_in else None,
            )
        )
    return tuple(rows)


def _regressors(evidence: Evidence) -> tuple[str, ...]:
    return ("unique_experts", "context_len") if "context_len" in evidence.factors else ("unique_experts",)


def _trained(evidence: Evidence, fold: int, partition: Partition | None, levels: Levels) -> Coefficients:
    """Coefficients of a partition from all folds but one; none where those do not identify them."""
    if partition is None:
        return {}
    form = regime_form(partition, evidence.moments, levels)
    try:
        return form.coefficients(fit_form(evidence.moments.of_clusters(evidence.fold != fold), form).theta)
    except InputError:
        return {}


def _share(hits: np.ndarray[tuple[int], np.dtype[np.bool_]], of: Search) -> float | None:
    return float(hits[of.complete].mean()) if of.complete.any() else None


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _boundaries(
    found: Candidates,
    index: int | None,
    fit: RegimeFit | None,
    folds: Search,
    resamples: Search,
    everything: Search,
    floor: float,
) -> tuple[Boundary, ...]:
    """Lay out every place where a regime may end; a change of alpha up to `floor` is none."""
    if index is None:
        return ()
    cut = np.zeros((len(found.members), len(found.atoms)), dtype=np.bool_)  # whether a run begins at an atom
    for r, (first, _) in enumerate(found.runs):
        cut[:, first] |= found.members[:, r] > 0
    rows = []
    starts = {} if fit is None else {regime.ms[0]: i - 1 for i, regime in enumerate(fit.regimes)}
    for place in range(1, len(found.atoms)):
        before, after = found.atoms[place - 1][-1], found.atoms[place][0]
        chosen = fit is not None and bool(cut[everything.best[index, 0], place])
        in_folds = _share(cut[folds.best[index], place], folds)
        in_resamples = _share(cut[resamples.best[index], place], resamples)
        change = step = jump = settled = None
        if fit is not None and chosen:
            change, step = fit.alpha_changes[starts[after]], fit.steps[starts[after]]
            each = sorted(fit.regimes[starts[after] + i].alpha_ms_per_expert.value for i in (0, 1))
            jump = _certain(change) and abs(change.value) > floor and each[1] >= JUMP * each[0]
            settled = in_folds == 1.0 and in_resamples is not None and in_resamples >= SETTLED
        rows.append(Boundary(before, after, chosen, in_folds, in_resamples, change, step, jump, settled))
    return tuple(rows)


def _floor_ms(evidence: Evidence) -> float:
    return NOTHING * float(evidence.columns[RESPONSE].mean())


def _experts(evidence: Evidence) -> float:
    return float(evidence.columns["unique_experts"].mean())


def _certain(change: Estimate) -> bool:
    return change.low is not None and not change.spans_zero()
