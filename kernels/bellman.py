"""Backward induction over draft lengths, in marginal form.

With d(t) = V(t) - V(t + 1) the Bellman equation of one generation reads

    C_k  = base_k + alpha_k · U(t, k) + context_k · L(t)
    d(t) = min over k of [ C_k - Σ_{j=1..k} S_j(t) · d(t + j) ]

and is evaluated from the longest draft down,

    g_K = C_K,     g_{j-1} = min(C_{j-1}, g_j - S_j · d(t + j)),     d(t) = g_0,

so that the newest d enters last, in one multiplication, one subtraction and one comparison. The longer draft wins
only where it is cheaper by an exact `<`: ties go to the shorter one. A length that may not be chosen has
base_k = inf.

S_j(t) is 0 where t + j is at or past the generation's end (see `survival`), so generations can lie one after
the other and the recursion needs no bounds: past its end a generation multiplies its neighbour's d by 0.

Two kernels say the same in the same letters. `solve_one` keeps g in a register and K in its type; `solve_lanes`
holds one g a cost model in a row and vectorises over the models. They agree bit for bit.

Reads a decision: 8 · (2K + 2) bytes of S, U and L, and 8 · K of d from cache; writes 10.
Operations: 4K multiplications, 3K additions, K comparisons.
"""

from numba import njit


@njit(cache=True, nogil=True)
def solve_one(survival, unique, context_len, base, alpha, context, lengths, marginal, draft_length):
    """Solve under one cost model.

    Parameters
    ----------
    survival : (N * K,) float64
        S_1 … S_K of each position, row after row.
    unique : (N * (K + 1),) float64
        U(t, 0) … U(t, K), row after row, unique experts per layer.
    context_len : (N,) float64
        L(t), tokens in context when a round starts at t.
    base, alpha, context : (K + 1,) float64, milliseconds; per expert; per token
        Cost coefficients by draft length.
    lengths : tuple of K + 1 zeros
        Only its length counts: K is then known when the kernel is compiled, which doubles its speed.
    marginal : (N + K,) float64, milliseconds, out
        d(t) in the first N cells; the last K must be finite and are multiplied by 0.
    draft_length : (N,) int16, out
        k*(t).
    """
    K = len(lengths) - 1
    N = context_len.shape[0]
    for i in range(N):
        t = N - 1 - i
        S = t * K - 1
        U = t * (K + 1)
        L = context_len[t]
        g = base[K] + alpha[K] * unique[U + K] + context[K] * L
        k = K
        for i_j in range(K):
            j = K - i_j
            longer = g - survival[S + j] * marginal[t + j]
            here = base[j - 1] + alpha[j - 1] * unique[U + j - 1] + context[j - 1] * L
            k = k if longer < here else j - 1
            g = longer if longer < here else here
        marginal[t] = g
        draft_length[t] = k


@njit(cache=True, nogil=True)
def solve_lanes(survival, unique, context_len, cost, width, row, marginal, draft_length):
    """Solve under W cost models at once; U and S are shared, the models lie side by side.

    Parameters
    ----------
    survival : (N, K) float64
        S_1 … S_K of each position.
    unique : (N, K + 1) float64
        U(t, 0) … U(t, K), unique experts per layer.
    context_len : (N,) float64
        L(t), tokens in context when a round starts at t.
    cost : (K + 1, 3 * W) float64, milliseconds; per expert; per token
        base, alpha and context of all models, by draft length.
    width : tuple of W zeros
        Only its length counts. W in the type makes the distances inside `cost` and `row` constants; with them
        LLVM can see that nothing overlaps and vectorises the loops over models.
    row : (2 * W,) float64, scratch
        g and k of each model. All float arrays should begin on 64-byte boundaries: rows that straddle cache
        lines cost two thirds more time.
    marginal : (N + K, W) float64, milliseconds, out
        d(t) in the first N rows; the last K must be finite and are multiplied by 0.
    draft_length : (N, W) int16, out
        k*(t).
    """
    K = survival.shape[1]
    W = len(width)
    N = context_len.shape[0]
    # A bound the compiler does not know keeps the inner loops loops: unrolled, they would no longer vectorise.
    models = draft_length.shape[1]
    for i in range(N):
        t = N - 1 - i
        L = context_len[t]
        U = unique[t, K]
        x = cost[K]
        for w in range(models):
            row[w] = x[w] + x[W + w] * U + x[2 * W + w] * L
            row[W + w] = K
        for i_j in range(K):
            j = K - 1 - i_j
            S = survival[t, j]
            U = unique[t, j]
            d = marginal[t + 1 + j]
            x = cost[j]
            shorter = float(j)
            for w in range(models):
                longer = row[w] - S * d[w]
                here = x[w] + x[W + w] * U + x[2 * W + w] * L
                row[W + w] = row[W + w] if longer < here else shorter
                row[w] = longer if longer < here else here
        d = marginal[t]
        for w in range(models):
            d[w] = row[w]
        k = draft_length[t]
        for w in range(models):
            k[w] = row[W + w]
