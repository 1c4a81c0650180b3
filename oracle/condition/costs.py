"""What following one slope costs, and the necessary condition examined on a whole set of traces."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.condition.extensions import (
    POSITIONS,
    VISITS,
    ConditionTally,
    Solved,
    condition_tally,
    join,
    priced_lengths,
    slope_lengths,
)
from oracle.condition.separation import Separation, separate
from oracle.costs import LengthCosts
from oracle.errors import InputError
from oracle.intervals import Interval
from oracle.prices import priced_problem
from oracle.resampling import bootstrap, cluster_sums
from oracle.scores import LEAST_GAIN
from oracle.solver import evaluate, segment_sums, solve, visits
from oracle.traces import Traces
from oracle.unit_sums import ArraySums

TRIED = tuple(2.0 ** (i / 8) for i in range(-6, 7))  # slopes scored, as multiples of the best separating one


@dataclass(frozen=True)
class SlopeTally:
    """What following slopes costs, by generation or unit of resampling.

    Attributes
    ----------
    slopes
        λ of each policy, milliseconds a token; None for the last, which takes each position's own exact price. P.
    cluster
        Name of each row's cluster, G.
    tokens, oracle_ms : (G,) float64
        Tokens emitted; expected cost of the oracle.
    undrafted_ms : (G,) float64, or None
        Expected cost of k = 0; None if it may not be chosen.
    slope_ms : (G, P) float64
        Expected cost of drafting on while dC <= λ · dE[A].
    decisions : (2,) float64
        Decisions, by weight.
    longer, shorter : (2, P) float64
        Decisions in which the slope drafts longer, or shorter, than the oracle, by weight.
    """

    slopes: tuple[float | None, ...]
    cluster: tuple[str, ...]
    tokens: NDArray[np.float64]
    oracle_ms: NDArray[np.float64]
    undrafted_ms: NDArray[np.float64] | None
    slope_ms: NDArray[np.float64]
    decisions: NDArray[np.float64]
    longer: NDArray[np.float64]
    shorter: NDArray[np.float64]


def slope_tally(batch: Solved, slopes: Sequence[float]) -> SlopeTally:
    """Follow each slope, and the exact price of one step, through one batch, side by side."""
    problem, costs, oracle = batch.problem, batch.costs, batch.oracle
    lengths = np.hstack([slope_lengths(problem, costs, slopes), priced_lengths(problem, costs, oracle)])
    longer = lengths > oracle.draft_length[:, None]
    shorter = lengths < oracle.draft_length[:, None]
    undrafted = None
    if 0 in costs.lengths:
        none = np.zeros((problem.positions, 1), np.int16)
        undrafted = segment_sums(evaluate(problem, costs, none)[:, 0], problem.offsets)
    weights = np.stack([np.ones(problem.positions), batch.visit_prob])
    return SlopeTally(
        (*slopes, None),
        batch.cluster,
        np.diff(problem.offsets).astype(np.float64),
        oracle.value_ms(problem.offsets),
        undrafted,
        segment_sums(evaluate(problem, costs, lengths), problem.offsets),
        weights.sum(axis=1),
        weights @ longer,
        weights @ shorter,
    )


class SlopeSums:
    """Adds up the tallies of batches, in order and in bounded memory: one row a unit of resampling."""

    def __init__(self) -> None:
        self._first: SlopeTally | None = None
        self._sums = ArraySums()
        self._decisions: dict[str, NDArray[np.float64]] = {}

    def add(self, part: SlopeTally) -> None:
        """Take in a batch."""
        arrays = {"tokens": part.tokens, "oracle_ms": part.oracle_ms, "slope_ms": part.slope_ms}
        if part.undrafted_ms is not None:
            arrays["undrafted_ms"] = part.undrafted_ms
        self._sums.add(arrays, part.cluster)
        if self._first is None:
            self._first = part
            self._decisions = {name: np.zeros_like(getattr(part, name)) for name in ("decisions", "longer", "shorter")}
        for name in self._decisions:
            self._decisions[name] += getattr(part, name)

    def tally(self) -> SlopeTally | None:
        """Everything taken in so far, a unit in the place of a generation; None if nothing was."""
        if self._first is None:
            return None
        rows = self._sums.sums
        return SlopeTally(
            self._first.slopes,
            self._sums.units,
            rows["tokens"],
            rows["oracle_ms"],
            rows.get("undrafted_ms"),
            rows["slope_ms"],
            **self._decisions,
        )


@dataclass(frozen=True)
class SlopeCost:
    """What following one slope costs, with true U and match probabilities: a bound on the idea.

    Attributes
    ----------
    slope_ms
        λ, milliseconds an expected token; None: each position's own exact price.
    ms_per_token, regret_ms_per_token, regret_interval
        Expected; regret against the oracle, paired by cluster.
    gain_captured
        Share of the oracle's gain over k = 0; None without k = 0 or a gain.
    missed, longer, shorter
        Shares of decisions other than the oracle's, weighted by its visits.
    missed_positions
        The same with each position counted once.
    """

    slope_ms: float | None
    ms_per_token: float
    regret_ms_per_token: float
    regret_interval: Interval | None
    gain_captured: float | None
    missed: float
    longer: float
    shorter: float
    missed_positions: float


def slope_costs(tally: SlopeTally) -> list[SlopeCost]:
    """Score each slope; empty if no token was emitted."""
    tokens, oracle_ms = tally.tokens.sum(), tally.oracle_ms.sum()
    if tokens == 0:
        return []
    regret = tally.slope_ms - tally.oracle_ms[:, None]
    per_cluster, _ = cluster_sums(np.column_stack([regret, tally.tokens]), tally.cluster)

    def a_token(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(sums[:, :-1] / sums[:, -1:])

    point, intervals = a_token(per_cluster.sum(axis=0)[None])[0], bootstrap(per_cluster, a_token)
    gain = None if tally.undrafted_ms is None else float(tally.undrafted_ms.sum() - oracle_ms)
    longer, shorter = tally.longer / tally.decisions[:, None], tally.shorter / tally.decisions[:, None]
    return [
        SlopeCost(
            slope_ms=slope,
            ms_per_token=float(tally.slope_ms[:, p].sum() / tokens),
            regret_ms_per_token=float(point[p]),
            regret_interval=intervals[p],
            gain_captured=None
            if tally.undrafted_ms is None or gain is None or gain <= LEAST_GAIN * oracle_ms
            else float((tally.undrafted_ms.sum() - tally.slope_ms[:, p].sum()) / gain),
            missed=float(longer[VISITS, p] + shorter[VISITS, p]),
            longer=float(longer[VISITS, p]),
            shorter=float(shorter[VISITS, p]),
            missed_positions=float(longer[POSITIONS, p] + shorter[POSITIONS, p]),
        )
        for p, slope in enumerate(tally.slopes)
    ]


@dataclass(frozen=True)
class Condition:
    """The necessary condition examined on a set of traces.

    Attributes
    ----------
    tally
        Extensions counted.
    by_rounds, by_positions
        The best slope with extensions weighted by the oracle's visits, and each position as 1; None if the oracle
        makes every extension, or none.
    slopes
        What following slopes around the best one costs; None without a best one.
    oracle_ms_per_token
        Mean of d; NaN if no token was emitted.
    """

    tally: ConditionTally
    by_rounds: Separation | None
    by_positions: Separation | None
    slopes: SlopeTally | None
    oracle_ms_per_token: float


def examine(batches: Iterable[Traces], costs: LengthCosts, unique_experts: str | None = None) -> Condition:
    """Walk over the traces twice: for the best slope, and for what following it costs.

    Parameters
    ----------
    batches
        Walked over anew each time, such as `TraceFiles`.
    costs
        Cost coefficients; fix the range of draft lengths.
    unique_experts
        `recorded`, `routing`, or None for what the traces hold.
    """
    tally, spent, tokens = None, 0.0, 0
    for traces in batches:
        batch = solved(traces, costs, unique_experts)
        part = condition_tally(batch)
        tally = part if tally is None else join([tally, part])
        spent, tokens = spent + float(batch.oracle.marginal_ms.sum()), tokens + batch.problem.positions
    if tally is None:
        raise InputError("the traces hold no generations")
    best = separate(tally)
    slopes = None
    if best is not None:
        tried, sums = [best.slope_ms * factor for factor in TRIED], SlopeSums()
        for traces in batches:
            sums.add(slope_tally(solved(traces, costs, unique_experts), tried))
        slopes = sums.tally()
    mean = spent / tokens if tokens else float("nan")
    return Condition(tally, best, separate(tally, POSITIONS), slopes, mean)


def solved(traces: Traces, costs: LengthCosts, unique_experts: str | None) -> Solved:
    """Solve a batch and follow its optimum."""
    problem = priced_problem(traces, costs, unique_experts)
    oracle = solve(problem, costs)
    return Solved(problem, costs, oracle, visits(problem, oracle.draft_length), traces.cluster_of)
