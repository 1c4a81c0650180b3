"""Constants that online policies learn from training generations."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.policies.inputs import Training
from oracle.problem import Problem
from oracle.solver import segment_sums


@dataclass(frozen=True, eq=False)
class Learnt:
    """Sums that training constants are made of; R rows, each of one category and unit of resampling.

    Attributes
    ----------
    category : (R,) strings or None
    unique : (R, K + 1) float64, unique experts per MoE layer
        Sums of U over windows that end inside the text.
    windows : (R, K + 1) float64
        Number of those windows.
    lengths
        Draft lengths that may be chosen.
    static_ms : (R, lengths) float64, milliseconds
        Expected cost of each of them.
    """

    category: tuple[str | None, ...]
    unique: NDArray[np.float64]
    windows: NDArray[np.float64]
    lengths: tuple[int, ...]
    static_ms: NDArray[np.float64]

    def training(self, rows: NDArray[np.bool_]) -> Training:
        """Constants from some of the rows, (R,) bool."""
        windows = self.windows[rows].sum(axis=0)
        sums = self.unique[rows].sum(axis=0)
        known = windows > 0
        mean = np.interp(np.arange(len(sums)), np.flatnonzero(known), sums[known] / windows[known])
        by_category: dict[str, int] = {}
        for name in sorted({c for c, used in zip(self.category, rows, strict=True) if used and c is not None}):
            of = rows & np.array([c == name for c in self.category])
            by_category[name] = self.lengths[int(self.static_ms[of].sum(axis=0).argmin())]
        return Training(mean, self.lengths[int(self.static_ms[rows].sum(axis=0).argmin())], by_category)


def windows_inside(problem: Problem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`unique` and `windows` of `Learnt` by generation, (G, K + 1) each."""
    left = np.repeat(problem.offsets[1:], np.diff(problem.offsets)) - np.arange(problem.positions)
    inside = np.arange(problem.k_max + 1) < left[:, None]
    unique = segment_sums(np.where(inside, problem.unique_experts, 0.0), problem.offsets)
    return unique, segment_sums(inside.astype(np.float64), problem.offsets)
