"""Scores out of realised totals: what each policy cost, differences paired by generation, and the Pareto view."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.intervals import Interval, doubt_about
from oracle.resampling import bootstrap, cluster_sums
from oracle.scores import PARTS, PolicyTotals

NEAR = 1.5


@dataclass(frozen=True)
class RealisedScore:
    """What one policy cost over all generations; None means not available.

    Attributes
    ----------
    policy
        Text form.
    ms_per_token, interval
        Milliseconds a token emitted.
    tokens_per_second
        Tokens emitted a second.
    rounds
        How many there were.
    mean_draft_length
        Draft tokens a round.
    acceptance
        Accepted over drafted tokens; None if nothing was drafted.
    mean_acceptance_length
        1 + accepted tokens a round, bonus included.
    wasted_per_token, wasted_interval
        Draft tokens thrown away a token emitted; what a draft proposes past the end of a text is thrown away too.
    expert_loads_per_token
        Unique experts per layer that verification touched, a token emitted.
    split_ms_per_token
        verify (beta0), experts, context, draft, rejection: milliseconds a token.
    undominated
        Whether no other policy that an engine could run is at least as fast and wastes at most as much, one of them
        strictly; None for those that no engine is known to be able to run.
    """

    policy: str
    ms_per_token: float
    interval: Interval | None
    tokens_per_second: float
    rounds: float
    mean_draft_length: float
    acceptance: float | None
    mean_acceptance_length: float
    wasted_per_token: float
    wasted_interval: Interval | None
    expert_loads_per_token: float
    split_ms_per_token: tuple[float, ...]
    undominated: bool | None


def realised_scores(totals: PolicyTotals) -> list[RealisedScore]:
    """Score every policy, in the order of `totals.policies`; empty if no token was emitted.

    Works on expected totals too: the sums mean the same.
    """
    tokens = float(totals.tokens.sum())
    if tokens == 0:
        return []
    count = len(totals.policies)
    thrown = totals.of("drafted") - totals.of("accepted")
    per_cluster, _ = cluster_sums(np.column_stack([totals.total_ms, thrown, totals.tokens]), totals.cluster)
    intervals = bootstrap(per_cluster, lambda sums: _ms_per_token(sums, 2 * count))
    ms = totals.total_ms.sum(axis=0) / tokens
    rounds, drafted, accepted, loads = (
        totals.of(name).sum(axis=0) for name in ("rounds", "drafted", "accepted", "expert_loads")
    )
    wasted = thrown.sum(axis=0) / tokens
    split = np.stack([totals.of(part).sum(axis=0) for part in PARTS], axis=1) / tokens
    best = undominated([name not in totals.bounds for name in totals.policies], ms, wasted)
    return [
        RealisedScore(
            policy=policy,
            ms_per_token=float(ms[p]),
            interval=intervals[p],
            tokens_per_second=float(1e3 / ms[p]) if ms[p] > 0 else float("inf"),
            rounds=float(rounds[p]),
            mean_draft_length=float(drafted[p] / rounds[p]),
            acceptance=float(accepted[p] / drafted[p]) if drafted[p] > 0 else None,
            mean_acceptance_length=float(1 + accepted[p] / rounds[p]),
            wasted_per_token=float(wasted[p]),
            wasted_interval=intervals[count + p],
            expert_loads_per_token=float(loads[p] / tokens),
            split_ms_per_token=tuple(split[p].tolist()),
            undominated=best[p],
        )
        for p, policy in enumerate(totals.policies)
    ]


def near_fastest(scores: Sequence[RealisedScore]) -> tuple[list[RealisedScore], list[RealisedScore]]:
    """Policies at most `NEAR` times as slow as the fastest that an engine can run; the rest, which squeeze a picture.

    Where no engine is known to be able to run any, all of them are near.
    """
    fastest = min((s.ms_per_token for s in scores if s.undominated), default=np.inf)
    near = [s for s in scores if s.ms_per_token <= NEAR * fastest]
    return near, [s for s in scores if s not in near]


def undominated(
    online: Sequence[bool], ms_per_token: NDArray[np.float64], wasted_per_token: NDArray[np.float64]
) -> list[bool | None]:
    """Pareto view: which policies no other one beats in time and waste; None for those that are not `online`."""
    runs = np.asarray(online)
    found: list[bool | None] = []
    for p in range(len(runs)):
        as_good = (ms_per_token <= ms_per_token[p]) & (wasted_per_token <= wasted_per_token[p])
        better = (ms_per_token < ms_per_token[p]) | (wasted_per_token < wasted_per_token[p])
        found.append(not bool((runs & as_good & better).any()) if runs[p] else None)
    return found


@dataclass(frozen=True)
class Difference:
    """Time of a policy minus that of a reference on the same generations.

    Attributes
    ----------
    policy, reference
        Text forms.
    ms_per_token, interval
        Milliseconds a token, paired by cluster.
    relative
        Of the reference's time.
    clusters
        How many were resampled.
    """

    policy: str
    reference: str
    ms_per_token: float
    interval: Interval | None
    relative: float
    clusters: int

    @property
    def doubt(self) -> str:
        """What speaks against claiming it: `few clusters`, `not significant`; "" if nothing does."""
        return doubt_about(self.interval, self.clusters)

    @property
    def significant(self) -> bool | None:
        """Whether the data carry it; None without an interval."""
        return None if self.interval is None else not self.doubt


def differences(totals: PolicyTotals, reference: str) -> list[Difference]:
    """Compare every other policy with a reference; empty if no token was emitted."""
    if totals.tokens.sum() == 0:
        return []
    count, at = len(totals.policies), totals.policies.index(reference)

    def statistic(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        ms = _ms_per_token(sums, count)
        return np.asarray(ms - ms[:, [at]])

    per_cluster = _per_cluster(totals)
    whole = per_cluster.sum(axis=0)[None]
    point, intervals = statistic(whole)[0], bootstrap(per_cluster, statistic)
    cost = float(_ms_per_token(whole, count)[0, at])
    return [
        Difference(
            policy,
            reference,
            float(point[p]),
            intervals[p],
            float(point[p]) / cost if cost else float("nan"),
            len(per_cluster),
        )
        for p, policy in enumerate(totals.policies)
        if p != at
    ]


def _per_cluster(totals: PolicyTotals) -> NDArray[np.float64]:
    """Milliseconds of each policy and tokens, (C, P + 1)."""
    return cluster_sums(np.column_stack([totals.total_ms, totals.tokens]), totals.cluster)[0]


def _ms_per_token(sums: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[:, :count] / sums[:, count:])
