"""Latency models fitted to resampled clusters of rounds: draws of all coefficients by clustered bootstrap.

Verification, draft and rejection times of a draw come from the same resample, so whatever a cluster moves together
stays together. Every refit follows from moments (`Fit.weighted`); the rounds are read once.
"""

from collections.abc import Iterable
from functools import partial

import numpy as np

from oracle.errors import InputError
from oracle.latency import draft as drafting
from oracle.latency import reject as rejecting
from oracle.latency.draws import DRAWS, Draws, Moved, check_draws, possible_models
from oracle.latency.forms import REGRESSORS, verification_form
from oracle.latency.linear_form import LinearForm
from oracle.latency.model import DraftTable, LatencyModel
from oracle.latency.moments import Floats, Integers
from oracle.latency.passes import Gathered, first_pass
from oracle.latency.recorded_errors import names_of, values_of
from oracle.latency.regression import Fit, fit_form
from oracle.rounds import Rounds

REFITTED = 1e-6  # of a coefficient: a refit of the rounds that a model was fitted to


def draws_from_rounds(
    model: LatencyModel, rounds: Rounds | Iterable[Rounds], *, draws: int = DRAWS, seed: int = 0
) -> Draws:
    """Draw models by fitting resampled clusters of the rounds that the model was fitted to.

    Parameters
    ----------
    model
        The model of one batch size; its form (joint or separate, line or table) is kept.
    rounds
        The same rounds, in batches or all in one; walked over once.

    Raises
    ------
    InputError
        Rounds of one cluster only, or that give another model.
    """
    check_draws(draws)
    gathered = _of_batch_size(model, first_pass((rounds,) if isinstance(rounds, Rounds) else rounds))
    totals = gathered.verify.by_m()
    chosen = verification_form(totals, "separate" if isinstance(model.context_ms_per_token, tuple) else "joint")
    fit = fit_form(gathered.verify, chosen.form)
    if chosen.ms != model.m:
        raise InputError(_another(f"m = {', '.join(map(str, chosen.ms))}", f"m = {', '.join(map(str, model.m))}"))
    _check_same(names_of(model), values_of(model), chosen.report @ fit.theta)
    present = np.unique(fit.moments.cluster)
    if len(present) < 2:
        raise InputError("rounds: one cluster only, so there is nothing to resample; record more generations")
    refits = (fit, chosen.report), _draft_refit(model, gathered), _reject_refit(model, gathered)
    some = partial(_refitted, refits, present, np.random.default_rng(seed))
    means = totals.where(np.isin(totals.m, model.m)).of(REGRESSORS).mean
    models, set_aside = possible_models(model, means, some, draws)
    return Draws(models, "rounds", len(present), seed, set_aside)


def _of_batch_size(model: LatencyModel, gathered: dict[int | None, Gathered]) -> Gathered:
    found = gathered.get(model.batch_size)
    if found is None:

        def say(size: int | None) -> str:
            return "no batch size" if size is None else f"batch size {size}"

        raise InputError(_another(", ".join(map(say, gathered)), say(model.batch_size)))
    return found


def _another(rounds: str, model: str) -> str:
    return (
        f"rounds: they have {rounds}, the latency model has {model}: it was not fitted to these rounds; give those it "
        "was fitted to, or fit these (draft-oracle fit)"
    )


def _check_same(names: Iterable[str], model: Floats, refit: Floats, level: float | None = None) -> None:
    """Refuse rounds that give another model."""
    scale = np.maximum(np.abs(model), np.abs(refit)) if level is None else level
    for name, one, other, apart in zip(names, model, refit, np.abs(model - refit) > REFITTED * scale, strict=True):
        if apart:
            raise InputError(_another(f"{name} = {other:.9g}", f"{one:.9g}"))


def _draft_refit(model: LatencyModel, gathered: Gathered) -> tuple[Fit, Floats] | None:
    """The draft's fit in the model's form; None where drafting costs nothing or nothing is drafted."""
    moments, draft = gathered.draft, model.draft
    if isinstance(draft, DraftTable):
        form = drafting.table_form([k + 1 for k in draft.k])
        names, values = [f"draft time at k = {k}" for k in draft.k], np.array(draft.ms)
        if moments.ms != tuple(k + 1 for k in draft.k):
            raise InputError(_another(f"draft times at m = {moments.ms}", f"draft times at k = {draft.k}"))
    else:
        names, values = list(drafting.LINE_NAMES), np.array([draft.ms_per_token, draft.base_ms])
        if not values.any():
            return None
        form = drafting.line_form(moments.ms)
    fit = fit_form(moments, form)
    _check_same(names, values, fit.theta, float(np.abs(values).max()))
    return fit, np.eye(len(values))


def _reject_refit(model: LatencyModel, gathered: Gathered) -> tuple[Fit, Floats] | None:
    """The mean rejection time; None where the model's was set by hand."""
    moments = gathered.reject
    if moments.rounds <= 1:
        return None
    form = LinearForm((), rejecting.RESPONSE, (rejecting.RESPONSE,), {m: np.ones((1, 1)) for m in moments.ms})
    fit = fit_form(moments, form)
    same = abs(model.reject_ms - fit.theta[0]) <= REFITTED * abs(fit.theta[0])
    return (fit, np.eye(1)) if same else None


def _refitted(
    refits: tuple[tuple[Fit, Floats] | None, ...], present: Integers, rng: np.random.Generator, count: int
) -> Moved:
    """Refit resamples of whole clusters; rows of NaN where a resample does not identify the coefficients."""
    times = rng.multinomial(len(present), np.full(len(present), 1 / len(present)), count)
    moved = []
    for refit in refits:
        if refit is None:
            moved.append(np.zeros((count, 1)))
            continue
        fit, report = refit
        weights = np.zeros((count, len(fit.moments.clusters)))
        weights[:, present] = times
        moved.append((fit.weighted(weights) - fit.theta) @ report.T)
    return moved[0], moved[1], moved[2]
