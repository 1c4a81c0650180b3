"""Doubts about where regimes end, and about one context coefficient for all m."""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import stdtr

from oracle.errors import InputError
from oracle.latency.diagnostics.doubts_about_coefficients import alpha_name
from oracle.latency.diagnostics.regime_tables import Boundary
from oracle.latency.diagnostics.specification import CONTEXT
from oracle.latency.diagnostics.verdicts import span
from oracle.latency.diagnostics.verified import Verified, verified
from oracle.latency.diagnostics.weak_spot import WeakSpot
from oracle.latency.estimates import half_widths
from oracle.latency.evidence import Evidence
from oracle.latency.forms import RESPONSE

VAGUE = 0.05  # error of c over c
ROUNDING_PERCENT = 1e-4  # of the mean time: nothing but rounding
OFF_PERCENT = 1.0  # of the mean time


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
        alphas = [found.estimates[alpha_name(m)].value for m in own]
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
    at = [found.estimates.names.index(alpha_name(m)) for m in own]
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
