"""Requests in flight: from arrival to end, the end excluded, weighted by the time for which they are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class InFlight:
    """A step function: `count[i]` requests in flight from `time[i]` to `time[i + 1]`.

    Attributes
    ----------
    time : (n + 1,) float64, seconds
        Rising.
    count : (n,) int64
    """

    time: Floats
    count: Whole

    @property
    def span(self) -> float:
        """Seconds from the first arrival to the last end."""
        return float(self.time[-1] - self.time[0])

    def within(self, edges: Floats) -> "Stretches":
        """Sum up each stretch between neighbouring edges, as far as it was observed.

        Parameters
        ----------
        edges : (S + 1,) float64, seconds
            Rising.
        """
        inner = edges[(edges > self.time[0]) & (edges < self.time[-1])]
        cut = np.union1d(self.time, inner)
        count = self.count[np.searchsorted(self.time, cut[:-1], side="right") - 1]
        lasted = np.diff(cut)
        where = np.searchsorted(edges, cut[:-1], side="right") - 1
        size = len(edges) - 1
        inside = (where >= 0) & (where < size)
        count, lasted, where = count[inside], lasted[inside], where[inside]
        peak = np.zeros(size, np.int64)
        np.maximum.at(peak, where, count)
        return Stretches(
            frozen(np.bincount(where, count * lasted, size)),
            frozen(np.bincount(where, lasted * (count > 0), size)),
            frozen(np.bincount(where, lasted, size)),
            frozen(peak),
        )

    def quantile(self, share: float) -> int:
        """The count that is not exceeded for that share of the time."""
        order = np.argsort(self.count, kind="stable")
        passed = np.cumsum(np.diff(self.time)[order])
        return int(self.count[order][min(np.searchsorted(passed, share * passed[-1]), len(order) - 1)])


@dataclass(frozen=True, eq=False)
class Stretches:
    """Sums over stretches of time, arrays of shape (S,).

    Attributes
    ----------
    request_seconds
        Requests in flight times seconds.
    busy_seconds, seconds
        With at least one request in flight, and observed at all.
    peak
        Most requests at once.
    """

    request_seconds: Floats
    busy_seconds: Floats
    seconds: Floats
    peak: Whole

    @property
    def busy_mean(self) -> Floats:
        """Mean requests in flight while there are any: decode steps are made only then. NaN where there are none."""
        with np.errstate(invalid="ignore"):
            return self.request_seconds / self.busy_seconds

    @property
    def mean(self) -> Floats:
        """Mean requests in flight; NaN where nothing was observed."""
        with np.errstate(invalid="ignore"):
            return self.request_seconds / self.seconds


def in_flight(arrival: Floats, end: Floats) -> InFlight | None:
    """Count requests in flight; one that ends as it arrives is never in flight, one that ends makes room at once.

    Returns
    -------
    None where no time passes at all.
    """
    time = np.unique(np.concatenate([arrival, end]))
    if len(time) < 2:
        return None
    change = np.zeros(len(time), np.int64)
    np.add.at(change, np.searchsorted(time, arrival), 1)
    np.add.at(change, np.searchsorted(time, end), -1)
    return InFlight(frozen(time), frozen(np.cumsum(change)[:-1]))
