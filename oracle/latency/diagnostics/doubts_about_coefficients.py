"""What to distrust about alpha and c: whether the rounds identify them."""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import stdtr

from oracle.errors import InputError
from oracle.latency.diagnostics.column_comparison import common_slope
from oracle.latency.diagnostics.verified import Verified, verified, verify_moments
from oracle.latency.diagnostics.weak_spot import WeakSpot, interval, listed
from oracle.latency.estimates import half_widths
from oracle.latency.evidence import Evidence
from oracle.latency.forms import REGRESSORS, RESPONSE
from oracle.latency.moments import Floats

TOO_FEW, FEW = 10, 40  # clusters
UNCERTAIN = 2.0  # an alpha whose error is that many times the median error
FLAT = 0.02  # sd of U over its mean
INFLATED = 5.0  # variance inflation factor
UNUSED = 0.01  # share of the variance within m that U explains
VAGUE = 0.05  # error of c over c
OFF_PERCENT = 1.0  # of the mean time
EXPERTS, CONTEXT = REGRESSORS


def on_clusters(found: Verified) -> Iterator[WeakSpot]:
    """Say if there are too few clusters for clustered errors."""
    G = len(np.unique(found.fit.moments.cluster))
    if G == 1:
        yield WeakSpot(
            "clusters",
            "high",
            "one cluster only: there are no errors, intervals or held-out metrics; record more texts",
        )
    elif G < TOO_FEW:
        yield WeakSpot(
            "clusters",
            "high",
            f"only {G} clusters: clustered errors and intervals are not to be trusted below {TOO_FEW}; record more "
            "texts",
        )
    elif G < FEW:
        pairs = [(e.error_cr3, e.error_cr1) for e in (found.estimates[_alpha(m)] for m in found.own)]
        ratios = [three / one for three, one in pairs if three and one]
        beside = f" (here they are {np.median(ratios):.2f} times the CR1 errors of alpha)" if ratios else ""
        yield WeakSpot(
            "clusters",
            "medium",
            f"{G} clusters: below {FEW} intervals made of CR1 errors cover less than they say; read the CR3 "
            f"intervals{beside}",
        )


def on_spread(found: Verified) -> Iterator[WeakSpot]:
    """Say at which m unique experts vary so little that alpha is uncertain, and where alpha is borrowed."""
    totals = found.fit.moments.by_m()
    mean, sd = totals.mean[:, 0], totals.spread()[:, 0]
    at = {m: i for i, m in enumerate(totals.ms)}
    errors = {m: found.estimates[_alpha(m)].error_cr3 for m in found.own}
    known = [e for e in errors.values() if e]
    median = float(np.median(known)) if known else 0.0
    for m in found.own:
        error, alpha, i = errors[m], found.estimates[_alpha(m)].value, at[m]
        share = sd[i] / mean[i] if mean[i] > 0 else 0.0
        uncertain = len(known) > 2 and error is not None and error > UNCERTAIN * median
        if uncertain or share < FLAT:
            said = (
                f"an error of {error:.2g} ms, {error / median:.1f} times the median of all m" if error else "no error"
            )
            large = error is None or error > 0.25 * abs(alpha)
            yield WeakSpot(
                "spread of U",
                "medium" if large else "low",
                f"m = {m}: unique experts vary little there (sd {sd[i]:.2g}, {100 * share:.2g} % of their mean), so "
                f"alpha = {alpha:.3g} ms has {said}",
            )
    for m, source in zip(found.chosen.ms, found.chosen.alpha_source, strict=True):
        if source.startswith("borrowed"):
            yield WeakSpot(
                "borrowed alpha",
                "low",
                f"m = {m}: unique experts are {mean[at[m]]:.3g} in every round, so alpha is {source}; only "
                "beta0 + alpha U is measured there, and the cost of an expert between this m and the next is not",
            )


