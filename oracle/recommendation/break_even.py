"""At what acceptance a draft length pays: arithmetic on step times alone.

With one match probability p at every position, a draft of k tokens emits 1 + p + … + p^k tokens a round on average.
The ratio of two such lengths rises with p, so a longer draft overtakes a shorter one at one p at most.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

_HALVINGS = 60


@dataclass(frozen=True)
class BreakEven:
    """What a draft length asks of the acceptance.

    Attributes
    ----------
    draft_length
        K.
    length_over_off
        Mean acceptance length (bonus included) above which it beats no speculation; None if off was not measured.
    match_over_off
        The same as one match probability for every position; inf if even certain matches are not enough.
    best_from, best_to
        Match probabilities between which it is the best of all measured lengths; None if it is nowhere.
    """

    draft_length: int
    length_over_off: float | None
    match_over_off: float | None
    best_from: float | None
    best_to: float | None


def equal_match_length(p: float, k: int) -> float:
    """Mean acceptance length of drafts of k tokens that match with probability p each: 1 + p + … + p^k."""
    return math.fsum(p**j for j in range(k + 1))


def overtakes(short: int, short_ms: float, long: int, long_ms: float) -> float:
    """Match probability above which the longer draft emits more tokens a second; inf if it never does.

    Parameters
    ----------
    short_ms, long_ms
        Step times, milliseconds.
    """
    asked = long_ms / short_ms
    if asked <= 1:
        return 0.0
    if asked >= (long + 1) / (short + 1):
        return math.inf
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        p = (low + high) / 2
        if equal_match_length(p, long) > asked * equal_match_length(p, short):
            high = p
        else:
            low = p
    return high


def break_evens(step_ms: Mapping[int, float]) -> list[BreakEven]:
    """Break-evens of every measured draft length.

    Parameters
    ----------
    step_ms
        Milliseconds of a round by draft length.
    """
    found = []
    for k in sorted(step_ms):
        shorter = [overtakes(j, step_ms[j], k, step_ms[k]) for j in step_ms if j < k]
        longer = [overtakes(k, step_ms[k], j, step_ms[j]) for j in step_ms if j > k]
        start, end = max(shorter, default=0.0), min([*longer, 1.0])
        # at p = 1 exactly a longer draft may still be best though no range of p is; ranges are what is reported
        best = start < end
        over_off = step_ms[k] / step_ms[0] if 0 in step_ms and k else None
        found.append(
            BreakEven(
                k,
                over_off,
                overtakes(0, step_ms[0], k, step_ms[k]) if over_off is not None else None,
                start if best else None,
                end if best else None,
            )
        )
    return found
