"""What to distrust about alpha and c: whether the rounds identify them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from oracle.errors import InputError
from oracle.latency.diagnostics.column_comparison import common_slope
from oracle.latency.diagnostics.factors import factor_relations
from oracle.latency.diagnostics.far_rounds import Disagreement
from oracle.latency.diagnostics.specification import CONTEXT, EXPERTS
from oracle.latency.diagnostics.verdicts import listed, named, span
from oracle.latency.diagnostics.verified import Verified, verify_moments
from oracle.latency.diagnostics.weak_spot import WeakSpot
from oracle.latency.evidence import Evidence
from oracle.latency.forms import REGRESSORS, RESPONSE
from oracle.latency.moments import Floats

TOO_FEW, FEW = 10, 40  # clusters
UNCERTAIN = 2.0  # an alpha whose error is that many times the median error
FLAT = 0.02  # sd of U over its mean
INFLATED = 5.0  # variance inflation factor
UNUSED = 0.01  # share of the variance within m that U explains
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
        pairs = [(e.error_cr3, e.error_cr1) for e in (found.estimates[alpha_name(m)] for m in found.own)]
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
    errors = {m: found.estimates[alpha_name(m)].error_cr3 for m in found.own}
    known = [e for e in errors.values() if e]
    median = float(np.median(known)) if known else 0.0
    typical = float(np.median([sd[at[m]] for m in found.own])) if found.own else 0.0
    for m in found.own:
        error, alpha, i = errors[m], found.estimates[alpha_name(m)].value, at[m]
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
    unclear = [m for m in own if found.estimates[alpha_name(m)].spans_zero()]
    negative = [m for m in own if (found.estimates[alpha_name(m)].high or 0.0) < 0]
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


def alpha_name(m: int) -> str:
    """Name of alpha at one m among the estimates."""
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
