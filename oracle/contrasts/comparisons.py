"""Means of groups and differences between them, pooled and within generations; see the package for both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle.contrasts.estimates import Estimate, estimates, holm
from oracle.contrasts.groups import ALL, Group
from oracle.contrasts.sums import INSIDE, OUTSIDE, GroupTotals, against_group, means_of
from oracle.intervals import FEW, FEW_CLUSTERS, NOT_SIGNIFICANT
from oracle.resampling import cluster_sums

REST = "rest"
ALPHA = 0.05


@dataclass(frozen=True)
class GroupMean:
    """Mean of one measure over a group at one step (0 where there is only one).

    Attributes
    ----------
    weight
        Decisions or steps in the group; under visit weights their expected number.
    generations, clusters
        That hold any of them.
    """

    group: Group
    measure: str
    step: int
    weight: float
    generations: int
    clusters: int
    mean: Estimate


@dataclass(frozen=True)
class Difference:
    """Mean of a group minus the mean of what it is compared with, at the same steps.

    Attributes
    ----------
    mean, against, difference
        The two levels under the weights of the comparison, and the first minus the second.
    weight
        Of the group, where there is something to compare it with.
    generations, clusters
        That hold such tokens of the group; within generations, those that hold both.
    p_holm
        The bootstrap's p, corrected over all groups of one kind that are compared so; None where there is no interval.
    """

    mean: Estimate
    against: Estimate
    difference: Estimate
    weight: float
    generations: int
    clusters: int
    p_holm: float | None = None

    @property
    def word(self) -> str:
        """What speaks against claiming it: `no interval`, `few clusters`, `not significant`; "" if nothing does."""
        if self.p_holm is None:
            return "no interval"
        if self.clusters < FEW_CLUSTERS:
            return FEW
        return NOT_SIGNIFICANT if self.p_holm > ALPHA else ""


@dataclass(frozen=True)
class Comparison:
    """One measure of a group against another group (its name) or the rest."""

    group: Group
    against: str
    measure: str
    pooled: Difference
    within: Difference


def group_means(found: GroupTotals, groups: Sequence[Group]) -> list[GroupMean]:
    """Mean of every measure over each group, step by step; those that do not occur are left out."""
    sums = found.of(groups)[..., INSIDE, :]
    per_cluster, _ = cluster_sums(sums.reshape(len(sums), -1), found.cluster)
    shape = sums.shape[1:]

    def means(totals: NDArray[np.float64]) -> NDArray[np.float64]:
        cells = totals.reshape(len(totals), *shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((cells[..., 1:] / cells[..., :1]).reshape(len(totals), -1))

    weight = sums[..., 0]
    held = per_cluster.reshape(-1, *shape)[..., 0] > 0
    M, J = len(found.measures), shape[1]
    every = estimates(per_cluster, means, np.repeat(held.sum(axis=0), M).tolist())
    return [
        GroupMean(
            group,
            measure,
            j,
            float(weight[:, b, j].sum()),
            found.holding(group, np.arange(J) == j),
            int(held[:, b, j].sum()),
            every[(b * J + j) * M + m],
        )
        for b, group in enumerate(groups)
        for j in range(J)
        for m, measure in enumerate(found.measures)
        if held[:, b, j].any()
    ]


def comparisons(found: GroupTotals, groups: Sequence[Group], against: Group | None = None) -> list[Comparison]:
    """Compare groups with all other tokens, or with another group; those that cannot be compared are left out.

    Parameters
    ----------
    groups
        Those of one kind form a family for Holm's correction, each measure its own, pooled and within generations
        each their own.
    against
        A group that shares no token with them; None: all tokens outside. One of those that `found` was folded for.
    """
    names = [group for group in groups if group not in (ALL, against)]
    if not names:
        return []
    sums = found.of(names)
    if against is not None:
        sums = against_group(sums, found.of([against])[:, 0])
    pooled, within = _pooled(found, sums, names), _within(found, names, against)
    word = REST if against is None else against.name
    M = len(found.measures)
    rows = [
        Comparison(group, word, measure, pooled[b * M + m], within[b * M + m])
        for b, group in enumerate(names)
        for m, measure in enumerate(found.measures)
        if pooled[b * M + m].weight > 0
    ]
    return _corrected(rows)


def _corrected(rows: list[Comparison]) -> list[Comparison]:
    """Put Holm's p in, family by family."""
    families: dict[tuple[str, str], list[int]] = {}
    for i, row in enumerate(rows):
        families.setdefault((row.group.kind, row.measure), []).append(i)
    for family in families.values():
        pooled = holm([rows[i].pooled.difference.p for i in family])
        within = holm([rows[i].within.difference.p for i in family])
        for i, p, q in zip(family, pooled, within, strict=True):
            rows[i] = replace(
                rows[i], pooled=replace(rows[i].pooled, p_holm=p), within=replace(rows[i].within, p_holm=q)
            )
    return rows


