"""Latency models that the rounds could as well have given: draws of all coefficients within their errors.

From a *model file* alone (here): multivariate t about the coefficients, with the stacked CR3 covariance as scale and
G - 1 degrees of freedom (G: the fewest clusters behind any of them). Its marginals are those behind the file's 95 %
intervals, value ± t(G - 1) · error; a normal distribution would be too narrow, since the errors themselves come from G
clusters. Verification, draft and rejection times are drawn apart, as the file keeps no covariance between them.

From the *rounds* (`oracle.latency.refitted_draws`): clusters drawn with replacement and everything fitted again.

A draw in which a time at some measured m is not positive is no latency model: it is drawn again, and counted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from oracle.errors import InputError
from oracle.latency.model import DraftLine, DraftTable, LatencyModel
from oracle.latency.moments import Floats
from oracle.latency.recorded_errors import (
    Spread,
    draft_spread,
    record_means,
    reject_spread,
    values_of,
    verify_spread,
)

DRAWS = 100
MOST_TRIES = 4  # draws tried for one that is wanted

Moved = tuple[Floats, Floats, Floats]  # (B, V), (B, D), (B, 1): how far verification, draft and rejection moved


@dataclass(frozen=True)
class Draws:
    """Models drawn within the errors of a fit.

    Parameters
    ----------
    models
        Same m, same draft lengths, other coefficients.
    origin
        ``"file"`` (multivariate t from the file's covariance) or ``"rounds"`` (clustered bootstrap of the fit).
    clusters
        Clusters behind the errors, or resampled.
    seed
        The same seed gives the same draws.
    set_aside
        Draws that gave no coefficients or a time that is not positive, and were drawn again.
    """

    models: tuple[LatencyModel, ...]
    origin: Literal["file", "rounds"]
    clusters: int
    seed: int
    set_aside: int

    @property
    def said(self) -> str:
        """Where the draws come from, in words."""
        how = (
            f"multivariate t with {self.clusters - 1} degrees of freedom from the model file's CR3 covariance, draft "
            "times drawn by themselves"
            if self.origin == "file"
            else "the fit repeated on resampled clusters of rounds"
        )
        again = f"; {self.set_aside} impossible ones drawn again" if self.set_aside else ""
        return f"{len(self.models)} draws of the cost coefficients: {how} ({self.clusters} clusters){again}"


def draws_from_file(model: LatencyModel, *, draws: int = DRAWS, seed: int = 0) -> Draws:
    """Draw models from the errors that a model file keeps.

    Parameters
    ----------
    model
        A fitted model of one batch size.
    draws, seed
        How many, and of the random generator.

    Raises
    ------
    InputError
        The file keeps no errors, or they belong to other numbers.
    """
    check_draws(draws)
    spreads = verify_spread(model), draft_spread(model), reject_spread(model)
    roots = [each.root() for each in spreads]
    rng = np.random.default_rng(seed)

    def some(count: int) -> Moved:
        verify, draft, reject = (_t(each, root, rng, count) for each, root in zip(spreads, roots, strict=True))
        return verify, draft, reject

    models, set_aside = possible_models(model, record_means(model), some, draws)
    return Draws(models, "file", min(s.clusters for s in spreads if s.clusters), seed, set_aside)


def check_draws(draws: int) -> None:
    """Refuse a number of draws that says nothing."""
    if draws < 2:
        raise InputError(f"draws is {draws}; give at least 2 (--draws), better 100")


def _t(spread: Spread, root: Floats, rng: np.random.Generator, count: int) -> Floats:
    """Draw moves of a spread's numbers, (count, V); one chi-square a draw, since all errors share the clusters."""
    normal = rng.standard_normal((count, len(root)))
    freedom = max(spread.clusters - 1, 1)
    wide = np.sqrt(freedom / rng.chisquare(freedom, count))
    return np.asarray(wide[:, None] * (normal @ root.T) @ spread.report.T)


def possible_models(
    model: LatencyModel, means: Floats, some: Callable[[int], Moved], draws: int
) -> tuple[tuple[LatencyModel, ...], int]:
    """The first `draws` models that are possible, and how many before the last of them were not."""
    kept: list[LatencyModel] = []
    tried = 0
    while len(kept) < draws and tried < MOST_TRIES * draws:
        for each in _models(model, means, some(draws)):
            tried += 1
            if each is not None:
                kept.append(each)
            if len(kept) == draws:
                break
    if len(kept) < draws:
        raise InputError(
            f"latency model: only {len(kept)} of {tried} draws give positive times at every m, so the errors are as "
            "large as the times themselves; record more generations and fit again"
        )
    return tuple(kept), tried - draws


def _models(model: LatencyModel, means: Floats, moved: Moved) -> Iterator[LatencyModel | None]:
    """Models moved away from `model`; None for one that is impossible."""
    M, own = len(model.m), isinstance(model.context_ms_per_token, tuple)
    verify = values_of(model) + moved[0]
    context = np.broadcast_to(verify[:, 2 * M :], (len(verify), M))
    at_means = verify[:, :M] + verify[:, M : 2 * M] * means[:, 0] + context * means[:, 1]
    reject = model.reject_ms + moved[2][:, 0]
    for i, row in enumerate(verify):
        draft = _draft(model.draft, moved[1][i])
        lengths = draft.k if isinstance(draft, DraftTable) else [m - 1 for m in model.m if m > 1]
        times = np.array(draft.ms if isinstance(draft, DraftTable) else [_on(draft, k) for k in lengths])
        if not (np.isfinite(row).all() and (at_means[i] > 0).all() and (times >= 0).all() and reject[i] >= 0):
            yield None
            continue
        yield replace(
            model,
            beta0_ms=tuple(row[:M]),
            alpha_ms_per_expert=tuple(row[M : 2 * M]),
            context_ms_per_token=tuple(row[2 * M :]) if own else float(row[2 * M]),
            draft=draft,
            reject_ms=float(reject[i]),
            fit=None,
        )


def _draft(draft: DraftLine | DraftTable, moved: Floats) -> DraftLine | DraftTable:
    if isinstance(draft, DraftTable):
        return DraftTable(draft.k, tuple((np.array(draft.ms) + moved).tolist()))
    return DraftLine(*(np.array([draft.ms_per_token, draft.base_ms]) + moved).tolist())


def _on(line: DraftLine, k: int) -> float:
    return line.ms_per_token * k + line.base_ms
