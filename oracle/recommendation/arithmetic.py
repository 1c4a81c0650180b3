"""Which draft length to set, from acceptance by position and step times; no trace is needed.

tokens per second = batch size · mean acceptance length / step time, with mean acceptance length = 1 + S_1 + … + S_K.
Ties go to the shorter draft: it wastes less, and what differs by less than the noise is not a gain.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oracle.acceptance import Acceptance, Curve, StepTimes
from oracle.errors import InputError
from oracle.intervals import FEW_CLUSTERS, NOT_SIGNIFICANT, Interval
from oracle.recommendation import break_even
from oracle.recommendation.answers import NOISE, Against, Candidate, Recommendation, Sample, Verdict
from oracle.recommendation.break_even import BreakEven


def recommend(acceptance: Acceptance | None, steps: StepTimes, *, noise: float = NOISE) -> Recommendation:
    """Find the best static draft length.

    Parameters
    ----------
    acceptance
        Of one tenant or a mix (`mixed`); None: the answer is the acceptance at which each length pays.
    steps
        Step times, or throughput, by draft length.
    noise
        Relative difference below which two rates are called a tie.

    Raises
    ------
    InputError
        Several tenants unmixed; no draft length with both acceptance and a step time; throughput without a use.
    """
    _check(acceptance, steps, noise)
    notes = [*steps.notes, *(acceptance.notes if acceptance else ())]
    candidates: list[Candidate] = []
    curves: dict[int, Curve] = {}
    left_out = []
    for k in steps.lengths:
        curve = acceptance.at(k) if acceptance is not None and k else None
        if k and acceptance is not None and curve is None and not steps.tokens_per_second:
            left_out.append(k)
            continue
        if curve is not None:
            curves[k] = curve
        candidates.append(_candidate(k, curve, steps, noise, known=acceptance is not None))
    if left_out:
        notes.append(f"left out: K = {', '.join(map(str, left_out))}: no acceptance was measured at that depth")
    if acceptance is not None and not curves and not steps.tokens_per_second:
        raise InputError("no draft length K ≥ 1 has both an acceptance and a step time; measure one at the same K")
    rates = {c.draft_length: c.tokens_per_second for c in candidates if c.tokens_per_second is not None}

    def over(best: int, k: int) -> Against:
        share = rates[k] / rates[best] - 1
        half = _half_width(best, k, curves, steps) if steps.step_ms else None
        around = None if half is None else Interval(share - half / rates[best], share + half / rates[best])
        known = [curves[j].requests for j in (best, k) if j in curves]
        requests = min((count for count in known if count is not None), default=None)
        return Against(share, around, noise, requests if steps.step_ms else None)

    found = judged(candidates, over)
    notes += few_requests(curves)
    return Recommendation(
        candidates=found,
        recommended=shortest(found),
        break_evens=break_evens(found),
        noise=noise,
        batch_size=steps.batch_size,
        setting=steps.setting,
        notes=tuple(notes),
        limits=_limits(acceptance, found, steps.excluded),
        sample=_sample(found, curves),
    )


def _check(acceptance: Acceptance | None, steps: StepTimes, noise: float) -> None:
    check_noise(noise)
    if acceptance is not None and len(acceptance.tenants) > 1:
        raise InputError("the acceptance is of several tenants; mix them, or take one")
    if set(steps.lengths) == {0}:
        what = "throughput" if steps.tokens_per_second else "step time"
        raise InputError(f"only K = 0 was measured; measure the {what} of at least one K ≥ 1")


def check_noise(noise: float) -> None:
    """Refuse a noise that is no share.

    Raises
    ------
    InputError
        Outside [0, 1).
    """
    if not 0 <= noise < 1:
        raise InputError(
            f"the noise is {noise:g}; it is a share from 0 to below 1 (--noise takes percent, from 0 to 99)"
        )


def _candidate(k: int, curve: Curve | None, steps: StepTimes, noise: float, *, known: bool) -> Candidate:
    """Work out one draft length; whichever of step time and rate is measured gives the other."""
    length = 1.0 if k == 0 else None if curve is None else curve.mean_length(k)
    error = None if curve is None else curve.length_error(k)
    scale = 1e3 * steps.batch_size
    around = None
    if curve is not None and length is not None and error is not None:
        half = curve.quantile * error
        around = Interval(max(1.0, length - half), min(k + 1.0, length + half))
    step_ms, rate = steps.step_ms.get(k), steps.tokens_per_second.get(k)
    interval, origin = None, ""
    if rate is not None:
        step_ms = None if length is None else scale * length / rate
    elif length is not None and step_ms is not None and known:
        rate = scale * length / step_ms
        if around is not None and curve is not None:
            interval = Interval(scale * around.low / step_ms, scale * around.high / step_ms)
            origin = curve.interval_from
    if rate is not None and interval is None:
        interval, origin = Interval(rate * (1 - noise), rate * (1 + noise)), "noise"
    return Candidate(
        draft_length=k,
        measured_at=None if curve is None else curve.draft_length,
        mean_acceptance_length=length,
        step_ms=step_ms,
        tokens_per_second=rate,
        interval=interval,
        interval_from=origin,
        acceptance=(length - 1.0) / k if k and length is not None else None,
        length_interval=around,
    )


def judged(candidates: Sequence[Candidate], over: Callable[[int, int], Against]) -> tuple[Candidate, ...]:
    """Say which is best, what ties with it, and what the data cannot tell from it.

    Parameters
    ----------
    over
        Takes two draft lengths, the best one first; gives the rate of the second over that of the first.
    """
    rates = {c.draft_length: c.tokens_per_second for c in candidates if c.tokens_per_second is not None}
    if not rates or set(rates) == {0}:
        return tuple(candidates)
    best = min(rates, key=lambda k: (-rates[k], k))
    behind = {k: over(best, k) for k in rates if k != best}
    chosen = min([best, *(k for k, against in behind.items() if against.tie)])
    found = []
    for c in candidates:
        against = behind.get(c.draft_length)
        verdict: Verdict = "best" if c.draft_length == best else ""
        if against is not None and against.tie:
            verdict = "tie"
        elif against is not None and against.open:
            # were it as good as the best, a shorter one would be set; a longer one only if better than by the noise
            matters = c.draft_length < chosen or _may_gain(against)
            verdict = "not enough data" if matters else "not significant"
        found.append(replace(c, verdict=verdict, over_best=against))
    return tuple(found)


def _may_gain(against: Against) -> bool:
    """Whether a length may be better than the best by more than the noise: no interval that is trusted denies it."""
    if against.interval is None or against.doubt != NOT_SIGNIFICANT:
        return True
    return against.interval.high > against.noise


def _half_width(a: int, b: int, curves: dict[int, Curve], steps: StepTimes) -> float | None:
    """Half-width of the 95 % interval of the difference of two rates; two lengths on one curve share its errors."""

    def slope(k: int, size: int) -> NDArray[np.float64]:
        each = np.zeros(size)
        each[:k] = 1e3 * steps.batch_size / steps.step_ms[k]
        return each

    used = [(k, curves[k]) for k in (a, b) if k in curves]
    if len(used) == 2 and used[0][1] is used[1][1]:
        curve = used[0][1]
        weights = [slope(a, len(curve.survival)) - slope(b, len(curve.survival))]
        parts = [(weights[0], curve)]
    else:
        parts = [(slope(k, len(curve.survival)), curve) for k, curve in used]
    if any(curve.covariance is None for _, curve in parts):
        return None
    variance = sum(float(w @ curve.covariance @ w) for w, curve in parts if curve.covariance is not None)
    return max((curve.quantile for _, curve in parts), default=0.0) * math.sqrt(max(0.0, variance))


def few_requests(curves: Mapping[int, Curve]) -> list[str]:
    """Say where errors rest on so few requests that they cannot be trusted."""
    by_curve: dict[int, list[int]] = {}
    for k, curve in curves.items():
        if curve.covariance is not None and curve.requests is not None and curve.requests < FEW_CLUSTERS:
            by_curve.setdefault(id(curve), []).append(k)
    notes = []
    for lengths in by_curve.values():
        requests = curves[lengths[0]].requests
        why = (
            "1 request only: its interval takes rounds as independent, and they are not"
            if requests == 1
            else f"{requests} requests only: intervals from so few are too narrow to be trusted"
        )
        notes.append(f"acceptance at K = {', '.join(map(str, lengths))}: {why}")
    return notes


def _sample(found: Sequence[Candidate], curves: Mapping[int, Curve]) -> Sample | None:
    """Give what the intervals of the best and the undecided lengths rest on: the smallest of their samples."""
    asked = [curves[c.draft_length] for c in found if c.verdict and c.draft_length in curves]
    requests = [c.requests for c in asked if c.interval_from == "requests" and c.requests is not None]
    rounds = [c.rounds for c in asked if c.interval_from == "rounds" and c.rounds is not None]
    if requests:
        return Sample(min(requests), "requests")
    return Sample(min(rounds), "rounds") if rounds else None


def shortest(found: Sequence[Candidate]) -> int | None:
    """Give the shortest of the best length and what ties with it: the one to set; None where no rate is known."""
    return min((c.draft_length for c in found if c.verdict in ("best", "tie")), default=None)


def break_evens(found: Sequence[Candidate]) -> tuple[BreakEven, ...]:
    """Give the break-evens of the lengths whose step time is known; none where that is one length only."""
    step_ms = {c.draft_length: c.step_ms for c in found if c.step_ms is not None}
    return tuple(break_even.break_evens(step_ms)) if len(step_ms) > 1 else ()


def _limits(
    acceptance: Acceptance | None, judged: Sequence[Candidate], excluded: Sequence[int] = ()
) -> tuple[str, ...]:
    """Say what the data cannot tell; lengths that were measured and are not asked for are no gap in them."""
    limits = []
    borrowed = sorted({c.draft_length for c in judged if c.measured_at not in (None, c.draft_length)})
    if borrowed:
        sources = sorted({c.measured_at for c in judged if c.draft_length in borrowed and c.measured_at is not None})
        limits.append(
            f"acceptance at K = {', '.join(map(str, borrowed))} was not measured: it is the start of drafts of "
            f"{', '.join(map(str, sources))} tokens; it changes with K (one model accepted .836 of first tokens at "
            "K = 1, .757 at K = 8)"
        )
    if not any(c.draft_length == 0 for c in judged):
        why = "left out by --k-min" if 0 in excluded else "not measured"
        limits.append(f"K = 0 was {why}: whether off would be faster cannot be told")
    measured = {*excluded, *(c.draft_length for c in judged)}
    longest = max(measured, default=0)
    missing = [k for k in range(1, longest) if k not in measured]
    beyond = f"K = {', '.join(map(str, missing))} and " if missing else ""
    limits.append(f"{beyond}K above {longest}: nothing is interpolated, since cost jumps between neighbours")
    if acceptance is None:
        limits.append("no acceptance is known, so which K is best cannot be told, only at what acceptance it would be")
    limits.append(
        "contexts: acceptance and step times are averages; in which contexts another K is better needs traces"
    )
    limits.append("the bound: how much a draft length chosen at each position would gain needs traces (--traces)")
    limits.append("other loads: step times hold at this batch size; on MoE the gain does not fall evenly with it")
    return tuple(limits)
