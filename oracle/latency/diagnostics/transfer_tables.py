"""What predictions of an m from other m report: plain values."""

from dataclasses import dataclass
from typing import Literal

from oracle.latency.diagnostics.runs import Partition, Run

# Percentage points: anchors suffice where no m they predict is this much worse than the whole regime's fit.
ENOUGH = 0.5


@dataclass(frozen=True)
class Mape:
    """Mean absolute percentage error of predictions, percent, with a 95 % interval over clusters."""

    percent: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class LeftOut:
    """One m predicted from the other m of its regime.

    Parameters
    ----------
    m, from_ms
        What is predicted, from what.
    inside
        Whether `m` lies between two of `from_ms` (interpolation) or beyond them.
    error
        Of the prediction; None where the other m do not identify the coefficients.
    own
        Error of the regime's coefficients fitted with this m, on the same rounds.
    """

    m: int
    from_ms: Run
    inside: bool
    error: Mape | None
    own: Mape | None


@dataclass(frozen=True)
class Across:
    """The m next to a boundary predicted from the regime on the other side.

    Parameters
    ----------
    m, from_ms
        What is predicted, from which regime.
    extended, nearest
        Error with beta0 extended along that regime's line, and with beta0 as at its nearest m.
    own
        Error of the m's own regime, on the same rounds.
    """

    m: int
    from_ms: Run
    extended: Mape | None
    nearest: Mape | None
    own: Mape | None


@dataclass(frozen=True)
class Anchors:
    """A regime predicted from a few of its m, as if only those had been timed.

    Parameters
    ----------
    regime, anchors
        The m of the regime, and those that are used.
    picked
        ``"ends"``: the first and the last, fixed beforehand; ``"best"``: the best of that many, by hindsight.
    worst_m, worst
        The m that is not an anchor with the largest error, and that error.
    enough
        Whether every such error exceeds that of the whole regime's fit by less than `ENOUGH` percentage points.
    """

    regime: Run
    anchors: Run
    picked: Literal["ends", "best"]
    worst_m: int
    worst: Mape
    enough: bool


@dataclass(frozen=True)
class Transfer:
    """Everything about one partition.

    Parameters
    ----------
    partition
        The regimes.
    left_out, across, anchors
        See there; regimes of one m have no row in the first and the last.
    said
        In words.
    """

    partition: Partition
    left_out: tuple[LeftOut, ...]
    across: tuple[Across, ...]
    anchors: tuple[Anchors, ...]
    said: tuple[str, ...]
