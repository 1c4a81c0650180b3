"""Unique experts of batches: measured on sampled paths, with the formulas beside them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.crossover.formulas import mixed_unique_experts
from oracle.crossover.sampling import Paths
from oracle.crossover.windows import Windows

MOST_GROUPS = 40  # clusters are left out one at a time; more clusters than this, in so many groups
_MASK_BYTES = 64 << 20  # of the masks of windows held by each thread, or those of one path
_MOST_IN_SETS = 512  # tenants, of all sets of tenants for which the formula is worked out


@dataclass(frozen=True)
class BatchExperts:
    """Mean unique experts per MoE layer of batches of one make.

    Attributes
    ----------
    mean : (B, K + 1) float64
        For batch sizes 1 … B and draft lengths 0 … K.
    left_out : (C, B, K + 1) float64
        Without each group of clusters; NaN where too little is left. C is 0 where nothing can be left out.
    popularity : (len(shown), K + 1) float64
        What the popularity-weighted formula says of the same tenants, at the batch sizes that are shown.
    distinct_to
        Largest batch size up to which no batch holds a cluster twice; beyond, the union is a lower bound.
    """

    mean: NDArray[np.float64]
    left_out: NDArray[np.float64]
    popularity: NDArray[np.float64]
    distinct_to: int


def cluster_groups(windows: Windows, seed: int = 0) -> tuple[NDArray[np.int32], int]:
    """Group of every generation (G,), and how many groups: one a cluster, else clusters dealt out at random.

    Averages of requests are one group: leaving requests out would not show the averages' own sampling error.
    """
    if windows.averages:
        return frozen(np.zeros(len(windows.cluster), np.int32)), 1
    dealt = np.random.default_rng(seed).permutation(windows.clusters)
    groups = min(windows.clusters, MOST_GROUPS)
    number = dealt % groups if windows.clusters > groups else np.arange(windows.clusters)
    return frozen(number[windows.cluster].astype(np.int32)), groups


def measure(
    windows: Windows,
    paths: Paths,
    most: int,
    groups: NDArray[np.int32],
    count: int,
    *,
    shown: Sequence[int] = (),
    threads: int = 1,
) -> BatchExperts:
    """Measure the unique experts of batches of 1 … `most` windows along the paths.

    Parameters
    ----------
    groups : (G,) int32
        Group of every generation, below `count`; one group: nothing is left out.
    shown
        Batch sizes for which the formula is worked out.
    """
    group = groups[np.repeat(windows.pooled, np.diff(windows.first))]

    def of_length(k: int) -> NDArray[np.float64]:
        sums, reached = _summed(windows, k, paths.windows[k], most, group, count + 1 if count > 1 else 1)
        whole = reached == paths.windows.shape[1]
        return np.where(whole, sums / (windows.layers * np.maximum(reached, 1)), np.nan)

    with ThreadPoolExecutor(max_workers=threads) as pool:
        found = np.stack(list(pool.map(of_length, range(windows.k_max + 1))), axis=-1)
    return BatchExperts(
        mean=frozen(found[0]),
        left_out=frozen(found[1:]),
        popularity=_by_popularity(windows, paths, shown),
        distinct_to=paths.distinct_to,
    )


def _summed(
    windows: Windows, k: int, paths: NDArray[np.int32], most: int, group: NDArray[np.int32], variants: int
) -> NDArray[np.int64]:
    """What `batch_unions` gives of paths (S, L), sums and reached, (2, variants, most); as many at once as fit."""
    from kernels.batch_union import batch_unions, window_masks  # noqa: PLC0415  # numba is slow to import

    width = -(-windows.num_experts // 64) * windows.layers
    held = _MASK_BYTES // (8 * width)
    together = len(paths) if len(group) <= held else max(1, held // paths.shape[1])
    found = np.zeros((2, variants, most), np.int64)
    joined = np.empty((variants, width), np.uint64)
    for start in range(0, len(paths), together):
        part = paths[start : start + together]
        used = np.zeros(len(group), np.bool_)
        used[part] = True
        chosen = np.flatnonzero(used).astype(np.int32)
        place = np.cumsum(used, dtype=np.int32) - np.int32(1)
        masks = np.empty((len(chosen), width), np.uint64)
        window_masks(windows.experts, frozen(chosen), k + 1, (0,) * windows.top_k, masks)
        batch_unions(frozen(masks), frozen(place[part]), frozen(group[chosen]), joined, *found)
    return found


def with_exact_singles(experts: BatchExperts, windows: Windows, groups: NDArray[np.int32]) -> BatchExperts:
    """Put the mean over all rounds, which is known, in the place of what was drawn for batches of one request.

    For batches of whoever comes; those of tenants weigh tenants alike.
    """
    rounds, unique = windows.rounds, windows.unique
    mean, left_out = experts.mean.copy(), experts.left_out.copy()
    mean[0] = unique.sum(axis=0) / rounds.sum(axis=0)
    if len(left_out):
        lost = np.zeros((2, len(left_out), rounds.shape[1]))
        np.add.at(lost[0], groups, rounds)
        np.add.at(lost[1], groups, unique)
        left_out[:, 0] = (unique.sum(axis=0) - lost[1]) / (rounds.sum(axis=0) - lost[0])
    return replace(experts, mean=frozen(mean), left_out=frozen(left_out))


def popularity_of(windows: Windows, tenants: Sequence[int] | None) -> NDArray[np.float64]:
    """Share of the tokens of each tenant, or of all, that each expert gets: (T, layers, E)."""
    tenant = windows.tenant[np.repeat(windows.pooled, np.diff(windows.first))]
    found = []
    for t in [None] if tenants is None else tenants:
        ids = windows.experts if t is None else windows.experts[tenant == t]
        rows = ids.reshape(-1, windows.layers, windows.top_k)
        layer = np.arange(windows.layers, dtype=np.int64)[:, None] * windows.num_experts
        counts = np.zeros(windows.layers * windows.num_experts, np.int64)
        for start in range(0, len(rows), 1 << 16):
            flat = (rows[start : start + (1 << 16)] + layer).reshape(-1)
            counts += np.bincount(flat, minlength=len(counts))
        found.append(counts.reshape(windows.layers, windows.num_experts) / len(rows))
    return np.stack(found)


def _by_popularity(windows: Windows, paths: Paths, shown: Sequence[int]) -> NDArray[np.float64]:
    """The formula for the tenants of each path, averaged over the paths; of very many sets of tenants over some."""
    tokens = np.asarray(shown, np.int64).reshape(-1, 1) * np.arange(1, windows.k_max + 2)
    if paths.tenants[0, 0] < 0:
        return frozen(mixed_unique_experts(tokens[..., None], popularity_of(windows, None)))
    sets, times = np.unique(np.sort(paths.tenants, axis=1), axis=0, return_counts=True)
    some = np.unique(np.linspace(0, len(sets) - 1, max(1, _MOST_IN_SETS // sets.shape[1])).astype(int))
    sets, times = sets[some], times[some]
    known = sorted(set(sets.reshape(-1).tolist()))
    each = popularity_of(windows, known)
    total = np.zeros(tokens.shape)
    share = np.repeat(tokens[..., None] / sets.shape[1], sets.shape[1], axis=-1)
    for members, n in zip(sets, times, strict=True):
        total += n * mixed_unique_experts(share, each[[known.index(t) for t in members]])
    return frozen(total / times.sum())
