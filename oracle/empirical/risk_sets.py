"""Rounds at risk by depth: a token that was not drafted was not rejected.

Depth j counts the rounds that drafted at least j tokens and whose first j − 1 all matched; of these, those whose j-th
matched. The ratio is the conditional match probability at depth j (the hazard of a match, as in a life table), whatever
draft lengths the rounds had, so long as the engine did not stop a draft because it expected a rejection.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Context = tuple[str, ...]
AFTER_REJECTION, AFTER_WHOLE, OTHERWISE = "after a rejection", "after a whole draft", "at the begin"


def step_counts(
    accepted: NDArray[np.int64], drafted: NDArray[np.int64], depth: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the steps at risk and those that matched, by depth.

    Parameters
    ----------
    accepted, drafted : (R,) int64, tokens
        Of each step.
    depth
        K of the counts.

    Returns
    -------
    at_risk, matched : (K,) int64
    """
    j = np.arange(1, depth + 1)
    reached = accepted[:, None] >= j - 1
    at_risk = ((drafted[:, None] >= j) & reached).sum(axis=0)
    return at_risk, (accepted[:, None] >= j).sum(axis=0)


def states_of(accepted: NDArray[np.int64], drafted: NDArray[np.int64]) -> list[str]:
    """What each step follows: a rejection, a draft that was accepted whole, or neither (the begin, no draft).

    Rates by state say how matches cluster. They are never given to positions: whether the token before a position
    matched is an outcome of the log, and a policy that starts a round there would mostly do so after a rejection. A
    position labelled by a match that was seen would hand its policy the answer.
    """
    states = [OTHERWISE]
    for a, d in zip(accepted[:-1].tolist(), drafted[:-1].tolist(), strict=True):
        states.append(OTHERWISE if d == 0 else AFTER_REJECTION if a < d else AFTER_WHOLE)
    return states[: len(accepted)]


class RiskSets:
    """Counts by context and cluster, gathered request by request; memory grows with the requests, not the tokens."""

    def __init__(self) -> None:
        self._counts: dict[Context, dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]] = {}

    def add(self, context: Context, cluster: str, at_risk: NDArray[np.int64], matched: NDArray[np.int64]) -> None:
        """Add counts of (K,) each; K may differ from call to call."""
        clusters = self._counts.setdefault(context, {})
        had = clusters.get(cluster)
        new = (np.asarray(at_risk, dtype=np.int64), np.asarray(matched, dtype=np.int64))
        clusters[cluster] = new if had is None else (_sum(had[0], new[0]), _sum(had[1], new[1]))

    def __bool__(self) -> bool:
        return any(risk.any() for clusters in self._counts.values() for risk, _ in clusters.values())

    def pooled(self) -> "RiskSets":
        """The same counts as one context."""
        whole = RiskSets()
        for clusters in self._counts.values():
            for cluster, (risk, hits) in clusters.items():
                whole.add((), cluster, risk, hits)
        return whole

    def tables(self) -> "list[RiskTable]":
        """The counts, one table a context, all of the deepest depth that was ever at risk."""
        depth = 0
        for clusters in self._counts.values():
            for risk, _ in clusters.values():
                depth = max(depth, int(np.flatnonzero(risk).max(initial=-1)) + 1)
        return [
            RiskTable(
                context,
                tuple(clusters),
                np.stack([_padded(risk, depth) for risk, _ in clusters.values()]).astype(np.float64),
                np.stack([_padded(hits, depth) for _, hits in clusters.values()]).astype(np.float64),
            )
            for context, clusters in sorted(self._counts.items())
        ]


@dataclass(frozen=True, eq=False)
class RiskTable:
    """Counts of one context.

    Attributes
    ----------
    context
        Its labels.
    clusters
        Names of the clusters.
    at_risk, matched : (clusters, K) float64
    """

    context: Context
    clusters: tuple[str, ...]
    at_risk: NDArray[np.float64]
    matched: NDArray[np.float64]


def _padded(counts: NDArray[np.int64], depth: int) -> NDArray[np.int64]:
    out = np.zeros(depth, np.int64)
    out[: min(depth, len(counts))] = counts[:depth]
    return out


def _sum(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    depth = max(len(a), len(b))
    return _padded(a, depth) + _padded(b, depth)


def shown_context(context: Sequence[str]) -> str:
    """Name a context in a table."""
    return ", ".join(context) or "all"
