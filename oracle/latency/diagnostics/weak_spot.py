"""One thing a reader of a fit must distrust, in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Severity = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class WeakSpot:
    """A weak spot of a fit.

    Parameters
    ----------
    topic
        What it is about, one word or two, for example ``"clusters"`` or ``"drift"``.
    severity
        ``"high"``: coefficients are wrong or mean nothing; ``"medium"``: they are uncertain, or hold under conditions;
        ``"low"``: to be known, the fit allows for it.
    sentence
        What, with its numbers, and what follows.
    """

    topic: str
    severity: Severity
    sentence: str


def listed(ms: Sequence[int]) -> str:
    """Name some m."""
    return "m = " + ", ".join(map(str, ms))


def interval(low: float | None, high: float | None, form: str = ".3g") -> str:
    """Write an interval after its value; nothing where there is none."""
    return "" if low is None or high is None else f" [{low:{form}}; {high:{form}}]"
