"""The verification fit that diagnostics examine, and its residuals round by round."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.latency.estimates import Estimates, estimates_of
from oracle.latency.evidence import Evidence
from oracle.latency.forms import REGRESSORS, RESPONSE, Kind, VerificationForm, fitted_by_m, verification_form
from oracle.latency.moments import Floats, Integers, Moments, moments_of
from oracle.latency.regression import Fit, fit_form

VARIABLES = (*REGRESSORS, RESPONSE)


@dataclass(frozen=True)
class Verified:
    """A verification fit of the evidence.

    Parameters
    ----------
    chosen
        What the rounds identify.
    fit
        The fit from moments by (cluster, m).
    estimates
        Its coefficients with clustered errors.
    """

    chosen: VerificationForm
    fit: Fit
    estimates: Estimates

    @property
    def own(self) -> tuple[int, ...]:
        """The m whose alpha is measured there, rising."""
        return tuple(m for m, s in zip(self.chosen.ms, self.chosen.alpha_source, strict=True) if s == "own")

    @property
    def context_name(self) -> str | None:
        """Name of c (of the first m's in a separate fit); None where context does not vary."""
        if self.chosen.context_source[0] == "not varying":
            return None
        return "context_ms_per_token" + ("" if self.chosen.kind == "joint" else f"[{self.chosen.ms[0]}]")

    @property
    def by_m(self) -> dict[int, Floats]:
        """(beta0_ms, alpha_ms_per_expert, context_ms_per_token) of each m."""
        return self.chosen.by_m(self.fit.theta)


def verify_moments(evidence: Evidence) -> Moments:
    """Moments of unique_experts, context_len and target_ms; also where one of them does not vary."""
    if set(VARIABLES) <= set(evidence.moments.names):
        return evidence.moments.of(VARIABLES)
    columns = [evidence.columns[name] for name in VARIABLES]
    return moments_of(VARIABLES, columns, m=evidence.m, cluster=evidence.cluster, clusters=evidence.clusters)


def verified(evidence: Evidence, kind: Kind = "joint", m: int | None = None) -> Verified:
    """Fit verification time to the evidence.

    Parameters
    ----------
    kind
        ``"joint"`` (one c for all m) or ``"separate"``.
    m
        Use the rounds of this m only; None uses all.

    Raises
    ------
    InputError
        The rounds do not identify the coefficients, or hold no such m.
    """
    moments = verify_moments(evidence)
    if m is not None:
        if m not in moments.ms:
            measured = ", ".join(map(str, moments.ms))
            raise InputError(f"rounds: none with m = {m} (draft length {m - 1}); measured: m = {measured}")
        moments = moments.where(moments.m == m)
    chosen = verification_form(moments.by_m(), kind)
    fit = fit_form(moments, chosen.form)
    return Verified(chosen, fit, estimates_of(fit, chosen.names, chosen.report))


def predicted_ms(evidence: Evidence, coefficients: Mapping[int, Floats], rows: NDArray[Any] | None = None) -> Floats:
    """Verification time of rounds by the coefficients of their m, ms; NaN where an m has none.

    Parameters
    ----------
    rows
        Which rounds; None takes all.
    """
    take = slice(None) if rows is None else rows
    m = evidence.m[take]
    table = np.full((int(evidence.m.max()) + 1, 3), np.nan)
    for each, beta in coefficients.items():
        if each < len(table):
            table[each] = beta
    at: Integers = m
    predicted = table[at, 0]
    for i, name in enumerate(REGRESSORS, 1):
        predicted += table[at, i] * evidence.columns[name][take]
    return np.asarray(predicted)


def held_out_ms(evidence: Evidence, kind: Kind = "joint") -> Floats:
    """Verification time of every round by the fit without its fold, (N,) ms; NaN where that cannot price the round."""
    moments, fold_of = verify_moments(evidence), evidence.fold_of_round
    predicted = np.full(evidence.rounds, np.nan)
    for f in range(evidence.folds):
        rest = moments.of_clusters(evidence.fold != f)
        try:
            coefficients = fitted_by_m(rest, kind)
        except InputError:
            continue  # the other folds do not identify the model: these rounds have no prediction
        rows = np.flatnonzero(fold_of == f)
        predicted[rows] = predicted_ms(evidence, coefficients, rows)
    return predicted
