"""What a wrong alpha changes: decisions and costs at other scales of the expert cost, and the best static length.

A policy's cost is linear in the scale s on all alpha; the oracle's is concave and lies below every policy's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.alpha_path.path import AlphaPath, scaled
from oracle.costs import LengthCosts
from oracle.problem import Problem
from oracle.solver import Solution, evaluate, segment_sums, solve
from oracle.unit_sums import ArraySums

SCALES = (0.5, 0.8, 0.9, 1.1, 1.2, 1.5)
MARGINS = (0.02, 0.05, 0.1, 0.2, 0.5)  # how far alpha may be off, either way
_STEPS = 400  # of the scales at which decisions are counted by k*
_ALIKE = ("s_max", "scales", "lengths", "margins")
_SUMMED = (
    "weights",
    "moving",
    "returning",
    "changed",
    "within",
    "kept_ms",
    "oracle_ms",
    "regret_ms",
    "static_ms",
)


@dataclass(frozen=True)
class ScaleTally:
    """Decisions and costs along the scale s on all alpha, added up by generation of a batch, or by unit of resampling.

    Attributes
    ----------
    s_max
        Where the path ends.
    scales
        The other scales, S of them.
    lengths
        Static draft lengths, H of them.
    cluster
        Name of each row's cluster or unit of resampling (see `UnitSums`), U.
    clusters
        How many clusters there were.
    weights : (U, 2) float64
        Decisions; rounds of the oracle of s = 1. So weighted are the next three.
    moving, returning : (U, 2) float64
        Decisions that change anywhere on the path; that come back to a length they had left.
    changed : (U, 2, S) float64
        Decisions whose k* at the scale is not that of s = 1.
    margins
        How far alpha may be off either way, relative; T of them, ascending.
    within : (U, 2, T) float64
        Decisions that change somewhere within the margin; weighted like those above.
    kept_ms, oracle_ms : (U, S) float64, milliseconds
        Cost at the scale of the policy that is optimal at s = 1, and of the optimum there.
    regret_ms : (U, S) float64, milliseconds
        Their difference.
    static_ms : (U, H, 2) float64, milliseconds
        Cost of each static length: its part without experts, and its slope in s.
    by_breakpoints : (B,) float64
        Decisions with 0, 1, … breakpoints.
    by_length : (400 + 1, K + 1) float64
        Decisions by k* at equally spaced scales from 0 to s_max.
    """

    s_max: float
    scales: tuple[float, ...]
    lengths: tuple[int, ...]
    cluster: tuple[str, ...]
    clusters: int
    weights: NDArray[np.float64]
    moving: NDArray[np.float64]
    returning: NDArray[np.float64]
    changed: NDArray[np.float64]
    margins: tuple[float, ...]
    within: NDArray[np.float64]
    kept_ms: NDArray[np.float64]
    oracle_ms: NDArray[np.float64]
    regret_ms: NDArray[np.float64]
    static_ms: NDArray[np.float64]
    by_breakpoints: NDArray[np.float64]
    by_length: NDArray[np.float64]

    @property
    def grid(self) -> NDArray[np.float64]:
        """The scales of `by_length`, ascending."""
        return np.linspace(0.0, self.s_max, len(self.by_length))


def tally_scales(
    problem: Problem,
    costs: LengthCosts,
    path: AlphaPath,
    oracle: Solution,
    visit_prob: NDArray[np.float64],
    cluster: tuple[str, ...],
    scales: Sequence[float] = SCALES,
    margins: Sequence[float] = MARGINS,
) -> ScaleTally:
    """Add up what other scales on alpha change in a batch.

    Parameters
    ----------
    problem, costs, oracle
        The solved problem, s = 1.
    path
        Its path, `oracle.alpha_path.alpha_path`.
    visit_prob : (N,) float64
        Probability that a round of the oracle starts at the position.
    cluster
        Name of each generation's cluster, G.
    scales
        Where to look; they may lie beyond the path's end.
    margins
        How far alpha may be off either way; not beyond the path's end.
    """
    weights = np.stack([np.ones(problem.positions), visit_prob], axis=1)

    def weighed(flags: NDArray[np.bool_]) -> NDArray[np.float64]:
        return segment_sums(weights * flags[:, None], problem.offsets)

    policies = np.empty((problem.positions, 1 + len(costs.lengths)), dtype=np.int16)
    policies[:, 0] = oracle.draft_length
    policies[:, 1:] = costs.lengths
    fixed = segment_sums(evaluate(problem, costs.without_experts(), policies), problem.offsets)
    slope = segment_sums(evaluate(problem, costs, policies), problem.offsets) - fixed
    solutions = [solve(problem, scaled(costs, s)) for s in scales]
    changed = [weighed(other.draft_length != oracle.draft_length) for other in solutions]
    below, above = (change(1.0, oracle.draft_length).s for change in (path.change_below, path.change_above))
    room = np.fmin(1.0 - below, above - 1.0)  # NaN where the length never changes
    grid = np.linspace(0.0, path.s_max, _STEPS + 1)
    kept_ms = fixed[:, :1] + slope[:, :1] * np.asarray(scales)
    oracle_ms = np.stack([other.value_ms(problem.offsets) for other in solutions], axis=1)
    return ScaleTally(
        s_max=path.s_max,
        scales=tuple(scales),
        lengths=costs.lengths,
        cluster=cluster,
        clusters=len(set(cluster)),
        weights=segment_sums(weights, problem.offsets),
        moving=weighed(path.breakpoints > 0),
        returning=weighed(path.returns),
        changed=np.stack(changed, axis=2),
        margins=tuple(margins),
        within=np.stack([weighed(room <= margin) for margin in margins], axis=2),
        kept_ms=kept_ms,
        oracle_ms=oracle_ms,
        regret_ms=np.maximum(kept_ms - oracle_ms, 0.0),  # nothing beats the optimum: below 0 is rounding
        static_ms=np.stack([fixed[:, 1:], slope[:, 1:]], axis=2),
        by_breakpoints=np.bincount(path.breakpoints).astype(np.float64),
        by_length=path.counts_at(grid, problem.k_max),
    )


class ScaleSums:
    """Adds up the tallies of batches, in order and in bounded memory: one row a unit of resampling, see `UnitSums`."""

    def __init__(self) -> None:
        self._first: ScaleTally | None = None
        self._rows = ArraySums()
        self._by_breakpoints = np.zeros(0)
        self._by_length = np.zeros(())

    def add(self, found: ScaleTally) -> None:
        """Take in a batch; the same path's end, scales, lengths and margins as the first."""
        if self._first is None:
            self._first = found
        elif any(getattr(found, name) != getattr(self._first, name) for name in _ALIKE):
            raise ValueError("batches were looked at under different scales or lengths")
        self._rows.add({name: getattr(found, name) for name in _SUMMED}, found.cluster)
        counts = np.zeros(max(len(self._by_breakpoints), len(found.by_breakpoints)))
        counts[: len(self._by_breakpoints)] = self._by_breakpoints
        counts[: len(found.by_breakpoints)] += found.by_breakpoints
        self._by_breakpoints, self._by_length = counts, self._by_length + found.by_length

    def tally(self) -> ScaleTally | None:
        """Everything taken in so far; None if nothing was."""
        if self._first is None:
            return None
        sums: dict[str, Any] = self._rows.sums
        return replace(
            self._first,
            cluster=self._rows.units,
            clusters=len(self._rows.clusters),
            by_breakpoints=self._by_breakpoints,
            by_length=self._by_length,
            **sums,
        )