def on_collinearity(evidence: Evidence) -> Iterator[WeakSpot]:
    """Say where U cannot be told from context length, or from m, by variance inflation factors."""
    moments = verify_moments(evidence)
    totals = moments.by_m().of(REGRESSORS)
    together, vifs = [], []
    for i, m in enumerate(totals.ms):
        vif = _inflation(totals.comoment[i])
        if vif is not None and vif > INFLATED:
            together.append(m)
            vifs.append(vif)
    if together:
        yield WeakSpot(
            "collinearity",
            "medium",
            f"{listed(together)}: unique experts and context length move together (variance inflation up to "
            f"{max(vifs):.3g}), so alpha and c can hardly be told apart there; record texts of different length",
        )
    n, position, level = totals.n, totals.m.astype(np.float64), totals.mean[:, 0]
    apart = np.stack([level - n @ level / n.sum(), position - n @ position / n.sum()])
    joint = (n * apart) @ apart.T
    joint[0, 0] += totals.comoment[:, 0, 0].sum()
    pooled = _inflation(joint)
    if pooled is not None and pooled > INFLATED:
        yield WeakSpot(
            "collinearity",
            "low",
            f"unique experts rise with m (variance inflation {pooled:.3g}): a model with one alpha and a slope in K "
            "cannot tell the two apart; alpha for each m, as the model has it, does not need to",
        )


def on_alpha(evidence: Evidence, found: Verified) -> Iterator[WeakSpot]:
    """Say if the target's time does not use unique experts, or where alpha is negative or may be 0."""
    own = found.own
    if not own:
        yield WeakSpot(
            "alpha", "high", "unique experts are 0 in every round: a dense target, there is no alpha to trust"
        )
        return
    context = () if found.context_name is None else (CONTEXT,)
    moments = verify_moments(evidence)
    moments = moments.where(np.isin(moments.m, own))
    alpha, rmse = common_slope(moments, EXPERTS, (EXPERTS, *context), RESPONSE)
    explained = 1 - moments.rounds * rmse**2 / _without_experts(evidence, own, context)
    unclear = [m for m in own if found.estimates[_alpha(m)].spans_zero()]
    negative = [m for m in own if (found.estimates[_alpha(m)].high or 0.0) < 0]
    if 2 * len(unclear) >= len(own) and (alpha.spans_zero() or explained < UNUSED):
        yield WeakSpot(
            "alpha",
            "high",
            f"the target's time does not use unique experts as far as these rounds can tell: one alpha for all m is "
            f"{alpha.value:.3g} ms{interval(alpha.low, alpha.high)}, U explains {100 * max(explained, 0):.1f} % of the "
            f"variance that m and context leave, and {len(unclear)} of {len(own)} intervals of alpha hold 0",
        )
    elif unclear:
        yield WeakSpot("alpha", "medium", f"{listed(unclear)}: alpha cannot be told from 0 (its 95 % interval holds 0)")
    if negative:
        yield WeakSpot(
            "alpha",
            "high",
            f"{listed(negative)}: alpha is negative beyond its error; more experts cannot take less time, so something "
            "that moves with them is missing from the model",
        )


def on_context(evidence: Evidence, found: Verified) -> Iterator[WeakSpot]:
    """Say if c is weakly identified, or differs from m to m."""
    if found.context_name is None:
        return
    c = found.estimates[found.context_name]
    low, high = np.quantile(evidence.columns[CONTEXT], (0.05, 0.95))
    span, target = float(high - low), float(evidence.columns[RESPONSE].mean())
    effect = (
        f"from {low:.0f} to {high:.0f} tokens (5 to 95 %) it moves the time by {100 * c.value * span / target:.2g} %"
    )
    if c.spans_zero():
        yield WeakSpot(
            "context",
            "medium",
            f"c = {1e3 * c.value:.3g} µs per token cannot be told from 0 (95 % interval"
            f"{interval(1e3 * (c.low or 0.0), 1e3 * (c.high or 0.0))}); {effect}",
        )
    elif c.error_cr3 is not None and c.error_cr3 > VAGUE * abs(c.value):
        yield WeakSpot(
            "context",
            "low",
            f"c is weakly identified: {1e3 * c.value:.3g} µs per token with an error of "
            f"{100 * c.error_cr3 / abs(c.value):.0f} %; {effect}, and nothing is known beyond",
        )
    yield from _on_growing_context(evidence, c.value, span, target)


