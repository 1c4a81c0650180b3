"""What is said about one policy's decisions: the price of every draft length and the advance to expect.

With d the marginal value of the policy that is followed after this round,

    Q(t, k) - V(t + 1) = C(t, k) - credit(t, k),     credit(t, k) = Σ_{j=1..k} S_j(t) · d(t + j):

a draft of k is credited with the price of every position it is expected to save.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def continuation_credit(survival, marginal, credit):
    """Price of the positions that each draft length is expected to save.

    Parameters
    ----------
    survival : (N, K) float64
        S_1 … S_K of each position, 0 where t + j is at or past the end.
    marginal : (N + K,) float64, milliseconds
        d(t); the last K cells must be finite.
    credit : (N, K + 1) float64, milliseconds, out
        Σ_{j=1..k} S_j(t) · d(t + j).
    """
    for t in range(survival.shape[0]):
        total = 0.0
        credit[t, 0] = 0.0
        for j in range(survival.shape[1]):
            total += survival[t, j] * marginal[t + 1 + j]
            credit[t, j + 1] = total


@njit(cache=True, nogil=True)
def summarise(
    draft_length,
    survival,
    unique,
    context_len,
    base,
    alpha,
    context,
    marginal,
    modal_advance,
    expected_advance,
    q_gap,
):
    """Describe each decision k(t): its modal and expected advance, and how much the runner-up would cost more.

    Parameters
    ----------
    draft_length : (N,) int16
        k(t).
    survival : (N, K) float64
        S_1 … S_K of each position, 0 where t + j is at or past the end.
    unique : (N, K + 1) float64
        U(t, 0) … U(t, K), unique experts per layer.
    context_len : (N,) float64
        L(t), tokens in context when a round starts at t.
    base, alpha, context : (K + 1,) float64, milliseconds; per expert; per token
        Cost coefficients by draft length.
    marginal : (N + K,) float64, milliseconds
        d(t) of the policy followed afterwards.
    modal_advance : (N,) int16, out
        The most probable number of tokens the round emits, clipped at the text's end; ties to the fewer.
    expected_advance : (N,) float32, out
        Its expectation.
    q_gap : (N,) float64, milliseconds, out
        Q of the best other length minus Q(t, k(t)); inf where no other length may be chosen.
    """
    K = survival.shape[1]
    for t in range(survival.shape[0]):
        L = context_len[t]
        k = draft_length[t]
        credit = 0.0
        chosen = 0.0
        other = np.inf
        for j in range(K + 1):
            q = base[j] + alpha[j] * unique[t, j] + context[j] * L - credit
            chosen = q if j == k else chosen
            rival = np.inf if j == k else q
            other = rival if rival < other else other
            if j < K:
                credit += survival[t, j] * marginal[t + 1 + j]
        reach = 1.0
        expected = 0.0
        likeliest = -1.0
        mode = 1
        for j in range(k):
            further = survival[t, j]
            expected += reach
            stops_here = reach - further
            mode = j + 1 if stops_here > likeliest else mode
            likeliest = max(likeliest, stops_here)
            reach = further
        expected += reach
        mode = k + 1 if reach > likeliest else mode
        modal_advance[t] = mode
        expected_advance[t] = expected
        # `chosen` is the minimum up to the order of summation; a gap of -1 ulp would only puzzle
        q_gap[t] = max(other - chosen, 0.0)
