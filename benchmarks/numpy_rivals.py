"""The remaining kernels in vectorised NumPy; generations are equally long and lie one after the other.

What depends on later or earlier positions goes position by position, all generations side by side.
"""

import numpy as np
from numpy.typing import NDArray

from oracle.costs import LengthCosts
from oracle.problem import Problem

Floats = NDArray[np.float64]
Lengths = NDArray[np.int16]


def survival_by_depth(match_probs: NDArray[np.float32], generations: int) -> Floats:
    """S_1 … S_K (N, K) from a match probability for each depth."""
    n, K = match_probs.shape
    survival = np.cumprod(match_probs, axis=1, dtype=np.float64)
    to_go = n // generations - np.arange(n) % (n // generations)
    survival[np.arange(1, K + 1) >= to_go[:, None]] = 0.0
    return np.asarray(survival)


def unique_experts(new: NDArray[np.uint16], generations: int, layers: int) -> Floats:
    """U(t, 0) … U(t, K) (N, K + 1) from the counts of new experts; generations are longer than K."""
    counts = new.reshape(generations, -1, new.shape[1])
    length = counts.shape[1]
    total = np.zeros((generations, length), dtype=np.int64)
    unique = np.empty(counts.shape)
    for k in range(counts.shape[2]):
        total[:, : length - k] += counts[:, k:, k]
        unique[:, :, k] = total
    return unique.reshape(new.shape) / layers


def policy_marginal(problem: Problem, costs: LengthCosts, lengths: Lengths) -> Floats:
    """e(t) of each policy (N, P)."""
    G, T = problem.generations, problem.positions // problem.generations
    K, P = problem.k_max, lengths.shape[1]
    survival = problem.survival.reshape(G, T, K)
    chosen = lengths.reshape(G, T, P)
    unique = np.take_along_axis(problem.unique_experts.reshape(G, T, K + 1), chosen, axis=2)
    price = costs.base_ms[chosen] + costs.alpha_ms[chosen] * unique
    price += costs.context_ms[chosen] * problem.context_len.reshape(G, T, 1)
    marginal = np.zeros((G, T + K, P))
    drafted = np.arange(K)[:, None]
    for t in range(T - 1, -1, -1):
        kept = np.where(drafted < chosen[:, t, None, :], survival[:, t, :, None], 0.0)
        marginal[:, t] = price[:, t] - (kept * marginal[:, t + 1 : t + 1 + K]).sum(axis=1)
    return marginal[:, :T].reshape(-1, P)


def visits(problem: Problem, lengths: Lengths) -> Floats:
    """Visit probabilities of each policy (N, P)."""
    G, T = problem.generations, problem.positions // problem.generations
    K, P = problem.k_max, lengths.shape[1]
    survival = problem.survival.reshape(G, T, K)
    chosen = lengths.reshape(G, T, P)
    visit = np.ones((G, T + K, P))
    drafted = np.arange(K)[:, None]
    for t in range(T):
        here = np.maximum(visit[:, t], 0.0)
        visit[:, t] = here
        kept = np.where(drafted < chosen[:, t, None, :], survival[:, t, :, None], 0.0)
        visit[:, t + 1 : t + 1 + K] -= here[:, None] * kept
    return visit[:, :T].reshape(-1, P)


def expected_rounds(problem: Problem, lengths: Lengths) -> Floats:
    """Sums of visit, visit · U and visit · L by generation, policy and draft length (G, P, K + 1, 3)."""
    P, K = lengths.shape[1], problem.k_max
    visit = visits(problem, lengths)
    unique = np.take_along_axis(problem.unique_experts, lengths.astype(np.intp), axis=1)
    owner = np.repeat(np.arange(problem.generations), np.diff(problem.offsets))
    cell = (owner[:, None] * P + np.arange(P)) * (K + 1) + lengths
    each = (visit, visit * unique, visit * problem.context_len[:, None])
    size = problem.generations * P * (K + 1)
    sums = [np.bincount(cell.reshape(-1), weight.reshape(-1), size) for weight in each]
    return np.asarray(np.stack(sums, axis=-1).reshape(problem.generations, P, K + 1, 3), dtype=np.float64)


def continuation_credit(survival: Floats, marginal: Floats) -> Floats:
    """Σ_{j=1..k} S_j · d(t + j) for k = 0 … K, (N, K + 1)."""
    n, K = survival.shape
    ahead = np.lib.stride_tricks.sliding_window_view(marginal[1:], K)[:n]
    credit = np.zeros((n, K + 1))
    np.cumsum(survival * ahead, axis=1, out=credit[:, 1:])
    return credit


def summarise(
    problem: Problem, costs: LengthCosts, chosen: Lengths, marginal: Floats
) -> tuple[Lengths, Floats, Floats]:
    """Modal advance, expected advance and gap of one policy, (N,) each."""
    n, K = problem.survival.shape
    price = costs.base_ms + costs.alpha_ms * problem.unique_experts + costs.context_ms * problem.context_len[:, None]
    price -= continuation_credit(problem.survival, marginal)
    at = chosen.astype(np.intp)[:, None]
    own = np.take_along_axis(price, at, axis=1)[:, 0]
    np.put_along_axis(price, at, np.inf, axis=1)
    reach = np.concatenate([np.ones((n, 1)), problem.survival], axis=1)
    drafted = np.arange(K + 1)
    stops = reach.copy()
    stops[:, :-1] -= np.where(drafted[:-1] < at, reach[:, 1:], 0.0)
    inside = drafted <= at
    modal = np.where(inside, stops, -1.0).argmax(axis=1) + 1
    expected = np.where(inside, reach, 0.0).sum(axis=1)
    return modal.astype(np.int16), expected, np.maximum(price.min(axis=1) - own, 0.0)


def add_up_discarded(
    visit: Floats, verified: Lengths, drafted: Lengths, first: NDArray[np.int64], step_ms: Floats
) -> tuple[Floats, Floats]:
    """Draft tokens left out and what their steps took, (G, P) each; `first`: where generations begin."""
    tokens = visit * (drafted - verified)
    ms = visit * np.maximum(step_ms[drafted] - step_ms[verified], 0.0)
    return np.add.reduceat(tokens, first, axis=0), np.add.reduceat(ms, first, axis=0)


def stop(cost: Floats, gain: Floats, price: Floats) -> Lengths:
    """Steps that each rule takes before it stops (N, P)."""
    S, n = cost.shape
    steps = np.empty((n, len(price)), dtype=np.int16)
    for p, each in enumerate(price):
        stops = ~(cost <= each * gain)
        steps[:, p] = np.where(stops.any(axis=0), stops.argmax(axis=0), S)
    return steps
