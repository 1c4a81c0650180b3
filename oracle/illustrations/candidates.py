"""Decisions that may become illustrations, and how few of them must be kept."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.illustrations.search import Decided

_DECIMALS = 9  # of an effect: visits of probability 1 differ by rounding, and that must not rank them


@dataclass(frozen=True)
class Candidate:
    """A decision that satisfies a rule.

    Attributes
    ----------
    rule
        Name of the rule.
    order, generation, cluster, category
        The generation: its number in the files from 0, its id, its cluster and its category ("" where it has none).
    position
        t.
    draft_length
        k*.
    effect
        What the rule ranks by, to 9 decimals; the largest first.
    """

    rule: str
    order: int
    generation: str
    cluster: str
    category: str
    position: int
    draft_length: int
    effect: float

    @property
    def boundary(self) -> str:
        """The boundary that lies behind the draft."""
        return f"{self.draft_length} → {self.draft_length + 1}"

    @property
    def rank(self) -> tuple[float, int, int]:
        """Sorts candidates: the largest effect, then the order of the traces."""
        return -self.effect, self.order, self.position


def best_of(
    decided: Decided, rule: str, satisfied: NDArray[np.bool_], effect: NDArray[np.float64], *, by_boundary: bool = False
) -> list[Candidate]:
    """Give the best decision of each generation, or of each generation and boundary, that satisfies a rule.

    Parameters
    ----------
    satisfied : (N,) bool
    effect : (N,) float64
    """
    rows, effect = np.flatnonzero(satisfied), np.round(effect, _DECIMALS)
    rows = rows[np.argsort(-effect[rows], kind="stable")]
    k = decided.shifts.draft_length.astype(np.int64)
    strata = decided.generation[rows] * (decided.problem.k_max + 1) + (k[rows] if by_boundary else 0)
    first = np.unique(strata, return_index=True)[1]
    names, clusters, categories = decided.traces.generation, decided.traces.own_cluster_of, decided.traces.category_of
    return [
        Candidate(
            rule=rule,
            order=int(g),
            generation=names[g],
            cluster=clusters[g],
            category=categories[g],
            position=int(decided.position[i]),
            draft_length=int(k[i]),
            effect=float(effect[i]),
        )
        for i, g in ((i, decided.generation[i]) for i in rows[first])
    ]


def shortened(candidates: Iterable[Candidate], most: int) -> list[Candidate]:
    """Keep, of candidates that differ in nothing else a choice looks at, those that a choice of `most` may take.

    Fewer than `most` generations and clusters are taken before the last is chosen, so the best of the first `most`
    generations and of the first `most` clusters always hold one that is free.

    Parameters
    ----------
    candidates
        At most one of each generation.
    """
    kept: list[Candidate] = []
    clusters: set[str] = set()
    for one in sorted(candidates, key=lambda one: one.rank):
        if len(kept) < most or (one.cluster not in clusters and len(clusters) < most):
            kept.append(one)
            clusters.add(one.cluster)
    return kept
