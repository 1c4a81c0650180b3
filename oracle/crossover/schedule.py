"""The schedule: a draft length for each range of batch sizes, with nothing set that the numbers do not carry.

A draft length K >= 1 is *claimed* at a batch size where it is faster than K = 0 by more than the noise and, where there
is an interval, significantly. Where none is claimed K = 0 is set; elsewhere a claimed length within the noise of the
fastest claimed. Only between batch sizes with claims may drafts go on where none is claimed, if they lose no more than
the noise and a further range is saved: else the schedule would switch to and fro where a curve runs along the noise.
Of all such schedules the one of fewest ranges is taken, of those the one that loses least, and of those the one that
drafts least.
"""

import numpy as np
from numpy.typing import NDArray

from oracle.crossover.pays import TIE

Bools = NDArray[np.bool_]
Numbers = NDArray[np.float64]


def claimed(speed_up: Numbers, half_width: Numbers, noise: float) -> Bools:
    """Whether a draft length is faster than K = 0 by more than the noise, and significantly: (B, K + 1).

    Parameters
    ----------
    speed_up : (B, K + 1)
        NaN where a length is not known or not possible.
    half_width : (B, K + 1)
        Half of its 95 % interval; NaN where there is none.
    noise
        Share of the rate.
    """
    with np.errstate(invalid="ignore"):
        found = (speed_up * (1 - noise) > 1 + TIE) & (np.isnan(half_width) | (speed_up - half_width > 1))
    found[:, 0] = False
    return np.asarray(found)


def schedule(speed_up: Numbers, half_width: Numbers, noise: float) -> list[tuple[tuple[int, int], int]]:
    """Draft lengths by ranges of batch sizes, both ends included; parameters as of `claimed`."""
    claims = claimed(speed_up, half_width, noise)
    some: Bools = np.asarray(claims.any(axis=1))
    rate = np.where(np.isnan(speed_up), -np.inf, speed_up)
    best = np.where(some, np.where(claims, rate, -np.inf).max(axis=1), 1.0)[:, None]
    between: Bools = ~some & np.logical_or.accumulate(some) & np.flip(np.logical_or.accumulate(some[::-1]))
    fine = (claims | between[:, None]) & (rate >= best * (1 - noise))
    fine[:, 0] = ~some
    lost = np.where(fine, np.maximum(0.0, 1 - rate / best), 0.0)
    lost[:, 0] = 0.0
    chosen = _cheapest(fine, lost)
    first = np.flatnonzero(np.diff(chosen, prepend=-1))
    last = np.append(first[1:], len(chosen))
    return [((int(a) + 1, int(b)), int(chosen[a])) for a, b in zip(first, last, strict=True)]


def _cheapest(fine: Bools, lost: Numbers) -> NDArray[np.int64]:
    """Choose a length for each batch size: fewest ranges, then least lost, then fewest draft tokens. (B,)."""
    sizes, lengths = fine.shape
    never = (sizes + 1, 0.0, 0)
    cost = [(0, 0.0, 0)] * lengths
    came = np.zeros((sizes, lengths), np.int64)
    for b in range(sizes):
        cheapest = min(range(lengths), key=cost.__getitem__)
        ranges, loss, drafts = cost[cheapest]
        switched = (ranges + 1, loss, drafts)
        after = []
        for k in range(lengths):
            stays = b > 0 and cost[k] <= switched
            came[b, k] = k if stays else cheapest
            ranges, loss, drafts = cost[k] if stays else switched
            after.append((ranges, loss + float(lost[b, k]), drafts + k) if fine[b, k] else never)
        cost = after
    chosen = np.empty(sizes, np.int64)
    k = min(range(lengths), key=cost.__getitem__)
    for b in range(sizes - 1, -1, -1):
        chosen[b] = k
        k = int(came[b, k])
    return chosen
