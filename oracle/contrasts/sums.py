"""What generations add to the contrasts: counts and sums by group and step, inside the group and outside."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.contrasts.groups import ALL, Group, in_order
from oracle.unit_sums import UnitSums

INSIDE, OUTSIDE = 0, 1


@dataclass(frozen=True)
class GroupSums:
    """Sums of one batch by generation, G of them.

    Attributes
    ----------
    cluster
        Name of each generation's cluster, G.
    groups
        What is contrasted, B.
    measures
        What is summed, M.
    sums : (G, B, J, 2, 1 + M) float64
        By generation, group, step and side (in the group; what it is compared with): the weights, then weight times
        each measure.
    """

    cluster: tuple[str, ...]
    groups: tuple[Group, ...]
    measures: tuple[str, ...]
    sums: NDArray[np.float64]

    def of(self, groups: Sequence[Group]) -> NDArray[np.float64]:
        """Sums of some groups, (G, len(groups), J, 2, 1 + M); none of a group that does not occur: all is outside."""
        return of_groups(self.sums, self.groups, groups)


def of_groups(sums: NDArray[np.float64], groups: Sequence[Group], wanted: Sequence[Group]) -> NDArray[np.float64]:
    """Sums (…, B, J, 2, 1 + M) of the groups that are wanted; where one does not occur, all is outside."""
    at = {group: b for b, group in enumerate(groups)}
    absent = sums[:, at[ALL]][..., ::-1, :] if ALL in at else np.zeros_like(sums[:, 0])
    return np.stack([sums[:, at[g]] if g in at else absent for g in wanted], axis=1)


def inside_and_outside(member: NDArray[np.bool_], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up `columns` (n, C) over the tokens in each group and over the others; (B, 2, C)."""
    inside = member.astype(np.float64).T
    return np.stack([inside @ columns, (1.0 - inside) @ columns], axis=1)


