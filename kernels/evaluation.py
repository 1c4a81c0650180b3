"""What given draft lengths cost and where their rounds start.

Under a fixed policy k(t) a generation is a Markov chain over positions. Its value in marginal form,
e(t) = J(t) - J(t + 1), is one backward pass,

    e(t) = C(t, k(t)) - Σ_{j=1..k(t)} S_j(t) · e(t + j),

and the probability that a round starts at a position is one forward pass, from 1 at the first,

    visit(t + a) += visit(t) · P(A = a),     P(A = a) = S'_{a-1} - S'_a,   S'_j = S_j for j <= k(t), else 0.

Since J is linear in the cost coefficients, all totals of a policy, under any cost model, follow from the visits
added up by draft length: `totals_by_length`.

Policies lie side by side (P of them); S_j(t) is 0 where t + j is at or past the end (see `survival`).
"""

from numba import njit


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
def visit_probability(draft_length, survival, offsets, visit):
    """Probability that a round of each policy starts at each position.

    Parameters
    ----------
    draft_length : (N, P) int16
        k(t) of each policy, 0 … K.
    survival : (N, K) float64
        S_1 … S_K of each position.
    offsets : (G + 1,) int64
        First position of each generation; the last entry is N.
    visit : (N, P) float64, out
        1 at the first position of every generation.
    """
    P = draft_length.shape[1]
    visit[:] = 0.0
    for g in range(offsets.shape[0] - 1):
        first = offsets[g]
        end = offsets[g + 1]
        if first < end:
            visit[first] = 1.0
        for t in range(first, end):
            for p in range(P):
                here = visit[t, p]
                if here == 0.0:
                    continue
                k = draft_length[t, p]
                reach = 1.0
                for j in range(min(k, end - 1 - t)):
                    further = survival[t, j]
                    visit[t + 1 + j, p] += here * (reach - further)
                    reach = further
                if t + 1 + k < end:
                    visit[t + 1 + k, p] += here * reach


@njit(cache=True, nogil=True)
def totals_by_length(draft_length, visit, unique, context_len, to_end, offsets, totals):
    """Expected rounds of each policy and what they touch, by generation and draft length.

    Parameters
    ----------
    draft_length : (N, P) int16
        k(t) of each policy, 0 … K.
    visit : (N, P) float64
        Probability that a round starts at t.
    unique : (N, K + 1) float64
        U(t, 0) … U(t, K), unique experts per layer.
    context_len : (N,) float64
        L(t), tokens in context when a round starts at t.
    to_end : (N,) float64
        Probability that a draft which reaches the end of the text matches as far as that.
    offsets : (G + 1,) int64
        First position of each generation; the last entry is N.
    totals : (G, P, K + 1, 5) float64, out
        Sums over the positions with k(t) = k: visit; visit · U(t, k); visit · L(t); visit where the pass reaches
        past the end (t + k >= N: its U is a lower bound); visit · probability that the round's draft ends the text.
    """
    K = unique.shape[1] - 1
    totals[:] = 0.0
    for g in range(offsets.shape[0] - 1):
        end = offsets[g + 1]
        for t in range(offsets[g], end):
            L = context_len[t]
            for p in range(draft_length.shape[1]):
                here = visit[t, p]
                k = draft_length[t, p]
                cell = totals[g, p, k]
                cell[0] += here
                cell[1] += here * unique[t, k]
                cell[2] += here * L
        # only rounds that start at the last K positions can reach past the end
        for t in range(max(offsets[g], end - K), end):
            for p in range(draft_length.shape[1]):
                k = draft_length[t, p]
                if t + k >= end:
                    totals[g, p, k, 3] += visit[t, p]
                    totals[g, p, k, 4] += visit[t, p] * to_end[t]
