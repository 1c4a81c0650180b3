"""What a wrong alpha changes: decisions and costs at other scales of the expert cost, and the best static length.

Everything is added up by generation, so batches join and intervals resample clusters. A policy's cost is linear in
the scale s on all alpha; the oracle's is concave and lies below every policy's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle.alpha_path.path import AlphaPath, scaled
from oracle.costs import LengthCosts
from oracle.problem import Problem
from oracle.resampling import Interval, bootstrap, cluster_sums
from oracle.solver import Solution, evaluate, segment_sums, solve

SCALES = (0.5, 0.8, 0.9, 1.1, 1.2, 1.5)
MARGINS = (0.02, 0.05, 0.1, 0.2, 0.5)  # how far alpha may be off, either way
_STEPS = 400  # of the scales at which decisions are counted by k*


@dataclass(frozen=True)
class ScaleTally:
    """Decisions and costs along the scale s on all alpha, added up by generation.

    Attributes
    ----------
    s_max
        Where the path ends.
    scales
        The other scales, S of them.
    lengths
        Static draft lengths, H of them.
    cluster
        Name of each generation's cluster, G.
    weights : (G, 2) float64
        Decisions; rounds of the oracle of s = 1. So weighted are the next three.
    moving, returning : (G, 2) float64
        Decisions that change anywhere on the path; that come back to a length they had left.
    changed : (G, 2, S) float64
        Decisions whose k* at the scale is not that of s = 1.
    margins
        How far alpha may be off either way, relative; T of them, ascending.
    within : (G, 2, T) float64
        Decisions that change somewhere within the margin; weighted like those above.
    kept_ms, oracle_ms : (G, S) float64, milliseconds
        Cost at the scale of the policy that is optimal at s = 1, and of the optimum there.
    static_ms : (G, H, 2) float64, milliseconds
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
    weights: NDArray[np.float64]
    moving: NDArray[np.float64]
    returning: NDArray[np.float64]
    changed: NDArray[np.float64]
    margins: tuple[float, ...]
    within: NDArray[np.float64]
    kept_ms: NDArray[np.float64]
    oracle_ms: NDArray[np.float64]
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
    return ScaleTally(
        s_max=path.s_max,
        scales=tuple(scales),
        lengths=costs.lengths,
        cluster=cluster,
        weights=segment_sums(weights, problem.offsets),
        moving=weighed(path.breakpoints > 0),
        returning=weighed(path.returns),
        changed=np.stack(changed, axis=2),
        margins=tuple(margins),
        within=np.stack([weighed(room <= margin) for margin in margins], axis=2),
        kept_ms=fixed[:, :1] + slope[:, :1] * np.asarray(scales),
        oracle_ms=np.stack([other.value_ms(problem.offsets) for other in solutions], axis=1),
        static_ms=np.stack([fixed[:, 1:], slope[:, 1:]], axis=2),
        by_breakpoints=np.bincount(path.breakpoints).astype(np.float64),
        by_length=path.counts_at(grid, problem.k_max),
    )


def join(parts: Sequence[ScaleTally]) -> ScaleTally:
    """Put the tallies of several batches together; the same path's end, scales and lengths."""
    first = parts[0]
    alike = ("s_max", "scales", "lengths", "margins")
    if any(getattr(part, name) != getattr(first, name) for part in parts for name in alike):
        raise ValueError("batches were looked at under different scales or lengths")
    by_breakpoints = np.zeros(max(len(part.by_breakpoints) for part in parts))
    for part in parts:
        by_breakpoints[: len(part.by_breakpoints)] += part.by_breakpoints

    def stacked(name: str) -> NDArray[np.float64]:
        return np.concatenate([getattr(part, name) for part in parts])

    return replace(
        first,
        cluster=tuple(name for part in parts for name in part.cluster),
        weights=stacked("weights"),
        moving=stacked("moving"),
        returning=stacked("returning"),
        changed=stacked("changed"),
        within=stacked("within"),
        kept_ms=stacked("kept_ms"),
        oracle_ms=stacked("oracle_ms"),
        static_ms=stacked("static_ms"),
        by_breakpoints=by_breakpoints,
        by_length=np.stack([part.by_length for part in parts]).sum(axis=0),
    )


@dataclass(frozen=True)
class Share:
    """A share of all decisions, once a decision and once a round of the oracle, with 95 % intervals."""

    share: float
    interval: Interval | None
    visit_share: float
    visit_interval: Interval | None


@dataclass(frozen=True)
class ScaleEffect:
    """What it changes if alpha is off by a factor `s`.

    Attributes
    ----------
    s
        The scale on all alpha.
    changed
        Decisions whose k* is not that of s = 1.
    kept_ms_per_token, oracle_ms_per_token
        Cost at the scale of the optimum of s = 1, and of the optimum there, milliseconds a token.
    regret_ms_per_token, regret_interval
        Their difference, paired by cluster.
    """

    s: float
    changed: Share
    kept_ms_per_token: float
    oracle_ms_per_token: float
    regret_ms_per_token: float
    regret_interval: Interval | None


def moving_and_returning(found: ScaleTally) -> tuple[Share, Share] | None:
    """Shares of decisions that change on the path, and that come back; None if there is no decision."""
    flags = np.stack([found.moving, found.returning], axis=2)
    shares = _shares(found, flags)
    return (shares[0], shares[1]) if shares else None


def within_margins(found: ScaleTally) -> list[Share]:
    """Shares of decisions that change somewhere within each margin; empty if there is no decision."""
    return _shares(found, found.within)


def effects(found: ScaleTally) -> list[ScaleEffect]:
    """What each of the other scales changes; empty if there is no decision."""
    shares = _shares(found, found.changed)
    if not shares:
        return []
    lost = np.maximum(found.kept_ms - found.oracle_ms, 0.0)  # nothing beats the optimum: below 0 is rounding
    totals = np.column_stack([lost, found.weights[:, 0]])
    per_cluster, _ = cluster_sums(totals, found.cluster)

    def regret(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return sums[:, :-1] / sums[:, -1:]

    point, intervals = regret(per_cluster.sum(axis=0)[None])[0], bootstrap(per_cluster, regret)
    tokens = found.weights[:, 0].sum()
    kept, best = found.kept_ms.sum(axis=0) / tokens, found.oracle_ms.sum(axis=0) / tokens
    return [
        ScaleEffect(s, shares[i], float(kept[i]), float(best[i]), float(point[i]), intervals[i])
        for i, s in enumerate(found.scales)
    ]


def _shares(found: ScaleTally, flags: NDArray[np.float64]) -> list[Share]:
    """Shares of decisions by flag, (G, 2, M) weighted counts; empty if there is no decision."""
    count = flags.shape[2]
    totals = np.concatenate([found.weights, flags.reshape(len(flags), -1)], axis=1)
    per_cluster, _ = cluster_sums(totals, found.cluster)
    everything = per_cluster.sum(axis=0)
    if everything[0] == 0:
        return []

    def shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.concatenate([sums[:, 2 : 2 + count] / sums[:, :1], sums[:, 2 + count :] / sums[:, 1:2]], axis=1)

    point, intervals = shares(everything[None])[0], bootstrap(per_cluster, shares)
    return [Share(float(point[i]), intervals[i], float(point[count + i]), intervals[count + i]) for i in range(count)]
