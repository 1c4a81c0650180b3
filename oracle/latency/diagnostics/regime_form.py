"""One partition of m as a linear form, and its coefficients by regime and across each boundary."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from oracle.latency.diagnostics.regime_tables import Regime
from oracle.latency.diagnostics.runs import Levels, Partition, Run
from oracle.latency.diagnostics.specification import CONTEXT, CONTEXT_TERM, EXPERTS, Term, specification
from oracle.latency.estimates import Estimate, Estimates, estimates_of
from oracle.latency.linear_form import LinearForm
from oracle.latency.moments import Moments
from oracle.latency.regression import fit_form


def regime_form(partition: Partition, moments: Moments, levels: Levels) -> LinearForm:
    """Build the form of a partition: for each regime alpha, beta0 at its first m and slope, or a level for each m."""
    terms = []
    for run in partition:
        if levels == "free":
            terms += [Term(f"beta0_ms[{m}]", None, _only((m,))) for m in run]
        else:
            terms.append(Term(f"beta0_ms[{run[0]}]", None, _only(run)))
            if len(run) > 1:
                terms.append(Term(f"slope_ms[{run[0]}]", None, _from_first(run)))
        terms.append(Term(f"alpha[{run[0]}]", EXPERTS, _only(run)))
    if CONTEXT in moments.names:
        terms.append(CONTEXT_TERM)
    return specification(terms, [m for run in partition for m in run])


def _only(run: Run) -> Callable[[int], float]:
    return lambda m: float(m in run)


def _from_first(run: Run) -> Callable[[int], float]:
    return lambda m: float(m - run[0]) if m in run else 0.0


@dataclass(frozen=True)
class RegimeFit:
    """Estimates of a fitted partition.

    Parameters
    ----------
    regimes
        Coefficients of each.
    context
        The shared c; None if context length does not vary.
    alpha_changes, steps
        For each boundary: alpha after minus before, and the step of the pass at the first m after it (see `Boundary`).
    """

    regimes: tuple[Regime, ...]
    context: Estimate | None
    alpha_changes: tuple[Estimate, ...]
    steps: tuple[Estimate | None, ...]


def fit_partition(partition: Partition, moments: Moments, levels: Levels) -> RegimeFit:
    """Fit a partition to all rounds, with CR3 intervals.

    Raises
    ------
    InputError
        The rounds do not identify a coefficient.
    """
    form = regime_form(partition, moments, levels)
    fit = fit_form(moments, form)
    rows = _reported(partition, moments, levels)
    if CONTEXT_TERM.name in form.parameters:
        rows["context"] = {CONTEXT_TERM.name: 1.0}
    report = np.array([[row.get(name, 0.0) for name in form.parameters] for row in rows.values()])
    found = estimates_of(fit, tuple(rows), report)
    regimes = (
        Regime(run, found[f"alpha {run[0]}"], _there(found, f"beta0 {run[0]}"), _there(found, f"slope {run[0]}"))
        for run in partition
    )
    later = [run[0] for run in partition[1:]]
    return RegimeFit(
        tuple(regimes),
        _there(found, "context"),
        tuple(found[f"change {m}"] for m in later),
        tuple(_there(found, f"step {m}") for m in later),
    )


def _reported(partition: Partition, moments: Moments, levels: Levels) -> dict[str, dict[str, float]]:
    """What is reported, as sums of parameters."""
    rows = {}
    for run in partition:
        first = run[0]
        rows[f"alpha {first}"] = {f"alpha[{first}]": 1.0}
        if levels == "line":
            rows[f"beta0 {first}"] = {f"beta0_ms[{first}]": 1.0}
            if len(run) > 1:
                rows[f"beta0 {first}"][f"slope_ms[{first}]"] = -float(first)
                rows[f"slope {first}"] = {f"slope_ms[{first}]": 1.0}
    totals = moments.by_m().of((EXPERTS,))
    for before, after in pairwise(partition):
        a, b = before[0], after[0]
        rows[f"change {b}"] = {f"alpha[{b}]": 1.0, f"alpha[{a}]": -1.0}
        if levels == "line":
            U = float(totals.mean[totals.m == b][0, 0])
            step = {f"beta0_ms[{b}]": 1.0, f"beta0_ms[{a}]": -1.0, f"alpha[{b}]": U, f"alpha[{a}]": -U}
            rows[f"step {b}"] = step | ({f"slope_ms[{a}]": -float(b - a)} if len(before) > 1 else {})
    return rows


def _there(estimates: Estimates, name: str) -> Estimate | None:
    return estimates[name] if name in estimates.names else None
