"""The necessary condition of longer drafts: an extension pays only if it costs little for each token it promises.

Drafting on from k to the next length k' that may be chosen costs and promises

    dC = C(t, k') - C(t, k),     dE[A] = Σ_{j=k+1..k'} S_j(t)     (S_{k+1}(t) where k' = k + 1).

The source asks whether one slope, dC <= λ · dE[A], separates the extensions that an optimal policy makes (k < k*) from
the one it refuses (k = k*). The exact condition for one step has a price of its own at every position,

    dC < S_{k+1}(t) · d(t + k + 1),

with d the marginal value, what having to emit that token costs; so a single slope separates as well as d is narrow.
The exact one is a local condition too: an oracle may go through an extension that does not pay for one that does.

Extensions are counted in bins of fixed logarithmic width, each position as 1 and weighted by the probability that a
round of the oracle starts there; counts of batches add up, and memory does not grow with positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.costs import LengthCosts
from oracle.problem import Problem
from oracle.resampling import cluster_sums
from oracle.solver import Solution
from oracle.unit_sums import unit_beyond

PER_DECADE = 200  # a bin is 1.2 % wide
EDGES = 10.0 ** (np.arange(-4 * PER_DECADE, 4 * PER_DECADE + 1) / PER_DECADE)  # 1e-4 … 1e4 ms a token
BINS = len(EDGES) + 1  # the first holds what is lower (what costs nothing more), the last what promises next to nothing
COST_EDGES = 10.0 ** (np.arange(-3 * 250, 4 * 250 + 1) / 250)  # ms, of the picture's dC
PROMISE_EDGES = np.linspace(0.0, 1.0, 51)  # tokens, of the picture's dE[A]; beyond 1 in the last
MOST_UNITS = 500  # clusters kept apart; beyond, they are put into this many groups
REFUSED, ACCEPTED = 0, 1
POSITIONS, VISITS = 0, 1


@dataclass(frozen=True)
class Extensions:
    """The extensions of a batch that the oracle makes or refuses, E of them.

    Attributes
    ----------
    position : (E,) int64
        t.
    accepted : (E,) bool
        k < k*; else k = k*.
    cost_ms : (E,) float64, milliseconds
        dC.
    promise : (E,) float64, tokens
        dE[A].
    ratio_ms : (E,) float64, milliseconds a token
        dC / dE[A]; where nothing is promised, -inf if dC <= 0, else inf. The slope λ makes the extension if
        ratio <= λ.
    credit_ms : (E,) float64, milliseconds
        Σ S_j(t) · d(t + j) over the tokens promised: what they are worth.
    price_ms : (E,) float64, milliseconds a token
        credit / dE[A], d(t + k + 1) for one step; NaN where nothing is promised.
    """

    position: NDArray[np.int64]
    accepted: NDArray[np.bool_]
    cost_ms: NDArray[np.float64]
    promise: NDArray[np.float64]
    ratio_ms: NDArray[np.float64]
    credit_ms: NDArray[np.float64]
    price_ms: NDArray[np.float64]


def steps(problem: Problem, costs: LengthCosts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """DC and dE[A] of every extension from one allowed length to the next, (N, lengths - 1) each."""
    k = np.array(costs.lengths)
    cost = (costs.base_ms[k] + costs.alpha_ms[k] * problem.unique_experts[:, k]).astype(np.float64)
    cost += costs.context_ms[k] * problem.context_len[:, None]
    promised = np.zeros((problem.positions, problem.k_max + 1))
    np.cumsum(problem.survival, axis=1, out=promised[:, 1:])
    if (np.diff(k) == 1).all():  # the survival itself, not a difference of sums
        return np.diff(cost, axis=1), problem.survival[:, k[0] : k[-1]]
    return np.diff(cost, axis=1), np.diff(promised[:, k], axis=1)


def worths(problem: Problem, costs: LengthCosts, oracle: Solution) -> NDArray[np.float64]:
    """What the tokens promised by every extension are worth, Σ S_j(t) · d(t + j); (N, lengths - 1), milliseconds."""
    from kernels.decisions import continuation_credit  # noqa: PLC0415  # numba is slow to import

    credit = np.empty((problem.positions, problem.k_max + 1))
    continuation_credit(problem.survival, oracle.padded_marginal_ms, credit)
    return np.diff(credit[:, costs.lengths], axis=1)


def extensions(problem: Problem, costs: LengthCosts, oracle: Solution) -> Extensions:
    """Extensions that the oracle makes, and the first that it refuses, at every decision."""
    k = np.array(costs.lengths)
    worth = worths(problem, costs, oracle)
    cost, promise = steps(problem, costs)
    chosen = np.searchsorted(k, oracle.draft_length)[:, None]
    t, i = np.nonzero(np.arange(len(k) - 1) <= chosen)
    dC, dE, dW = cost[t, i], promise[t, i], worth[t, i]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(dE > 0, dC / dE, np.where(dC <= 0, -np.inf, np.inf))
        price = np.where(dE > 0, dW / dE, np.nan)
    return Extensions(t, i < chosen[t, 0], dC, dE, ratio, dW, price)


def slope_lengths(problem: Problem, costs: LengthCosts, slopes: Sequence[float]) -> NDArray[np.int16]:
    """Draft lengths of the informed slope policies: draft on while dC <= λ · dE[A], true U and survival; (N, P)."""
    cost, promise = steps(problem, costs)
    return _while_it_pays(costs, [cost <= slope * promise for slope in slopes])


def priced_lengths(problem: Problem, costs: LengthCosts, oracle: Solution) -> NDArray[np.int16]:
    """Draft lengths if a step is made while it pays by itself at the exact price, dC < S · d; (N, 1)."""
    cost, _ = steps(problem, costs)
    return _while_it_pays(costs, [cost < worths(problem, costs, oracle)])


def _while_it_pays(costs: LengthCosts, pays: Sequence[NDArray[np.bool_]]) -> NDArray[np.int16]:
    made = [np.logical_and.accumulate(each, axis=1).sum(axis=1) for each in pays]
    return frozen(np.array(costs.lengths)[np.column_stack(made)].astype(np.int16))


@dataclass(frozen=True)
class ConditionTally:
    """Extensions counted, by unit of resampling.

    Attributes
    ----------
    units
        Clusters, or groups of clusters where there were more than `MOST_UNITS`.
    folded
        Whether they are groups.
    counts : (C, 2, 2, BINS) float64
        By unit, weight (positions, visits), refused or accepted, and bin of dC / dE[A].
    prices : (2, 2, BINS) float64
        By weight, refused or accepted, and bin of the price d; extensions that promise nothing are left out.
    picture : (2, 2, len(COST_EDGES) + 1, len(PROMISE_EDGES) - 1) float64
        By weight, refused or accepted, bin of dC and bin of dE[A].
    decisions : (2, 2) float64
        By weight: decisions; those whose k* lies behind an extension that does not pay by itself (dC >= credit).
    through : (2,) float64
        By weight: accepted extensions that do not pay by themselves.
    """

    units: tuple[str, ...]
    folded: bool
    counts: NDArray[np.float64]
    prices: NDArray[np.float64]
    picture: NDArray[np.float64]
    decisions: NDArray[np.float64]
    through: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Solved:
    """A batch and its optimum, as tallies take it.

    Attributes
    ----------
    problem, costs, oracle
        The problem and its solution.
    visit_prob : (N,) float64
        Visits of the oracle's policy.
    cluster
        Name of each generation's cluster, G.
    """

    problem: Problem
    costs: LengthCosts
    oracle: Solution
    visit_prob: NDArray[np.float64]
    cluster: tuple[str, ...]


def condition_tally(batch: Solved) -> ConditionTally:
    """Count the extensions of one batch."""
    problem, cluster, visit_prob = batch.problem, batch.cluster, batch.visit_prob
    found = extensions(problem, batch.costs, batch.oracle)
    fold = len(set(cluster)) > MOST_UNITS
    names = _folded(cluster) if fold else cluster
    units = tuple(dict.fromkeys(names))
    number = {name: i for i, name in enumerate(units)}
    of_generation = np.array([number[name] for name in names], np.int64)
    unit = np.repeat(of_generation, np.diff(problem.offsets))[found.position]
    accepted = found.accepted.astype(np.int64)
    weights = (np.ones(len(unit)), visit_prob[found.position])
    at = (unit * 2 + accepted) * BINS + np.searchsorted(EDGES, found.ratio_ms)
    counts = [np.bincount(at, w, minlength=len(units) * 2 * BINS).reshape(len(units), 2, BINS) for w in weights]
    priced = found.promise > 0
    at = accepted * BINS + np.searchsorted(EDGES, found.price_ms)
    prices = [np.bincount(at[priced], w[priced], minlength=2 * BINS).reshape(2, BINS) for w in weights]
    shape = (2, len(COST_EDGES) + 1, len(PROMISE_EDGES) - 1)
    promise = np.searchsorted(PROMISE_EDGES, found.promise, side="right") - 1
    at = (accepted * shape[1] + np.searchsorted(COST_EDGES, found.cost_ms)) * shape[2]
    at += np.minimum(promise, shape[2] - 1)
    picture = [np.bincount(at, w, minlength=int(np.prod(shape))).reshape(shape) for w in weights]
    losing = found.accepted & (found.cost_ms >= found.credit_ms)
    behind = np.column_stack([np.ones(problem.positions), np.zeros(problem.positions)])
    behind[found.position[losing], 1] = 1.0
    return ConditionTally(
        units,
        fold,
        np.stack(counts, axis=1),
        np.stack(prices),
        np.stack(picture),
        np.stack([behind.sum(axis=0), visit_prob @ behind]),
        np.array([w[losing].sum() for w in weights]),
    )


def join(parts: Sequence[ConditionTally]) -> ConditionTally:
    """Add up batches; more than `MOST_UNITS` clusters are put into groups by a hash of their names.

    Join as you go: two tallies become one no larger.
    """
    names = {name for part in parts for name in part.units}
    fold = any(part.folded for part in parts) or len(names) > MOST_UNITS
    units = [name for part in parts for name in _units(part, fold)]
    counts, together = cluster_sums(np.concatenate([part.counts for part in parts]), units)
    return ConditionTally(
        together,
        fold,
        counts,
        np.stack([part.prices for part in parts]).sum(axis=0),
        np.stack([part.picture for part in parts]).sum(axis=0),
        np.stack([part.decisions for part in parts]).sum(axis=0),
        np.stack([part.through for part in parts]).sum(axis=0),
    )


def _units(part: ConditionTally, fold: bool) -> Sequence[str]:
    return _folded(part.units) if fold and not part.folded else part.units


def _folded(names: Sequence[str]) -> list[str]:
    return [unit_beyond(name, MOST_UNITS) for name in names]
