"""Every optimal draft length along a scale s on the expert cost, exactly.

With C_s(t, k) = base_k + s · alpha_k · U(t, k) + context_k · L(t) and d_s(t) = V_s(t) - V_s(t + 1), the equation

    d_s(t) = min over k of Q_s(t, k),     Q_s(t, k) = C_s(t, k) - Σ_{j=1..k} S_j(t) · d_s(t + j)

holds for every s at once. [0, s_max) is cut into *lanes* within which the K positions from t + 1 on keep their draft
lengths: there each d_s(t + j) is a line a_j + b_j · s, hence so is each Q_s(t, k),

    A_k = base_k + context_k · L - Σ_{j<=k} S_j · a_j,     B_k = alpha_k · U(t, k) - Σ_{j<=k} S_j · b_j,

and d_s(t) is the lower envelope of K + 1 lines. A lane whose envelope has corners is split at them. Neighbouring
lanes whose last K lines agree have the same future and are joined: what a breakpoint does to earlier positions fades
as survival multiplies it, so few lanes are alive at a time.

Nothing iterates towards a breakpoint, so nothing can fail to arrive: along an envelope slopes strictly fall, which
makes at most K corners a lane and position. Right of a corner holds the lower slope, and of equal lines the
shorter draft. Corners are -ΔA / ΔB of the lines themselves, never distances from an earlier corner, so that they do
not get worse however close they lie; where A and B are exact they are correctly rounded and their ties are exact.

Two values *agree* if they differ by no more than the rounding of their own sums, a few units in the last place a
term. Of lines that agree at an end of a lane the lower slope holds right of it, so that corners which rounding alone
tells apart are one corner; of lines that agree in value and slope the shorter draft holds. Lanes are joined alike.
Demanded bit for bit, lanes would outlive their difference: rounding feeds on itself, and in texts that match well
nine tenths of the lanes would differ by nothing else.
"""

import numpy as np
from numba import njit

_EPSILON = 2.0**-50  # four units in the last place, for each term of a sum


@njit(cache=True, nogil=True)
def scale_path(survival, unique, context_len, base, alpha, context, offsets, s_max):
    """Find the pieces of [0, s_max) in which each position keeps its optimal draft length.

    Parameters
    ----------
    survival : (N, K) float64
        S_1 … S_K of each position, 0 where t + j is at or past the end.
    unique : (N, K + 1) float64
        U(t, 0) … U(t, K), unique experts per layer.
    context_len : (N,) float64
        L(t), tokens in context when a round starts at t.
    base, alpha, context : (K + 1,) float64, milliseconds; per expert; per token
        Cost coefficients by draft length; base is inf where a length may not be chosen.
    offsets : (G + 1,) int64
        First position of each generation; the last entry is N.
    s_max : float
        Where the path ends; above 0.

    Returns
    -------
    piece_offsets : (N + 1,) int64
        First piece of each position; the last entry is P.
    s_from : (P,) float64
        Where each piece begins, 0 for a position's first.
    draft_length : (P,) int16
        k*(t) from there on.
    """
    N, K = survival.shape
    ring = max(K, 1)  # rows of a window; one that is never read where no draft is possible
    line = np.empty((2, K + 1))
    cost = np.empty((2, K + 1))
    low = np.empty(64)
    after = np.empty(64, np.int64)
    chosen = np.empty(64, np.int16)
    window = np.empty((64, 2 * ring))
    starts = np.empty(2 * N + 1)
    lengths = np.empty(2 * N + 1, np.int16)
    count = np.zeros(N + 1, np.int64)
    found = 0
    for g in range(offsets.shape[0] - 1):
        lanes = 1
        low[0] = 0.0
        after[0] = -1
        window[0] = 0.0
        for i in range(offsets[g + 1] - offsets[g]):
            t = offsets[g + 1] - 1 - i
            noise_a, noise_b = _price(base, alpha, context, unique[t], context_len[t], cost)
            row = t % ring
            lane = 0
            while lane >= 0:
                while lanes + K > low.shape[0]:
                    low, after, chosen, window = _grown(low), _grown(after), _grown(chosen), _grown(window)
                following = after[lane]
                high = low[following] if following >= 0 else s_max
                k = _only_length(survival[t], cost, window[lane], row, low[lane], high, noise_a, noise_b, line)
                if k >= 0:
                    _keep(lane, k, row, line, chosen, window)
                else:
                    lanes = _split(lane, lanes, high, noise_a, noise_b, line, row, low, after, chosen, window)
                lane = following
            while found + lanes > starts.shape[0]:
                starts, lengths = _grown(starts), _grown(lengths)
            before = found
            found = _note(low, after, chosen, starts, lengths, found)
            count[t + 1] = found - before
            if i % ring == ring - 1:
                lanes = _join(lanes, noise_a, noise_b, low, after, window)
    return _in_order(count, offsets, starts, lengths)


@njit(cache=True, nogil=True)
def _price(base, alpha, context, unique, L, cost):
    """Lay out C_s(t, k) as lines; give the rounding of their sums with K terms of like size, value and slope."""
    largest_a = 0.0
    largest_b = 0.0
    for k in range(base.shape[0]):
        cost[0, k] = base[k] + context[k] * L
        cost[1, k] = alpha[k] * unique[k]
        if base[k] < np.inf:
            largest_a = max(largest_a, abs(cost[0, k]))
            largest_b = max(largest_b, abs(cost[1, k]))
    terms = _EPSILON * base.shape[0]
    return terms * largest_a, terms * largest_b


