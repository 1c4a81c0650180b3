"""Rounds that a drafter would have played on a text, counted by depth, and how its matches follow one another.

From anchor a a round that drafts emits J(a) + 1 tokens, and the next begins there; without a draft it emits one.
M(a) = [J(a) >= 1] says whether the first token proposed matches. A round is whole if all K proposals and the bonus
token lie inside the text whatever matches: a + K + 1 <= N. Only whole rounds count where tokens a round are averaged,
since others are cut short by the end of the text.
"""

from numba import njit


@njit(cache=True, nogil=True)
def count_rounds(at_risk, matched, depth, gated, by_depth, totals):
    """Play a text once and add what happened.

    Parameters
    ----------
    at_risk, matched : (N,) int16
        Of each anchor: tokens proposed inside the text, and those that match.
    depth : int
        K.
    gated : bool
        Draft only where the anchor before is one whose first proposal matches.
    by_depth : (2, K) int64, out
        Rounds in which the token at each depth was proposed after all before it matched, and those in which it
        matched; added to. A token beyond the end of the text or of a short proposal is not at risk.
    totals : (3,) int64, out
        Rounds that may draft, whole ones of them, tokens of these; added to.
    """
    N = matched.shape[0]
    a = 0
    while a < N:
        if gated and (a == 0 or matched[a - 1] == 0):
            a += 1
            continue
        J = matched[a]
        for j in range(min(J + 1, at_risk[a])):
            by_depth[0, j] += 1
            by_depth[1, j] += j < J
        totals[0] += 1
        if a + depth + 1 <= N:
            totals[1] += 1
            totals[2] += J + 1
        a += J + 1


@njit(cache=True, nogil=True)
def count_matches(matched, out):
    """Count how matches of neighbouring anchors follow one another.

    Parameters
    ----------
    matched : (N,) int16
    out : (6,) int64, out
        Anchors, those that match; anchors after one that matches, those of them that match; the same after one that
        does not; added to.
    """
    N = matched.shape[0]
    if N == 0:
        return
    # the three other counts follow from two sums and the ends, and two sums without a branch vectorise
    now = 0
    both = 0
    for a in range(1, N):
        now += matched[a] > 0
        both += (matched[a] > 0) & (matched[a - 1] > 0)
    before = now + (matched[0] > 0) - (matched[N - 1] > 0)
    out[0] += N
    out[1] += now + (matched[0] > 0)
    out[2] += before
    out[3] += both
    out[4] += N - 1 - before
    out[5] += now - both
