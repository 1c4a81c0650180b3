"""What draft steps cost that are made and then left out of the verification pass."""

from numba import njit


@njit(cache=True, nogil=True)
def add_up_discarded(visit, verified, drafted, offsets, step_ms, tokens, ms):
    """Add up, by generation and policy, the draft tokens left out and what their steps took.

        tokens = Σ_t visit(t) · (drafted(t) - k(t)),   ms = Σ_t visit(t) · max(T(drafted(t)) - T(k(t)), 0)

    Parameters
    ----------
    visit : (N, P) float64
        Probability that a round of the policy starts at the position.
    verified, drafted : (N, P) int16
        k(t), and the draft steps made, at least k(t).
    offsets : (G + 1,) int64
        Where generations begin and end.
    step_ms : (K + 1,) float64, milliseconds
        T: time of so many draft steps.
    tokens, ms : (G, P) float64, out
    """
    tokens[:] = 0.0
    ms[:] = 0.0
    for g in range(len(offsets) - 1):
        for t in range(offsets[g], offsets[g + 1]):
            for p in range(visit.shape[1]):
                k = verified[t, p]
                made = drafted[t, p]
                if made > k:
                    tokens[g, p] += visit[t, p] * (made - k)
                    ms[g, p] += visit[t, p] * max(step_ms[made] - step_ms[k], 0.0)
