"""Batches put together at random from windows: any tenants, one tenant, or several in equal parts.

A path is an order of windows, and its first B are a batch of size B. Generations join in the order of random keys, more
rounds sooner (Efraimidis and Spirakis), one of each cluster before a second of any; when all have joined they come
round again with other windows. Keys and choices of windows are shared by all draft lengths and all numbers of tenants,
so that differences between those are not noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.crossover.windows import Windows

MOST_TENANTS = 256  # the largest, where there are more
_LONGEST = 8  # times the largest batch: the longest path


@dataclass(frozen=True)
class Paths:
    """Orders in which windows join a batch.

    Attributes
    ----------
    windows : (K + 1, S, L) int32
        For each draft length.
    tenants : (S, T) int32
        Tenants of each path, -1 where batches take whoever comes.
    distinct_to
        Largest batch size up to which no batch holds a cluster twice.
    """

    windows: NDArray[np.int32]
    tenants: NDArray[np.int32]
    distinct_to: int


def comparable_tenants(windows: Windows) -> tuple[int, ...]:
    """Named tenants with at least two clusters, of very many the largest: those of which a part can be left out."""
    cluster, tenant = windows.cluster[windows.pooled], windows.tenant[windows.pooled]
    counts = {int(t): len(set(cluster[tenant == t].tolist())) for t in np.unique(tenant)}
    several = [t for t, n in counts.items() if n > 1 and windows.tenants[t]]
    known = sorted(several, key=lambda t: (-counts[t], t))[:MOST_TENANTS]
    return tuple(sorted(known)) if windows.tenant_is else ()


def sample_paths(
    windows: Windows, most: int, groups: NDArray[np.int32], *, tenants: int | None = None, paths: int, seed: int = 0
) -> Paths:
    """Draw paths that are long enough for batches of `most` windows even without any one group.

    Parameters
    ----------
    groups : (P,) int32
        Group of each pooled generation.
    tenants
        How many tenants share a batch in equal parts; None: whoever comes.
    paths
        S, orders drawn; every tenant is the first of as many, as far as S allows.
    seed
        The same seed gives the same keys whatever the number of tenants.
    """
    tenant = windows.tenant[windows.pooled]
    known = comparable_tenants(windows) if tenants is not None else ()
    members = [np.flatnonzero(tenant == t) for t in known] or [np.arange(len(tenant))]
    length = _path_length(members, groups, most, tenants or 1)
    draw = _Draw(windows, members, length)
    order = np.empty((windows.k_max + 1, paths, length), np.int32)
    who = np.full((paths, tenants or 1), -1, np.int32)
    for s in range(paths):
        rng = np.random.default_rng((seed, s))  # one a path: the length of another path does not move it
        keys, others = rng.exponential(size=len(tenant)), rng.permutation(max(len(known), 1))
        picked = [s % len(others), *(int(t) for t in others if t != s % len(others))][: tenants or 1]
        if known:
            who[s] = [known[t] for t in picked]
        places = rng.random((draw.cycles, len(tenant)))
        for k in range(windows.k_max + 1):
            order[k, s] = draw.path(k, picked, keys, places)
    distinct = _distinct_to(windows.cluster[windows.pooled][draw.owner[order[0]]])
    return Paths(frozen(order), frozen(who), min(distinct, most))


class _Draw:
    """Turns random keys into a path."""

    def __init__(self, windows: Windows, members: Sequence[NDArray[np.int64]], length: int) -> None:
        self._members, self._length = members, length
        self._cluster = windows.cluster[windows.pooled]
        self._weight = windows.rounds[windows.pooled]
        self._first = windows.first
        self._cumulative = np.concatenate([np.zeros((1, windows.k_max + 1)), np.cumsum(windows.visit, axis=0)])
        self.owner = np.repeat(np.arange(len(self._first) - 1), np.diff(self._first))
        self.cycles = max(-(-length // len(each)) for each in members)

    def path(
        self, k: int, picked: Sequence[int], keys: NDArray[np.float64], places: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Windows of one path: tenants take turns, and each sends its generations in the order of their keys."""
        each = -(-self._length // len(picked))
        turns, cycles = np.empty((each, len(picked)), np.int64), np.empty((each, len(picked)), np.int64)
        for i, t in enumerate(picked):
            of = self._members[t]
            turn = of[_one_a_cluster(self._cluster[of], keys[of] / self._weight[of, k])]
            step = np.arange(each)
            turns[:, i], cycles[:, i] = turn[step % len(turn)], step // len(turn)
        generation, cycle = turns.reshape(-1)[: self._length], cycles.reshape(-1)[: self._length]
        below, above = (self._cumulative[self._first[generation + i], k] for i in (0, 1))
        wanted = below + places[cycle, generation] * (above - below)
        found = np.searchsorted(self._cumulative[:, k], wanted, side="right") - 1
        return np.asarray(np.clip(found, self._first[generation], self._first[generation + 1] - 1))


def _one_a_cluster(cluster: NDArray[np.int32], keys: NDArray[np.float64]) -> NDArray[np.int64]:
    """Order by keys, the first of every cluster before the second of any."""
    by_key = np.argsort(keys, kind="stable")
    by_cluster = by_key[np.argsort(cluster[by_key], kind="stable")]
    starts = np.flatnonzero(np.diff(cluster[by_cluster], prepend=-1))
    rank = np.empty(len(keys), np.int64)
    rank[by_cluster] = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
    return np.lexsort((keys, rank))


def _path_length(members: Sequence[NDArray[np.int64]], groups: NDArray[np.int32], most: int, tenants: int) -> int:
    """Length at which a path holds `most` windows besides those of any one group, within reason."""
    length = most
    for of in members:
        largest = int(np.bincount(groups[of]).max())
        if largest < len(of):
            length = max(length, int((most + tenants * largest) * len(of) / (len(of) - largest)) + tenants)
    return int(min(length, _LONGEST * most + tenants))


def _distinct_to(cluster: NDArray[np.int32]) -> int:
    """Largest B up to which no path (S, L) has met a cluster twice."""
    least: int = cluster.shape[1]
    for path in cluster:
        _, first = np.unique(path, return_index=True)
        again = np.ones(len(path), np.bool_)
        again[first] = False
        if again.any():
            least = min(least, int(np.argmax(again)))
    return least
