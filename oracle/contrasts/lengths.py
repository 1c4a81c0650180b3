"""Draft lengths k* summed by group: shares of lengths, and their mean."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from oracle.contrasts.groups import Group
from oracle.contrasts.sums import GroupSums, inside_and_outside
from oracle.costs import LengthCosts

LONG = 4  # the source's bound of a long draft
AT_LEAST_4, AT_MOST_1, EXACTLY_0, EXACTLY_1, LONGEST, MEAN = (
    "at_least_4",
    "at_most_1",
    "exactly_0",
    "exactly_1",
    "longest",
    "draft_length",
)


def length_measures(costs: LengthCosts) -> tuple[str, ...]:
    """Name the measures of k* that can vary with the draft lengths that may be chosen."""
    k = np.array(costs.lengths)
    return tuple(name for name, of in _measures(costs).items() if len(np.unique(of(k))) > 1)


def _measures(costs: LengthCosts) -> dict[str, Callable[[NDArray[np.int64]], NDArray[np.generic]]]:
    longest = max(costs.lengths)
    return {
        AT_LEAST_4: lambda k: k >= LONG,
        AT_MOST_1: lambda k: k <= 1,
        EXACTLY_0: lambda k: k == 0,
        EXACTLY_1: lambda k: k == 1,
        LONGEST: lambda k: k == longest,
        MEAN: lambda k: k,
    }


def length_sums(
    draft_length: NDArray[np.int16],
    weight: NDArray[np.float64],
    costs: LengthCosts,
    groups: tuple[Group, ...],
    member: NDArray[np.bool_],
    offsets: NDArray[np.int64],
    cluster: tuple[str, ...],
) -> GroupSums:
    """Sum the decisions of a batch by the group of the token at each.

    Parameters
    ----------
    draft_length : (N,) int16
        k* of every decision.
    weight : (N,) float64
        1 for each position, or its visit probability.
    groups, member
        Of `groups_of`; (N, B) bool.
    """
    names, k = length_measures(costs), draft_length.astype(np.int64)
    values = [np.ones(len(k)), *(_measures(costs)[name](k).astype(np.float64) for name in names)]
    columns = np.stack(values, axis=1) * weight[:, None]
    sums = np.empty((len(cluster), len(groups), 1, 2, len(values)))
    for g, (a, b) in enumerate(pairwise(offsets.tolist())):
        sums[g, :, 0] = inside_and_outside(member[a:b], columns[a:b])
    return GroupSums(cluster, groups, names, sums)