def _pooled(found: GroupTotals, sums: NDArray[np.float64], names: Sequence[Group]) -> list[Difference]:
    """Differences of means over all generations, by what the group holds at each step; one a group and measure."""
    per_cluster, _ = cluster_sums(sums.reshape(len(sums), -1), found.cluster)
    shape = sums.shape[1:]

    def levels(totals: NDArray[np.float64]) -> NDArray[np.float64]:
        cells = totals.reshape(len(totals), *shape)
        weight, means = means_of(cells)
        share = np.where(weight.all(axis=3), cells[..., INSIDE, 0], 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return _with_difference(np.einsum("rbj,rbjsm->rbms", share, means) / share.sum(axis=2)[..., None, None])

    usable = (sums.sum(axis=0)[..., 0] > 0).all(axis=2)
    weights = np.where(usable, sums[..., INSIDE, 0], 0.0).sum(axis=2)
    held = [found.holding(group, usable[b]) for b, group in enumerate(names)]
    return _differences(per_cluster, levels, weights, held, found.cluster, shape[3] - 1)


def _within(found: GroupTotals, names: Sequence[Group], against: Group | None) -> list[Difference]:
    """Differences inside generations and steps that hold both; one a group and measure."""
    at = [found.groups.index(group) for group in names]
    rows, M = found.within[against][:, at], len(found.measures)
    totals = rows[..., 1:]
    per_cluster, _ = cluster_sums(totals.reshape(len(totals), -1), found.cluster)

    def levels(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        cells = drawn.reshape(len(drawn), *totals.shape[1:])
        with np.errstate(divide="ignore", invalid="ignore"):
            return _with_difference((cells[..., 1:] / cells[..., :1]).reshape(*cells.shape[:2], M, 2))

    return _differences(per_cluster, levels, rows[..., 0], found.within_held[against][at].tolist(), found.cluster, M)


def _with_difference(levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Levels (R, B, M, 2) with their difference behind, (R, B · M · 3)."""
    difference = levels[..., INSIDE] - levels[..., OUTSIDE]
    return np.concatenate([levels, difference[..., None]], axis=3).reshape(len(levels), -1)


def _differences(
    per_cluster: NDArray[np.float64],
    levels: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    weight: NDArray[np.float64],
    generations: Sequence[int],
    cluster: tuple[str, ...],
    M: int,
) -> list[Difference]:
    """Estimate levels and differences; `weight` (U, B) is what each unit adds of a group, `generations` hold it."""
    held = (cluster_sums(weight, cluster)[0] > 0).sum(axis=0)
    every = estimates(per_cluster, levels, np.repeat(held, 3 * M).tolist())
    differences = []
    for i in range(len(every) // 3):
        mean, against, difference = every[3 * i : 3 * i + 3]
        counts = float(weight[:, i // M].sum()), generations[i // M], int(held[i // M])
        differences.append(Difference(mean, against, difference, *counts))
    return differences
