"""Policies tuned on training generations and scored on held-out ones.

Generations are split into folds by cluster. For each fold, the parameter (best K, T or L) and all other constants
(mean U by m, best static length by category) come from the other folds, and the fold is scored with them. The same
choice made and scored on all generations is the in-sample score; the difference is its optimism.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle import scores
from oracle.errors import InputError
from oracle.latency.folds import fold_of_cluster
from oracle.policies import Inputs, Policy, Static, Training, lengths_of
from oracle.policies.candidates import BEST_STATIC, POINTS, candidates
from oracle.policies.learning import Learnt, learnt_from
from oracle.resampling import Interval, bootstrap, cluster_sums
from oracle.scores import LEAST_GAIN

FOLDS = 5
FAMILIES = (
    BEST_STATIC,
    "budget",
    "confidence",
    "confidence@keep",
    "survival",
    "survival@keep",
    "survival!",
    "goodput",
    "goodput!",
    "slope",
    "slope!",
)
NOT_SIGNIFICANT = "not significant"


@dataclass(frozen=True)
class Compared:
    """A difference in milliseconds a token with its clustered bootstrap interval, paired by cluster.

    Attributes
    ----------
    ms_per_token
        The difference; negative is faster.
    interval
        95 % interval; None with fewer than two clusters.
    """

    ms_per_token: float
    interval: Interval | None

    @property
    def verdict(self) -> str:
        """`faster`, `slower`, or `not significant` where the interval holds 0 or there is none."""
        if self.interval is None or self.interval.low <= 0 <= self.interval.high:
            return NOT_SIGNIFICANT
        return "faster" if self.interval.high < 0 else "slower"


@dataclass(frozen=True)
class Tuned:
    """One family of policies, tuned; intervals take the chosen parameters as given.

    Attributes
    ----------
    family
        The text form without its parameter.
    online
        Whether an engine could run it.
    chosen
        The policy chosen for each fold, from the other folds.
    chosen_on_all
        The policy chosen on all generations.
    ms_per_token, ms_per_token_interval
        Held-out milliseconds a token.
    in_sample_ms_per_token
        Chosen on all generations and scored on them.
    regret_ms_per_token, regret_interval
        Held-out milliseconds a token above the oracle's.
    gain_captured, gain_interval
        Share of the oracle's gain over k = 0; None if k = 0 may not be chosen or the oracle gains less than 0.1 %.
    against_static
        Held-out milliseconds a token minus those of the best static length, held-out too.
    """

    family: str
    online: bool
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
        What was split, and how much of it there was.
    """

    families: tuple[Tuned, ...]
    oracle_ms_per_token: float
    without_ms_per_token: float | None
    folds: int
    clusters: int
    tokens: int


def learn(batches: Sequence[Inputs]) -> Training:
    """Learn the constants of online policies from all generations of some batches.

    Returns
    -------
    Training
        Mean U by draft length over windows that end inside their text (of a length without such a window: as for
        the nearest length), and the best static lengths, over all and by category.

    Raises
    ------
    InputError
        There is no position to learn from.
    """
    learnt = _learnt(batches)
    return learnt.training(np.ones(len(learnt.category), dtype=bool))


def _learnt(batches: Sequence[Inputs]) -> Learnt:
    if not any(batch.problem.positions for batch in batches):
        raise InputError("there is no position to learn from; give traces with positions")
    lengths = batches[0].costs.lengths
    return learnt_from(batches, lengths, _total_ms(batches, [Static(k) for k in lengths]))


@dataclass(frozen=True)
class _Candidates:
    """The members of a family that are tried; ties go to the shortest drafts, which come first."""

    family: str
    members: tuple[Policy, ...]

    @property
    def learns(self) -> bool:
        return self.members[0].learns


