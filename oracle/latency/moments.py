"""Sufficient statistics of verification rounds: centred moments for every (cluster, m).

A cell is one cluster at one number of verified positions m. It keeps the number of rounds n, the mean of every variable
and the centred co-moment matrix sum (x - mean)(x - mean)'. Whatever is quadratic in the rounds (coefficients, residual
sums, cluster errors, leave-outs, resamples) follows from cells, never from a second look at the rows.

Two things keep the digits. Co-moments are centred before products are formed (raw sums of squares lose 6e-8 of alpha
where U varies little), and means are stored as differences from a *pivot* of each variable, so that the spread between
cells is not rounded off a large common level. Cells are joined by the k-way form of Chan, Golub and LeVeque's formula:
n = sum n_c, mean = sum n_c mean_c / n, comoment = sum comoment_c + sum n_c (mean_c - mean)(mean_c - mean)'.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CELLS_BEFORE_MERGING = 200_000  # batches are joined when this many cells wait, so memory follows cells, not batches


@dataclass(frozen=True)
class Moments:
    """Moments of V variables in C cells, ordered by cluster, then m.

    Parameters
    ----------
    names
        The V variables, in the order of the arrays, for example ``("unique_experts", "context_len", "target_ms")``.
    clusters
        Names of the G clusters, sorted.
    cluster
        (C,) int64, index into `clusters`.
    m
        (C,) int64, verified positions.
    n
        (C,) float64, rounds.
    shifted_mean
        (C, V) float64, mean minus `pivot`, in the variables' units.
    comoment
        (C, V, V) float64, centred sums of products.
    pivot
        (V,) float64, the common level subtracted from the means.
    """

    names: tuple[str, ...]
    clusters: tuple[str, ...]
    cluster: Integers
    m: Integers
    n: Floats
    shifted_mean: Floats
    comoment: Floats
    pivot: Floats

    @property
    def mean(self) -> Floats:
        """(C, V) means in the variables' units."""
        return np.asarray(self.shifted_mean + self.pivot)

    @property
    def rounds(self) -> int:
        """Rounds in all cells."""
        return round(float(self.n.sum()))

    @property
    def ms(self) -> tuple[int, ...]:
        """The numbers of verified positions that occur, rising."""
        return tuple(int(m) for m in np.unique(self.m))

    def cluster_sizes(self) -> Integers:
        """(G,) rounds of each cluster."""
        sizes = np.bincount(self.cluster, weights=self.n, minlength=len(self.clusters))
        return np.rint(sizes).astype(np.int64)

    def spread(self) -> Floats:
        """(C, V) standard deviations within the cells (divisor n)."""
        squares = np.diagonal(self.comoment, axis1=1, axis2=2)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0) / self.n[:, None]))

    def of(self, names: Sequence[str]) -> "Moments":
        """Keep the variables `names`, in that order."""
        take = np.array([self.names.index(name) for name in names], dtype=np.int64)
        comoment = self.comoment[:, take[:, None], take[None, :]]
        return Moments(
            tuple(names),
            self.clusters,
            self.cluster,
            self.m,
            self.n,
            self.shifted_mean[:, take],
            comoment,
            self.pivot[take],
        )

    def where(self, cells: NDArray[np.bool_]) -> "Moments":
        """Keep the marked cells; the list of clusters stays, so that indices keep their meaning."""
        return Moments(
            self.names,
            self.clusters,
            self.cluster[cells],
            self.m[cells],
            self.n[cells],
            self.shifted_mean[cells],
            self.comoment[cells],
            self.pivot,
        )

    def of_clusters(self, keep: NDArray[np.bool_]) -> "Moments":
        """Keep the clusters marked in `keep`, (G,) bool."""
        return self.where(keep[self.cluster])

    def by_m(self, weights: Floats | None = None) -> "Moments":
        """Join all clusters: one cell for each m.

        Parameters
        ----------
        weights
            (G,) float64 >= 0, how often each cluster counts (a bootstrap draw, a leave-out); None counts each once.
        """
        return self._joined(np.zeros_like(self.cluster), ("all",), weights)

    def by_group(self, group: Integers, names: tuple[str, ...]) -> "Moments":
        """Join clusters into groups (folds): `group` is (G,) int64, the group of each cluster."""
        return self._joined(group[self.cluster], names, None)

    def by_cluster(self) -> "Moments":
        """Join all m: one cell for each cluster, marked m = 0."""
        flat = Moments(
            self.names,
            self.clusters,
            self.cluster,
            np.zeros_like(self.m),
            self.n,
            self.shifted_mean,
            self.comoment,
            self.pivot,
        )
        return flat._joined(self.cluster, self.clusters, None)

    def at_pivot(self, pivot: Floats) -> "Moments":
        """Return the same moments stored about another pivot."""
        shifted = self.shifted_mean + (self.pivot - pivot)
        return Moments(self.names, self.clusters, self.cluster, self.m, self.n, shifted, self.comoment, pivot)

    def _joined(self, label: Integers, names: tuple[str, ...], weights: Floats | None) -> "Moments":
        """Join the cells of equal (label, m)."""
        n = self.n if weights is None else self.n * weights[self.cluster]
        used = np.flatnonzero(n > 0)
        used = used[np.lexsort((self.m[used], label[used]))]
        if not used.size:
            return self.where(np.zeros(len(self.n), dtype=np.bool_))
        n, label, m = n[used], label[used], self.m[used]
        new = np.concatenate(([True], (label[1:] != label[:-1]) | (m[1:] != m[:-1])))
        first = np.flatnonzero(new)
        cell = np.cumsum(new) - 1
        total = np.add.reduceat(n, first)
        mean = np.add.reduceat(n[:, None] * self.shifted_mean[used], first) / total[:, None]
        apart = self.shifted_mean[used] - mean[cell]
        within = self.comoment[used]
        if weights is not None:
            within = within * weights[self.cluster[used]][:, None, None]
        between = n[:, None, None] * apart[:, :, None] * apart[:, None, :]
        comoment = np.add.reduceat(within + between, first)
        return Moments(self.names, names, label[first], m[first], total, mean, comoment, self.pivot)


