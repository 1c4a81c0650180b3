"""The best static length along a scale s on all alpha: a lower envelope of lines."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.alpha_path.scales import ScaleTally
from oracle.intervals import Interval
from oracle.resampling import bootstrap, cluster_sums


@dataclass(frozen=True)
class StaticRange:
    """Where one static length is the best of them.

    Attributes
    ----------
    draft_length
        The length K of `static:K`.
    s_from, s_to
        The scales on all alpha between which it costs least, exact for these traces.
    s_from_interval, s_to_interval
        Where these ends lie in resampled traces; None where all resamples agree, and where there are no intervals.
    ms_per_token_from, ms_per_token_to
        What it costs there, milliseconds a token.
    """

    draft_length: int
    s_from: float
    s_to: float
    s_from_interval: Interval | None
    s_to_interval: Interval | None
    ms_per_token_from: float
    ms_per_token_to: float


def still_recommended(found: ScaleTally) -> list[StaticRange]:
    """Cut [0, s_max] into the ranges of the best static lengths, ascending in s; empty if there is no decision."""
    lengths = found.lengths
    tokens = float(found.weights[:, 0].sum())
    if tokens == 0:
        return []
    per_cluster, _ = cluster_sums(found.static_ms.reshape(len(found.cluster), -1), found.cluster)

    def ends(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return _ends(sums.reshape(len(sums), len(lengths), 2), found.s_max).reshape(len(sums), -1)

    everything = per_cluster.sum(axis=0)
    point = ends(everything[None])[0].reshape(-1, 2)
    intervals = bootstrap(per_cluster, ends)
    ranges = []
    for h in np.argsort(point[:, 0], kind="stable"):
        low, high = (float(s) for s in point[h])
        if low < high:
            fixed, slope = (float(x) / tokens for x in everything.reshape(-1, 2)[h])
            low_interval, high_interval = intervals[2 * h : 2 * h + 2]
            ranges.append(
                StaticRange(
                    draft_length=lengths[h],
                    s_from=low,
                    s_to=high,
                    s_from_interval=_unless_settled(low_interval),
                    s_to_interval=_unless_settled(high_interval),
                    ms_per_token_from=fixed + slope * low,
                    ms_per_token_to=fixed + slope * high,
                )
            )
    return ranges


def _unless_settled(interval: Interval | None) -> Interval | None:
    """Give an interval that has a width: an end that is the path's own in every resample needs none."""
    return interval if interval is not None and interval.low < interval.high else None


def _ends(lines: NDArray[np.float64], s_max: float) -> NDArray[np.float64]:
    """Give the ends of the range of [0, s_max] in which each line is lowest; the left not below the right: nowhere.

    Parameters
    ----------
    lines : (R, H, 2) float64
        Value at s = 0 and slope. Of equal lines the first is lowest.

    Returns
    -------
    (R, H, 2) float64
    """
    count = lines.shape[1]
    result = np.empty(lines.shape)
    for h in range(count):
        higher, steeper = np.moveaxis(lines - lines[:, [h]], 2, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = -higher / steeper
        before = (higher < 0) | ((higher == 0) & (np.arange(count) < h))
        beaten = np.where((steeper == 0) & before, np.inf, 0.0)
        result[:, h, 0] = np.where(steeper > 0, crossing, beaten).max(axis=1).clip(0.0, s_max)
        result[:, h, 1] = np.where(steeper < 0, crossing, s_max).min(axis=1).clip(0.0, s_max)
    return result
