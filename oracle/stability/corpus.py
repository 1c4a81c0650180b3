"""Headline numbers over all traces: how far they move with the coefficients, with the traces, and with both.

The cost of a fixed policy is linear in the coefficients, so its rounds by draft length, counted once, price it under
every draw. Three intervals: *coefficients* (draws on all traces as they are, nothing of trace sampling), *traces*
(clusters resampled under the fitted coefficients) and *both* (each resample of clusters under another draw; the two are
taken as independent).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.costs import LengthCosts
from oracle.intervals import LEVEL, Interval, interval_ends
from oracle.problem import Problem
from oracle.resampling import cluster_sums, resamples
from oracle.solver import Solution, rounds_of
from oracle.stability.decisions import DecisionDraws

SOURCES = ("coefficients", "traces", "both")
QUANTITIES = (
    "oracle_ms_per_token",
    "speedup_over_off",
    "speedup_over_best_static",
    "best_static_minus_off_ms_per_token",
    "unknown_coefficients_ms_per_token",
)
_PRICED = 3  # rounds, unique experts, context: what a round's coefficients multiply


@dataclass(frozen=True)
class CorpusTally:
    """What prices policies and the optimum under every draw, by generation of a batch, or by unit of resampling.

    Attributes
    ----------
    cluster
        Name of each row's cluster or unit of resampling (see `UnitSums`), U.
    tokens : (U,) float64
    rounds : (U, 2, K + 1, 3) float64
        Rounds, unique experts and context summed over rounds, by draft length: of the oracle under the fitted
        coefficients; of each static length (its own).
    optimum_ms : (U, 1 + W) float64, milliseconds
        V(0) under the fitted coefficients, then under each draw.
    """

    cluster: tuple[str, ...]
    tokens: NDArray[np.float64]
    rounds: NDArray[np.float64]
    optimum_ms: NDArray[np.float64]


def corpus_tally(
    problem: Problem, costs: LengthCosts, oracle: Solution, found: DecisionDraws, cluster: tuple[str, ...]
) -> tuple[CorpusTally, NDArray[np.float64]]:
    """Count the rounds of the oracle and of every static length; also the oracle's visit probabilities, (N,)."""
    k = np.array(costs.lengths, dtype=np.int16)
    policies = np.column_stack([oracle.draft_length, np.broadcast_to(k, (problem.positions, len(k)))])
    visit, sums = rounds_of(problem, policies)
    rounds = np.zeros((problem.generations, 2, problem.k_max + 1, _PRICED))
    rounds[:, 0] = sums[:, 0, :, :_PRICED]
    rounds[:, 1, k] = sums[:, 1 + np.arange(len(k)), k, :_PRICED]
    values = np.column_stack([oracle.value_ms(problem.offsets), found.value_ms])
    tokens = np.diff(problem.offsets).astype(np.float64)
    return CorpusTally(cluster, tokens, rounds, values), visit[:, 0]


@dataclass(frozen=True)
class Quantity:
    """A headline number with the three intervals; None where there is none.

    Attributes
    ----------
    name
        One of `QUANTITIES`.
    value
        On all traces, under the fitted coefficients; of `unknown_coefficients_ms_per_token` (0 there, since it compares
        with the drawn ones) the mean over the draws.
    coefficients, traces, both
        95 % intervals: percentiles of the draws, expanded where clusters are resampled (`interval_ends`).
    """

    name: str
    value: float
    coefficients: Interval | None
    traces: Interval | None
    both: Interval | None


@dataclass(frozen=True)
class StaticChance:
    """How often a static length is the best static one.

    Attributes
    ----------
    draft_length
        K.
    ms_per_token
        Under the fitted coefficients, milliseconds a token.
    coefficients, traces, both
        Share of the draws, of the resamples, and of both together; None where there are no resamples, or undefined
        ones.
    """

    draft_length: int
    ms_per_token: float
    coefficients: float
    traces: float | None
    both: float | None


