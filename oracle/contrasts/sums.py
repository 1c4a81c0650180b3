"""What each generation adds to the contrasts: counts and sums by group and step, inside the group and outside."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.contrasts.groups import ALL, Group, in_order

INSIDE, OUTSIDE = 0, 1


@dataclass(frozen=True)
class GroupSums:
    """Sums by generation; memory follows generations and groups, not positions.

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
        at = {group: b for b, group in enumerate(self.groups)}
        absent = self.sums[:, at[ALL]][..., ::-1, :] if ALL in at else np.zeros_like(self.sums[:, 0])
        return np.stack([self.sums[:, at[g]] if g in at else absent for g in groups], axis=1)


def inside_and_outside(member: NDArray[np.bool_], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up `columns` (n, C) over the tokens in each group and over the others; (B, 2, C)."""
    inside = member.astype(np.float64).T
    return np.stack([inside @ columns, (1.0 - inside) @ columns], axis=1)


def join(parts: Sequence[GroupSums]) -> GroupSums:
    """Put the sums of several batches together; their groups may differ, their measures may not."""
    groups = in_order(group for part in parts for group in part.groups)
    return GroupSums(
        tuple(name for part in parts for name in part.cluster),
        groups,
        parts[0].measures,
        np.concatenate([part.of(groups) for part in parts]),
    )