def against_group(sums: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Put what is inside another group, (…, J, 2, C), in the place of what is outside of each, (…, B, J, 2, C)."""
    own = sums[..., INSIDE, :]
    return np.stack([own, np.broadcast_to(other[:, None, ..., INSIDE, :], own.shape)], axis=-2)


def means_of(cells: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Whether cells (…, J, 2, 1 + M) hold anything, (…, J, 2), and their means, 0 where not, (…, J, 2, M)."""
    held = cells[..., 0] > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        return held, np.where(held[..., None], cells[..., 1:] / cells[..., :1], 0.0)


def within_generations(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """What each generation adds to the comparisons inside generations and steps that hold both sides.

    Parameters
    ----------
    sums : (G, B, J, 2, 1 + M) float64

    Returns
    -------
    (G, B, 2 + 2 M): what the group weighs there, the weight of the comparison, and that times the mean of each measure
    on both sides.
    """
    held, means = means_of(sums)
    both, n = held.all(axis=3), sums[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.where(both, n[..., INSIDE] * n[..., OUTSIDE] / n.sum(axis=3), 0.0)
    weighted = np.einsum("gbj,gbjsm->gbms", weight, means).reshape(*weight.shape[:2], 2 * means.shape[-1])
    own = np.where(both, n[..., INSIDE], 0.0).sum(axis=2)
    return np.concatenate([np.stack([own, weight.sum(axis=2)], axis=2), weighted], axis=2)


@dataclass(frozen=True)
class GroupTotals:
    """Sums of all generations by unit of resampling, U of them; what is no sum of theirs is worked out before.

    Attributes
    ----------
    cluster
        Name of each unit, U.
    groups, measures
        As in `GroupSums`.
    sums : (U, B, J, 2, 1 + M) float64
        As in `GroupSums`.
    steps
        By group: how many generations hold it at which steps; the key is one byte a step, 0 or 1.
    within : {what each is compared with: (U, B, 2 + 2 M)}
        See `within_generations`; None stands for all tokens outside.
    within_held : {what each is compared with: (B,)}
        Generations that hold both.
    """

    cluster: tuple[str, ...]
    groups: tuple[Group, ...]
    measures: tuple[str, ...]
    sums: NDArray[np.float64]
    steps: Mapping[Group, Mapping[bytes, int]]
    within: Mapping[Group | None, NDArray[np.float64]]
    within_held: Mapping[Group | None, NDArray[np.int64]]

    def of(self, groups: Sequence[Group]) -> NDArray[np.float64]:
        """Sums of some groups, (U, len(groups), J, 2, 1 + M)."""
        return of_groups(self.sums, self.groups, groups)

    def holding(self, group: Group, steps: NDArray[np.bool_]) -> int:
        """How many generations hold a group at any of some steps, (J,) bool."""
        wanted = steps.astype(np.uint8).tobytes()
        return sum(n for at, n in self.steps[group].items() if any(a and b for a, b in zip(at, wanted, strict=True)))


class GroupFold:
    """Adds up batches in the order of the traces, in memory that does not grow with the generations.

    Groups that occur in later batches only count as if they had been there from the beginning.

    Parameters
    ----------
    against
        What groups are compared with: other groups; None: all tokens outside.
    """

    def __init__(self, against: Sequence[Group | None] = (None,)) -> None:
        self._against = tuple(against)
        self._groups: list[Group] = []
        self._first: GroupSums | None = None
        self._units = UnitSums(0)
        self._steps: dict[Group, Counter[bytes]] = {}
        self._held: dict[tuple[Group | None, Group], int] = {}

    def add(self, part: GroupSums) -> None:
        """Take in a batch, of the same measures as the first."""
        if self._first is None:
            self._first = part
        elif part.measures != self._first.measures:
            raise ValueError("batches hold other measures")
        for group in part.groups:
            if group not in self._steps:
                self._widen(group)
        sums = part.of(self._groups)
        blocks = [sums.reshape(*sums.shape[:2], -1)]
        for other in self._against:
            cells = sums if other is None else against_group(sums, part.of([other])[:, 0])
            within = within_generations(cells)
            for b, held in enumerate((within[:, :, 0] > 0).sum(axis=0).tolist()):
                self._held[other, self._groups[b]] += held
            blocks.append(within)
        flat = np.concatenate(blocks, axis=2)
        self._units.add(flat.reshape(len(flat), -1), part.cluster, ("",) * len(flat))
        there = (sums[..., INSIDE, 0] > 0).astype(np.uint8)
        for b, group in enumerate(self._groups):
            for row, count in zip(*np.unique(there[:, b], axis=0, return_counts=True), strict=True):
                self._steps[group][row.tobytes()] += int(count)

    def _widen(self, group: Group) -> None:
        """Make room for a group; up to now all was outside."""
        assert self._first is not None
        shape = self._first.sums.shape[2:]
        within = len(self._against) * 2 * (1 + len(self._first.measures))
        units = len(self._units.units)
        before = np.zeros((units, int(np.prod(shape)) + within))
        absent = b"\0" * shape[0]
        self._steps[group] = Counter()
        if ALL in self._groups and units:
            rows = self._units.sums.reshape(units, len(self._groups), -1)[:, self._groups.index(ALL)]
            cells = rows[:, : int(np.prod(shape))].reshape(units, *shape)
            before[:, : int(np.prod(shape))] = cells[..., ::-1, :].reshape(units, -1)
        if self._groups:
            self._steps[group][absent] = sum(self._steps[self._groups[0]].values())
        self._units.widen(before)
        self._groups.append(group)
        for other in self._against:
            self._held[other, group] = 0

    def totals(self) -> GroupTotals | None:
        """Everything taken in so far; None if nothing was."""
        if self._first is None:
            return None
        groups = in_order(self._groups)
        order = [self._groups.index(group) for group in groups]
        shape, M = self._first.sums.shape[2:], len(self._first.measures)
        rows = self._units.sums.reshape(len(self._units.units), len(groups), -1)[:, order]
        cells = int(np.prod(shape))
        within = np.split(rows[:, :, cells:], len(self._against), axis=2) if self._against else []
        assert all(each.shape[2] == 2 + 2 * M for each in within)
        return GroupTotals(
            self._units.units,
            groups,
            self._first.measures,
            rows[:, :, :cells].reshape(len(rows), len(groups), *shape),
            self._steps,
            dict(zip(self._against, within, strict=True)),
            {other: np.array([self._held[other, group] for group in groups]) for other in self._against},
        )


def folded(parts: Iterable[GroupSums], against: Sequence[Group | None] = (None,)) -> GroupTotals | None:
    """Fold batches, in order."""
    fold = GroupFold(against)
    for part in parts:
        fold.add(part)
    return fold.totals()
