"""Do match probabilities come true: the probability said beforehand against the share of matches recorded."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.intervals import Interval, doubt_about
from oracle.problem import Problem
from oracle.resampling import bootstrap, cluster_sums
from oracle.solver import segment_sums

BINS = 10  # tenths of the probability scale: fixed, so that batches add up


@dataclass(frozen=True)
class CalibrationTally:
    """What calibration needs of each generation, or of each unit of resampling; R of them.

    Attributes
    ----------
    group, cluster : (R,) names
        How it was decoded; unit of resampling.
    first : (R, BINS, 3) float64
        By tenth of the first draft token's match probability: anchors, sum of the probability, matches.
    survival : (R, K, 3) float64
        By depth j: anchors with a token at t + j - 1, sum of S_j expected, sum of S_j realised.
    """

    group: tuple[str, ...]
    cluster: tuple[str, ...]
    first: NDArray[np.float64]
    survival: NDArray[np.float64]


def calibration_tally(
    expected: Problem,
    realised: Problem,
    group: tuple[str, ...],
    cluster: tuple[str, ...],
    match_prob: NDArray[np.float32],
) -> CalibrationTally:
    """Count match probabilities and matches of one batch.

    Parameters
    ----------
    expected, realised
        The two problems of the batch.
    group, cluster
        Names, G each.
    match_prob : (N,) float32
        Match probability of the first draft token from each anchor.
    """
    offsets, n, K = expected.offsets, expected.positions, expected.k_max
    left = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(n)
    each = np.zeros((n, K, 3))
    for j in range(1, K + 1):
        each[:, j - 1, 0] = left >= j
        for i, problem in enumerate((expected, realised), 1):  # a draft that ends the text counts too
            each[:, j - 1, i] = np.where(left == j, problem.to_end, problem.survival[:, j - 1])
    bins = np.minimum((match_prob * BINS).astype(np.int64), BINS - 1)
    first = np.zeros((n, BINS, 3))
    if K:
        matched = each[:, 0, 2]
        first[np.arange(n), bins] = np.column_stack([np.ones(n), match_prob.astype(np.float64), matched])
    return CalibrationTally(group, cluster, segment_sums(first, offsets), segment_sums(each, offsets))


@dataclass(frozen=True)
class CalibrationRow:
    """Said beforehand against what came, on one set of anchors.

    Attributes
    ----------
    group
        How the generations were decoded.
    low, high
        Range of the match probability; (0, 1) for all anchors.
    depth
        Draft token j; 1 for the first.
    anchors
        How many there are.
    expected
        Mean match probability; for all j, mean S_j.
    realised, interval
        Share that matched, with its clustered interval.
    gap, gap_interval
        realised - expected, paired by cluster.
    clusters
        How many were resampled.
    """

    group: str
    low: float
    high: float
    depth: int
    anchors: int
    expected: float
    realised: float
    interval: Interval | None
    gap: float
    gap_interval: Interval | None
    clusters: int

    @property
    def apart(self) -> bool:
        """Whether the data carry the gap."""
        return not doubt_about(self.gap_interval, self.clusters)


def calibrate(tally: CalibrationTally) -> list[CalibrationRow]:
    """By group: all anchors, tenths of the first token's match probability, and depth; rows without anchors left out.

    Tenths are of the probability scale (0 to 0.1 …), so they do not hold equally many anchors.
    """
    rows = []
    for group in dict.fromkeys(tally.group):
        at = [g for g, other in enumerate(tally.group) if other == group]
        clusters = [tally.cluster[g] for g in at]
        first = tally.first[at]
        cells = np.concatenate([first.sum(axis=1, keepdims=True), first, tally.survival[at]], axis=1)
        edges = [(0.0, 1.0), *((i / BINS, (i + 1) / BINS) for i in range(BINS))]
        places = [(low, high, 1) for low, high in edges]
        places += [(0.0, 1.0, j) for j in range(1, tally.survival.shape[1] + 1)]
        keep = [i for i in range(len(places)) if cells[:, i, 0].sum() > 0 and i != len(edges)]  # S_1 is the first row
        rows += _rows(group, [places[i] for i in keep], cells[:, keep], clusters)
    return rows


def _rows(
    group: str, places: Sequence[tuple[float, float, int]], cells: NDArray[np.float64], clusters: Sequence[str]
) -> list[CalibrationRow]:
    count = len(places)
    if not count:
        return []
    per_cluster, _ = cluster_sums(cells.reshape(len(cells), -1), clusters)

    def shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        each = sums.reshape(len(sums), count, 3)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = each[:, :, 1:] / each[:, :, :1]
        return np.concatenate([mean[:, :, 1], mean[:, :, 1] - mean[:, :, 0]], axis=1)

    whole = per_cluster.sum(axis=0)
    held = (per_cluster.reshape(-1, count, 3)[:, :, 0] > 0).sum(axis=0).tolist()
    point, intervals = shares(whole[None])[0], bootstrap(per_cluster, shares, holding=[*held, *held])
    anchors = whole.reshape(count, 3)[:, 0]
    return [
        CalibrationRow(
            group=group,
            low=low,
            high=high,
            depth=depth,
            anchors=round(float(anchors[i])),
            expected=float(point[i] - point[count + i]),
            realised=float(point[i]),
            interval=intervals[i],
            gap=float(point[count + i]),
            gap_interval=intervals[count + i],
            clusters=held[i],
        )
        for i, (low, high, depth) in enumerate(places)
    ]
