"""Where rules that draft token by token stop.

A rule goes from one draft length to the next while what the step costs is worth its gain at the rule's price,

    cost_s(t) <= price · gain_s(t),     gain_s(t) >= 0,

and stops before the first step s that is not. A higher price never stops earlier, so rules that differ by their
price only, from the highest to the lowest, drop out from the end: one walk of S + P comparisons a position serves
them all.
"""

from numba import njit


@njit(cache=True, nogil=True)
def stop(cost, gain, price, column, verified, drafted, draft_length, steps_made):
    """Draft length at which each rule stops, and the draft steps it has made by then.

    Parameters
    ----------
    cost : (S, N) float64
        Of the step s from each position. NaN stops every rule.
    gain : (S, N) or (S, 1) float64
        The same; one column: equal from every position.
    price : (P,) float64
        From the highest to the lowest.
    column : (P,) int64
        Column of the outputs that belongs to each price.
    verified, drafted : (S + 1,) int16
        Draft tokens verified, and draft steps made, by a rule that stops before step s; s = S if it never does.
    draft_length, steps_made : (N, columns) int16, out
        Only the columns named are written.
    """
    S = cost.shape[0]
    alike = gain.shape[1] == 1
    for t in range(cost.shape[1]):
        going = price.shape[0]
        for s in range(S):
            worth = gain[s, 0 if alike else t]
            while going > 0 and not cost[s, t] <= price[going - 1] * worth:
                going -= 1
                draft_length[t, column[going]] = verified[s]
                steps_made[t, column[going]] = drafted[s]
            if going == 0:
                break
        for p in range(going):
            draft_length[t, column[p]] = verified[S]
            steps_made[t, column[p]] = drafted[S]
