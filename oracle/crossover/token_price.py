"""The price of a further token besides its experts, out of beta0, and how sure it is.

One batch size tells it by the slope of beta0 over the upper half of m, several by beta0 of the same m at the two
largest batch sizes that have it,

    s = (beta0[B2, m] - beta0[B1, m]) / ((B2 - B1) m).

Its interval comes from the errors of beta0 where the model file keeps them, and from what is left over the line with
Student's t; of the two the wider one is taken, since a curve over few m has little noise and yet no one slope. Neither
tells whether the line goes on beyond the m that were timed. A further token takes time: from one m alone, or where
beta0 does not rise, the price cannot be told.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from oracle.errors import InputError
from oracle.intervals import LEVEL, Interval
from oracle.latency.model import LatencyModel
from oracle.latency.recorded_errors import names_of, verify_spread

_FLAT = 1e-9  # of beta0: a slope below that is a rounding error


@dataclass(frozen=True)
class TokenPrice:
    """s, estimated.

    Attributes
    ----------
    ms
        What is taken, milliseconds; 0 where it is not told.
    interval
        95 %, not below 0; None where nothing tells the error.
    untold
        Why it cannot be told; "" where it is.
    origin
        What it was estimated from.
    """

    ms: float
    interval: Interval | None = None
    untold: str = ""
    origin: str = ""

    @property
    def told(self) -> bool:
        """Whether the model tells it."""
        return not self.untold


def token_price(model: LatencyModel, k: int) -> TokenPrice:
    """Estimate s for rounds of draft length k.

    Batch sizes that have m = k + 1 tell that of their m; else the largest batch size tells it for all.
    """
    having = [block for block in model.blocks if k + 1 in block.m]
    return _between(having[-2], having[-1], k + 1) if len(having) > 1 else _within(model.blocks[-1])


def _within(block: LatencyModel) -> TokenPrice:
    """The slope of beta0 over the upper half of m of one batch size."""
    at = np.arange(len(block.m) // 2, len(block.m))
    m, base = np.asarray(block.m, float)[at], np.asarray(block.beta0_ms, float)[at]
    size = block.batch_size or 1
    if len(m) < 2:
        return TokenPrice(0.0, untold=f"beta0 is known at m = {m[0]:.0f} alone, of the upper half of m")
    away = (m - m.mean()) / (size * float(((m - m.mean()) ** 2).sum()))
    slope = float(away @ base)
    said = f"beta0 over m = {m[0]:.0f} … {m[-1]:.0f}"
    if slope * size <= _FLAT * float(np.abs(base).max()):
        return TokenPrice(0.0, untold=f"{said} does not rise")
    halves = [_recorded_half(block, at, away)]
    if len(m) > 2:
        left = base - base.mean() - slope * size * (m - m.mean())
        halves.append(float(stdtrit(len(m) - 2, (1 + LEVEL) / 2) * np.sqrt(left @ left / (len(m) - 2) * (away @ away))))
    return TokenPrice(slope, _around(slope, halves), origin=f"the slope of {said}")


def _between(low: LatencyModel, high: LatencyModel, m: int) -> TokenPrice:
    """What a further request adds to beta0 of m, per token."""
    b1, b2 = low.batch_size or 1, high.batch_size or 1
    per = 1.0 / ((b2 - b1) * m)
    first, last = low.coefficients(m)[0], high.coefficients(m)[0]
    slope = (last - first) * per
    said = f"beta0 of the same m from batch size {b1} to {b2}"
    if last - first <= _FLAT * max(abs(first), abs(last)):
        return TokenPrice(0.0, untold=f"{said} does not rise")
    one, two = (_recorded_half(block, np.array([block.m.index(m)]), np.array([per])) for block in (low, high))
    return TokenPrice(slope, _around(slope, [float(np.hypot(one, two))]), origin=said)


def _recorded_half(block: LatencyModel, at: NDArray[np.int64], weights: NDArray[np.float64]) -> float:
    """Half the interval of a weighted sum of some beta0, by their CR3 errors; NaN where the file keeps none."""
    try:
        spread = verify_spread(block)
    except InputError:
        return float("nan")
    names = names_of(block)
    rows = spread.report[[names.index(f"beta0_ms[{block.m[i]}]") for i in at]]
    moved = weights @ rows
    return float(
        stdtrit(spread.clusters - 1, (1 + LEVEL) / 2) * np.sqrt(max(0.0, float(moved @ spread.covariance @ moved)))
    )


def _around(slope: float, halves: list[float]) -> Interval | None:
    known = [half for half in halves if np.isfinite(half)]
    return Interval(max(0.0, slope - max(known)), slope + max(known)) if known else None
