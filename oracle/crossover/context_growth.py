"""What reading a token of context of a further request takes, out of the batch sizes that were measured.

Every request of a batch has its own context to read, so the context coefficient grows with the batch,

    c[B] = c[1] + c' (B - 1),

and two measured batch sizes tell c': least squares over all that were measured, weighted by the errors of their c where
the model file keeps them. The interval is that of the weighted slope, batch sizes taken as independent; without errors
it comes from what is left over the line, and from two batch sizes there is none. Reading takes no negative time: where
c falls with the batch, c' counts as 0.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from oracle.errors import InputError
from oracle.intervals import LEVEL, Interval
from oracle.latency.model import LatencyModel
from oracle.latency.recorded_errors import names_of, verify_spread


@dataclass(frozen=True)
class ContextGrowth:
    """c', estimated.

    Attributes
    ----------
    slope_ms
        As estimated, milliseconds; noise may make it negative.
    interval
        95 %; None where nothing tells the error.
    batch_sizes, context_ms
        From which, and c there.
    """

    slope_ms: float
    interval: Interval | None
    batch_sizes: tuple[int, ...]
    context_ms: tuple[float, ...]

    @property
    def ms(self) -> float:
        """What is taken: not below 0."""
        return max(0.0, self.slope_ms)


def context_growth(model: LatencyModel, k: int) -> ContextGrowth | None:
    """Estimate c' of rounds of draft length k; None where fewer than two batch sizes tell it."""
    known = [(block, own) for block in model.blocks if (own := _context_of(block, k + 1)) is not None]
    if len(known) < 2:
        return None
    blocks = [block for block, _ in known]
    sizes = np.array([float(block.batch_size or 1) for block in blocks])
    c = np.array([context for _, context in known])
    errors = [_error(block, k + 1) for block in blocks]
    measured = [each for each in errors if each is not None and each[0] > 0]
    weighted = len(measured) == len(blocks)
    weights = np.array([error**-2.0 for error, _ in measured]) if weighted else np.ones(len(blocks))
    away = sizes - weights @ sizes / weights.sum()
    spread = float(weights @ away**2)
    slope = float(weights @ (away * c)) / spread
    half = np.nan
    if weighted:
        half = stdtrit(min(clusters for _, clusters in measured) - 1, (1 + LEVEL) / 2) / np.sqrt(spread)
    elif len(blocks) > 2:
        left = c - c.mean() - slope * away
        half = stdtrit(len(blocks) - 2, (1 + LEVEL) / 2) * np.sqrt(left @ left / (len(blocks) - 2) / spread)
    interval = Interval(slope - float(half), slope + float(half)) if np.isfinite(half) else None
    return ContextGrowth(slope, interval, tuple(int(size) for size in sizes), tuple(c.tolist()))


def _context_of(block: LatencyModel, m: int) -> float | None:
    """Give c of a block at m; at an m it lacks, its one c, or for K = 0 that of its least m."""
    if m in block.m:
        return block.context_of(m)
    return block.context_of(block.m[0]) if m == 1 or not isinstance(block.context_ms_per_token, tuple) else None


def _error(block: LatencyModel, m: int) -> tuple[float, int] | None:
    """Standard error of c (CR3) and the clusters behind it; None where the file keeps none."""
    try:
        spread = verify_spread(block)
    except InputError:
        return None
    at = m if m in block.m else block.m[0]
    own = isinstance(block.context_ms_per_token, tuple)
    row = spread.report[names_of(block).index(f"context_ms_per_token[{at}]" if own else "context_ms_per_token")]
    return float(np.sqrt(row @ spread.covariance @ row)), spread.clusters
