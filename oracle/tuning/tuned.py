"""Scores of tuned policies: over all generations, and category by category."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.intervals import Interval, doubt_about
from oracle.policies import static
from oracle.resampling import bootstrap, cluster_sums
from oracle.scores import LEAST_GAIN
from oracle.tuning.choosing import Family
from oracle.tuning.holding_out import HeldOut


@dataclass(frozen=True)
class Compared:
    """A difference in milliseconds a token with its clustered bootstrap interval, paired by cluster.

    Attributes
    ----------
    ms_per_token
        The difference; negative is faster.
    interval
        95 % interval; None with fewer than two clusters.
    clusters
        How many were resampled.
    """

    ms_per_token: float
    interval: Interval | None
    clusters: int

    @property
    def verdict(self) -> str:
        """`faster`, `slower`, or what speaks against claiming either: `few clusters`, `not significant`."""
        doubt = doubt_about(self.interval, self.clusters)
        return doubt or ("faster" if self.interval is not None and self.interval.high < 0 else "slower")


@dataclass(frozen=True)
class Tuned:
    """One family of policies, tuned; intervals take the chosen parameters as given.

    Attributes
    ----------
    family
        The text form without its parameter.
    online, claimed
        Whether an engine could run it; whether only its author can say so.
    chosen
        The policy chosen for each fold, from the other folds.
    chosen_on_all
        The policy chosen on all generations.
    ms_per_token, ms_per_token_interval
        Held-out milliseconds a token.
    in_sample_ms_per_token
        Chosen on all generations and scored on these.
    regret_ms_per_token, regret_interval
        Held-out milliseconds a token above the oracle's.
    gain_captured, gain_interval
        Share of the oracle's gain over k = 0; None if k = 0 may not be chosen or the oracle gains less than 0.1 %.
    against_static
        Held-out milliseconds a token minus those of the best static length, held-out too.
    against_off
        Minus those of k = 0; None if it may not be chosen.
    at_edge
        Those of the chosen policies that lie at an end of what was tried, with shorter or longer drafts beyond.
    """

    family: str
    online: bool
    claimed: bool
    chosen: tuple[str, ...]
    chosen_on_all: str
    ms_per_token: float
    ms_per_token_interval: Interval | None
    in_sample_ms_per_token: float
    regret_ms_per_token: float
    regret_interval: Interval | None
    gain_captured: float | None
    gain_interval: Interval | None
    against_static: Compared
    against_off: Compared | None
    at_edge: tuple[str, ...]

    @property
    def optimism_ms_per_token(self) -> float:
        """Held-out minus in-sample, milliseconds a token."""
        return self.ms_per_token - self.in_sample_ms_per_token


@dataclass(frozen=True)
class Tuning:
    """All families tuned on the same folds.

    Attributes
    ----------
    families
        In the order asked for, the best static length first.
    oracle_ms_per_token
        The bound, milliseconds a token.
    without_ms_per_token
        Of k = 0; None if it may not be chosen.
    folds, clusters, tokens
        What was split, and how much of it there is in these scores; clusters that have positions.
    late_share
        See `HeldOut`.
    """

    families: tuple[Tuned, ...]
    oracle_ms_per_token: float
    without_ms_per_token: float | None
    folds: int
    clusters: int
    tokens: int
    late_share: float | None


def scored_by_category(held: HeldOut, *, seed: int = 0) -> Mapping[str | None, Tuning]:
    """Scores of each category, in order of first appearance; categories without positions left out.

    Parameters and constants are those of `scored`: chosen on the training generations of all categories.
    """
    found = {}
    for category in dict.fromkeys(held.category):
        rows = np.array([other == category for other in held.category])
        if held.expected.tokens[rows].sum() > 0:
            found[category] = scored(held, rows, clusters=held.clusters_of.get(category), seed=seed)
    return found


def scored(
    held: HeldOut, rows: NDArray[np.bool_] | None = None, *, clusters: int | None = None, seed: int = 0
) -> Tuning:
    """Scores over generations with paired clustered bootstrap intervals.

    Parameters
    ----------
    rows : (R,) bool, or None
        Which of `held`; None: all.
    clusters
        How many there are in these rows, where units are groups of them; None: as in all of `held`.
    seed
        Of the bootstrap.
    """
    tokens = held.expected.tokens
    at = np.flatnonzero(tokens > 0 if rows is None else rows & (tokens > 0))
    without_ms = np.full(len(tokens), np.nan) if held.without_ms is None else held.without_ms
    table = np.column_stack([held.expected.total_ms, held.oracle_ms, without_ms, tokens])[at]
    policies = len(held.families)
    per_cluster, names = cluster_sums(table, [held.expected.cluster[g] for g in at])
    statistic = _statistic(policies)
    point = statistic(per_cluster.sum(axis=0)[None])[0]
    intervals = bootstrap(per_cluster, statistic, seed=seed)
    oracle, without, _ = (float(x) for x in table[:, policies:].sum(axis=0) / table[:, -1].sum())
    gains = held.without_ms is not None and without - oracle > LEAST_GAIN * oracle
    known = without if held.without_ms is not None else None
    count = len(names) if len(names) < 2 or not held.grouped else held.clusters if clusters is None else clusters
    families = tuple(
        Tuned(
            family=one.name,
            online=one.online,
            claimed=one.claimed,
            chosen=tuple(map(str, one.chosen)),
            chosen_on_all=str(one.chosen_on_all),
            ms_per_token=float(point[p]),
            ms_per_token_interval=intervals[p],
            in_sample_ms_per_token=float(held.in_sample_ms[at, p].sum() / table[:, -1].sum()),
            regret_ms_per_token=float(point[policies + p]),
            regret_interval=intervals[policies + p],
            gain_captured=float(point[2 * policies + p]) if gains else None,
            gain_interval=intervals[2 * policies + p] if gains else None,
            against_static=Compared(float(point[3 * policies + p]), intervals[3 * policies + p], count),
            against_off=Compared(float(point[4 * policies + p]), intervals[4 * policies + p], count)
            if known is not None
            else None,
            at_edge=_at_edge(one),
        )
        for p, one in enumerate(held.families)
    )
    return Tuning(families, oracle, known, held.folds, count, int(table[:, -1].sum()), held.late_share)


def _at_edge(family: Family) -> tuple[str, ...]:
    """Chosen policies at either end of what was tried; nothing is shorter than k = 0."""
    first, last = map(str, family.ends)
    ends = {last} if first == static(0) else {first, last}
    return tuple(
        dict.fromkeys(str(p) for p in (family.chosen_on_all, *family.chosen) if first != last and str(p) in ends)
    )


def _statistic(count: int) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Milliseconds a token, regret, share of gain, difference from the first family and from k = 0, from totals."""

    def of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            ms = sums[:, :-1] / sums[:, -1:]
            held, oracle, without = ms[:, :count], ms[:, [count]], ms[:, [count + 1]]
            gain = without - oracle
            share = (without - held) / np.where(gain > 0, gain, np.nan)
        return np.concatenate([held, held - oracle, share, held - held[:, :1], held - without], axis=1)

    return of
