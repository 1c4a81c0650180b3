"""Slots of time, and the units that are resampled for intervals."""

from dataclasses import dataclass
from datetime import tzinfo
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.errors import InputError
from oracle.observe.gathered import Gathered
from oracle.observe.times import is_dated, named, shift

Unit = Literal["cluster", "request", "tenant", "time"]
UNITS: tuple[Unit, ...] = get_args(Unit)
MOST_SLOTS = 10_000
BLOCKS_A_SLOT = 20  # stretches of time that are resampled


@dataclass(frozen=True, eq=False)
class Slots:
    """Stretches of equal length that cover a log.

    Attributes
    ----------
    edges : (S + 1,) float64, seconds
    names
        S of them, each different.
    block : float, seconds
        Length of the stretches of time that are resampled.
    """

    edges: NDArray[np.float64]
    names: tuple[str, ...]
    block: float

    def of(self, seconds: NDArray[np.float64]) -> NDArray[np.int64]:
        """Slot of each moment."""
        return np.clip(np.searchsorted(self.edges, seconds, side="right") - 1, 0, len(self.names) - 1)


def slots_of(log: Gathered, seconds: float, zone: tzinfo | None) -> Slots:
    """Cut the time of a log into slots that begin at full ones of local clocks.

    Raises
    ------
    InputError
        Too many of them.
    """
    first, last = float(log.arrival.min()), float(log.end.max())
    ahead = shift(first, zone) if is_dated(first) else 0.0
    begin = np.floor((first + ahead) / seconds) * seconds - ahead
    count = max(1, int(np.ceil((last - begin) / seconds)))
    if count > MOST_SLOTS:
        raise InputError(
            f"the logs span {(last - first) / 3600:,.0f} hours, {count:,} slots, of which {MOST_SLOTS:,} are the most; "
            "is a time in another unit? else give longer slots with --slot-minutes"
        )
    edges = begin + seconds * np.arange(count + 1)
    names = tuple(named(float(edge), zone, is_dated(first)) for edge in edges[:-1])
    return Slots(frozen(edges), names, min(seconds, max(last - first, 1e-9)) / BLOCKS_A_SLOT)


def units_of(log: Gathered, unit: Unit, slots: Slots) -> NDArray[np.int64]:
    """Number the unit of resampling of each request: (R,) int64.

    Raises
    ------
    InputError
        The log does not name it.
    """
    if unit == "request":
        return np.arange(log.requests)
    if unit == "time":
        return np.asarray((log.arrival - slots.edges[0]) // slots.block, dtype=np.int64)
    if (log.tenant if unit == "tenant" else log.cluster)[0] < 0:
        raise InputError(f"--interval-by {unit}: the logs have no column {unit}; take another, or add it")
    return log.tenant if unit == "tenant" else log.cluster
