"""What to distrust about alpha and c: whether the rounds identify them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from oracle.errors import InputError
from oracle.latency.diagnostics.column_comparison import common_slope
from oracle.latency.diagnostics.factors import factor_relations
from oracle.latency.diagnostics.far_rounds import Disagreement
from oracle.latency.diagnostics.regime_tables import Boundary
from oracle.latency.diagnostics.specification import CONTEXT, EXPERTS
from oracle.latency.diagnostics.verdicts import listed, named, span
from oracle.latency.diagnostics.verified import Verified, verified, verify_moments
from oracle.latency.diagnostics.weak_spot import WeakSpot
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
ROUNDING_PERCENT = 1e-4  # of the mean time: nothing but rounding
OFF_PERCENT = 1.0  # of the mean time
NARROW_PERCENT = 3.0  # of the mean time, by one sd of U: an alpha that cannot be larger matters little
ALIKE = 0.95  # correlation of two factors within m
EXACTLY = 1e6  # a variance inflation that large is rounding: the one gives the other


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
    typical = float(np.median([sd[at[m]] for m in found.own])) if found.own else 0.0
    for m in found.own:
        error, alpha, i = errors[m], found.estimates[_alpha(m)].value, at[m]
        share = sd[i] / mean[i] if mean[i] > 0 else 0.0
        uncertain = len(known) > 2 and error is not None and error > UNCERTAIN * median
        if uncertain or share < FLAT:
            said = (
                f"a standard error of {error:.2g} ms, {error / median:.1f} times the median of all m"
                if error
                else "no standard error"
            )
            little = share < FLAT or sd[i] < typical
            why = (
                f"unique experts vary little there (sd {sd[i]:.2g}, {100 * share:.2g} % of their mean), so "
                if little
                else ""
            )
            large = error is None or error > 0.25 * abs(alpha)
            yield WeakSpot(
                "spread of U",
                "medium" if large else "low",
                f"m = {m}: {why}alpha = {alpha:.3g} ms has {said}",
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
            f"{named(together)}: unique experts and context length move together ({_inflated(max(vifs))}), "
            "so alpha and c can hardly be told apart there; record texts of different length",
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
            f"unique experts rise with m ({_inflated(pooled)}): a model with one alpha and a slope in K "
            "cannot tell the two apart; alpha for each m, as the model has it, does not need to",
        )


def on_factors(evidence: Evidence) -> Iterator[WeakSpot]:
    """Say which recorded factors move together so closely within m that they cannot be told apart."""
    relations = factor_relations(evidence)
    pairs = [
        f"{a} and {b} (r = {r:.3f})"
        for i, a in enumerate(relations.factors)
        for b, r in zip(relations.factors[:i], relations.within_m[i][:i], strict=True)
        if r is not None and abs(r) > ALIKE and {a, b} != {EXPERTS, CONTEXT}  # that pair has a sentence of its own
    ]
    if pairs:
        yield WeakSpot(
            "factors",
            "low",
            f"within m {listed(pairs)} move together: they cannot be told apart, whichever of them the time follows",
        )


@dataclass(frozen=True)
class Usage:
    """What the rounds say about whether the time uses unique experts at all.

    Parameters
    ----------
    shown
        Whether it does; nothing is to be said about where alpha changes if not.
    spots
        What to say.
    """

    shown: bool
    spots: tuple[WeakSpot, ...]


def on_alpha(evidence: Evidence, found: Verified, disagreeing: Sequence[Disagreement] = ()) -> Usage:
    """Say if the target's time does not use unique experts, or where alpha is negative or may be 0.

    That it does not is said only where the rounds could show it: the interval of the common alpha times a standard
    deviation of U within m stays below 3 % of the mean time, U does not move with context length (variance inflation
    below 5), and robust refits agree. Where not, the sentence is that these rounds cannot tell, and why.

    Parameters
    ----------
    disagreeing
        Alphas that robust refits put elsewhere.
    """
    own = found.own
    if not own:
        dense = "unique experts are 0 in every round: a dense target, for which the model has no alpha"
        return Usage(False, (WeakSpot("alpha", "low", dense),))
    unclear = [m for m in own if found.estimates[_alpha(m)].spans_zero()]
    negative = [m for m in own if (found.estimates[_alpha(m)].high or 0.0) < 0]
    spots = []
    doubt = _unused(evidence, found, unclear, disagreeing) if 2 * len(unclear) >= len(own) else None
    if doubt is not None:
        spots.append(doubt)
    elif unclear:
        spots.append(
            WeakSpot("alpha", "medium", f"{named(unclear)}: alpha cannot be told from 0 (its 95 % interval holds 0)")
        )
    if negative:
        spots.append(
            WeakSpot(
                "alpha",
                "high",
                f"{named(negative)}: alpha is negative beyond its error; more experts cannot take less time, so "
                "something that moves with them is missing from the model",
            )
        )
    return Usage(doubt is None and not negative, tuple(spots))


def _unused(
    evidence: Evidence, found: Verified, unclear: Sequence[int], disagreeing: Sequence[Disagreement]
) -> WeakSpot | None:
    """Judge one alpha for all m whose own alphas mostly cannot be told from 0."""
    own, target = found.own, float(evidence.columns[RESPONSE].mean())
    context = () if found.context_name is None else (CONTEXT,)
    moments = verify_moments(evidence)
    moments = moments.where(np.isin(moments.m, own))
    totals = moments.by_m()
    within = totals.comoment.sum(axis=0)
    vif = _inflation(within)
    tied = f"unique experts and context length move together within m ({_inflated(vif)})" if vif is not None else ""
    cannot = "these rounds cannot tell whether the target's time uses unique experts"
    try:
        alpha, rmse = common_slope(moments, EXPERTS, (EXPERTS, *context), RESPONSE)
    except InputError:
        return WeakSpot("alpha", "medium", f"{cannot}: {tied or 'one alpha for all m is not identified'}")
    left = _without_experts(evidence, own, context)
    explained = max(1 - moments.rounds * rmse**2 / left, 0.0) if left > 0 else 0.0
    if not alpha.spans_zero() and explained >= UNUSED:
        return None
    facts = (
        f"one alpha for all m is {alpha.value:.3g} ms {span(alpha.low, alpha.high)}, U explains {100 * explained:.1f} "
        f"% of the variance that m and context leave, and {len(unclear)} of {len(own)} intervals of alpha hold 0"
    )
    sd = float(np.sqrt(within[0, 0] / totals.n.sum()))
    bound = max(abs(alpha.low or 0.0), abs(alpha.high or 0.0)) * sd
    causes = []
    if alpha.low is None:
        causes.append("there is no interval")
    elif 100 * bound >= NARROW_PERCENT * target:
        causes.append(
            f"the interval allows {100 * bound / target:.2g} % of the mean time for one standard deviation of U"
        )
    if vif is not None and vif >= INFLATED:
        causes.append(tied)
    if disagreeing:
        causes.append("a few far rounds decide alpha, and robust refits disagree (see heavy tails)")
    if not causes and not alpha.spans_zero():
        causes.append("alpha is not 0 over all m, but hardly matters beside what else moves the time")
    if causes:
        return WeakSpot("alpha", "medium", f"{cannot}: {listed(causes)}; {facts}")
    return WeakSpot(
        "alpha",
        "high",
        f"the target's time does not use unique experts as far as these rounds can tell: {facts}; the interval leaves "
        f"less than {100 * bound / target:.2g} % of the mean time for one standard deviation of U",
    )


def on_context(evidence: Evidence, found: Verified) -> Iterator[WeakSpot]:
    """Say if c is weakly identified, or differs from m to m."""
    if found.context_name is None:
        length = evidence.columns[CONTEXT]
        every = length.min() == length.max()
        what = f"is {length[0]:.0f} in every round" if every else "does not vary within any m"
        yield WeakSpot(
            "context",
            "medium",
            f"context_len {what}: c is not identified and taken as 0, so the model holds at the recorded context only",
        )
        return
    c = found.estimates[found.context_name]
    low, high = np.quantile(evidence.columns[CONTEXT], (0.05, 0.95))
    width, target = float(high - low), float(evidence.columns[RESPONSE].mean())
    effect = (
        f"from {low:.0f} to {high:.0f} tokens (5 to 95 %) it moves the time by {100 * c.value * width / target:.2g} %"
    )
    if c.spans_zero():
        yield WeakSpot(
            "context",
            "medium",
            f"c = {1e3 * c.value:.3g} µs per token cannot be told from 0 (95 % interval "
            f"{span(1e3 * (c.low or 0.0), 1e3 * (c.high or 0.0))}); {effect}",
        )
    elif c.error_cr3 is not None and c.error_cr3 > VAGUE * abs(c.value):
        yield WeakSpot(
            "context",
            "low",
            f"c is weakly identified: {1e3 * c.value:.3g} µs per token with a standard error of "
            f"{100 * c.error_cr3 / abs(c.value):.0f} %; {effect}, and nothing is known beyond",
        )
    yield from _on_growing_context(evidence, c.value, width, target)


def _on_growing_context(evidence: Evidence, c: float, width: float, target: float) -> Iterator[WeakSpot]:
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
    off = 100 * float(np.abs(values - c).max()) * width / target
    if off < ROUNDING_PERCENT:
        return
    p = float(2 * stdtr(clusters - 1, -abs(slope) / error))
    yield WeakSpot(
        "context",
        "medium" if off > OFF_PERCENT else "low",
        f"c {'grows' if slope > 0 else 'falls'} with m: {1e3 * values[0]:.3g} µs per token at m = {own[0]}, "
        f"{1e3 * values[-1]:.3g} at m = {own[-1]} in fits of their own ({1e3 * slope:+.2g} ± {1e3 * half:.2g} (95 %) "
        f"per position, p = {p:.1g}); one c for all m is off by up to {off:.1f} % of the mean time over the recorded "
        "context",
    )


def on_boundaries(found: Verified, boundaries: Sequence[Boundary]) -> Iterator[WeakSpot]:
    """Say where regimes end and what alpha does there; or, where none ends, how large its largest step is.

    Parameters
    ----------
    boundaries
        The places of a search that found regimes, chosen or not.
    """
    chosen = [boundary for boundary in boundaries if boundary.chosen]
    for boundary in chosen:
        change = boundary.alpha_change_ms_per_expert
        step = (
            "" if change is None else f"; alpha steps by {change.value:+.3g} ms {span(change.low, change.high)} there"
        )
        at = f"between m = {boundary.before} and {boundary.after}"
        if boundary.settled and boundary.jump:
            yield WeakSpot(
                "regimes",
                "medium",
                f"a boundary between regimes lies {at}: nothing may be interpolated across it{step}",
            )
        else:
            share = boundary.share_of_resamples
            often = "not resampled" if share is None else f"found in {100 * share:.0f} % of resamples"
            yield WeakSpot("regimes", "medium", f"a boundary between regimes may lie {at}, {often}{step}")
    own = found.own
    if not chosen and len(own) > 1:
        alphas = [found.estimates[_alpha(m)].value for m in own]
        step, beyond = _largest_step(found)
        yield WeakSpot(
            "regimes",
            "low",
            f"no boundary between regimes was found: alpha runs from {min(alphas):.3g} to {max(alphas):.3g} ms"
            f"{'' if beyond else ' without a jump'} over m = {own[0]} … {own[-1]}{step}",
        )


def _largest_step(found: Verified) -> tuple[str, bool]:
    """Name the largest step of alpha from one measured m to the next, and say whether it is beyond its error."""
    own = found.own
    at = [found.estimates.names.index(_alpha(m)) for m in own]
    contrast = np.diff(np.eye(len(own)), axis=0)
    values = contrast @ [found.estimates.each[i].value for i in at]
    errors = np.sqrt(np.diagonal(contrast @ found.estimates.covariance_cr3[np.ix_(at, at)] @ contrast.T))
    i = int(np.abs(values).argmax())
    clusters = min(found.estimates.each[j].clusters for j in at)
    half = half_widths(errors[i : i + 1], np.array([clusters]), 1 - 0.05 / len(values))[0]
    error = "" if np.isnan(half) else f" ± {half:.2g} (95 %, all steps together)"
    return f"; the largest step is {values[i]:+.3g}{error} ms from m = {own[i]} to {own[i + 1]}", bool(
        abs(values[i]) > half
    )


def _alpha(m: int) -> str:
    return f"alpha_ms_per_expert[{m}]"


def _inflated(vif: float) -> str:
    return "the one all but gives the other" if vif > EXACTLY else f"variance inflation {vif:.3g}"


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
