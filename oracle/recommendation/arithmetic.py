"""Which draft length to set, from acceptance by position and step times; no trace is needed.

tokens per second = batch size · mean acceptance length / step time, with mean acceptance length = 1 + S_1 + … + S_K.
Ties go to the shorter draft: it wastes less, and what differs by less than the noise is not a gain.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oracle.acceptance import Acceptance, Curve, StepTimes
from oracle.errors import InputError
from oracle.recommendation import break_even
from oracle.recommendation.break_even import BreakEven
from oracle.resampling import Interval

NOISE = 0.02  # of a measured rate, where nobody says otherwise


@dataclass(frozen=True)
class Candidate:
    """One draft length and what it gives.

    Attributes
    ----------
    draft_length
        K; 0 is no speculation.
    measured_at
        K at which its acceptance was measured; None where none was needed or known.
    mean_acceptance_length
        Tokens a round of one request, bonus included; None if not known.
    step_ms
        Milliseconds of a round; None if not known.
    tokens_per_second
        Of all requests together; None if not known.
    interval, interval_from
        95 % of the sampled acceptance (`rounds`, `requests`, `traces`), or plus and minus the stated noise (`noise`).
    verdict
        `best`; `tie` (within the noise of the best); `not significant` (the counts cannot tell it from the best).
    """

    draft_length: int
    measured_at: int | None
    mean_acceptance_length: float | None
    step_ms: float | None
    tokens_per_second: float | None
    interval: Interval | None
    interval_from: str
    verdict: Literal["best", "tie", "not significant", ""] = ""


@dataclass(frozen=True)
class Recommendation:
    """The answer for one setting.

    Attributes
    ----------
    candidates
        By rising draft length.
    recommended
        The shortest of the best and what ties with it; None where no acceptance is known.
    break_evens
        Acceptance at which each length pays, where step times are known.
    noise
        Relative.
    batch_size, setting
        Of the step times.
    notes
        How it came about.
    limits
        What such data cannot tell.
    """

    candidates: tuple[Candidate, ...]
    recommended: int | None
    break_evens: tuple[BreakEven, ...]
    noise: float
    batch_size: int
    setting: str | None
    notes: tuple[str, ...]
    limits: tuple[str, ...]

    def of(self, k: int) -> Candidate:
        """The candidate with draft length k."""
        return next(candidate for candidate in self.candidates if candidate.draft_length == k)

    @property
    def best(self) -> Candidate | None:
        """The candidate with the highest rate; None where no rate is known."""
        return next((candidate for candidate in self.candidates if candidate.verdict == "best"), None)

    @property
    def tied(self) -> tuple[int, ...]:
        """Draft lengths that cannot be told from the best."""
        return tuple(c.draft_length for c in self.candidates if c.verdict in ("tie", "not significant"))


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
    found = judged(candidates, curves, steps, noise)
    return Recommendation(
        candidates=found,
        recommended=shortest(found),
        break_evens=break_evens(found),
        noise=noise,
        batch_size=steps.batch_size,
        setting=steps.setting,
        notes=tuple(notes),
        limits=_limits(acceptance, found),
    )


def _check(acceptance: Acceptance | None, steps: StepTimes, noise: float) -> None:
    if not 0 <= noise < 1:
        raise InputError(
            f"the noise is {noise:g}; it is a share from 0 to below 1 (--noise takes percent, from 0 to 99)"
        )
    if acceptance is not None and len(acceptance.tenants) > 1:
        raise InputError("the acceptance is of several tenants; mix them, or take one")
    if acceptance is None and steps.tokens_per_second and set(steps.lengths) == {0}:
        raise InputError("only K = 0 was measured; measure the throughput of at least one K ≥ 1")


def _candidate(k: int, curve: Curve | None, steps: StepTimes, noise: float, *, known: bool) -> Candidate:
    """Work out one draft length; whichever of step time and rate is measured gives the other."""
    length = 1.0 if k == 0 else None if curve is None else curve.mean_length(k)
    scale = 1e3 * steps.batch_size
    measured_at = curve.draft_length if curve is not None else None
    if steps.tokens_per_second:
        rate = steps.tokens_per_second[k]
        ms = None if length is None else scale * length / rate
        around = Interval(rate * (1 - noise), rate * (1 + noise))
        return Candidate(k, measured_at, length, ms, rate, around, "noise")
    ms = steps.step_ms[k]
    if length is None or not known:
        return Candidate(k, measured_at, length, ms, None, None, "")
    rate = scale * length / ms
    if curve is None or curve.covariance is None:
        return Candidate(k, measured_at, length, ms, rate, Interval(rate * (1 - noise), rate * (1 + noise)), "noise")
    half = curve.quantile * math.sqrt(max(0.0, float(curve.covariance[:k, :k].sum())))
    low, high = max(1.0, length - half), min(k + 1.0, length + half)
    return Candidate(
        k, measured_at, length, ms, rate, Interval(scale * low / ms, scale * high / ms), curve.interval_from
    )


def judged(
    candidates: Sequence[Candidate], curves: dict[int, Curve], steps: StepTimes, noise: float
) -> tuple[Candidate, ...]:
    """Say which is best and what cannot be told from it."""
    rates = {c.draft_length: c.tokens_per_second for c in candidates if c.tokens_per_second is not None}
    if not rates or set(rates) == {0}:
        return tuple(candidates)
    best = min(rates, key=lambda k: (-rates[k], k))
    found = []
    for c in candidates:
        verdict: Literal["best", "tie", "not significant", ""] = ""
        if c.draft_length == best:
            verdict = "best"
        elif c.tokens_per_second is not None:
            gap = rates[best] - c.tokens_per_second
            if gap <= noise * rates[best] * (1 + 1e-12):
                verdict = "tie"
            elif steps.step_ms and gap <= _least_difference(best, c.draft_length, curves, steps):
                verdict = "not significant"
        found.append(replace(c, verdict=verdict))
    return tuple(found)


def _least_difference(a: int, b: int, curves: dict[int, Curve], steps: StepTimes) -> float:
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
        return 0.0
    variance = sum(float(w @ curve.covariance @ w) for w, curve in parts if curve.covariance is not None)
    return max((curve.quantile for _, curve in parts), default=0.0) * math.sqrt(max(0.0, variance))


def shortest(found: Sequence[Candidate]) -> int | None:
    """Give the shortest of the best length and what ties with it: the one to set; None where no rate is known."""
    return min((c.draft_length for c in found if c.verdict), default=None)


def break_evens(found: Sequence[Candidate]) -> tuple[BreakEven, ...]:
    """Give the break-evens of the lengths whose step time is known; none where that is one length only."""
    step_ms = {c.draft_length: c.step_ms for c in found if c.step_ms is not None}
    return tuple(break_even.break_evens(step_ms)) if len(step_ms) > 1 else ()


def _limits(acceptance: Acceptance | None, judged: Sequence[Candidate]) -> tuple[str, ...]:
    """Say what the data cannot tell."""
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
        limits.append("K = 0 was not measured: whether off would be faster cannot be told")
    longest = max((c.draft_length for c in judged), default=0)
    missing = [k for k in range(longest) if k and not any(c.draft_length == k for c in judged)]
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


def by_tenant(
    acceptance: Acceptance, mixed_answer: Recommendation, *, noise: float = NOISE
) -> dict[str | None, Recommendation]:
    """Answer for each tenant as if all requests were its own, at the step times of the mix.

    Parameters
    ----------
    acceptance
        Of several tenants.
    mixed_answer
        For their mix; its step times are used, since throughput was measured on the mix.
    """
    ms = {c.draft_length: c.step_ms for c in mixed_answer.candidates if c.step_ms is not None}
    answers: dict[str | None, Recommendation] = {}
    for tenant in acceptance.tenants:
        own = acceptance.of(tenant)
        reached = {k: step for k, step in ms.items() if k == 0 or own.at(k) is not None}
        steps = StepTimes(reached, {}, mixed_answer.batch_size, mixed_answer.setting)
        if any(reached):
            answers[tenant] = recommend(own, steps, noise=noise)
    return answers