def tune(
    batches: Sequence[Inputs],
    families: Sequence[str] = FAMILIES,
    *,
    folds: int = FOLDS,
    points: int = POINTS,
    seed: int = 0,
) -> Tuning:
    """Choose each family's parameter on training generations and score it on held-out ones.

    Parameters
    ----------
    batches
        All generations, laid out for one cost model; training constants they carry are not used.
    families
        As `candidates` takes them; the best static length is always among them.
    folds
        Groups of clusters; each is scored with what the others say.
    points
        Parameters tried.
    seed
        Of the bootstrap.

    Raises
    ------
    InputError
        More folds than clusters, no positions, or a family that cannot be scored on these traces.
    """
    learnt = _learnt(batches)
    clusters = [name for batch in batches for name in batch.traces.cluster_of]
    tokens = np.concatenate([np.diff(batch.problem.offsets) for batch in batches]).astype(np.float64)
    fold = _folds(clusters, tokens, folds)
    rows = [fold != f for f in range(folds)]
    trainings = [learnt.training(each) for each in (*rows, np.ones(len(fold), dtype=bool))]
    tried = [
        _Candidates(family, candidates(family, batches[0], points))
        for family in dict.fromkeys((BEST_STATIC, *families))
    ]
    fixed = {one.family: _total_ms(batches, one.members) for one in tried if not one.learns}
    taught = []
    for training in trainings:
        learned = [replace(batch, training=training) for batch in batches]
        taught.append({one.family: _total_ms(learned, one.members) for one in tried if one.learns})
    held, found = [], []
    for one in tried:
        costs = [taught[f][one.family] if one.learns else fixed[one.family] for f in range(folds + 1)]
        best = [int(ms[train].sum(axis=0).argmin()) for ms, train in zip(costs, (*rows, slice(None)), strict=True)]
        held.append(
            np.column_stack([ms[:, p] for ms, p in zip(costs[:-1], best[:-1], strict=True)])[np.arange(len(fold)), fold]
        )
        chosen = [str(one.members[p]) for p in best]
        found.append((one, chosen, float(costs[-1][:, best[-1]].sum() / tokens.sum())))
    oracle = np.concatenate([batch.optimum.value_ms(batch.problem.offsets) for batch in batches])
    without = learnt.static_ms[:, 0] if learnt.lengths[0] == 0 else np.full(len(tokens), np.nan)
    return _gather(np.column_stack([*held, oracle, without, tokens]), clusters, found, folds, seed)


def _folds(clusters: Sequence[str], tokens: NDArray[np.float64], folds: int) -> NDArray[np.int64]:
    """The fold of each generation; clusters go whole."""
    names = sorted(set(clusters))
    at = {name: i for i, name in enumerate(names)}
    of = np.array([at[name] for name in clusters])
    sizes = np.bincount(of, weights=tokens, minlength=len(names)).astype(np.int64)
    occupied = int(np.count_nonzero(sizes))
    if not 2 <= folds <= occupied:
        raise InputError(
            f"folds is {folds}, and {occupied} clusters have positions: held-out scores need 2 to {occupied} folds"
            if occupied > 1
            else "there is one cluster with positions only; held-out scores need two: add generations"
        )
    return np.asarray(fold_of_cluster(sizes, folds)[of], dtype=np.int64)


def _total_ms(batches: Sequence[Inputs], policies: Sequence[Policy]) -> NDArray[np.float64]:
    """Expected milliseconds, (G, P): a batch's policies are laid out in one call and scored in one call."""
    parts = []
    for batch in batches:
        laid, traces = lengths_of(policies, batch), batch.traces
        ms = scores.total(batch.problem, batch.costs, laid, traces.generation, traces.cluster_of).total_ms
        parts.append(ms[:, [laid.names.index(str(policy)) for policy in policies]])
    return np.concatenate(parts)


def _gather(
    table: NDArray[np.float64],
    clusters: Sequence[str],
    found: Sequence[tuple[_Candidates, list[str], float]],
    folds: int,
    seed: int,
) -> Tuning:
    """Turn milliseconds by generation (families, oracle, k = 0, tokens) into scores with paired intervals."""
    count = len(found)
    per_cluster, names = cluster_sums(table, clusters)
    statistic = _statistic(count)
    point = statistic(per_cluster.sum(axis=0)[None])[0]
    intervals = bootstrap(per_cluster, statistic, seed=seed)
    totals = table.sum(axis=0) / table[:, -1].sum()
    without = float(totals[-2]) if np.isfinite(totals[-2]) else None
    gains = without is not None and without - totals[-3] > LEAST_GAIN * totals[-3]
    families = tuple(
        Tuned(
            family=one.family,
            online=one.members[0].online,
            chosen=tuple(chosen[:-1]),
            chosen_on_all=chosen[-1],
            ms_per_token=float(point[p]),
            ms_per_token_interval=intervals[p],
            in_sample_ms_per_token=in_sample,
            regret_ms_per_token=float(point[count + p]),
            regret_interval=intervals[count + p],
            gain_captured=float(point[2 * count + p]) if gains else None,
            gain_interval=intervals[2 * count + p] if gains else None,
            against_static=Compared(float(point[3 * count + p]), intervals[3 * count + p]),
        )
        for p, (one, chosen, in_sample) in enumerate(found)
    )
    return Tuning(families, float(totals[-3]), without, folds, len(names), int(table[:, -1].sum()))


def _statistic(count: int) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Milliseconds a token, regret, share of gain and difference from the first family, from totals."""

    def of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            ms = sums[:, :-1] / sums[:, -1:]
            held, oracle, without = ms[:, :count], ms[:, [count]], ms[:, [count + 1]]
            gain = without - oracle
            share = (without - held) / np.where(gain > 0, gain, np.nan)
        return np.concatenate([held, held - oracle, share, held - held[:, :1]], axis=1)

    return of
