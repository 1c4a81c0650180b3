"""The two forms of verification time, and what the rounds can identify of them at each m.

Verification time: T = beta0[m] + alpha[m] U + c L. *separate* has its own c[m] (an OLS for each m, the source's table);
*joint* has one c for all m (what the model file carries).

Where U does not vary at an m (at m = 1 it is top_k in every round), alpha[m] cannot be measured there. It is borrowed
from the next larger measured m where U varies (the next smaller, if there is none), and beta0 = mean(T - c L) -
alpha mean(U); `alpha_source` says so: only the sum is measured. Nothing is ever filled in by a pseudo-inverse.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from oracle.errors import InputError
from oracle.latency.linear_form import LinearForm
from oracle.latency.moments import Floats, Moments
from oracle.latency.regression import fit_form

REGRESSORS = ("unique_experts", "context_len")
RESPONSE = "target_ms"
Kind = Literal["joint", "separate"]

FEWEST_ROUNDS = 4  # one more than the three coefficients of an m
CONSTANT = 2e-7  # spread over mean: below it a float32 column holds one value and its rounding
COLLINEAR = 1e-9  # share of the variance of U that L leaves


@dataclass(frozen=True)
class VerificationForm:
    """A linear form together with the way back to beta0[m], alpha[m] and c.

    Parameters
    ----------
    kind
        ``"joint"`` or ``"separate"``.
    form
        The estimated parameters.
    ms
        The m that the model gets, rising.
    names
        Names of the reported coefficients: ``beta0_ms[m]``, ``alpha_ms_per_expert[m]``, then ``context_ms_per_token``
        (joint) or ``context_ms_per_token[m]``.
    report
        (number of names, P): reported coefficients = report @ theta.
    alpha_source
        For each m: ``"own"``, ``"borrowed from m = 2"``, or ``"no experts"`` (a dense target, alpha is 0).
    context_source
        ``"shared"``, ``"own"`` or ``"not varying"`` (c is 0) for each m.
    left_out
        m -> why the rounds of this m give no coefficients.
    """

    kind: Kind
    form: LinearForm
    ms: tuple[int, ...]
    names: tuple[str, ...]
    report: Floats
    alpha_source: tuple[str, ...]
    context_source: tuple[str, ...]
    left_out: Mapping[int, str]

    def by_m(self, theta: Floats) -> dict[int, Floats]:
        """(beta0_ms, alpha_ms_per_expert, context_ms_per_token) of each m."""
        values, M = self.report @ theta, len(self.ms)
        context = np.broadcast_to(values[2 * M :], (M,))
        return {m: np.array([values[i], values[M + i], context[i]]) for i, m in enumerate(self.ms)}


def varies(totals: Moments, name: str) -> dict[int, bool]:
    """Whether a variable takes more than one value at each m, rounding of a float32 column aside."""
    column = totals.of((name,))
    spread, level = column.spread()[:, 0], np.abs(column.mean[:, 0])
    return dict(zip(totals.m.tolist(), (spread > CONSTANT * level).tolist(), strict=True))


def _left_out(totals: Moments, kind: Kind) -> dict[int, str]:
    """M that cannot be fitted, with the reason in words."""
    reasons = {}
    experts, context = varies(totals, REGRESSORS[0]), varies(totals, REGRESSORS[1])
    pair = totals.of(REGRESSORS).comoment
    for i, m in enumerate(totals.m.tolist()):
        n = round(float(totals.n[i]))
        if n < FEWEST_ROUNDS:
            reasons[m] = f"{n} rounds; coefficients of an m need at least {FEWEST_ROUNDS}"
        elif kind == "separate" and experts[m] and context[m]:
            left = 1 - pair[i, 0, 1] ** 2 / (pair[i, 0, 0] * pair[i, 1, 1])
            if left < COLLINEAR:
                reasons[m] = (
                    "unique experts and context length move exactly together, so alpha and c cannot be told apart"
                )
    return reasons


def _context_left(totals: Moments) -> float:
    """Share of the variance of L within m that U leaves."""
    pair = totals.of(REGRESSORS).comoment
    with np.errstate(divide="ignore", invalid="ignore"):
        taken = np.where(pair[:, 0, 0] > 0, pair[:, 0, 1] ** 2 / pair[:, 0, 0], 0.0)
    return 1 - float(taken.sum() / pair[:, 1, 1].sum())


def _alpha_sources(ms: tuple[int, ...], experts: Mapping[int, bool], totals: Moments) -> dict[int, int | None]:
    """Pair each m with the m whose alpha it takes; None for a dense target."""
    own = [m for m in ms if experts[m]]
    if not own:
        level = totals.of(REGRESSORS[:1]).mean[:, 0]
        if not level.any():
            return dict.fromkeys(ms)
        raise InputError(
            f"unique_experts varies at no m (measured: m = {', '.join(map(str, ms))}), so alpha, the cost of one "
            "more expert, "
            "cannot be identified; record rounds with draft length 1 or more"
        )
    return {m: m if experts[m] else min(own, key=lambda other: (other < m, abs(other - m))) for m in ms}


def verification_form(totals: Moments, kind: Kind) -> VerificationForm:
    """Choose the parameters that the rounds identify.

    Parameters
    ----------
    totals
        Moments by m (see `Moments.by_m`) of unique_experts, context_len and target_ms.
    kind
        ``"joint"`` or ``"separate"``.

    Raises
    ------
    InputError
        No m can be fitted, or alpha cannot be identified at any m of a target that has experts.
    """
    left_out = _left_out(totals, kind)
    ms = tuple(m for m in totals.ms if m not in left_out)
    if not ms:
        raise InputError("no m can be fitted: " + "; ".join(f"m = {m}: {why}" for m, why in left_out.items()))
    totals = totals.where(np.isin(totals.m, ms))
    source = _alpha_sources(ms, varies(totals, REGRESSORS[0]), totals)
    moving = varies(totals, REGRESSORS[1])
    shared = kind == "joint" and any(moving.values())
    if shared and _context_left(totals) < COLLINEAR:
        raise InputError(
            "context length moves exactly with unique experts at every m, so alpha and c cannot be told apart; "
            "record rounds "
            "of more generations, with different context lengths"
        )

    parameters = [f"level[{m}]" for m in ms] + [f"alpha[{m}]" for m in ms if source[m] == m]
    if shared:
        parameters.append("c")
    elif kind == "separate":
        parameters += [f"c[{m}]" for m in ms if moving[m]]
    column = {name: j for j, name in enumerate(parameters)}

    M, mean_experts = len(ms), totals.of(REGRESSORS[:1]).mean[:, 0]
    report = np.zeros((2 * M + (M if kind == "separate" else 1), len(parameters)))
    matrices = {}
    for i, m in enumerate(ms):
        matrix = matrices[m] = np.zeros((3, len(parameters)))
        matrix[0, column[f"level[{m}]"]] = report[i, column[f"level[{m}]"]] = 1.0
        if source[m] is not None:
            alpha = column[f"alpha[{source[m]}]"]
            report[M + i, alpha] = 1.0
            if source[m] == m:
                matrix[1, alpha] = 1.0
            else:
                report[i, alpha] = -mean_experts[i]
        context = column.get("c" if kind == "joint" else f"c[{m}]")
        if context is not None:
            matrix[2, context] = report[2 * M + (i if kind == "separate" else 0), context] = 1.0

    names = [f"beta0_ms[{m}]" for m in ms] + [f"alpha_ms_per_expert[{m}]" for m in ms]
    names += [f"context_ms_per_token[{m}]" for m in ms] if kind == "separate" else ["context_ms_per_token"]
    alpha_source = (
        "no experts" if s is None else "own" if s == m else f"borrowed from m = {s}" for m, s in source.items()
    )
    own_context = tuple("own" if moving[m] else "not varying" for m in ms)
    context_source = own_context if kind == "separate" else ("shared" if shared else "not varying",) * M
    form = LinearForm(REGRESSORS, RESPONSE, tuple(parameters), matrices)
    return VerificationForm(kind, form, ms, tuple(names), report, tuple(alpha_source), context_source, left_out)


def fitted_by_m(moments: Moments, kind: Kind) -> dict[int, Floats]:
    """Coefficients (beta0_ms, alpha_ms_per_expert, context_ms_per_token) of each m from some of the clusters.

    The choice of what is identified is made anew from these clusters, as a fold's training set requires.
    """
    chosen = verification_form(moments.by_m(), kind)
    return chosen.by_m(fit_form(moments, chosen.form).theta)
