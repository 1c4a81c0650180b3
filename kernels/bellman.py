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

Two kernels say the same in the same letters, with K in their types: `solve_one` takes one cost model,
`solve_lanes` vectorises over many. They agree bit for bit.

Reads a decision: 8 · (2K + 2) bytes of S, U and L, and 8 · K of d from cache; writes 10.
Operations a model: 3K + 2 multiplications, 3K + 2 additions or subtractions, K comparisons.
"""

from numba import njit, uintp


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
def solve_lanes(survival, unique, context_len, cost, lengths, width, marginal, draft_length):
    """Solve under up to W cost models at once; U and S are shared, the models lie side by side.

    Parameters
    ----------
    survival : (N * K,) float64
        S_1 … S_K of each position, row after row.
    unique : (N * (K + 1),) float64
        U(t, 0) … U(t, K), row after row, unique experts per layer.
    context_len : (N,) float64
        L(t), tokens in context when a round starts at t.
    cost : ((K + 1) * 3 * W,) float64, milliseconds; per expert; per token
        By draft length: base of all models, then alpha, then context.
    lengths : tuple of K + 1 zeros
        Only its length counts, as in `solve_one`. Up to K = 14 LLVM unrolls the recursion, keeps g and k in
        registers and vectorises over the models; beyond, the loop stays scalar and is not worth calling.
    width : tuple of W zeros
        Only its length counts. W in the type makes the distances inside `cost` and `marginal` constants; with them
        LLVM can see that nothing overlaps.
    marginal : ((N + K) * W,) float64, milliseconds, out
        d(t) of each model, W cells a position, in the first N rows; the last K must be finite and are multiplied
        by 0. It and `cost` should begin on a cache line.
    draft_length : (N * models,) int16, out
        k*(t) of each model; models <= W.
    """
    K = len(lengths) - 1
    W = uintp(len(width))  # unsigned: an index that may be negative would be a choice of two, which hides the overlap
    N = context_len.shape[0]
    # A bound the compiler does not know keeps the loop over models a loop: unrolled, it would no longer vectorise.
    models = draft_length.shape[0] // max(N, 1)
    for i in range(N):
        t = N - 1 - i
        S = survival[t * K : (t + 1) * K]
        U = unique[t * (K + 1) : (t + 1) * (K + 1)]
        d = marginal[t * len(width) : (t + 1 + K) * len(width)]
        shortest = draft_length[t * models : (t + 1) * models]
        L = context_len[t]
        for i_w in range(models):
            w = uintp(i_w)
            x = uintp(3 * K) * W + w
            g = cost[x] + cost[x + W] * U[K] + cost[x + W + W] * L
            k = float(K)
            for i_j in range(K):
                j = uintp(K - 1 - i_j)
                x = uintp(3) * j * W + w
                longer = g - S[j] * d[j * W + W + w]
                here = cost[x] + cost[x + W] * U[j] + cost[x + W + W] * L
                k = k if longer < here else float(j)
                g = longer if longer < here else here
            d[w] = g
            shortest[w] = k
