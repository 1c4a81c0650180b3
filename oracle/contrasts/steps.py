"""New experts summed by step: by the group of the token at the step, and where a draft first differs from the text."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from oracle.contrasts.groups import Group
from oracle.contrasts.sums import GroupSums, inside_and_outside
from oracle.problem import ExpertSource, survival_of, unique_experts_of
from oracle.realised.problem import matches_of
from oracle.solver import segment_sums
from oracle.traces import Traces

DRAFT_COLUMNS = ("token_id", "draft_token_id")
AT, AT_CHANGE, AFTER, AFTER_CHANGE = (
    Group("mismatch", name)
    for name in ("first mismatch", "first mismatch − step before", "row after", "row after − first mismatch")
)
MISMATCHES = (AT, AT_CHANGE, AFTER, AFTER_CHANGE)
_SHAPE = {AT: (0, False), AT_CHANGE: (0, True), AFTER: (1, False), AFTER_CHANGE: (1, True)}  # rows on; a change


def new_experts_by_step(traces: Traces, K: int) -> dict[str, NDArray[np.float64]]:
    """X(t, j) = U(t, j) - U(t, j - 1), j = 1 … K, of each expert column the trace holds; (N, K), experts per layer."""
    has: dict[ExpertSource, bool] = {
        "recorded": traces.unique_experts is not None,
        "routing": traces.experts is not None or traces.new_experts is not None,
    }
    if not traces.positions:  # a column without cells does not say how wide it is
        return {source: np.zeros((0, K)) for source, there in has.items() if there}
    return {source: np.diff(unique_experts_of(traces, K, source), axis=1) for source, there in has.items() if there}


def step_sums(
    new: Mapping[str, NDArray[np.float64]],
    groups: tuple[Group, ...],
    member: NDArray[np.bool_],
    offsets: NDArray[np.int64],
    cluster: tuple[str, ...],
) -> GroupSums:
    """Sum new experts by step and by the group of the token that the step emits, every position an anchor once.

    Parameters
    ----------
    new : (N, K) float64, experts per layer
        X of each expert column, steps 1 … K.
    groups, member
        Of `groups_of`; (N, B) bool.
    """
    values = np.stack([np.ones_like(next(iter(new.values()))), *new.values()], axis=2)
    K = values.shape[1]
    sums = np.zeros((len(cluster), len(groups), K, 2, values.shape[2]))
    for g, (a, b) in enumerate(pairwise(offsets.tolist())):
        for j in range(1, min(K, b - a - 1) + 1):
            sums[g, :, j - 1] = inside_and_outside(member[a + j : b], values[a : b - j, j - 1])
    return GroupSums(cluster, groups, tuple(new), sums)


def drafted(traces: Traces, K: int) -> NDArray[np.float64]:
    """Whether the first j recorded draft tokens all match, j = 1 … K, as 0 and 1; NaN beyond what was drafted.

    Raises
    ------
    InputError
        Chains cannot be used; see `oracle.realised.problem.matches_of`.
    """
    matches = matches_of(traces)[:, :K].astype(np.float64)
    return np.pad(matches, ((0, 0), (0, K - matches.shape[1])), constant_values=np.nan)


def expected(traces: Traces, K: int) -> NDArray[np.float64]:
    """Give the survival S_j(t), j = 1 … K, that of the whole rest of a text included; 0 beyond. (N, K)."""
    survival, to_end = survival_of(traces, K)
    survival = survival.copy()
    left = _left(traces.offsets)
    ends = np.flatnonzero(left <= K)
    survival[ends, left[ends] - 1] = to_end[ends]
    return survival


def mismatch_sums(
    new: Mapping[str, NDArray[np.float64]],
    matched: NDArray[np.float64],
    offsets: NDArray[np.int64],
    cluster: tuple[str, ...],
) -> GroupSums:
    """Sum new experts where the draft first differs, and at the same step where it still matches.

    Parameters
    ----------
    new : (N, K) float64, experts per layer
        X of each expert column, steps 1 … K.
    matched : (N, K) float64
        Probability, or 0 and 1, that the first i + 1 draft tokens match; NaN where nothing was drafted.

    Returns
    -------
    GroupSums
        Of `MISMATCHES`: by i, the position at which the draft first differs, or still matches. The changes take the
        step before away within each anchor; step 0 is no step to compare with.
    """
    N, K = matched.shape
    before = np.concatenate([np.ones((N, 1)), matched[:, :-1]], axis=1)
    known = ~np.isnan(matched) & (np.arange(K) < _left(offsets)[:, None])
    weights = np.where(known[:, :, None], np.stack([before - matched, matched], axis=2), 0.0)
    sums = np.empty((len(cluster), len(MISMATCHES), K, 2, 1 + len(new)))
    for c, contrast in enumerate(MISMATCHES):
        on, change = _SHAPE[contrast]
        row = np.arange(K) + on
        there = (row >= 1 + change) & (row <= K) & (row < _left(offsets)[:, None])
        at = np.clip(row, 1, K) - 1
        values = [np.ones((N, K))]
        values += [x[:, at] - (x[:, np.maximum(at - 1, 0)] if change else 0.0) for x in new.values()]
        cells = np.where(there[:, :, None], weights, 0.0)[..., None] * np.stack(values, axis=2)[:, :, None]
        sums[:, c] = segment_sums(cells, offsets)
    return GroupSums(cluster, MISMATCHES, tuple(new), sums)


def _left(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions from each to the end of its generation, itself included, (N,)."""
    return np.repeat(offsets[1:], np.diff(offsets)) - np.arange(offsets[-1])
