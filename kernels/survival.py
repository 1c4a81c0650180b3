"""Survival products: the chance that the first j draft tokens of a round all match.

With the conditional match probability p_i of the i-th draft token, given that all before it matched,

    S_j(t) = p_1 · p_2 · … · p_j,     j = 1 … K

A round that starts at t of a generation with positions 0 … N-1 has nothing left to buy at or beyond N, so
S_j(t) is stored as 0 where t + j >= N. With that one rule the ends of texts need no special case anywhere:
V and d are 0 there, the advance is clipped at N, and the clipped advance has P(A >= j + 1) = S_j(t). The one
survival that this drops, that of a draft which ends the text, S_{N-t}(t), is kept beside: it tells whether the
last token was a draft's or the target's own.
"""

from numba import njit


@njit(cache=True, nogil=True)
def survival_along(match_prob, offsets, survival, to_end):
    """Survival when the match probability belongs to the position, whatever the round's anchor.

    Parameters
    ----------
    match_prob : (N,) float32
        Conditional probability that the draft's token for position t matches.
    offsets : (G + 1,) int64
        First position of each generation; the last entry is N.
    survival : (N, K) float64, out
        S_1 … S_K of a round that starts at t, 0 where t + j is at or past the end.
    to_end : (N,) float64, out
        S_j(t) for the j <= K with t + j at the end; 0 where the end is further away.
    """
    for g in range(offsets.shape[0] - 1):
        end = offsets[g + 1]
        near = max(offsets[g], end - survival.shape[1])  # before it no draft reaches the end, and nothing is tested
        for t in range(offsets[g], near):
            s = 1.0
            to_end[t] = 0.0
            for j in range(survival.shape[1]):
                s = s * float(match_prob[t + j])
                survival[t, j] = s
        for t in range(near, end):
            s = 1.0
            to_end[t] = 0.0
            for j in range(survival.shape[1]):
                if t + j < end:
                    s = s * float(match_prob[t + j])
                if t + j + 1 == end:
                    to_end[t] = s
                survival[t, j] = s if t + j + 1 < end else 0.0


@njit(cache=True, nogil=True)
def survival_by_depth(match_probs, offsets, survival, to_end):
    """Survival when the match probability depends on the depth from the round's anchor (EAGLE, MTP).

    Parameters
    ----------
    match_probs : (N, K' >= K) float32
        match_probs[t, j - 1] is the conditional probability at position t + j - 1 of a round that starts at t.
    offsets : (G + 1,) int64
        First position of each generation; the last entry is N.
    survival : (N, K) float64, out
        S_1 … S_K of a round that starts at t, 0 where t + j is at or past the end.
    to_end : (N,) float64, out
        S_j(t) for the j <= K with t + j at the end; 0 where the end is further away.
    """
    for g in range(offsets.shape[0] - 1):
        end = offsets[g + 1]
        near = max(offsets[g], end - survival.shape[1])  # before it no draft reaches the end, and nothing is tested
        for t in range(offsets[g], near):
            s = 1.0
            to_end[t] = 0.0
            for j in range(survival.shape[1]):
                s = s * float(match_probs[t, j])
                survival[t, j] = s
        for t in range(near, end):
            s = 1.0
            to_end[t] = 0.0
            for j in range(survival.shape[1]):
                if t + j < end:
                    s = s * float(match_probs[t, j])
                if t + j + 1 == end:
                    to_end[t] = s
                survival[t, j] = s if t + j + 1 < end else 0.0
