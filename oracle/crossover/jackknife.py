"""Intervals of what is measured on batches: clusters are left out one at a time, everything else stays.

A bootstrap would put the same text into a batch twice and find fewer experts than there are; leaving out does not.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from oracle.intervals import LEVEL


def half_widths(left_out: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half-widths of 95 % intervals from values without each group in turn; NaN where a group could not be left out.

    Parameters
    ----------
    left_out : (C, …)
        Standard error: sqrt((C - 1) / C · Σ (value - mean)²), with Student's t of C - 1 degrees of freedom.
    """
    count = len(left_out)
    if count < 2:
        return np.full(left_out.shape[1:], np.nan)
    spread = ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray(stdtrit(count - 1, (1 + LEVEL) / 2) * np.sqrt((count - 1) / count * spread))
