"""Shifts counted over generations: how often a change of the costs moves a decision, and which."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.ablation.shifts import Shifts
from oracle.ablation.terms import TERMS
from oracle.resampling import Interval, bootstrap, cluster_sums
from oracle.solver import segment_sums

_FIRST = 4  # columns of `ShiftTally.counts` before those by k*


@dataclass(frozen=True)
class ShiftTally:
    """Shifts under one change, counted over generations, once a decision and once by visit probability.

    Attributes
    ----------
    cluster, category
        Name of each generation's cluster and category ("" where the trace has none), G.
    counts : (G, 2, 4 + 2 (K + 1)) float64
        By generation and weight (each position 1; visit probability): decisions; longer under the changed costs;
        shorter; sum of shifts, tokens; longer, by k* = 0 … K; shorter, by k* = 0 … K.
    transitions : (2, K + 1, K + 1) float64
        By weight, k* and k', over all generations.
    terms_ms : (2, K + 1, 7) float64, milliseconds
        Sum of `Shifts.terms_ms` over the decisions that get longer, and shorter, by k*; each position 1.
    continuation_change_ms : (2, K + 1) float64, milliseconds
        Sum of `Shifts.continuation_change_ms` likewise.
    value_ms
        Cost of the optimum under the changed costs, milliseconds.
    """

    cluster: tuple[str, ...]
    category: tuple[str, ...]
    counts: NDArray[np.float64]
    transitions: NDArray[np.float64]
    terms_ms: NDArray[np.float64]
    continuation_change_ms: NDArray[np.float64]
    value_ms: float


def tally(
    found: Shifts,
    offsets: NDArray[np.int64],
    cluster: tuple[str, ...],
    k_max: int,
    category: tuple[str, ...] | None = None,
    value_ms: float = 0.0,
) -> ShiftTally:
    """Count the shifts of a batch."""
    k, changed = found.draft_length.astype(np.int64), found.changed_length.astype(np.int64)
    weights = np.stack([np.ones(len(k)), found.visit_prob], axis=1)
    width = k_max + 1
    flags = np.zeros((len(k), _FIRST + 2 * width))
    flags[:, 0] = 1.0
    flags[:, 1] = changed > k
    flags[:, 2] = changed < k
    flags[:, 3] = changed - k
    flags[np.arange(len(k)), _FIRST + k] = changed > k
    flags[np.arange(len(k)), _FIRST + width + k] = changed < k
    counts = np.stack([segment_sums(flags * weights[:, [w]], offsets) for w in (0, 1)], axis=1)
    transitions = np.zeros((2, width, width))
    for w in (0, 1):
        np.add.at(transitions[w], (k, changed), weights[:, w])
    terms, continuation = np.zeros((2, width, len(TERMS))), np.zeros((2, width))
    for direction, moved in enumerate((changed > k, changed < k)):
        np.add.at(terms[direction], k[moved], found.terms_ms[moved])
        np.add.at(continuation[direction], k[moved], found.continuation_change_ms[moved])
    return ShiftTally(
        cluster, category or ("",) * len(cluster), counts, transitions, terms, continuation, float(value_ms)
    )


def join(parts: Sequence[ShiftTally]) -> ShiftTally:
    """Put the tallies of several batches together."""
    return ShiftTally(
        tuple(name for part in parts for name in part.cluster),
        tuple(name for part in parts for name in part.category),
        np.concatenate([part.counts for part in parts]),
        np.stack([part.transitions for part in parts]).sum(axis=0),
        np.stack([part.terms_ms for part in parts]).sum(axis=0),
        np.stack([part.continuation_change_ms for part in parts]).sum(axis=0),
        sum(part.value_ms for part in parts),
    )


def categories_of(found: ShiftTally) -> tuple[str, ...]:
    """The categories that have names, sorted."""
    return tuple(sorted(set(found.category) - {""}))


@dataclass(frozen=True)
class Prevalence:
    """Share of decisions that change, with intervals; position-weighted and visit-weighted.

    `boundary` is `k* → longer` or `k* → shorter`, `any`, `longer` or `shorter` over all k*, or `shift`: the mean
    change in draft tokens, of which `decisions` counts all that were looked at. `clusters` were resampled.
    """

    boundary: str
    decisions: int
    share: float
    interval: Interval | None
    visit_share: float
    visit_interval: Interval | None
    clusters: int = 0


def prevalence(found: ShiftTally, category: str | None = None) -> list[Prevalence]:
    """How often the change moves a boundary, over all decisions or those of one category.

    Returns
    -------
    Rows `any`, `longer`, `shorter`, `shift`, and by k*; none if there is no decision.
    """
    width = found.transitions.shape[1]
    labels = ["any", "longer", "shorter", "shift"]
    labels += [f"{k} → {word}" for word in ("longer", "shorter") for k in range(width)]
    chosen = [g for g, name in enumerate(found.category) if category is None or name == category]

    def shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = sums.reshape(len(sums), 2, _FIRST + 2 * width)
        moved = np.concatenate([sums[:, :, 1:2] + sums[:, :, 2:3], sums[:, :, 1:]], axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            return (moved / sums[:, :, :1]).reshape(len(sums), -1)

    counts = found.counts[chosen].reshape(len(chosen), 2 * (_FIRST + 2 * width))
    per_cluster, names = cluster_sums(counts, [found.cluster[g] for g in chosen])
    everything = per_cluster.sum(axis=0)
    if not chosen or everything[0] == 0:
        return []
    point = shares(everything[None])[0].reshape(2, -1)
    intervals = bootstrap(per_cluster, shares)
    decisions = everything.reshape(2, -1)[0]
    moved = [decisions[1] + decisions[2], decisions[1], decisions[2], decisions[0], *decisions[_FIRST:]]
    return [
        Prevalence(
            boundary=label,
            decisions=round(float(moved[i])),
            share=float(point[0, i]),
            interval=intervals[i],
            visit_share=float(point[1, i]),
            visit_interval=intervals[len(labels) + i],
            clusters=len(names),
        )
        for i, label in enumerate(labels)
    ]
