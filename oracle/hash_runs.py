"""Which of many hashes occurred before, in little more memory than the hashes themselves take."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_PART_BITS = 4  # a merge takes one part in 2^4 of the hashes over again


class HashRuns:
    """Remembers 64-bit hashes, 8 bytes each; numbered: also the number under which each came first, 4 bytes.

    They are parted by their highest bits. In a part, sorted runs are merged like the digits of a binary counter: so n
    hashes cost O(n log n) in all, and a merge copies a small share of them.
    """

    def __init__(self, *, numbered: bool = False) -> None:
        self._numbered = numbered
        self._count = 0
        self._parts: list[list[tuple[NDArray[np.generic], ...]]] = [[] for _ in range(1 << _PART_BITS)]

    def __len__(self) -> int:
        return self._count

    def add(self, hashes: NDArray[np.uint64], number: int = 0) -> NDArray[np.int32]:
        """Remember distinct hashes; give the number of each that came before (0 if not numbered), -1 of the others."""
        order = np.argsort(hashes)
        ascending, known = hashes[order], np.full(len(hashes), -1, np.int32)
        of_part = ascending >> np.uint64(64 - _PART_BITS)
        ends = np.searchsorted(of_part, np.arange(len(self._parts) + 1, dtype=np.uint64))
        for runs, (begin, end) in zip(self._parts, pairwise(ends.tolist()), strict=True):
            if begin < end:
                self._add_to(runs, ascending[begin:end], number, known[begin:end])
        in_order = np.empty_like(known)
        in_order[order] = known
        return in_order

    def _add_to(
        self,
        runs: list[tuple[NDArray[np.generic], ...]],
        hashes: NDArray[np.uint64],
        number: int,
        known: NDArray[np.int32],
    ) -> None:
        """Take ascending hashes into the runs of a part; `known` is changed."""
        for run, *numbers in runs:
            at = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            seen = run[at] == hashes
            known[seen] = numbers[0][at[seen]] if numbers else 0
        fresh = hashes[known < 0]
        if not len(fresh):
            return
        self._count += len(fresh)
        merged: tuple[NDArray[np.generic], ...] = (fresh,)
        if self._numbered:
            merged = fresh, np.full(len(fresh), number, np.int32)
        while runs and len(runs[-1][0]) <= len(merged[0]):
            merged = _merged(merged, runs.pop())
        runs.append(merged)


def _merged(
    longer: tuple[NDArray[np.generic], ...], shorter: tuple[NDArray[np.generic], ...]
) -> tuple[NDArray[np.generic], ...]:
    """Merge two ascending runs, without sorting: a sort would need their size again."""
    at = np.searchsorted(longer[0], shorter[0])
    at += np.arange(len(at))
    others = np.ones(len(longer[0]) + len(at), np.bool_)
    others[at] = False
    merged = []
    for long, short in zip(longer, shorter, strict=True):
        both = np.empty(len(others), long.dtype)
        both[at], both[others] = short, long
        merged.append(both)
    return tuple(merged)
