"""What given draft lengths cost and where their rounds start.

Under a fixed policy k(t) a generation is a Markov chain over positions. Its value in marginal form,
e(t) = J(t) - J(t + 1), is one backward pass,

    e(t) = C(t, k(t)) - Σ_{j=1..k(t)} S_j(t) · e(t + j).

A token either starts a round or is accepted inside one that is going on, so the probability that a round starts at
a position is one forward pass, the transpose of the other:

    visit(t) = 1 - Σ_{i=1..K, i <= k(t-i)} S_i(t - i) · visit(t - i).

Since J is linear in the cost coefficients, all totals of a policy, under any cost model, follow from the visits
added up by draft length: `expected_rounds`.

S_j(t) is 0 where t + j is at or past the end (see `survival`), so generations can lie one after the other. A visit
below 0 is rounding and becomes 0.
"""

from numba import njit, uintp


@njit(cache=True, nogil=True)
def policy_marginal(draft_length, survival, unique, context_len, base, alpha, context, marginal):
    """Marginal value of each policy, e(t) = J(t) - J(t + 1).

    Parameters
    ----------
    draft_length : (N, P) int16
        k(t) of each policy, 0 … K.
    survival : (N, K) float64
        S_1 … S_K of each position.
    unique : (N, K + 1) float64
        U(t, 0) … U(t, K), unique experts per layer.
    context_len : (N,) float64
        L(t), tokens in context when a round starts at t.
    base, alpha, context : (K + 1,) float64, milliseconds; per expert; per token
        Cost coefficients by draft length.
    marginal : (N + K, P) float64, milliseconds, out
        e(t) in the first N rows; the last K must be finite and are multiplied by 0.
    """
    N = context_len.shape[0]
    for i in range(N):
        t = N - 1 - i
        L = context_len[t]
        for p in range(draft_length.shape[1]):
            k = draft_length[t, p]
            e = base[k] + alpha[k] * unique[t, k] + context[k] * L
            for j in range(k):
                e -= survival[t, j] * marginal[t + 1 + j, p]
            marginal[t, p] = e


@njit(cache=True, nogil=True)
def visit_probability(draft_length, survival, visit):
    """Probability that a round of one policy starts at each position.

    Parameters
    ----------
    draft_length : (N,) int16
        k(t), 0 … K.
    survival : (N, K) float64
        S_1 … S_K of each position.
    visit : (N + K,) float64, out
        In the first N cells; 1 at the first position of every generation.
    """
    visit[:] = 1.0
    for t in range(draft_length.shape[0]):
        here = max(visit[t], 0.0)
        visit[t] = here
        for j in range(draft_length[t]):
            visit[t + 1 + j] -= here * survival[t, j]


@njit(cache=True, nogil=True)
def expected_rounds(draft_length, survival, unique, context_len, to_end, offsets, lengths, width, lanes, visit, totals):
    """Visits of up to W policies side by side, and their sums by generation and draft length.

    Parameters
    ----------
    draft_length : (N * W,) int16
        k(t) of each policy, 0 … K, W cells a position.
    survival : (N * K,) float64
        S_1 … S_K of each position, row after row.
    unique : (N * (K + 1),) float64
        U(t, 0) … U(t, K), unique experts per layer, row after row.
    context_len : (N,) float64
        L(t), tokens in context when a round starts at t.
    to_end : (N,) float64
        Probability that a draft which reaches the end of the text matches as far as that.
    offsets : (G + 1,) int64
        First position of each generation; the last entry is N.
    lengths, width : tuples of K + 1 and W zeros
        Only their lengths count: the loop over policies vectorises where the compiler knows both (see
        `kernels.bellman.solve_lanes`).
    lanes : int
        Policies whose visits are worked out, P … W; a bound the compiler does not know keeps the loop a loop.
    visit : (N * W,) float64, out
        Probability that a round starts at t. It should begin on a cache line.
    totals : (G, P, K + 1, 5) float64, out
        Sums over the positions with k(t) = k: visit; visit · U(t, k); visit · L(t); visit where the pass reaches
        past the end (t + k >= N: its U is a lower bound); visit · probability that the round's draft ends the text.
    """
    K = len(lengths) - 1
    W = uintp(len(width))
    _first_visits(draft_length, survival, K, len(width), visit)
    totals[:] = 0.0
    for g in range(offsets.shape[0] - 1):
        for t in range(max(offsets[g], K), offsets[g + 1]):
            v = visit[(t - K) * len(width) : (t + 1) * len(width)]
            k = draft_length[(t - K) * len(width) : t * len(width)]
            S = survival[(t - K) * K : t * K]
            for i_w in range(lanes):
                w = uintp(i_w)
                x = 1.0
                for i_j in range(K):
                    j = uintp(i_j)  # the row K - j positions before t
                    accepted = S[j * uintp(K) + uintp(K - 1) - j]
                    accepted = accepted if k[j * W + w] >= K - i_j else 0.0
                    x -= accepted * v[j * W + w]
                v[uintp(K) * W + w] = x if x > 0.0 else 0.0
        cells = totals[g].reshape(-1)
        for t in range(offsets[g], offsets[g + 1]):
            here = visit[t * len(width) : (t + 1) * len(width)]
            chosen = draft_length[t * len(width) : (t + 1) * len(width)]
            U = unique[t * (K + 1) : (t + 1) * (K + 1)]
            L = context_len[t]
            for i_p in range(totals.shape[1]):
                p = uintp(i_p)
                rounds = here[p]
                drafted = uintp(chosen[p])
                x = (p * uintp(K + 1) + drafted) * uintp(5)
                cells[x] += rounds
                cells[x + uintp(1)] += rounds * U[drafted]
                cells[x + uintp(2)] += rounds * L
        _rounds_past_end(draft_length, visit, to_end, offsets[g], offsets[g + 1], K, len(width), totals[g])


@njit(cache=True, nogil=True)
def _first_visits(draft_length, survival, K, W, visit):
    """Visits of the first K positions, which have fewer than K rows before them."""
    N = min(K, draft_length.shape[0] // W)
    visit[: N * W] = 1.0
    for t in range(N):
        for w in range(W):
            here = max(visit[t * W + w], 0.0)
            visit[t * W + w] = here
            for j in range(1, min(draft_length[t * W + w], N - 1 - t) + 1):
                visit[(t + j) * W + w] -= here * survival[t * K + j - 1]


@njit(cache=True, nogil=True)
def _rounds_past_end(draft_length, visit, to_end, first, end, K, W, totals):
    """Add up the rounds that start at the last K positions of a generation and reach past its end."""
    for t in range(max(first, end - K), end):
        for p in range(totals.shape[0]):
            k = draft_length[t * W + p]
            if t + k >= end:
                totals[p, k, 3] += visit[t * W + p]
                totals[p, k, 4] += visit[t * W + p] * to_end[t]