@njit(cache=True, nogil=True)
def _only_length(survival, cost, window, first, low, high, noise_a, noise_b, line):
    """Fill in the lines Q_s(t, k) of a lane; give the length that is best throughout, -1 where that is in doubt.

    A line below all others at both ends is below them between. Near-ties at an end are left to `_split`.
    """
    K = survival.shape[0]
    noise = noise_a + high * noise_b
    credit_a = 0.0
    credit_b = 0.0
    best = 0
    for k in range(K + 1):
        if k > 0:
            row = (first + k) % K
            credit_a += survival[k - 1] * window[row]
            credit_b += survival[k - 1] * window[K + row]
        line[0, k] = cost[0, k] - credit_a
        line[1, k] = cost[1, k] - credit_b
        if line[0, k] + line[1, k] * low < line[0, best] + line[1, best] * low:
            best = k
    at_low = line[0, best] + line[1, best] * low + noise
    at_high = line[0, best] + line[1, best] * high + noise
    for k in range(K + 1):
        rival = line[0, k] + line[1, k] * low <= at_low or line[0, k] + line[1, k] * high <= at_high
        if rival and k != best:
            return -1
    return best


@njit(cache=True, nogil=True)
def _keep(lane, k, row, line, chosen, window):
    """Choose k in a lane: its line takes the place of the one K positions later."""
    chosen[lane] = k
    window[lane, row] = line[0, k]
    window[lane, row + window.shape[1] // 2] = line[1, k]


@njit(cache=True, nogil=True)
def _split(lane, lanes, high, noise_a, noise_b, line, row, low, after, chosen, window):
    """Follow the lower envelope through a lane and cut it at each corner; give the new number of lanes."""
    k = _right_of(line, low[lane], np.inf, noise_a, noise_b)
    while True:
        corner = _corner(line, k, low[lane], high, noise_a, noise_b)
        if corner > low[lane]:
            _keep(lane, k, row, line, chosen, window)
        if corner == high:
            return lanes
        if corner > low[lane]:
            low[lanes] = corner
            window[lanes] = window[lane]
            after[lanes] = after[lane]
            after[lane] = lanes
            lane = lanes
            lanes += 1
        k = _right_of(line, corner, line[1, k] - noise_b, noise_a, noise_b)


@njit(cache=True, nogil=True)
def _right_of(line, s, slope, noise_a, noise_b):
    """Give the length whose line is lowest just right of s, of those below a slope; of equal lines the shortest."""
    k = -1
    for other in range(line.shape[1]):
        if line[0, other] == np.inf or not line[1, other] < slope:
            continue
        if k < 0:
            k = other
            continue
        steeper = line[1, other] - line[1, k]
        gap = line[0, other] - line[0, k] + steeper * s
        noise = noise_a + s * noise_b
        if gap <= noise if steeper < -noise_b else gap < -noise:
            k = other
    return k


@njit(cache=True, nogil=True)
def _corner(line, k, s, high, noise_a, noise_b):
    """Give the first corner of the envelope from s on, where it leaves the line of k; high if that is not before it."""
    corner = high
    for other in range(line.shape[1]):
        steeper = line[1, other] - line[1, k]
        higher = line[0, other] - line[0, k]
        lower_slope = line[1, other] < line[1, k] - noise_b  # as `_right_of` will ask: it must find this line again
        if lower_slope and higher + steeper * high < -noise_a - high * noise_b:
            corner = min(corner, max(-higher / steeper, s))
    return corner


@njit(cache=True, nogil=True)
def _note(low, after, chosen, starts, lengths, found):
    """Append the pieces of one position: runs of neighbouring lanes with one length; give the new count."""
    lane = 0
    previous = -1
    while lane >= 0:
        if chosen[lane] != previous:
            previous = chosen[lane]
            starts[found] = low[lane]
            lengths[found] = previous
            found += 1
        lane = after[lane]
    return found


@njit(cache=True, nogil=True)
def _join(lanes, noise_a, noise_b, low, after, window):
    """Put the lanes in order and join neighbours whose last K lines agree; give the new number of lanes."""
    ring = window.shape[1] // 2
    old_low = low[:lanes].copy()
    old_window = window[:lanes].copy()
    kept = 0
    lane = after[0]
    while lane >= 0:
        differs = False
        for row in range(ring):
            a = abs(old_window[lane, row] - window[kept, row])
            b = abs(old_window[lane, ring + row] - window[kept, ring + row])
            if a > noise_a or b > noise_b:
                differs = True
                break
        if differs:
            kept += 1
            low[kept] = old_low[lane]
            window[kept] = old_window[lane]
        lane = after[lane]
    for lane in range(kept):
        after[lane] = lane + 1
    after[kept] = -1
    return kept + 1


@njit(cache=True, nogil=True)
def _grown(array):
    """Give a copy with twice the rows."""
    larger = np.empty((2 * array.shape[0],) + array.shape[1:], array.dtype)  # noqa: RUF005  # Numba wants it so
    larger[: array.shape[0]] = array
    return larger


@njit(cache=True, nogil=True)
def _in_order(count, offsets, starts, lengths):
    """Lay pieces out position after position; they were found generation by generation, each from its end."""
    piece_offsets = np.cumsum(count)
    s_from = np.empty(piece_offsets[-1])
    draft_length = np.empty(piece_offsets[-1], np.int16)
    found = 0
    for g in range(offsets.shape[0] - 1):
        for i in range(offsets[g + 1] - offsets[g]):
            t = offsets[g + 1] - 1 - i
            first = piece_offsets[t]
            end = piece_offsets[t + 1]
            s_from[first:end] = starts[found : found + end - first]
            draft_length[first:end] = lengths[found : found + end - first]
            found += end - first
    return piece_offsets, s_from, draft_length