def _on_growing_context(evidence: Evidence, c: float, span: float, target: float) -> Iterator[WeakSpot]:
    """Compare the separate fits' c: their slope in m, with the covariance between fits."""
    try:
        separate = verified(evidence, "separate")
    except InputError:
        return  # no m has a fit of its own; the fit says so itself
    own = [m for m, s in zip(separate.chosen.ms, separate.chosen.context_source, strict=True) if s == "own"]
    if len(own) < 3:
        return
    at = [separate.estimates.names.index(f"context_ms_per_token[{m}]") for m in own]
    values = np.array([separate.estimates.each[i].value for i in at])
    clusters = min(separate.estimates.each[i].clusters for i in at)
    ms = np.array(own, dtype=np.float64)
    slope_of = (ms - ms.mean()) / ((ms - ms.mean()) ** 2).sum()
    slope = float(slope_of @ values)
    error = float(np.sqrt(slope_of @ separate.estimates.covariance_cr3[np.ix_(at, at)] @ slope_of))
    half = float(half_widths(np.array(error), np.array(clusters)))
    if not abs(slope) > half:  # also where there is no error
        return
    off = 100 * float(np.abs(values - c).max()) * span / target
    p = float(2 * stdtr(clusters - 1, -abs(slope) / error))
    yield WeakSpot(
        "context",
        "medium" if off > OFF_PERCENT else "low",
        f"c {'grows' if slope > 0 else 'falls'} with m: {1e3 * values[0]:.3g} µs per token at m = {own[0]}, "
        f"{1e3 * values[-1]:.3g} at m = {own[-1]} in fits of their own ({1e3 * slope:+.2g} ± {1e3 * half:.2g} per "
        f"position, p = {p:.1g}); one c for all m is off by up to {off:.1f} % of the mean time over the recorded "
        "context",
    )


def on_boundaries(found: Verified, boundaries: Sequence[int]) -> Iterator[WeakSpot]:
    """Say what the regimes that were found mean, with the largest step of alpha from one m to the next."""
    own = found.own
    step = ""
    if len(own) > 1:
        at = [found.estimates.names.index(_alpha(m)) for m in own]
        contrast = np.diff(np.eye(len(own)), axis=0)
        values = contrast @ [found.estimates.each[i].value for i in at]
        errors = np.sqrt(np.diagonal(contrast @ found.estimates.covariance_cr3[np.ix_(at, at)] @ contrast.T))
        i = int(np.abs(values).argmax())
        clusters = min(found.estimates.each[j].clusters for j in at)
        half = half_widths(errors[i : i + 1], np.array([clusters]), 1 - 0.05 / len(values))[0]
        judged = (
            "" if np.isnan(half) else f", {'within' if abs(values[i]) <= half else 'beyond'} its error ± {half:.2g}"
        )
        step = f"; the largest step of alpha is {values[i]:+.3g} ms from m = {own[i]} to {own[i + 1]}{judged}"
    if boundaries:
        cuts = ", ".join(f"{m - 1} and {m}" for m in boundaries)
        yield WeakSpot(
            "regimes",
            "medium",
            f"a boundary between regimes lies between m = {cuts}: nothing may be interpolated across it{step}",
        )
    elif own:
        alphas = [found.estimates[_alpha(m)].value for m in own]
        yield WeakSpot(
            "regimes",
            "low",
            f"no boundary between regimes was found: alpha runs from {min(alphas):.3g} to {max(alphas):.3g} ms without "
            f"a jump over m = {own[0]} … {own[-1]}{step}",
        )


def _alpha(m: int) -> str:
    return f"alpha_ms_per_expert[{m}]"


def _inflation(comoment: Floats) -> float | None:
    """Variance inflation factor of two regressors, 1 / (1 - r²); None where one does not vary."""
    product = float(comoment[0, 0] * comoment[1, 1])
    if not product > 0:
        return None
    left = 1 - float(comoment[0, 1]) ** 2 / product
    return 1 / left if left > 0 else float("inf")


def _without_experts(evidence: Evidence, own: Sequence[int], context: tuple[str, ...]) -> float:
    """Sum of squares that a level for each m and one c leave."""
    moments = verify_moments(evidence)
    moments = moments.where(np.isin(moments.m, own))
    if context:
        return float(moments.rounds * common_slope(moments, context[0], context, RESPONSE)[1] ** 2)
    return float(moments.by_m().of((RESPONSE,)).comoment.sum())
