"""What a wrong alpha changes, in shares of decisions and milliseconds, with intervals that resample clusters."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.alpha_path.scales import ScaleTally
from oracle.intervals import Interval
from oracle.resampling import bootstrap, cluster_sums


@dataclass(frozen=True)
class Share:
    """A share of all decisions, once a decision and once a round of the oracle, with 95 % intervals."""

    share: float
    interval: Interval | None
    visit_share: float
    visit_interval: Interval | None


@dataclass(frozen=True)
class ScaleEffect:
    """What it changes if alpha is off by a factor `s`.

    Attributes
    ----------
    s
        The scale on all alpha.
    changed
        Decisions whose k* is not that of s = 1.
    kept_ms_per_token, oracle_ms_per_token
        Cost at the scale of the optimum of s = 1, and of the optimum there, milliseconds a token.
    regret_ms_per_token, regret_interval
        Their difference, paired by cluster.
    """

    s: float
    changed: Share
    kept_ms_per_token: float
    oracle_ms_per_token: float
    regret_ms_per_token: float
    regret_interval: Interval | None


def moving_and_returning(found: ScaleTally) -> tuple[Share, Share] | None:
    """Shares of decisions that change on the path, and that come back; None if there is no decision."""
    flags = np.stack([found.moving, found.returning], axis=2)
    shares = _shares(found, flags)
    return (shares[0], shares[1]) if shares else None


def within_margins(found: ScaleTally) -> list[Share]:
    """Shares of decisions that change somewhere within each margin; empty if there is no decision."""
    return _shares(found, found.within)


def effects(found: ScaleTally) -> list[ScaleEffect]:
    """What each of the other scales changes; empty if there is no decision."""
    shares = _shares(found, found.changed)
    if not shares:
        return []
    totals = np.column_stack([found.regret_ms, found.weights[:, 0]])
    per_cluster, _ = cluster_sums(totals, found.cluster)

    def regret(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return sums[:, :-1] / sums[:, -1:]

    point, intervals = regret(per_cluster.sum(axis=0)[None])[0], bootstrap(per_cluster, regret)
    tokens = found.weights[:, 0].sum()
    kept, best = found.kept_ms.sum(axis=0) / tokens, found.oracle_ms.sum(axis=0) / tokens
    return [
        ScaleEffect(s, shares[i], float(kept[i]), float(best[i]), float(point[i]), intervals[i])
        for i, s in enumerate(found.scales)
    ]


def _shares(found: ScaleTally, flags: NDArray[np.float64]) -> list[Share]:
    """Shares of decisions by flag, (U, 2, M) weighted counts; empty if there is no decision."""
    count = flags.shape[2]
    totals = np.concatenate([found.weights, flags.reshape(len(flags), -1)], axis=1)
    per_cluster, _ = cluster_sums(totals, found.cluster)
    everything = per_cluster.sum(axis=0)
    if everything[0] == 0:
        return []

    def shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.concatenate([sums[:, 2 : 2 + count] / sums[:, :1], sums[:, 2 + count :] / sums[:, 1:2]], axis=1)

    point, intervals = shares(everything[None])[0], bootstrap(per_cluster, shares)
    return [Share(float(point[i]), intervals[i], float(point[count + i]), intervals[count + i]) for i in range(count)]
