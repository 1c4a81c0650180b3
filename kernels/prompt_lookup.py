"""Prompt lookup at every position of a text: what a drafter without a model would have proposed, and what matched.

Before token t the last n tokens are looked for in what stands before them, n = longest, longest - 1, …, shortest; the
first n that is found counts, at its earliest place. With e the position behind that place, the proposal is

    x[e], x[e + 1], …, x[min(e + K, t) - 1]

of which the first J tokens match, x[e + j] = x[t + j] for all j < J.
"""

import numpy as np
from numba import njit

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@njit(cache=True, nogil=True)
def look_up(token, begin, shortest, longest, depth, at_risk, matched):
    """Proposals of every position from `begin` on.

    Parameters
    ----------
    token : (T,) int64
    begin : int
        First position that is proposed for, at least 1.
    shortest, longest : int
        Tokens of the n-gram, 1 <= shortest <= longest.
    depth : int
        K.
    at_risk, matched : (T - begin,) int16, out
        Tokens proposed that lie inside the text, and J, which is at most that.
    """
    T = token.shape[0]
    size = 16
    while size < 2 * T:
        size *= 2
    mask = np.uint64(size - 1)
    # table[n - shortest]: position behind the earliest place of an n-gram, 0 where free
    table = np.zeros((longest - shortest + 1, size), np.int32)
    for t in range(1, T):
        found = 0
        for n in range(min(longest, t), shortest - 1, -1):
            key = np.uint64(n)
            for i in range(t - n, t):
                key = (key ^ np.uint64(token[i])) * _MULTIPLIER
                key ^= key >> _SHIFT
            slot = key & mask
            row = table[n - shortest]
            while True:
                end = row[slot]
                if end == 0:
                    row[slot] = t
                    break
                same = True
                for i in range(1, n + 1):
                    if token[end - i] != token[t - i]:
                        same = False
                        break
                if same:
                    if found == 0:
                        found = end
                    break
                slot = (slot + np.uint64(1)) & mask
        if t < begin:
            continue
        known = 0 if found == 0 else min(depth, t - found, T - t)
        j = 0
        while j < known and token[found + j] == token[t + j]:
            j += 1
        at_risk[t - begin] = known
        matched[t - begin] = j
