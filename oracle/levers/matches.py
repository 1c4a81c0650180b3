"""Tokens a round emits when each draft token is accepted with one probability, independently or in a chain.

With g draft tokens that are accepted with probability a each, a round emits on average

    Abar(a) = 1 + a + a^2 + … + a^g.

Matches that follow one another are a two-state chain: marginal a, lag-1 autocorrelation x, hence
p11 = a + x(1 - a) after a match and p01 = a(1 - x) after a mismatch. With G = 1 + p11 + … + p11^(g-1):

- `stationary`: a is the acceptance of the first position, 1 + a·G;
- `gated`: a draft is made only after a match, 1 + p11·G;
- `renewal`: a draft is made every round and a is the match rate of all tokens, 1 + [s·p11 + (1 - s)·p01]·G, where
  s = p01·p11^g / (1 - p11^(g+1) + p01·p11^g) is the share of rounds that begin after a match: their predecessor was
  accepted whole and its bonus token would have matched too.

At x = 0 all are the independent one. `draft_length` may be inf.
"""

import math
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracle.errors import Faults, InputError

Reading = Literal["independent", "stationary", "gated", "renewal"]
READINGS: tuple[Reading, ...] = get_args(Reading)
_NEAR, _NEARER = 0.9995, 0.9999995  # from here on, three and six digits would round it to 1
_HALVINGS = 60  # of an interval inside [0, 1]: below the spacing of float64 there


def mean_length(
    accept: ArrayLike, draft_length: float, reading: Reading = "independent", autocorrelation: ArrayLike = 0.0
) -> NDArray[np.float64]:
    """Mean acceptance length: expected tokens a round emits, the bonus token included.

    Parameters
    ----------
    accept : array
        a, the probability that a draft token is accepted; what it is the probability of depends on the reading.
    draft_length
        g, tokens drafted each round; inf is allowed.
    autocorrelation : array that broadcasts against `accept`
        x of the chain, below 1. A negative one is possible only where both p11 and p01 are probabilities.

    Raises
    ------
    InputError
        A probability out of range, a draft length that is not a whole number from 1 on, an impossible x.
    """
    a, x = (np.asarray(each, dtype=np.float64) for each in (accept, autocorrelation))
    _check(a, draft_length, x)
    return _mean_length(a, draft_length, reading, x)


def _mean_length(a: NDArray[np.float64], g: float, reading: Reading, x: NDArray[np.float64]) -> NDArray[np.float64]:
    if reading == "independent":
        return _powers(a, g + 1)
    p11, p01 = a + x * (1 - a), a * (1 - x)
    G = _powers(p11, g)
    if reading == "stationary":
        start = a
    elif reading == "gated":
        start = p11
    else:
        whole = p01 * p11**g
        share = whole / (1 - p11 ** (g + 1) + whole)
        start = share * p11 + (1 - share) * p01
    return 1 + start * G


def _powers(p: NDArray[np.float64], terms: float) -> NDArray[np.float64]:
    """1 + p + … over `terms` terms, without a division by 1 - p."""
    if math.isinf(terms):
        with np.errstate(divide="ignore"):
            return 1.0 / (1.0 - p)
    total = np.ones_like(p)
    for _ in range(int(terms) - 1):
        total = 1.0 + p * total
    return total


