"""Two columns for the same quantity: which of them is the other one with errors in it.

If b = a + an error that has nothing to do with the time, then fitting on b instead of a shrinks alpha by the slope of a
on b at equal m and context length (the attenuation factor), and b tells nothing once a is known. Both can be checked:
the shrinkage seen against the shrinkage expected, and the coefficients with both columns in one fit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from oracle.errors import InputError
from oracle.latency.diagnostics.specification import CONTEXT, EXPERTS
from oracle.latency.estimates import Estimate, estimates_of
from oracle.latency.evidence import Evidence
from oracle.latency.forms import RESPONSE, varies
from oracle.latency.linear_form import LinearForm
from oracle.latency.moments import Floats, Moments, moments_of
from oracle.latency.regression import fit_form

SHRUNK = 0.9  # a smaller ratio of the alphas is worth a word
CLOSE_TO_EXPECTED = 0.25  # the shrinkage seen may differ from the one expected by this share of it
SILENT = 0.2  # beside the other column, a column keeps less than this share of its own alpha


@dataclass(frozen=True)
class ComparedAt:
    """The two columns at one m: alphas (ms per expert), correlation, and b minus a."""

    m: int
    alpha_a: float
    alpha_b: float
    correlation: float
    mean_difference: float
    sd_difference: float


@dataclass(frozen=True)
class ColumnComparison:
    """Columns a and b as regressors of verification time, with one alpha for all m, a level for each m and one c.

    Parameters
    ----------
    a, b
        Names of the columns.
    ms, rounds
        The m at which both vary, and the rounds there.
    alpha_a, alpha_b
        Alpha when only that column is used, ms per unit.
    alpha_a_given_b, alpha_b_given_a
        With both in one fit; None where they move exactly together.
    rmse_a_ms, rmse_b_ms
        Residuals of the two fits with one column, in sample.
    ratio
        alpha_b / alpha_a; None where alpha_a is 0.
    expected_if_b_errs, expected_if_a_errs
        Slope of a on b, and of b on a, at equal m and context length: what alpha_b / alpha_a (alpha_a / alpha_b) is if
        the one is the other plus error.
    correlation
        Within m.
    mean_difference, sd_difference
        Of b minus a.
    noisier
        Name of the column that behaves like the other one with errors, by the rules in `judged`; None if neither does.
    by_m
        The same at each m.
    """

    a: str
    b: str
    ms: tuple[int, ...]
    rounds: int
    alpha_a: Estimate
    alpha_b: Estimate
    alpha_a_given_b: Estimate | None
    alpha_b_given_a: Estimate | None
    rmse_a_ms: float
    rmse_b_ms: float
    ratio: float | None
    expected_if_b_errs: float
    expected_if_a_errs: float
    correlation: float
    mean_difference: float
    sd_difference: float
    noisier: str | None
    by_m: tuple[ComparedAt, ...]


def compare_columns(evidence: Evidence, a: str, b: str) -> ColumnComparison:
    """Compare two columns that claim to measure the same thing, for example unique experts on two paths.

    Parameters
    ----------
    a, b
        Columns of the evidence (factors, named or standard).

    Raises
    ------
    InputError
        A column that is not there or has missing values, or no m at which both vary.
    """
    moments, context = _moments(evidence, a, b)
    totals = moments.by_m()
    both = [varies(totals, name) for name in (a, b)]
    ms = tuple(m for m in totals.ms if all(each[m] for each in both))
    if not ms:
        raise InputError(f"{a} and {b} do not both vary at any m, so they cannot be compared")
    moments = moments.where(np.isin(moments.m, ms))
    alpha, rmse = {}, {}
    for name in (a, b):
        alpha[name], rmse[name] = common_slope(moments, name, (name, *context), RESPONSE)
    given: dict[str, Estimate] | None
    try:
        given = {name: common_slope(moments, name, (a, b, *context), RESPONSE)[0] for name in (a, b)}
    except InputError:
        given = None  # they move exactly together
    expected = {
        b: common_slope(moments, b, (b, *context), a)[0].value,
        a: common_slope(moments, a, (a, *context), b)[0].value,
    }
    pooled = moments.by_m().of((a, b))
    inside = pooled.comoment.sum(axis=0)
    n = pooled.n
    difference = pooled.mean[:, 1] - pooled.mean[:, 0]
    mean_difference = float(n @ difference / n.sum())
    spread = pooled.comoment[:, 0, 0] + pooled.comoment[:, 1, 1] - 2 * pooled.comoment[:, 0, 1]
    total = float((spread + n * (difference - mean_difference) ** 2).sum())
    return ColumnComparison(
        a=a,
        b=b,
        ms=ms,
        rounds=moments.rounds,
        alpha_a=alpha[a],
        alpha_b=alpha[b],
        alpha_a_given_b=None if given is None else given[a],
        alpha_b_given_a=None if given is None else given[b],
        rmse_a_ms=rmse[a],
        rmse_b_ms=rmse[b],
        ratio=alpha[b].value / alpha[a].value if alpha[a].value else None,
        expected_if_b_errs=expected[b],
        expected_if_a_errs=expected[a],
        correlation=float(inside[0, 1] / np.sqrt(inside[0, 0] * inside[1, 1])),
        mean_difference=mean_difference,
        sd_difference=float(np.sqrt(max(total, 0.0) / n.sum())),
        noisier=next((x for x, y in ((b, a), (a, b)) if judged(x, y, alpha, given, expected, rmse)), None),
        by_m=_by_m(moments, a, b, context, spread, difference),
    )


def compare_with_others(evidence: Evidence) -> tuple[tuple[ColumnComparison, ...], dict[str, str]]:
    """Compare unique_experts with every other column whose name begins like it.

    Returns
    -------
    The comparisons; name -> why a column could not be compared.
    """
    found, failed = [], {}
    for name in evidence.columns:
        if name.startswith(EXPERTS) and name != EXPERTS:
            try:
                found.append(compare_columns(evidence, EXPERTS, name))
            except InputError as error:
                failed[name] = str(error)
    return tuple(found), failed


def judged(
    x: str,
    y: str,
    alpha: Mapping[str, Estimate],
    given: Mapping[str, Estimate] | None,
    expected: Mapping[str, float],
    rmse: Mapping[str, float],
) -> bool:
    """Whether x behaves like y plus error.

    y must matter (its interval leaves out 0) and fit better; alpha on x must be below 90 % of alpha on y and within a
    quarter of the shrinkage that error in x explains; and beside y, x must keep less than a fifth of its own alpha.
    """
    if alpha[y].low is None or alpha[y].spans_zero() or given is None or rmse[x] <= rmse[y]:
        return False
    ratio = alpha[x].value / alpha[y].value
    as_expected = abs(ratio - expected[x]) <= CLOSE_TO_EXPECTED * abs(expected[x])
    return bool(ratio < SHRUNK and as_expected and abs(given[x].value) < SILENT * abs(alpha[x].value))


def _moments(evidence: Evidence, a: str, b: str) -> tuple[Moments, tuple[str, ...]]:
    """Moments of a, b, context length (where it varies) and time."""
    for name in (a, b):
        if name not in evidence.columns:
            why = evidence.left_out.get(name, "it was not gathered; name it among the further factors")
            raise InputError(f"rounds: no column {name} to compare: {why}")
        if np.isnan(evidence.columns[name]).any():
            raise InputError(f"rounds: {name} is missing in some rounds; compare columns that every round has")
    context = () if CONTEXT in evidence.left_out else (CONTEXT,)
    names = (a, b, *context, RESPONSE)
    if set(names) <= set(evidence.moments.names):
        return evidence.moments.of(names), context
    columns = [evidence.columns[name] for name in names]
    return moments_of(names, columns, m=evidence.m, cluster=evidence.cluster, clusters=evidence.clusters), context


def common_slope(moments: Moments, name: str, regressors: tuple[str, ...], response: str) -> tuple[Estimate, float]:
    """Slope of one regressor over all m, each with a level of its own; and the root mean square of the residuals."""
    ms = moments.ms
    parameters = (*(f"level[{m}]" for m in ms), *regressors)
    matrices = {}
    for i, m in enumerate(ms):
        matrices[m] = np.zeros((1 + len(regressors), len(parameters)))
        matrices[m][0, i] = 1.0
        matrices[m][1:, len(ms) :] = np.eye(len(regressors))
    fit = fit_form(moments, LinearForm(regressors, response, parameters, matrices))
    report = np.zeros((1, len(parameters)))
    report[0, parameters.index(name)] = 1.0
    return estimates_of(fit, (name,), report).each[0], float(np.sqrt(fit.sse / moments.rounds))


def _by_m(
    moments: Moments, a: str, b: str, context: tuple[str, ...], spread: Floats, difference: Floats
) -> tuple[ComparedAt, ...]:
    """Each m by itself."""
    pooled = moments.by_m().of((a, b))
    rows = []
    for i, m in enumerate(moments.ms):
        here = moments.where(moments.m == m)
        alphas = [common_slope(here, name, (name, *context), RESPONSE)[0].value for name in (a, b)]
        inside = pooled.comoment[i]
        correlation = float(inside[0, 1] / np.sqrt(inside[0, 0] * inside[1, 1]))
        sd = float(np.sqrt(max(spread[i], 0.0) / pooled.n[i]))
        rows.append(ComparedAt(m, alphas[0], alphas[1], correlation, float(difference[i]), sd))
    return tuple(rows)
