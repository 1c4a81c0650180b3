"""Sums over generations by the unit of resampling, in memory that does not grow with the generations.

Generations are added one after the other in the order of the traces. So no sum depends, to the last bit, on how the
generations were batched, on threads, or on the engine that worked the batches out.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from oracle.hash_runs import HashRuns
from oracle.resampling import MOST_UNITS
from oracle.traces.schema import AVERAGES

MOST_CATEGORIES = 100  # sums are kept apart for so many
FEWEST_UNITS = 100  # not fewer, however many rows there are
_GROUP = "group "
_AT_ONCE_BYTES = 1 << 20  # numbers of generations that are copied at a time


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
        self._hashes = HashRuns()

    def add(self, names: Iterable[str]) -> None:
        """Take in names."""
        self._hashes.add(np.unique(np.fromiter((digest_of(name) for name in set(names)), np.uint64)))

    def __len__(self) -> int:
        return len(self._hashes)


class _Apart:
    """Names that are kept apart up to a number of them, and what a name becomes beyond."""

    def __init__(self, most: int, beyond: Callable[[str], str]) -> None:
        self.beyond = beyond
        self.ended = False
        self._most = most
        self._names: set[str] = set()

    def end(self) -> None:
        """Keep names apart no longer."""
        self.ended, self._names = True, set()

    def ends_with(self, name: str) -> bool:
        """Note a name; say whether it is one too many, once."""
        if self.ended or name in self._names:
            return False
        if len(self._names) < self._most:
            self._names.add(name)
            return False
        self.end()
        return True

    def of(self, name: str) -> str:
        return self.beyond(name) if self.ended else name


class UnitSums:
    """Sums by category, further labels and unit of resampling.

    A unit is a cluster as long as there are at most `MOST_UNITS`. From the next cluster on, clusters are put into
    `MOST_UNITS` groups by a digest of their names: intervals from so many groups are as valid. From the category
    after `MOST_CATEGORIES` on, categories are no longer kept apart; so is every further label.

    Parameters
    ----------
    width
        Numbers that a generation adds, M.
    labels
        How many labels a generation has: its category, and others that sums are kept apart by.
    most_rows
        From the next row on, units are put into half as many groups, and again, down to about `FEWEST_UNITS`.
    """

    def __init__(self, width: int, labels: int = 1, most_rows: int | None = None) -> None:
        self._most_rows, self._groups = most_rows, MOST_UNITS
        self._rows: dict[tuple[str, ...], int] = {}
        self._sums = np.zeros((0, width))
        self._apart = *(_Apart(MOST_CATEGORIES, lambda _: "") for _ in range(labels)), _Apart(MOST_UNITS, unit_beyond)

    def add(self, values: NDArray[np.float64], clusters: Sequence[str], *labels: Sequence[str]) -> None:
        """Add what each generation of a batch adds.

        Parameters
        ----------
        values : (G, M) float64
        clusters
            Names, G.
        labels
            Categories and further labels, G each; "" is none.
        """
        at, begin = np.empty(len(clusters), np.int64), 0
        for g, names in enumerate(zip(*labels, clusters, strict=True)):
            for place, (apart, name) in enumerate(zip(self._apart, names, strict=True)):
                if apart.ends_with(name):  # what came before is put together first, wherever in a batch that happens
                    self._take(values[begin:g], at[begin:g])
                    self._put_together(place, apart.beyond)
                    begin = g
            key = self._key(names)
            if self._is_too_many(key):
                self._take(values[begin:g], at[begin:g])
                begin = g
                while self._is_too_many(key):
                    self._halve_units()
                    key = self._key(names)
            at[g] = self._rows.setdefault(key, len(self._rows))
        self._take(values[begin:], at[begin:])

    def widen(self, columns: NDArray[np.float64]) -> None:
        """Add numbers that generations add from now on; `columns` (U, W) are their sums so far."""
        self._sums = np.concatenate([self.sums, columns], axis=1)

    @property
    def sums(self) -> NDArray[np.float64]:
        """Sums of each category and unit, (U, M)."""
        return self._sums[: len(self._rows)]

    @property
    def categories(self) -> tuple[str, ...]:
        """Category of each row of `sums`, U."""
        return self.labels(0)

    def labels(self, i: int) -> tuple[str, ...]:
        """Label number i of each row of `sums`, U; the first are the categories."""
        return tuple(key[i] for key in self._rows)

    @property
    def units(self) -> tuple[str, ...]:
        """Name of the unit of each row of `sums`, U."""
        return tuple(key[-1] for key in self._rows)

    @property
    def categories_apart(self) -> bool:
        """Whether categories are kept apart: there were not too many."""
        return self.apart(0)

    def apart(self, i: int) -> bool:
        """Whether label number i is kept apart."""
        return not self._apart[i].ended

    @property
    def grouped(self) -> bool:
        """Whether there were so many clusters that units are groups of them."""
        return self._apart[-1].ended

    @property
    def groups(self) -> int | None:
        """How many groups of clusters there can be; None where a unit is a cluster."""
        return self._groups if self.grouped else None

    def _key(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(apart.of(name) for apart, name in zip(self._apart, names, strict=True))

    def _is_too_many(self, key: tuple[str, ...]) -> bool:
        """Whether a key would make one row too many, and fewer units would help."""
        full = self._most_rows is not None and len(self._rows) >= self._most_rows
        return full and key not in self._rows and self._groups % 2 == 0 and self._groups >= 2 * FEWEST_UNITS

    def _halve_units(self) -> None:
        """Put the groups that there are together in pairs, or clusters into half as many groups as there can be."""
        units, self._groups = self._apart[-1], self._groups // 2
        beyond = partial(unit_beyond, groups=self._groups)
        self._put_together(len(self._apart) - 1, partial(_paired, groups=self._groups) if units.ended else beyond)
        units.beyond = beyond
        units.end()

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
        for part in _parts(len(at), width):
            places = at[part, None] * width + np.arange(width)
            # flat: several times as fast
            np.add.at(self._sums.reshape(-1), places.reshape(-1), values[part].reshape(-1))


def _parts(rows: int, width: int) -> Iterator[slice]:
    """Cut rows of so many numbers into parts of about `_AT_ONCE_BYTES`."""
    step = max(1, _AT_ONCE_BYTES // (8 * max(width, 1)))
    return (slice(begin, begin + step) for begin in range(0, rows, step))


def unit_beyond(cluster: str, groups: int | None = None) -> str:
    """The unit of a cluster where clusters are put into groups; None: into `MOST_UNITS`."""
    return cluster if cluster == AVERAGES else f"{_GROUP}{digest_of(cluster) % (groups or MOST_UNITS)}"


def _paired(group: str, groups: int) -> str:
    """The group, of half as many, of all clusters of a group."""
    return group if group == AVERAGES else f"{_GROUP}{int(group.removeprefix(_GROUP)) % groups}"


class ArraySums:
    """Sums of named arrays by unit of resampling, see `UnitSums`.

    Attributes
    ----------
    clusters
        Those that occur, counted.
    """

    def __init__(self) -> None:
        self.clusters = DistinctNames()
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._units = UnitSums(0)

    def add(self, arrays: Mapping[str, NDArray[np.float64]], clusters: Sequence[str], *labels: Sequence[str]) -> None:
        """Add what each generation of a batch adds.

        Parameters
        ----------
        arrays
            (G, …) float64 each; names and shapes are those of the first batch.
        clusters
            Names, G.
        labels
            What sums are kept apart by, G each.
        """
        labels = labels or (("",) * len(clusters),)
        shapes = {name: values.shape[1:] for name, values in arrays.items()}
        if not self._shapes:
            width = sum(map(math.prod, shapes.values()))
            self._shapes, self._units = shapes, UnitSums(width, len(labels))
        elif shapes != self._shapes:
            raise ValueError(f"batches add up other arrays: {shapes}, not {self._shapes}")
        flat = [values.reshape(len(clusters), math.prod(values.shape[1:])) for values in arrays.values()]
        for part in _parts(len(clusters), sum(values.shape[1] for values in flat)):
            some = np.concatenate([values[part] for values in flat], axis=1)
            self._units.add(some, clusters[part], *(label[part] for label in labels))
        self.clusters.add(clusters)

    @property
    def units(self) -> tuple[str, ...]:
        """Name of the unit of each row of the sums, U."""
        return self._units.units

    @property
    def grouped(self) -> bool:
        """Whether units are groups of clusters."""
        return self._units.grouped

    def labels(self, i: int) -> tuple[str, ...]:
        """Label number i of each row of the sums, U."""
        return self._units.labels(i)

    def apart(self, i: int) -> bool:
        """Whether label number i is kept apart."""
        return self._units.apart(i)

    @property
    def sums(self) -> dict[str, NDArray[np.float64]]:
        """Sums of each array by unit, (U, …) each."""
        found, begin, everything = {}, 0, self._units.sums
        for name, shape in self._shapes.items():
            end = begin + math.prod(shape)
            found[name] = everything[:, begin:end].reshape(-1, *shape)
            begin = end
        return found
