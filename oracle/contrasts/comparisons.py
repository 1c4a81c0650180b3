"""Means of groups and differences between them, pooled and within generations; see the package for both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle.contrasts.estimates import Estimate, estimates, holm
from oracle.contrasts.groups import ALL, Group
from oracle.contrasts.sums import INSIDE, OUTSIDE, GroupSums
from oracle.mismatch import FEW_CLUSTERS
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
            return "few clusters"
        return "not significant" if self.p_holm > ALPHA else ""


@dataclass(frozen=True)
class Comparison:
    """One measure of a group against another group (its name) or the rest."""

    group: Group
    against: str
    measure: str
    pooled: Difference
    within: Difference


def group_means(found: GroupSums, groups: Sequence[Group]) -> list[GroupMean]:
    """Mean of every measure over each group, step by step; those that do not occur are left out."""
    sums = found.of(groups)[..., INSIDE, :]
    per_cluster, _ = cluster_sums(sums.reshape(len(sums), -1), found.cluster)
    shape = sums.shape[1:]

    def means(totals: NDArray[np.float64]) -> NDArray[np.float64]:
        cells = totals.reshape(len(totals), *shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((cells[..., 1:] / cells[..., :1]).reshape(len(totals), -1))

    every = estimates(per_cluster, means)
    weight = sums[..., 0]
    held = per_cluster.reshape(-1, *shape)[..., 0] > 0
    M = len(found.measures)
    return [
        GroupMean(
            group,
            measure,
            j,
            float(weight[:, b, j].sum()),
            int((weight[:, b, j] > 0).sum()),
            int(held[:, b, j].sum()),
            every[(b * shape[1] + j) * M + m],
        )
        for b, group in enumerate(groups)
        for j in range(shape[1])
        for m, measure in enumerate(found.measures)
        if held[:, b, j].any()
    ]


def comparisons(found: GroupSums, groups: Sequence[Group], against: Group | None = None) -> list[Comparison]:
    """Compare groups with all other tokens, or with another group; those that cannot be compared are left out.

    Parameters
    ----------
    groups
        Those of one kind form a family for Holm's correction, each measure its own, pooled and within generations
        each their own.
    against
        A group that shares no token with them; None: all tokens outside.
    """
    names = [group for group in groups if group not in (ALL, against)]
    if not names:
        return []
    sums = found.of(names)
    if against is not None:
        own = sums[..., INSIDE, :]
        sums = np.stack([own, np.broadcast_to(found.of([against])[..., INSIDE, :], own.shape)], axis=3)
    pooled, within = _pooled(sums, found.cluster), _within(sums, found.cluster)
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


def _pooled(sums: NDArray[np.float64], cluster: tuple[str, ...]) -> list[Difference]:
    """Differences of means over all generations, by what the group holds at each step; one a group and measure."""
    per_cluster, _ = cluster_sums(sums.reshape(len(sums), -1), cluster)
    shape = sums.shape[1:]

    def levels(totals: NDArray[np.float64]) -> NDArray[np.float64]:
        cells = totals.reshape(len(totals), *shape)
        weight, means = _means(cells)
        share = np.where(weight.all(axis=3), cells[..., INSIDE, 0], 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return _with_difference(np.einsum("rbj,rbjsm->rbms", share, means) / share.sum(axis=2)[..., None, None])

    usable = (sums.sum(axis=0)[..., 0] > 0).all(axis=2)
    weights = np.where(usable, sums[..., INSIDE, 0], 0.0).sum(axis=2)
    return _differences(per_cluster, levels, weights, cluster, shape[3] - 1)


def _within(sums: NDArray[np.float64], cluster: tuple[str, ...]) -> list[Difference]:
    """Differences inside generations and steps that hold both; one a group and measure."""
    held, means = _means(sums)
    both = held.all(axis=3)
    n = sums[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.where(both, n[..., INSIDE] * n[..., OUTSIDE] / n.sum(axis=3), 0.0)
    M = means.shape[-1]
    weighted = np.einsum("gbj,gbjsm->gbms", weight, means).reshape(*weight.shape[:2], 2 * M)
    totals = np.concatenate([weight.sum(axis=2)[..., None], weighted], axis=2)
    per_cluster, _ = cluster_sums(totals.reshape(len(totals), -1), cluster)

    def levels(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        cells = drawn.reshape(len(drawn), *totals.shape[1:])
        with np.errstate(divide="ignore", invalid="ignore"):
            return _with_difference((cells[..., 1:] / cells[..., :1]).reshape(*cells.shape[:2], M, 2))

    return _differences(per_cluster, levels, np.where(both, n[..., INSIDE], 0.0).sum(axis=2), cluster, M)


def _means(cells: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Whether cells (…, J, 2, 1 + M) hold anything, (…, J, 2), and their means, 0 where not, (…, J, 2, M)."""
    held = cells[..., 0] > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        return held, np.where(held[..., None], cells[..., 1:] / cells[..., :1], 0.0)


def _with_difference(levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Levels (R, B, M, 2) with their difference behind, (R, B · M · 3)."""
    difference = levels[..., INSIDE] - levels[..., OUTSIDE]
    return np.concatenate([levels, difference[..., None]], axis=3).reshape(len(levels), -1)


def _differences(
    per_cluster: NDArray[np.float64],
    levels: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    weight: NDArray[np.float64],
    cluster: tuple[str, ...],
    M: int,
) -> list[Difference]:
    """Estimate all levels and differences; `weight` (G, B) is what each generation adds of the group."""
    every = estimates(per_cluster, levels)
    of_clusters, _ = cluster_sums(weight, cluster)
    differences = []
    for i in range(len(every) // 3):
        mean, against, difference = every[3 * i : 3 * i + 3]
        held, held_by = weight[:, i // M], of_clusters[:, i // M]
        counts = (float(held.sum()), int((held > 0).sum()), int((held_by > 0).sum()))
        differences.append(Difference(mean, against, difference, *counts))
    return differences
