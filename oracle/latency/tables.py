"""What a fit returns: plain frozen tables, no text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from oracle.errors import InputError
from oracle.latency.draft import DraftFit
from oracle.latency.estimates import Estimate, Estimates
from oracle.latency.forms import REGRESSORS, RESPONSE, VerificationForm
from oracle.latency.metrics import HeldOut
from oracle.latency.model import LatencyModel
from oracle.latency.moments import Integers, Moments
from oracle.latency.regression import Fit
from oracle.latency.reject import RejectFit


@dataclass(frozen=True)
class Counts:
    """Where the rows went. Every row left out is counted here.

    Parameters
    ----------
    rows, prefill
        Rows read, and those of the prefill phase.
    target_not_positive
        Decode rounds whose target_ms is 0 or less: not in the verification fit.
    draft_not_positive
        Rounds with k >= 1 whose draft_ms is 0 or less: not in the draft fit.
    draft_at_zero
        Rounds with k = 0 that nevertheless have a positive draft_ms, which is taken as 0.
    verify_rounds, draft_rounds
        Rounds used by each fit.
    generations, clusters
        Generations and clusters among the decode rounds.
    longest_context
        Longest context among the decode rounds, tokens.
    """

    rows: int = 0
    prefill: int = 0
    target_not_positive: int = 0
    draft_not_positive: int = 0
    draft_at_zero: int = 0
    verify_rounds: int = 0
    draft_rounds: int = 0
    generations: int = 0
    clusters: int = 0
    longest_context: float = 0.0


@dataclass(frozen=True)
class CoefficientRow:
    """One m of a verification fit; times in milliseconds.

    Parameters
    ----------
    m, rounds, clusters
        Verified positions, and what was measured there.
    mean_unique_experts, sd_unique_experts, mean_context_len, sd_context_len, mean_target_ms, sd_target_ms
        Means and standard deviations (divisor n) of the rounds.
    beta0_ms, alpha_ms_per_expert, context_ms_per_token
        The coefficients.
    alpha_source, context_source
        See `VerificationForm`.
    r2, rmse_ms
        In the sample that was fitted; r2 is None where target_ms does not vary.
    """

    m: int
    rounds: int
    clusters: int
    mean_unique_experts: float
    sd_unique_experts: float
    mean_context_len: float
    sd_context_len: float
    mean_target_ms: float
    sd_target_ms: float
    beta0_ms: Estimate
    alpha_ms_per_expert: Estimate
    context_ms_per_token: Estimate
    alpha_source: str
    context_source: str
    r2: float | None
    rmse_ms: float


@dataclass(frozen=True)
class CoefficientTable:
    """A verification fit: joint (one c) or separate (an OLS for each m).

    Parameters
    ----------
    kind
        ``"joint"`` or ``"separate"``.
    rows
        By rising m.
    estimates
        All coefficients with their stacked covariance, for contrasts such as alpha(5) - alpha(4).
    left_out
        m -> why it has no row.
    r2, rmse_ms
        Over all rounds, in the sample that was fitted.
    held_out
        Held-out errors, over all m first and then by m.
    """

    kind: str
    rows: tuple[CoefficientRow, ...]
    estimates: Estimates
    left_out: Mapping[int, str]
    r2: float | None
    rmse_ms: float
    held_out: tuple[HeldOut, ...]


@dataclass(frozen=True)
class FitResult:
    """A fitted latency model with everything a report tells about it.

    Parameters
    ----------
    model
        What a model file holds.
    joint, separate
        Both verification fits; `separate` is None where the rounds do not identify it (a warning says why).
    draft
        Both draft fits and the choice.
    counts
        Where the rows went.
    folds
        Folds used for held-out errors; 0 if there was only one cluster.
    fold
        (G,) int64, the fold of each cluster of `verify_moments`.
    verify_moments, draft_moments
        The sufficient statistics, for diagnostics that need no second look at the rounds.
    warnings
        What a reader should know, in words.
    reject
        Rejection time; None without a column reject_ms.
    batch_size
        Requests in the passes; None without a column batch_size.
    """

    model: LatencyModel
    joint: CoefficientTable
    separate: CoefficientTable | None
    draft: DraftFit
    counts: Counts
    folds: int
    fold: Integers
    verify_moments: Moments
    draft_moments: Moments
    warnings: tuple[str, ...]
    reject: RejectFit | None = None
    batch_size: int | None = None

    @property
    def each(self) -> "tuple[FitResult, ...]":
        """The results of the batch sizes, by rising batch size; the result itself where there is one."""
        return (self,)


class FitByBatchSize(FitResult):
    """Fits of several batch sizes: one model, the tables of each under `each`.

    Only `model`, `counts`, `warnings` and `each` belong to all of them; asking for another table raises an
    `InputError` that says so.

    Parameters
    ----------
    model
        What a model file holds: a block for each batch size.
    counts
        Where the rows of all batch sizes went; a cluster measured at two of them counts once.
    each
        The results by rising batch size.
    warnings
        What a reader should know, in words, each with its batch size.
    """

    def __init__(self, model: LatencyModel, counts: Counts, each: Sequence[FitResult], warnings: Sequence[str]) -> None:
        vars(self).update(_model=model, _counts=counts, _each=tuple(each), _warnings=tuple(warnings))

    def _refuse(self) -> NoReturn:
        sizes = ", ".join(str(one.batch_size) for one in self.each)
        raise InputError(
            f"the rounds hold several batch sizes ({sizes}), and each has its own tables: take one of `each`"
        )

    _one: Any = property(_refuse)
    joint = separate = draft = folds = fold = verify_moments = draft_moments = reject = batch_size = _one
    model: Any = property(lambda self: self._model)
    counts: Any = property(lambda self: self._counts)
    warnings: Any = property(lambda self: self._warnings)

    @property
    def each(self) -> tuple[FitResult, ...]:
        """The results of the batch sizes, by rising batch size."""
        each: tuple[FitResult, ...] = vars(self)["_each"]
        return each

    def __repr__(self) -> str:
        return f"FitByBatchSize({self.each!r})"


def coefficient_table(
    chosen: VerificationForm, fit: Fit, estimates: Estimates, held_out: tuple[HeldOut, ...]
) -> CoefficientTable:
    """Set out a verification fit by m."""
    totals = fit.moments.by_m().of((*REGRESSORS, RESPONSE))
    mean, spread, sse = totals.mean, totals.spread(), fit.residual_by_m()
    rows = []
    for i, m in enumerate(chosen.ms):
        squares = float(totals.comoment[i, 2, 2])
        rows.append(
            CoefficientRow(
                m=m,
                rounds=round(float(totals.n[i])),
                clusters=int((fit.moments.m == m).sum()),
                mean_unique_experts=float(mean[i, 0]),
                sd_unique_experts=float(spread[i, 0]),
                mean_context_len=float(mean[i, 1]),
                sd_context_len=float(spread[i, 1]),
                mean_target_ms=float(mean[i, 2]),
                sd_target_ms=float(spread[i, 2]),
                beta0_ms=estimates[f"beta0_ms[{m}]"],
                alpha_ms_per_expert=estimates[f"alpha_ms_per_expert[{m}]"],
                context_ms_per_token=estimates[
                    "context_ms_per_token" if chosen.kind == "joint" else f"context_ms_per_token[{m}]"
                ],
                alpha_source=chosen.alpha_source[i],
                context_source=chosen.context_source[i],
                r2=1 - sse[m] / squares if squares > 0 else None,
                rmse_ms=float(np.sqrt(sse[m] / totals.n[i])),
            )
        )
    every = (
        fit.moments.of((RESPONSE,)).by_group(np.zeros(len(fit.moments.clusters), dtype=np.int64), ("all",)).by_cluster()
    )
    squares = float(every.comoment[0, 0, 0])
    r2 = 1 - fit.sse / squares if squares > 0 else None
    rmse = float(np.sqrt(fit.sse / fit.moments.rounds))
    return CoefficientTable(chosen.kind, tuple(rows), estimates, chosen.left_out, r2, rmse, held_out)
