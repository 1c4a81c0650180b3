"""What a user would write instead of the serving kernels: plain Python, and NumPy where that helps."""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def bit_masks(ids: NDArray[np.integer], experts: int) -> NDArray[np.uint64]:
    """Masks (W, words · layers) of the experts that windows touch; `ids` (W, rows, layers, top_k)."""
    word = (ids >> 6).astype(np.uint8)
    bits = np.uint64(1) << (ids & 63).astype(np.uint64)
    each = [np.bitwise_or.reduce(np.where(word == w, bits, 0), axis=(1, 3)) for w in range(-(-experts // 64))]
    return np.concatenate(each, axis=1).astype(np.uint64)


def batch_unions(
    masks: NDArray[np.uint64], paths: NDArray[np.int32], group: NDArray[np.int32], left_out: Sequence[int]
) -> NDArray[np.int64]:
    """Experts of the first b windows of each path, with all of them and without each group, (1 + groups, B)."""
    sums = np.zeros((1 + len(left_out), paths.shape[1]), dtype=np.int64)
    for path in paths:
        for variant, without in enumerate([-1, *left_out]):
            joined = np.bitwise_or.accumulate(masks[path[group[path] != without]], axis=0)
            sums[variant, : len(joined)] += np.bitwise_count(joined).sum(axis=1, dtype=np.int64)
    return sums


def lru_cache(
    block: Sequence[int], first: Sequence[int], request: Sequence[int], looks: Sequence[bool], capacity: int
) -> list[bool]:
    """Whether each block is found in a cache of one capacity when its request looks for all of its blocks."""
    cache: OrderedDict[int, None] = OrderedDict()
    found = [False] * len(block)
    for r, look in zip(request, looks, strict=True):
        if look:
            for i in range(first[r], first[r + 1]):
                found[i] = block[i] in cache
            continue
        for i in range(first[r + 1] - 1, first[r] - 1, -1):
            cache[block[i]] = None
            cache.move_to_end(block[i])
            if len(cache) > capacity:
                cache.popitem(last=False)
    return found


def look_up_in_python(token: Sequence[int], shortest: int, longest: int, depth: int) -> tuple[list[int], list[int]]:
    """Tokens proposed and matched at every position of a text from the second on, with a dictionary of n-grams."""
    T = len(token)
    places: dict[tuple[int, ...], int] = {}
    at_risk, matched = [], []
    for t in range(1, T):
        found = 0
        for n in range(min(longest, t), shortest - 1, -1):
            place = places.setdefault(tuple(token[t - n : t]), t)
            if place < t and not found:
                found = place
        known = min(depth, t - found, T - t) if found else 0
        j = 0
        while j < known and token[found + j] == token[t + j]:
            j += 1
        at_risk.append(known)
        matched.append(j)
    return at_risk, matched


def look_up_in_numpy(token: NDArray[np.int64], shortest: int, longest: int, depth: int) -> tuple[list[int], list[int]]:
    """Do the same by comparing each n-gram with all before it."""
    T = len(token)
    grams = {n: np.lib.stride_tricks.sliding_window_view(token, n) for n in range(shortest, longest + 1)}
    at_risk, matched = [], []
    for t in range(1, T):
        found = 0
        for n in range(min(longest, t), shortest - 1, -1):
            places = (grams[n][: t - n] == token[t - n : t]).all(axis=1).nonzero()[0]
            if len(places):
                found = int(places[0]) + n
                break
        known = min(depth, t - found, T - t) if found else 0
        differs = (token[found : found + known] != token[t : t + known]).nonzero()[0]
        at_risk.append(known)
        matched.append(int(differs[0]) if len(differs) else known)
    return at_risk, matched


def count_rounds_in_python(
    at_risk: Sequence[int], matched: Sequence[int], depth: int
) -> tuple[list[list[int]], list[int]]:
    """Rounds by depth, at risk and matched, and rounds, whole ones, tokens of these."""
    by_depth = [[0] * depth, [0] * depth]
    totals = [0, 0, 0]
    a = 0
    while a < len(matched):
        J = matched[a]
        for j in range(min(J + 1, at_risk[a])):
            by_depth[0][j] += 1
            by_depth[1][j] += j < J
        totals[0] += 1
        if a + depth + 1 <= len(matched):
            totals[1] += 1
            totals[2] += J + 1
        a += J + 1
    return by_depth, totals


def count_matches_in_numpy(matched: NDArray[np.int16]) -> list[int]:
    """Anchors, matching ones; those after a match, matching ones of these; the same after a mismatch."""
    now = matched > 0
    before, after = now[:-1], now[1:]
    met = int(np.count_nonzero(before))
    both = int(np.count_nonzero(before & after))
    here = int(np.count_nonzero(now))
    return [len(now), here, met, both, len(before) - met, int(np.count_nonzero(after)) - both]
