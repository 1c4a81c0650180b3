"""The four things that may be said of a hypothesis, and the words they share."""

from collections.abc import Sequence
from typing import Literal

from oracle.latency.diagnostics.fold_errors import OverFolds

Verdict = Literal["supported", "not supported by these data", "contradicted", "cannot be tested"]
SUPPORTED: Verdict = "supported"
NOT_SUPPORTED: Verdict = "not supported by these data"
CONTRADICTED: Verdict = "contradicted"
UNTESTABLE: Verdict = "cannot be tested"

MATERIAL = 0.01  # share of the held-out RMSE: a smaller gain is not held against the simpler form, however certain


def material(gain: OverFolds, before: OverFolds) -> bool:
    """Whether a gain is certain (its interval lies above 0) and at least `MATERIAL` of the error before it."""
    if gain.mean is None or gain.low is None or before.mean is None:
        return False
    return gain.low > 0 and gain.mean >= MATERIAL * before.mean


def span(low: float | None, high: float | None, digits: int = 3) -> str:
    """Write an interval."""
    return "[no interval]" if low is None or high is None else f"[{low:.{digits}g}; {high:.{digits}g}]"


def listed(words: Sequence[str]) -> str:
    """Join words as a sentence does."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def named(ms: Sequence[int]) -> str:
    """Name some m."""
    return "m = " + ", ".join(map(str, ms))


def percent(share: float, sign: str = "") -> str:
    """Write a share in whole percent; what rounds to nothing is 0, without a minus."""
    return f"{round(100 * share) + 0:{sign}d} %"