def corpus(
    found: CorpusTally, costs: LengthCosts, drawn: Sequence[LengthCosts]
) -> tuple[list[Quantity], list[StaticChance]]:
    """Work out the headline numbers with their intervals; nothing if no token was emitted."""
    if not found.tokens.sum():
        return [], []
    columns = [found.tokens[:, None], found.optimum_ms, found.rounds.reshape(len(found.tokens), -1)]
    per_cluster, _ = cluster_sums(np.concatenate(columns, axis=1), found.cluster)
    prices = np.stack([_price(each) for each in (costs, *drawn)])
    whole, W = per_cluster.sum(axis=0, keepdims=True), len(drawn)
    every = np.arange(1, W + 1)
    point = _numbers(whole, prices, np.zeros(1, dtype=np.int64), costs)
    spread = {"coefficients": _numbers(np.repeat(whole, W, axis=0), prices, every, costs)}
    if len(per_cluster) > 1:
        sums = np.concatenate(list(resamples(per_cluster)))
        spread["traces"] = _numbers(sums, prices, np.zeros(len(sums), dtype=np.int64), costs)
        spread["both"] = _numbers(sums, prices, every[np.arange(len(sums)) % W], costs)
    quantities = []
    for i, name in enumerate(QUANTITIES):
        ends = {source: _interval(source, numbers[0][:, i], len(per_cluster)) for source, numbers in spread.items()}
        value = point[0][0, i]
        if name == "unknown_coefficients_ms_per_token":
            value, ends["traces"] = spread["coefficients"][0][:, i].mean(), None
        if np.isfinite(value):
            quantities.append(Quantity(name, float(value), *(ends.get(source) for source in SOURCES)))
    best = {source: static.argmin(axis=1) for source, (_, static) in spread.items() if np.isfinite(static).all()}
    chances = []
    for i, k in enumerate(costs.lengths):
        of = [float((best[source] == i).mean()) if source in best else None for source in SOURCES]
        chances.append(StaticChance(k, float(point[1][0, i]), of[0] or 0.0, of[1], of[2]))
    return quantities, chances


def _price(costs: LengthCosts) -> NDArray[np.float64]:
    """What a round, a unique expert and a token in context cost at each length, (K + 1, 3)."""
    base = np.where(costs.allowed, costs.base_ms, 0.0)
    return np.stack([base, costs.alpha_ms, costs.context_ms], axis=1)


def _numbers(
    sums: NDArray[np.float64], prices: NDArray[np.float64], draw: NDArray[np.int64], costs: LengthCosts
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`QUANTITIES` (R, 5), and ms a token of the allowed static lengths (R, lengths), for totals under a draw each."""
    lengths, R = list(costs.lengths), np.arange(len(sums))
    tokens, optimum = sums[:, 0], sums[R, 1 + draw]
    rounds = sums[:, 1 + len(prices) :].reshape(len(sums), 2, costs.k_max + 1, _PRICED)
    spent = (rounds * prices[draw][:, None]).sum(axis=3)
    static = spent[:, 1, lengths]
    none = np.full(len(sums), np.nan)
    off = static[:, 0] if lengths[0] == 0 else none
    drafting = static[:, 1:].min(axis=1) if lengths[0] == 0 and len(lengths) > 1 else none
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample may hold empty generations only
        numbers = (
            optimum / tokens,
            off / optimum,
            static.min(axis=1) / optimum,
            (drafting - off) / tokens,
            np.maximum(spent[:, 0].sum(axis=1) - optimum, 0.0) / tokens,  # below 0 by rounding only
        )
        return np.stack(numbers, axis=1), static / tokens[:, None]


def _interval(source: str, values: NDArray[np.float64], clusters: int) -> Interval | None:
    if not np.isfinite(values).all():
        return None
    if source == "coefficients":  # no cluster is resampled
        tail = 100 * (1 - LEVEL) / 2
        return Interval(*np.percentile(values, [tail, 100 - tail]).tolist())
    return Interval(*interval_ends(values, clusters).tolist())
