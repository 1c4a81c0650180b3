"""What a user would write instead of the kernels: plain Python first, then NumPy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.costs import LengthCosts
from oracle.problem import Problem

from .inputs import Routing

Floats = NDArray[np.float64]


def solve_in_python(
    match_prob: Sequence[float],
    unique: Sequence[Sequence[float]],
    context_len: Sequence[float],
    base: Sequence[float],
    alpha: Sequence[float],
    context: Sequence[float],
) -> tuple[list[float], list[int]]:
    """Solve V(t) = min over k of C(t, k) + E[V(min(t + A, N))] of one generation, as it is written down.

    Returns
    -------
    V(0) … V(N) in milliseconds, and k*(0) … k*(N - 1).
    """
    N = len(match_prob)
    value = [0.0] * (N + 1)
    draft_length = [0] * N
    for t in range(N - 1, -1, -1):
        best = float("inf")
        for k in range(len(base)):
            q = base[k] + alpha[k] * unique[t][k] + context[k] * context_len[t]
            reach = 1.0
            for j in range(k):
                p = match_prob[t + j] if t + j < N else 0.0
                q += reach * (1.0 - p) * value[min(t + j + 1, N)]
                reach *= p
            q += reach * value[min(t + k + 1, N)]
            if q < best:
                best = q
                draft_length[t] = k
        value[t] = best
    return value, draft_length


@dataclass(frozen=True)
class Stacked:
    """Equally long generations side by side, position first: what a solve vectorised over generations wants.

    Attributes
    ----------
    survival : (T, G, K) float64
    unique_experts : (T, G, K + 1) float64
    context_len : (T, G) float64
    """

    survival: Floats
    unique_experts: Floats
    context_len: Floats


def stack(problem: Problem) -> Stacked:
    """Lay a problem of equally long generations out position by position."""
    shape = (problem.generations, problem.positions // problem.generations)

    def turned(values: Floats) -> Floats:
        return np.ascontiguousarray(values.reshape(*shape, *values.shape[1:]).swapaxes(0, 1))

    return Stacked(turned(problem.survival), turned(problem.unique_experts), turned(problem.context_len))


def solve_in_numpy(stacked: Stacked, costs: LengthCosts) -> tuple[Floats, NDArray[np.int16]]:
    """Solve all generations at once, position by position from the end, in marginal form.

    Returns
    -------
    d (N,) in milliseconds and k* (N,), generation after generation.
    """
    T, G, K = stacked.survival.shape
    marginal = np.zeros((T + K, G))
    draft_length = np.empty((T, G), dtype=np.int16)
    base, alpha, context = costs.base_ms, costs.alpha_ms, costs.context_ms
    generation = np.arange(G)
    for t in range(T - 1, -1, -1):
        q = base + alpha * stacked.unique_experts[t] + context * stacked.context_len[t][:, None]
        q[:, 1:] -= np.cumsum(stacked.survival[t] * marginal[t + 1 : t + 1 + K].T, axis=1)
        k = q.argmin(axis=1)
        marginal[t] = q[generation, k]
        draft_length[t] = k
    return marginal[:T].T.reshape(-1), draft_length.T.reshape(-1)


def survival_in_numpy(match_prob: NDArray[np.float32], generations: int, K: int) -> Floats:
    """S_1 … S_K of every position (N, K), 0 at and past the end, by products over a sliding window."""
    length = len(match_prob) // generations
    padded = np.zeros((generations, length + K))
    padded[:, :length] = match_prob.reshape(generations, length)
    windows = np.lib.stride_tricks.sliding_window_view(padded[:, : length + K - 1], K, axis=1)
    survival = np.cumprod(windows, axis=2)
    survival[:, np.add.outer(np.arange(length), np.arange(1, K + 1)) >= length] = 0.0
    return np.asarray(survival.reshape(-1, K), dtype=np.float64)


def unique_experts_in_python(experts: Sequence[Sequence[Sequence[int]]], K: int) -> list[list[float]]:
    """U(t, 0) … U(t, K) of one generation with a set a layer; `experts` by position, layer and slot."""
    layers = len(experts[0])
    unique = []
    for t in range(len(experts)):
        seen: list[set[int]] = [set() for _ in range(layers)]
        row = []
        for k in range(K + 1):
            if t + k < len(experts):
                for layer, ids in enumerate(experts[t + k]):
                    seen[layer].update(ids)
            row.append(sum(map(len, seen)) / layers)
        unique.append(row)
    return unique


def unique_experts_one_hot(experts: NDArray[np.integer], routing: Routing, K: int) -> Floats:
    """U(t, 0) … U(t, K) of one generation by cumulative ORs of boolean rows; `experts` (T, layers, top_k)."""
    held = np.zeros((len(experts), routing.layers, routing.num_experts), dtype=bool)
    np.put_along_axis(held, experts.astype(np.intp), True, axis=2)
    seen = held.copy()
    unique = np.empty((len(experts), K + 1))
    for k in range(K + 1):
        if 0 < k < len(experts):
            seen[:-k] |= held[k:]
        unique[:, k] = np.count_nonzero(seen, axis=(1, 2))
    return unique / routing.layers


def unique_experts_bit_masks(experts: NDArray[np.integer], routing: Routing, K: int) -> Floats:
    """Do the same with 64 experts a word and `numpy.bitwise_count`."""
    words = -(-routing.num_experts // 64)
    bits = np.uint64(1) << (experts & 63).astype(np.uint64)
    word = experts >> 6
    held = np.stack([np.bitwise_or.reduce(np.where(word == w, bits, 0), axis=2) for w in range(words)], axis=2)
    held = held.astype(np.uint64).reshape(len(experts), -1)
    seen = held.copy()
    unique = np.empty((len(experts), K + 1))
    for k in range(K + 1):
        if 0 < k < len(experts):
            seen[:-k] |= held[k:]
        unique[:, k] = np.bitwise_count(seen).sum(axis=1)
    return unique / routing.layers
