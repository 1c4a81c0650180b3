"""How fast one core computes: the limit that every kernel's operations are held against.

Vectors that fit into registers go through many dependent steps, several vectors at a time. Products and sums stand
apart, since kernels may not fuse them (a fused one rounds once only, and results would depend on the machine).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .report import Row
from .timing import interleaved

GROUP = "bandwidth"
KINDS = {"floating": "float64 products and sums", "integer": "64-bit sums and exclusive ors"}
_LANES = 64  # eight vectors of eight: more than one is needed to fill the pipes
_STEPS = 8  # of each lane before the next; unrolled, so that the loop over the lanes vectorises


def multiply_and_add(values: Any, factor: Any, summand: Any, times: int) -> None:
    """Go through `times` times eight steps x · factor + summand with every value."""
    for _ in range(times):
        for lane in range(values.shape[0]):
            x = values[lane]
            x = x * factor + summand
            x = x * factor + summand
            x = x * factor + summand
            x = x * factor + summand
            x = x * factor + summand
            x = x * factor + summand
            x = x * factor + summand
            x = x * factor + summand
            values[lane] = x


def add_and_exclude(values: Any, summand: Any, mask: Any, times: int) -> None:
    """Go through `times` times eight steps (x + summand) ^ mask with every value."""
    for _ in range(times):
        for lane in range(values.shape[0]):
            x = values[lane]
            x = (x + summand) ^ mask
            x = (x + summand) ^ mask
            x = (x + summand) ^ mask
            x = (x + summand) ^ mask
            x = (x + summand) ^ mask
            x = (x + summand) ^ mask
            x = (x + summand) ^ mask
            x = (x + summand) ^ mask
            values[lane] = x


def measure_peaks(times: int, rounds: int) -> Iterator[Row]:
    """Time both loops in turns and take the best pass; rows are named `peak, floating` and `peak, integer`."""
    from numba import njit  # noqa: PLC0415  # numba is slow to import

    floats = np.linspace(0.5, 1.0, _LANES)
    words = np.arange(_LANES, dtype=np.uint64)
    float_steps, word_steps = njit(nogil=True)(multiply_and_add), njit(nogil=True)(add_and_exclude)
    loops: dict[str, Callable[[], object]] = {
        "floating": lambda: float_steps(floats, 0.999, 0.001, times),
        "integer": lambda: word_steps(words, np.uint64(0x9E3779B97F4A7C15), np.uint64(0x5555555555555555), times),
    }
    operations = 2 * _STEPS * _LANES * times
    for kind, timing in interleaved(loops, rounds=rounds, budget_s=3.0).items():
        best = operations / timing.fastest / 1e9
        yield Row(
            name=f"peak, {kind}",
            group=GROUP,
            what=f"one core, {KINDS[kind]}",
            unit="Gop/s",
            value=best,
            least=operations / timing.slowest / 1e9,
            most=best,
            runs=len(timing.seconds),
            note="the best pass is the limit",
        )
