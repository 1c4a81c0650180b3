"""One thing a reader of a fit must distrust, in words."""

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
