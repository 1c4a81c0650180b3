"""Sums over generations by the unit of resampling, in memory that does not grow with the generations.

Generations are added one after the other in the order of the traces. So no sum depends, to the last bit, on how the
generations were batched, on threads, or on the engine that worked the batches out.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from oracle.resampling import MOST_UNITS
from oracle.traces.schema import AVERAGES

MOST_CATEGORIES = 100  # sums are kept apart for so many


def add_rows(total: NDArray[np.float64], rows: NDArray[np.float64]) -> None:
    """Add rows (G, …) to a total (…) one after the other; `total` is changed."""
    if len(rows):
        total[...] = np.add.accumulate(np.concatenate([total[None], rows]), axis=0)[-1]


def digest_of(name: str) -> int:
    """A number of 64 bits that is the same in every process."""
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class DistinctNames:
    """Counts distinct names, 8 bytes each; two of a billion names are taken for one with a chance of 3 %."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, names: Iterable[str]) -> None:
        """Take in names; runs of like size are merged, so n names cost O(n log n) in all."""
        run = np.unique(np.fromiter((digest_of(name) for name in set(names)), np.uint64))
        while self._runs and len(self._runs[-1]) <= len(run):
            run = np.union1d(self._runs.pop(), run)
        self._runs.append(run)

    def __len__(self) -> int:
        if len(self._runs) > 1:
            self._runs = [np.unique(np.concatenate(self._runs))]
        return len(self._runs[0]) if self._runs else 0


class _Apart:
    """Names that are kept apart up to a number of them, and what a name becomes beyond."""

    def __init__(self, most: int, beyond: Callable[[str], str]) -> None:
        self.beyond = beyond
        self.ended = False
        self._most = most
        self._names: set[str] = set()

    def ends_with(self, name: str) -> bool:
        """Note a name; say whether it is one too many, once."""
        if self.ended or name in self._names:
            return False
        if len(self._names) < self._most:
            self._names.add(name)
            return False
        self.ended, self._names = True, set()
        return True

    def of(self, name: str) -> str:
        return self.beyond(name) if self.ended else name


class UnitSums:
    """Sums by category and unit of resampling.

    A unit is a cluster as long as there are at most `MOST_UNITS`. From the next cluster on, clusters are put into
    `MOST_UNITS` groups by a digest of their names: intervals from so many groups are as valid. From the category
    after `MOST_CATEGORIES` on, categories are no longer kept apart.

    Parameters
    ----------
    width
        Numbers that a generation adds, M.
    """

    def __init__(self, width: int) -> None:
        self._rows: dict[tuple[str, ...], int] = {}
        self._sums = np.zeros((0, width))
        self._apart = _Apart(MOST_CATEGORIES, lambda _: ""), _Apart(MOST_UNITS, _group_of)

    def add(self, values: NDArray[np.float64], clusters: Sequence[str], categories: Sequence[str]) -> None:
        """Add what each generation of a batch adds.

        Parameters
        ----------
        values : (G, M) float64
        clusters, categories
            Names, G each; "" is no category.
        """
        at, begin = np.empty(len(clusters), np.int64), 0
        for g, names in enumerate(zip(categories, clusters, strict=True)):
            for place, (apart, name) in enumerate(zip(self._apart, names, strict=True)):
                if apart.ends_with(name):  # what came before is put together first, wherever in a batch that happens
                    self._take(values[begin:g], at[begin:g])
                    self._put_together(place, apart.beyond)
                    begin = g
            key = tuple(apart.of(name) for apart, name in zip(self._apart, names, strict=True))
            at[g] = self._rows.setdefault(key, len(self._rows))
        self._take(values[begin:], at[begin:])

    @property
    def sums(self) -> NDArray[np.float64]:
        """Sums of each category and unit, (U, M)."""
        return self._sums[: len(self._rows)]

    @property
    def categories(self) -> tuple[str, ...]:
        """Category of each row of `sums`, U."""
        return tuple(category for category, _ in self._rows)

    @property
    def units(self) -> tuple[str, ...]:
        """Name of the unit of each row of `sums`, U."""
        return tuple(unit for _, unit in self._rows)

    @property
    def categories_apart(self) -> bool:
        """Whether categories are kept apart: there were not too many."""
        return not self._apart[0].ended

    def _put_together(self, place: int, beyond: Callable[[str], str]) -> None:
        """Fold the rows there are into fewer, with one part of their keys renamed."""
        former, keys = self.sums, list(self._rows)
        self._rows, self._sums = {}, np.zeros((0, former.shape[1]))
        at = []
        for key in keys:
            renamed = (*key[:place], beyond(key[place]), *key[place + 1 :])
            at.append(self._rows.setdefault(renamed, len(self._rows)))
        self._take(former, np.array(at, np.int64))

    def _take(self, values: NDArray[np.float64], at: NDArray[np.int64]) -> None:
        """Add values to their rows in order."""
        width = self._sums.shape[1]
        if len(self._rows) > len(self._sums):
            room = np.zeros((max(len(self._rows), 2 * len(self._sums)), width))
            room[: len(self._sums)] = self._sums
            self._sums = room
        places = at[:, None] * width + np.arange(width)
        np.add.at(self._sums.reshape(-1), places.reshape(-1), values.reshape(-1))  # flat: several times as fast


def _group_of(cluster: str) -> str:
    return cluster if cluster == AVERAGES else f"group {digest_of(cluster) % MOST_UNITS}"
