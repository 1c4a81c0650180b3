"""Drift over the run: how much of the residual variance is common to rounds that were recorded together.

Consecutive rounds in recording order form blocks. The share of the residual variance between blocks (the intraclass
correlation, by analysis of variance) says how far rounds are from independent: a machine that runs 3 % slow for a while
does so for every round of that while. The size of the blocks is not known: sizes from 8 rounds up are compared by the
likelihood of a common level in each block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oracle.latency.moments import Floats, Integers

FEWEST_ROUNDS, FEWEST_BLOCKS = 8, 10  # a block's, and how many
ONE_BY_ONE, GROWTH = 600, 1.02  # sizes tried: so many whole numbers, then in steps of 2 %


@dataclass(frozen=True)
class BlockDrift:
    """Residual variance common to blocks of consecutive rounds.

    Parameters
    ----------
    order
        ``"round_index"``, or ``"row order"`` where that was not recorded.
    block
        Size of a block in units of `order`, the likeliest of those tried.
    blocks, rounds_in_block
        How many blocks, and rounds in one on average.
    share_of_variance
        Intraclass correlation of the residuals in blocks; below 0 where blocks are more alike than chance makes them.
    share_within_clusters
        The same after the mean of each cluster is taken out: rounds recorded together are often of the same text.
    likelihood_ratio
        Twice the gain in log-likelihood over independent rounds; the best of all sizes tried.
    sd_percent, lowest_percent, highest_percent
        Standard deviation of the level of blocks and its extremes, in percent of the predicted time. The extremes are
        shrunk by the noise that a mean of so few rounds has.
    """

    order: str
    block: float
    blocks: int
    rounds_in_block: float
    share_of_variance: float
    share_within_clusters: float
    likelihood_ratio: float
    sd_percent: float
    lowest_percent: float
    highest_percent: float


@dataclass(frozen=True)
class _Components:
    """Variance within and between blocks by analysis of variance, and the mean of each block."""

    within: float
    between: float
    n: Integers
    mean: Floats

    @property
    def share(self) -> float:
        total = self.between + self.within
        return self.between / total if total > 0 else 0.0


def block_drift(
    residual_ms: Floats, predicted_ms: Floats, index: Floats | None, cluster: Integers
) -> BlockDrift | None:
    """Measure drift.

    Parameters
    ----------
    residual_ms, predicted_ms
        (N,) each, finite.
    index
        (N,) recording order, finite; None takes the order of the rows.
    cluster
        (N,) int64 cluster of each round.

    Returns
    -------
    BlockDrift or None
        None with fewer than 80 rounds, or where all have one place in the recording order.
    """
    rounds = len(residual_ms)
    if rounds < FEWEST_ROUNDS * FEWEST_BLOCKS:
        return None
    order = np.arange(rounds) if index is None else np.argsort(index, kind="stable")
    place = np.arange(rounds, dtype=np.float64) if index is None else np.asarray(index[order])
    residual = residual_ms[order]
    summed = np.concatenate(([0.0], np.cumsum(residual)))
    sizes = _sizes(rounds, float(place[-1] - place[0]) + 1)
    total = float(residual @ residual)
    gains = [_gain(_edges(place, size), summed, total) for size in sizes]
    best = int(np.argmax(gains))
    edges = _edges(place, sizes[best])
    if len(edges) < 3:
        return None
    of_cluster = np.bincount(cluster, weights=residual_ms) / np.maximum(np.bincount(cluster), 1)
    common = _components(edges, residual)
    relative = _components(edges, residual / predicted_ms[order])
    spread = relative.between + relative.within / relative.n
    shrunk = np.divide(relative.mean * relative.between, spread, out=np.zeros_like(spread), where=spread != 0)
    return BlockDrift(
        order="row order" if index is None else "round_index",
        block=sizes[best],
        blocks=len(edges) - 1,
        rounds_in_block=rounds / (len(edges) - 1),
        share_of_variance=common.share,
        share_within_clusters=_components(edges, residual - of_cluster[cluster[order]]).share,
        likelihood_ratio=gains[best],
        sd_percent=100 * float(np.sqrt(max(relative.between, 0.0))),
        lowest_percent=100 * float(shrunk.min()) if relative.between > 0 else 0.0,
        highest_percent=100 * float(shrunk.max()) if relative.between > 0 else 0.0,
    )


def _sizes(rounds: int, span: float) -> Sequence[float]:
    """Sizes to compare, in units of the recording order: whole numbers one by one, then in steps of 2 %."""
    least = max(1, round(FEWEST_ROUNDS * span / rounds))
    most = span / FEWEST_BLOCKS
    sizes = [float(size) for size in range(least, least + ONE_BY_ONE) if size <= most]
    while sizes and sizes[-1] * GROWTH <= most and len(sizes) >= ONE_BY_ONE:
        sizes.append(float(round(sizes[-1] * GROWTH)))
    return sizes or [float(least)]


def _edges(place: Floats, size: float) -> Integers:
    """Where blocks that hold rounds begin among the sorted rounds, and N at the end."""
    rounds = len(place)
    if place[-1] - place[0] + 1 == rounds and size.is_integer():  # an index without gaps
        return np.append(np.arange(0, rounds, int(size)), rounds)
    edges = np.append(np.searchsorted(place, np.arange(place[0], place[-1] + size, size)), rounds)
    return np.asarray(edges[np.append(True, edges[1:] > edges[:-1])])


def _gain(edges: Integers, summed: Floats, total: float) -> float:
    """Twice the log-likelihood ratio of a common level in each block, at the share that analysis of variance gives.

    `summed` are the running sums of the residuals from 0 on, `total` is their sum of squares.
    """
    n = np.diff(edges)
    blocks, rounds = len(n), int(edges[-1])
    if not total > 0 or blocks < 2 or blocks == rounds:
        return 0.0
    squares = np.diff(summed[edges]) ** 2 / n
    between = float(squares.sum())
    within = (total - between) / (rounds - blocks)
    common = (between / (blocks - 1) - within) * blocks / rounds
    if common <= 0 or within <= 0:
        return 0.0
    grown = 1 + n * (common / within)
    left = (total - between + float((squares / grown).sum())) / total
    return -rounds * float(np.log(left)) - float(np.log(grown).sum())


def _components(edges: Integers, values: Floats) -> _Components:
    """One-way analysis of variance with blocks of unequal size."""
    n = np.diff(edges)
    values = values - values.mean()
    sums = np.add.reduceat(values, edges[:-1])
    rounds, blocks = len(values), len(n)
    between = float((sums**2 / n).sum())
    within = (float(values @ values) - between) / (rounds - blocks)
    typical = (rounds - float((n.astype(np.float64) ** 2).sum()) / rounds) / (blocks - 1)
    return _Components(within, (between / (blocks - 1) - within) / typical, n, sums / n)
