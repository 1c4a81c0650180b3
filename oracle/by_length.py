"""What each draft length gives: static, as the oracle's maximum, in the terms of a round, and how often it is chosen.

A maximum of k is the oracle solved again with no length above k: where its cost stops falling, longer drafts are not
worth serving (the plateau).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracle import scores
from oracle.costs import LengthCosts
from oracle.errors import InputError
from oracle.intervals import Interval
from oracle.pipeline import in_order
from oracle.policies import PolicySet
from oracle.policies.sets import static
from oracle.prices import priced_problem
from oracle.problem import Problem
from oracle.resampling import bootstrap, cluster_sums
from oracle.scores import LEAST_GAIN
from oracle.solver import segment_sums, solve_many, visits
from oracle.traces import Traces
from oracle.unit_sums import ArraySums, DistinctNames

TERMS = ("verify_ms", "expert_ms", "context_ms", "draft_ms", "reject_ms")
_ARRAYS = ("tokens", "static_ms", "capped_ms", "chosen", "unique_sums", "context_sums")


@dataclass(frozen=True, eq=False)
class ByLength:
    """Totals by generation, or by unit of resampling; G of them, n draft lengths that may be chosen, K the longest.

    Attributes
    ----------
    costs
        The cost of a round by draft length.
    cluster
        Of each row.
    clusters
        How many clusters have positions.
    tokens : (G,) float64
        Tokens emitted.
    static_ms, capped_ms : (G, n) float64, milliseconds
        Expected, of each static length; V(0) of the oracle that may draft no more than each length.
    chosen : (G, 2, n) float64
        Decisions of the oracle by k*, each position 1 and weighted by visit probability.
    unique_sums : (G, n) float64
        Σ U(t, k) over positions.
    context_sums : (G,) float64
        Σ L(t) over positions, tokens.
    """

    costs: LengthCosts
    cluster: tuple[str, ...]
    clusters: int
    tokens: NDArray[np.float64]
    static_ms: NDArray[np.float64]
    capped_ms: NDArray[np.float64]
    chosen: NDArray[np.float64]
    unique_sums: NDArray[np.float64]
    context_sums: NDArray[np.float64]


def by_length(
    batches: Iterable[Traces],
    costs: LengthCosts,
    *,
    unique_experts: str | None = None,
    threads: int = 1,
    on_batch: Callable[[int], None] | None = None,
) -> ByLength:
    """Gather in one walk what each draft length gives.

    Parameters
    ----------
    batches
        The traces.
    costs
        The cost of a round by draft length.
    unique_experts
        `recorded`, `routing`, or None for what the traces hold.
    threads
        Batches worked on side by side; results do not depend on it.
    on_batch
        Called with the number of generations after each batch.

    Raises
    ------
    InputError
        The traces hold no positions.
    """
    sums, clusters = ArraySums(), DistinctNames()
    for part in in_order(partial(_walked, costs=costs, unique_experts=unique_experts), batches, threads):
        sums.add({name: getattr(part, name) for name in _ARRAYS}, part.cluster)
        clusters.add(name for name, tokens in zip(part.cluster, part.tokens, strict=True) if tokens)
        if on_batch is not None:
            on_batch(len(part.cluster))
    if not len(clusters):
        raise InputError("the traces hold no positions, so there is no draft length to compare; give others")
    return ByLength(costs, sums.units, len(clusters), **sums.sums)


def capped(costs: LengthCosts, k: int) -> LengthCosts:
    """The same costs with no length above k allowed."""
    allowed = costs.allowed & (np.arange(costs.k_max + 1) <= k)
    names = ("verify_ms", "alpha_ms", "context_ms", "draft_ms", "reject_ms")
    return LengthCosts(**{name: np.where(allowed, getattr(costs, name), 0.0) for name in names}, allowed=allowed)


def _walked(traces: Traces, costs: LengthCosts, unique_experts: str | None) -> ByLength:
    return tally(priced_problem(traces, costs, unique_experts), costs, traces.cluster_of)


def tally(problem: Problem, costs: LengthCosts, cluster: tuple[str, ...]) -> ByLength:
    """Work out one batch; `cluster` of each generation."""
    offsets, lengths = problem.offsets, list(costs.lengths)
    everywhere = np.repeat(np.array(lengths, dtype=np.int16)[None], problem.positions, axis=0)
    policies = PolicySet(tuple(map(static, lengths)), everywhere)
    totals = scores.total(problem, costs, policies, ("",) * len(cluster), cluster)
    solutions = solve_many(problem, [capped(costs, k) for k in lengths])
    oracle = solutions[-1]
    visit = visits(problem, oracle.draft_length)
    is_k = (oracle.draft_length[:, None] == np.array(lengths)).astype(np.float64)
    return ByLength(
        costs=costs,
        cluster=cluster,
        clusters=len({name for name, tokens in zip(cluster, totals.tokens, strict=True) if tokens}),
        tokens=totals.tokens,
        static_ms=totals.total_ms,
        capped_ms=np.stack([solution.value_ms(offsets) for solution in solutions], axis=1),
        chosen=np.stack([segment_sums(is_k, offsets), segment_sums(is_k * visit[:, None], offsets)], axis=1),
        unique_sums=segment_sums(problem.unique_experts[:, lengths].astype(np.float64), offsets),
        context_sums=segment_sums(problem.context_len, offsets),
    )


@dataclass(frozen=True)
class Value:
    """A number with its 95 % interval; None where there is none."""

    value: float
    interval: Interval | None


@dataclass(frozen=True)
class Limit:
    """The oracle that may draft up to k, and the static length k.

    Attributes
    ----------
    draft_length
        k.
    capped_speedup, static_speedup
        Time of the shortest static length over theirs.
    capped_ms_per_token, static_ms_per_token
        Milliseconds a token.
    gain_reached
        Share of the oracle's gain over the shortest static length that the maximum of k leaves; None where the
        oracle gains less than 0.1 %.
    """

    draft_length: int
    capped_speedup: Value
    static_speedup: Value
    capped_ms_per_token: float
    static_ms_per_token: float
    gain_reached: Value | None


def limits(found: ByLength) -> list[Limit]:
    """Speed by maximum and by static draft length; all intervals rest on the same resamples of clusters."""
    n = len(found.costs.lengths)

    def statistic(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        fixed, most = sums[:, :n], sums[:, n : 2 * n]
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = (fixed[:, :1] - most) / (fixed[:, :1] - most[:, -1:])
            return np.concatenate([fixed[:, :1] / most, fixed[:, :1] / fixed, gain], axis=1)

    table = np.column_stack([found.static_ms, found.capped_ms])
    values = _values(table, found.cluster, statistic)
    fixed, most = table.sum(axis=0)[:n], table.sum(axis=0)[n:]
    tokens = float(found.tokens.sum())
    gains = fixed[0] - most[-1] > LEAST_GAIN * most[-1]
    return [
        Limit(
            k,
            values[i],
            values[n + i],
            float(most[i]) / tokens,
            float(fixed[i]) / tokens,
            values[2 * n + i] if gains else None,
        )
        for i, k in enumerate(found.costs.lengths)
    ]


@dataclass(frozen=True)
class RoundTerms:
    """The mean cost of a round of k draft tokens over all decisions.

    Attributes
    ----------
    draft_length
        k.
    mean_unique
        Mean U(t, k).
    terms_ms
        Of `TERMS`, milliseconds.
    total
        Their sum.
    """

    draft_length: int
    mean_unique: float
    terms_ms: tuple[float, ...]
    total: Value


def round_terms(found: ByLength) -> list[RoundTerms]:
    """Mean C(t, k) by term for every k, each position once; intervals of the sum are clustered."""
    costs, lengths = found.costs, list(found.costs.lengths)
    alpha, context, fixed = costs.alpha_ms[lengths], costs.context_ms[lengths], costs.base_ms[lengths]

    def statistic(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            means = sums[:, :-1] / sums[:, -1:]
        return np.asarray(fixed + alpha * means[:, :-1] + context * means[:, -1:])

    table = np.column_stack([found.unique_sums, found.context_sums, found.tokens])
    totals = _values(table, found.cluster, statistic)
    means = table.sum(axis=0)[:-1] / found.tokens.sum()
    return [
        RoundTerms(
            draft_length=k,
            mean_unique=float(means[i]),
            terms_ms=(
                float(costs.verify_ms[k]),
                float(alpha[i] * means[i]),
                float(context[i] * means[-1]),
                float(costs.draft_ms[k]),
                float(costs.reject_ms[k]),
            ),
            total=totals[i],
        )
        for i, k in enumerate(lengths)
    ]


@dataclass(frozen=True)
class ChosenShare:
    """How often the oracle chooses a length: decisions, and shares of positions and of its rounds."""

    draft_length: int
    decisions: int
    positions: Value
    rounds: Value


def shares(found: ByLength) -> list[ChosenShare]:
    """Shares of decisions by k*, with clustered intervals."""
    n = len(found.costs.lengths)

    def statistic(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        each, visited = sums[:, :n], sums[:, n:]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.concatenate(
                [each / each.sum(axis=1, keepdims=True), visited / visited.sum(axis=1, keepdims=True)], axis=1
            )

    table = found.chosen.reshape(len(found.tokens), -1)
    values = _values(table, found.cluster, statistic)
    counts = table.sum(axis=0)
    return [
        ChosenShare(k, round(float(counts[i])), values[i], values[n + i]) for i, k in enumerate(found.costs.lengths)
    ]


def _values(
    table: NDArray[np.float64],
    cluster: Sequence[str],
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> list[Value]:
    """Statistics of the whole, each with its clustered bootstrap interval."""
    per_cluster, _ = cluster_sums(table, cluster)
    point = statistic(per_cluster.sum(axis=0)[None])[0]
    return [Value(float(x), y) for x, y in zip(point, bootstrap(per_cluster, statistic), strict=True)]
