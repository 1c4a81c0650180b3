"""Unique experts of rounds whose tail is rejected: U(t, 0 … K), mean per MoE layer."""

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.integer]
_ROWS = 64  # positions worked on at a time: bounds memory to rows × layers × experts flags


def unique_of_chains(reference: Ids, chain: Ids, length: NDArray[np.int64], num_experts: int) -> NDArray[np.float32]:
    """Count what a pass touches that verifies the chain proposed from each anchor.

    Parameters
    ----------
    reference : (N, layers, top_k) integers
        Routing of the row that emits position t.
    chain : (N, K, layers, top_k) integers
        Routing of the rows whose inputs are the K proposed tokens.
    length : (N,) int64
        Tokens really proposed, at most K; rows beyond add nothing.

    Returns
    -------
    (N, K + 1) float32
    """
    rows, depth = chain.shape[:2]
    found = np.zeros((rows, depth + 1))
    for begin in range(0, rows, _ROWS):
        at = slice(begin, begin + _ROWS)
        seen = _flags(reference[at], num_experts)
        found[at, 0] = _count(seen)
        for j in range(depth):
            seen |= _flags(chain[at, j], num_experts) & (length[at] > j)[:, None, None]
            found[at, j + 1] = _count(seen)
    return found.astype(np.float32)


def expected_unique(
    reference: Ids, tail: Ids, match_prob: NDArray[np.float32], num_experts: int
) -> NDArray[np.float32]:
    """Expected unique experts over the position of the first mismatch.

        U(t, k) = Σ_{j<k} S_j (1 - p_{t+j}) U(rows t … t+j, then k-j rows of the tail at t+j)  +  S_k U(rows t … t+k)

    Parameters
    ----------
    reference : (N + 1, layers, top_k) integers
        Routing along the text, one row more than there are positions.
    tail : (N + 1, K, layers, top_k) integers
        Routing of the rows whose inputs are a wrong token for position s and what the draft adds to it. The last one
        stands behind the end of the text, where every continuation is as good.
    match_prob : (N,) float32
        p, the conditional match probabilities.

    Returns
    -------
    (N, K + 1) float32
    """
    count, depth = len(match_prob), tail.shape[1]
    p = np.concatenate([match_prob.astype(np.float64), np.zeros(depth)])  # behind the end nothing is the text
    found = np.zeros((count, depth + 1))
    for begin in range(0, count, _ROWS):
        t = np.arange(begin, min(begin + _ROWS, count))
        survival = np.ones(len(t))
        path = _flags(reference[t], num_experts)
        found[t, 0] = _count(path)
        for j in range(depth):
            here = np.minimum(t + j, count)
            weight = survival * (1 - p[t + j])
            seen = path.copy()
            for k in range(j + 1, depth + 1):
                seen |= _flags(tail[here, k - j - 1], num_experts)
                found[t, k] += weight * _count(seen)
            survival = survival * p[t + j]
            path |= _flags(reference[np.minimum(t + j + 1, count)], num_experts)
            found[t, j + 1] += survival * _count(path)
    return found.astype(np.float32)


def touched(ids: Ids, num_experts: int) -> NDArray[np.int64]:
    """Count the experts of each layer that the first m rows of one pass touch.

    Parameters
    ----------
    ids : (M, layers, top_k) integers

    Returns
    -------
    (M, layers) int64, for m = 1 … M
    """
    return np.asarray(np.logical_or.accumulate(_flags(ids, num_experts), axis=0).sum(axis=2), np.int64)


def _flags(ids: Ids, num_experts: int) -> NDArray[np.bool_]:
    """Mark the experts of each row: (rows, layers, top_k) ids as (rows, layers, num_experts) flags."""
    flags = np.zeros((*ids.shape[:2], num_experts), np.bool_)
    np.put_along_axis(flags, ids.astype(np.int64), True, axis=2)
    return flags


def _count(flags: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.asarray(flags.sum(axis=(1, 2)) / flags.shape[1])
