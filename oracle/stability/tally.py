"""Decisions counted by k* and label, once a position and once by visit probability, with clustered intervals."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.intervals import Interval
from oracle.resampling import bootstrap, cluster_sums
from oracle.stability.decisions import LABELS, DecisionDraws

BINS = 20  # of the probability that k* is optimal
POSITIONS, VISITS = 0, 1
_MEASURES = len(LABELS) + 2  # decisions of each label; sums of probability and of regret


@dataclass(frozen=True)
class StabilityTally:
    """Decisions by generation of a batch, or by unit of resampling; by weight, k* and label.

    Attributes
    ----------
    cluster
        Name of each row's cluster or unit of resampling (see `UnitSums`), U.
    counts : (U, 2, K + 1, 5) float64
        By row, weight (each position 1; visit probability) and k*: decisions that are stable, leaning, open; sum
        of the probability that k* is optimal; sum of the expected regret, milliseconds.
    histogram : (U, 2, BINS) float64
        By row and weight, decisions by the probability that k* is optimal; bins of 1 / BINS, 1 in the last.
    """

    cluster: tuple[str, ...]
    counts: NDArray[np.float64]
    histogram: NDArray[np.float64]


def tally(
    found: DecisionDraws, visit_prob: NDArray[np.float64], offsets: NDArray[np.int64], cluster: tuple[str, ...]
) -> StabilityTally:
    """Count the decisions of a batch."""
    lengths, width = np.diff(offsets), found.optimal.shape[1]
    generation = np.repeat(np.arange(len(lengths)), lengths)
    cell = generation * width + found.draft_length
    label, probability = found.label, found.probability
    values = [*((label == i).astype(np.float64) for i in range(len(LABELS))), probability, found.regret_ms]
    at = generation * BINS + np.minimum((probability * BINS + 1e-9).astype(np.int64), BINS - 1)
    counts = np.empty((len(lengths), 2, width, _MEASURES))
    histogram = np.empty((len(lengths), 2, BINS))
    for w, weight in enumerate((np.ones(len(cell)), visit_prob)):
        for i, each in enumerate(values):
            sums = np.bincount(cell, each * weight, minlength=len(lengths) * width)
            counts[:, w, :, i] = sums.reshape(len(lengths), width)
        histogram[:, w] = np.bincount(at, weight, minlength=len(lengths) * BINS).reshape(len(lengths), BINS)
    return StabilityTally(cluster, counts, histogram)


@dataclass(frozen=True)
class Weighed:
    """Shares of some decisions under one weight, each with its interval over clusters (None: none).

    Attributes
    ----------
    labels
        Share of the decisions that are stable, leaning, open.
    probability
        Mean probability that k* is optimal.
    regret_ms
        Mean expected regret of k*, milliseconds a decision.
    intervals
        Of the five numbers above, in that order.
    """

    labels: tuple[float, float, float]
    probability: float
    regret_ms: float
    intervals: tuple[Interval | None, ...]


@dataclass(frozen=True)
class StabilityRow:
    """Decisions with one k*, or all of them (`draft_length` None)."""

    draft_length: int | None
    decisions: int
    positions: Weighed
    visits: Weighed


def stability_rows(found: StabilityTally) -> list[StabilityRow]:
    """All decisions, then those of each k* that occurs; empty where there are none."""
    width = found.counts.shape[2]

    def shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        by_length = sums.reshape(len(sums), 2, width, _MEASURES)
        both = np.concatenate([by_length.sum(axis=2, keepdims=True), by_length], axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = both / both[..., : len(LABELS)].sum(axis=3, keepdims=True)
        return np.asarray(share.reshape(len(sums), -1))

    per_cluster, _ = cluster_sums(found.counts.reshape(len(found.cluster), -1), found.cluster)
    everything = per_cluster.sum(axis=0)
    decisions = everything.reshape(2, width, _MEASURES)[POSITIONS, :, : len(LABELS)].sum(axis=1)
    if not decisions.any():
        return []
    point = shares(everything[None]).reshape(2, width + 1, _MEASURES)
    intervals = bootstrap(per_cluster, shares)

    def weighed(w: int, row: int) -> Weighed:
        stable, leaning, left, probability, regret = point[w, row].tolist()
        first = (w * (width + 1) + row) * _MEASURES
        return Weighed((stable, leaning, left), probability, regret, tuple(intervals[first : first + _MEASURES]))

    counts = [decisions.sum(), *decisions]
    return [
        StabilityRow(row - 1 if row else None, round(float(n)), weighed(POSITIONS, row), weighed(VISITS, row))
        for row, n in enumerate(counts)
        if n
    ]
