"""Verification rounds like the source's: its coefficients and draft line, distributions of our own."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.latency.diagnostics.runs import Partition
from oracle.rounds import Rounds

DRAFT_LENGTHS = range(1, 11)
REGIMES: Partition = ((2, 3, 4), (5, 6, 7, 8, 9, 10, 11))  # what the coefficients below make of m
CATEGORIES = 14
_ALPHA_MS, _BASE_MS, _CONTEXT_MS = (0.081, 0.266), (7.3, 4.7), 1.1e-3
_BUCKETS = np.array([1, 2, 4, 8, 16])


def rounds_of(rounds: int, clusters: int, seed: int = 1) -> Rounds:
    """Draw rounds of `clusters` questions of unequal length, each decoded once at every draft length.

    There are at least `len(DRAFT_LENGTHS) * clusters` rounds; their order is K after K, as the source ran. Half a
    percent of the passes and of the draft times lie far off.
    """
    rng = np.random.default_rng(seed)
    k, cluster, position = _places(rng, rounds, clusters)
    m, later = k + 1, (k >= REGIMES[1][0] - 1).astype(np.int64)
    taste, level = rng.standard_normal(clusters), rng.normal(0, 0.03, clusters)
    context = rng.integers(50, 600, clusters)[cluster] + position
    z = 0.5 * taste[cluster] + rng.standard_normal(rounds)
    experts = np.round(np.clip(8 * m**0.58 * (1 + 0.12 * z), 8, 8 * m) * 48) / 48
    noise, late = (0.04 + 0.005 * m) * rng.standard_normal(rounds), 0.03 * rng.standard_normal(rounds)
    far = rng.random(rounds) < 0.005
    noise[far] *= 8
    late[far[::-1]] += 1 + rng.exponential(14, int(far.sum()))
    target = np.take(_BASE_MS, later) + np.take(_ALPHA_MS, later) * experts + _CONTEXT_MS * context
    # In the first regime a further position costs something too.
    target += np.where(later, 0.0, 1.6 * (m - REGIMES[0][0])) + level[cluster] + noise
    names = [f"q{q:04d}" for q in range(clusters)]
    generation = (k - DRAFT_LENGTHS[0]) * clusters + cluster
    return Rounds.from_arrow(
        pa.table(
            {
                "generation": _named(generation, [f"{name}-k{one}" for one in DRAFT_LENGTHS for name in names]),
                "cluster": _named(cluster, names),
                "category": _named(cluster % CATEGORIES, [f"kind-{c:02d}" for c in range(CATEGORIES)]),
                "draft_length": k,
                "target_ms": target,
                "draft_ms": 0.459 * k + 0.073 + late,
                "unique_experts": experts,
                "context_len": context.astype(np.float64),
                "max_unique_experts": np.ceil(experts * 1.2 + 0.5 * np.abs(rng.standard_normal(rounds))),
                "kv_usage": np.ceil(context / 16) * 16 / 40_960,
                "graph_bucket": _BUCKETS[np.searchsorted(_BUCKETS, m)],
                "position": position,
                "round_index": np.arange(rounds),
            }
        ),
        "simulated",
    )


def _places(
    rng: np.random.Generator, rounds: int, clusters: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Draft length, cluster and place in its generation of every round; every cluster has some at every K."""
    weight = rng.lognormal(0, 0.8, clusters)
    sizes = np.bincount(np.arange(rounds) * len(DRAFT_LENGTHS) // rounds)
    parts = [
        np.sort(np.concatenate([np.arange(clusters), rng.choice(clusters, n - clusters, p=weight / weight.sum())]))
        for n in sizes.tolist()
    ]
    position = [np.arange(len(part)) - np.searchsorted(part, part) for part in parts]
    # A short run has few rounds a generation; spread them over as many tokens as a long one has.
    step = max(1, 308 * 10 * clusters // rounds)
    return (
        np.repeat(np.array(DRAFT_LENGTHS, dtype=np.int64), sizes),
        np.concatenate(parts).astype(np.int64),
        np.concatenate(position).astype(np.int64) * step,
    )


def _named(codes: NDArray[np.int64], names: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names))