def _pivot_of(column: Floats) -> float:
    """Round the mean to a power of two below the spread, so that subtracting it is exact for most recorded values."""
    if not len(column):
        return 0.0
    mean, spread = float(column.mean()), float(column.std())
    if not spread > 0:
        return float(column[0])
    step = 2.0 ** math.floor(math.log2(spread))
    return round(mean / step) * step


def moments_of(
    names: tuple[str, ...],
    columns: Sequence[Floats],
    *,
    m: Integers,
    cluster: Integers,
    clusters: tuple[str, ...],
) -> Moments:
    """Moments of one batch, in two exact passes over its rows.

    Parameters
    ----------
    names, columns
        V names and V arrays (N,) float64, finite.
    m
        (N,) int64, verified positions of each round.
    cluster, clusters
        (N,) int64 index of each round's cluster, and the names it points into.
    """
    ms = np.flatnonzero(np.bincount(m))  # rising, as np.unique gives them, twenty times as fast
    place = np.zeros(int(ms[-1]) + 1 if len(ms) else 0, dtype=np.int64)
    place[ms] = np.arange(len(ms))
    key = cluster * len(ms) + place[m]
    counts = np.bincount(key, minlength=len(clusters) * len(ms))
    occupied = np.flatnonzero(counts)
    rank = np.zeros(len(counts), dtype=np.int64)
    rank[occupied] = np.arange(len(occupied))
    cell, n = rank[key], counts[occupied].astype(np.float64)
    pivot = np.array([_pivot_of(column) for column in columns])

    mean = np.empty((len(n), len(names)))
    centred = []
    for v, column in enumerate(columns):
        shifted = column - pivot[v]
        mean[:, v] = np.bincount(cell, weights=shifted, minlength=len(n)) / n
        centred.append(shifted - mean[cell, v])
    # What rounding left in the first means shows up as the mean of the centred values: move it over.
    left = np.stack([np.bincount(cell, weights=x, minlength=len(n)) / n for x in centred], axis=1)
    comoment = np.empty((len(n), len(names), len(names)))
    for i, x in enumerate(centred):
        for j, y in enumerate(centred[: i + 1]):
            product = np.bincount(cell, weights=x * y, minlength=len(n)) - n * left[:, i] * left[:, j]
            comoment[:, i, j] = comoment[:, j, i] = product
    return Moments(names, clusters, occupied // len(ms), ms[occupied % len(ms)], n, mean + left, comoment, pivot)


def merged(parts: Iterable[Moments]) -> Moments:
    """Join moments of different batches; clusters are matched by name and sorted.

    Raises
    ------
    ValueError
        No parts, or parts with different variables.
    """
    parts = list(parts)
    if not parts:
        raise ValueError("nothing to merge: give at least one set of moments")
    names, pivot = parts[0].names, parts[0].pivot
    if any(part.names != names for part in parts):
        raise ValueError(f"moments of different variables cannot be merged: {sorted({part.names for part in parts})}")
    clusters = tuple(sorted({name for part in parts for name in part.clusters}))
    place = {name: index for index, name in enumerate(clusters)}
    where = [np.array([place[name] for name in part.clusters], dtype=np.int64)[part.cluster] for part in parts]
    stacked = Moments(
        names,
        clusters,
        np.concatenate(where),
        np.concatenate([part.m for part in parts]),
        np.concatenate([part.n for part in parts]),
        np.concatenate([part.at_pivot(pivot).shifted_mean for part in parts]),
        np.concatenate([part.comoment for part in parts]),
        pivot,
    )
    return stacked._joined(stacked.cluster, clusters, None)


class MomentsBuilder:
    """Gathers moments over batches; memory follows the number of cells.

    Parameters
    ----------
    names
        The variables of every batch.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._parts: list[Moments] = []
        self._waiting = 0

    def add(self, columns: Sequence[Floats], m: Integers, cluster: Integers, clusters: tuple[str, ...]) -> None:
        """Take in one batch; the arguments are those of `moments_of`."""
        if not len(m):
            return
        self.join(moments_of(self.names, columns, m=m, cluster=cluster, clusters=clusters))

    def join(self, part: Moments) -> None:
        """Take in the moments of one batch."""
        if not part.rounds:
            return
        self._parts.append(part)
        self._waiting += len(part.n)
        if self._waiting > CELLS_BEFORE_MERGING:
            self._parts = [merged(self._parts)]
            self._waiting = 0

    def result(self, clusters: Iterable[str] = ()) -> Moments:
        """Moments of everything taken in; `clusters` names clusters to list even if they have no rounds."""
        none = np.zeros(0)
        width = len(self.names)
        pivot = self._parts[0].pivot if self._parts else np.zeros(width)
        whole = np.zeros(0, dtype=np.int64)
        listed = Moments(
            self.names, tuple(clusters), whole, whole, none, np.zeros((0, width)), np.zeros((0, width, width)), pivot
        )
        return merged([*self._parts, listed])