def accept_needed(
    overhead: ArrayLike, draft_length: float, reading: Reading = "independent", autocorrelation: ArrayLike = 0.0
) -> NDArray[np.float64]:
    """Acceptance at which a round emits 1 + w tokens: above it speculation pays; inf where it never does.

    Parameters
    ----------
    overhead : array
        w, what a round with speculation costs more than one without, as a share of the latter.
    autocorrelation : array that broadcasts against `overhead`
        Not negative: a chain that alternates cannot have acceptance near 0.

    Raises
    ------
    InputError
        An overhead that is negative or not a number.
    """
    w, x = (np.asarray(each, dtype=np.float64) for each in (overhead, autocorrelation))
    g = draft_length
    if not np.all(w >= 0):
        raise InputError(f"overhead is {_first(w, ~(w >= 0))}; it is a number of at least 0")
    beyond = ~((x >= 0) & (x < 1))
    if beyond.any():
        raise InputError(
            f"autocorrelation is {_first(x, beyond)}; to solve for the acceptance it lies from 0 up to below 1"
        )
    _check(np.zeros(()), g, np.zeros(()))
    if reading == "independent" or not x.any():
        return _independent(np.broadcast_to(w, np.broadcast_shapes(w.shape, x.shape)), g)
    w, x = np.broadcast_arrays(w, x)
    return np.where(x == 0, _independent(w, g), _chained(w, g, reading, x))


def _chained(w: NDArray[np.float64], g: float, reading: Reading, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Root of Abar = 1 + w where x > 0, arrays of one shape."""
    if reading == "gated":
        if math.isinf(g):
            return np.maximum(0.0, (_independent(w, g) - x) / (1 - x))
        return np.where(w > g, np.inf, np.maximum(0.0, (_independent(np.minimum(w, g), g) - x) / (1 - x)))
    if math.isinf(g):
        return w * (1 - x) / (1 + w * (1 - x)) if reading == "stationary" else w / (1 + w)
    found = _bisected(w, np.zeros_like(w), np.ones_like(w), g, reading, x)
    return np.where(w > g, np.inf, np.where(w == g, 1.0, np.where(w == 0, 0.0, found)))


def _independent(w: NDArray[np.float64], g: float) -> NDArray[np.float64]:
    """Root of Abar(a) = 1 + w; closed forms for g = 1, 2 and inf."""
    if math.isinf(g):
        return w / (1 + w)
    if g == 1:
        return np.where(w > 1, np.inf, w)
    if g == 2:
        return np.where(w > 2, np.inf, 2 * w / (np.sqrt(1 + 4 * w) + 1))
    low, high = np.maximum(w / (1 + w), w / g), np.minimum(np.minimum(1.0, w), (w / g) ** (1 / g))
    found = _bisected(w, low, np.maximum(low, high), g, "independent", np.zeros(()))
    return np.where(w > g, np.inf, np.where(w == g, 1.0, np.where(w == 0, 0.0, found)))


def _bisected(
    w: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    g: float,
    reading: Reading,
    x: NDArray[np.float64],
) -> NDArray[np.float64]:
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = _mean_length(np.minimum(middle, 1.0), g, reading, x) > 1 + w
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _check(a: NDArray[np.float64], g: Any, x: NDArray[np.float64]) -> None:
    faults = Faults()
    outside = ~((a >= 0) & (a <= 1))
    if outside.any():
        faults.add(f"acceptance is {_first(a, outside)}; a probability lies in [0, 1]")
    if not (g == math.inf or (g >= 1 and g == int(g))):
        faults.add(f"draft length is {g}; it is a whole number of at least 1")
    beyond = ~((x >= -1) & (x < 1))
    if beyond.any():
        faults.add(f"autocorrelation is {_first(x, beyond)}; it lies from -1 up to below 1")
    faults.raise_if_any()
    if (x < 0).any():
        impossible = (x < 0) & ((a + x * (1 - a) < 0) | (a * (1 - x) > 1))
        if impossible.any():
            a, x = np.broadcast_arrays(a, x)
            raise InputError(
                f"autocorrelation {_first(x, impossible)} is impossible where the acceptance is "
                f"{_first(a, impossible)}: a match would follow with a probability outside [0, 1]; give a larger one"
            )


def _first(values: NDArray[np.float64], where: NDArray[np.bool_]) -> float:
    return float(values[where].flat[0])


def below_one(x: float) -> str:
    """Show an autocorrelation, which is below 1 however close."""
    return f"{x:.3g}" if x < _NEAR else f"{x:.6f}" if x < _NEARER else f"1 - {1 - x:.1g}"
