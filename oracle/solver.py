"""Optimal draft lengths: the Bellman equation solved for one cost model or for many at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.costs import LengthCosts
from oracle.problem import Problem, aligned

LANES = 32  # cost models a vectorised solve takes at once; one width, so that one kernel is compiled
_PIECE = 1024  # positions solved side by side and transposed at a time, but for generations that are longer
FEW = 8  # below this many models, one after the other is faster than side by side
WIDE = 16  # policies whose rounds are worked out at once
VECTOR = 8  # float64 cells of the widest vector there is
UNROLLED = 14  # up to this K the kernel of many models vectorises; beyond, one after the other is faster


@dataclass(frozen=True)
class Solution:
    """Optimal draft lengths of a batch under one cost model.

    Attributes
    ----------
    draft_length : (N,) int16
        k*(t).
    padded_marginal_ms : (N + K,) float64, milliseconds
        d(t) = V(t) - V(t + 1), followed by K zeros so that a kernel may look past the end.
    """

    draft_length: NDArray[np.int16]
    padded_marginal_ms: NDArray[np.float64]

    @property
    def marginal_ms(self) -> NDArray[np.float64]:
        """d(t) = V(t) - V(t + 1): what having to emit token t costs; (N,), milliseconds."""
        return self.padded_marginal_ms[: len(self.draft_length)]

    def value_ms(self, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """V(0) of every generation, shape (G,), milliseconds: the sum of its d."""
        return segment_sums(self.marginal_ms, offsets)


def segment_sums(values: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums of consecutive segments along the first axis; an empty segment sums to 0."""
    sums = np.zeros((len(offsets) - 1, *values.shape[1:]))
    filled = np.diff(offsets) > 0
    if filled.any():
        sums[filled] = np.add.reduceat(values, offsets[:-1][filled], axis=0)
    return sums


def solve(problem: Problem, costs: LengthCosts) -> Solution:
    """Solve V(t) = min over k of C(t, k) + E[V(min(t + A, N))] for every position.

    Parameters
    ----------
    problem
        A batch of generations.
    costs
        Cost coefficients by draft length, for the same K.

    Returns
    -------
    Solution
        k* and d = V(t) - V(t + 1) in milliseconds. Ties go to the shortest draft.
    """
    from kernels.bellman import solve_one  # noqa: PLC0415  # numba is slow to import

    _same_k(problem, costs)
    marginal = np.zeros(problem.positions + problem.k_max)
    draft_length = np.empty(problem.positions, dtype=np.int16)
    solve_one(
        problem.survival.reshape(-1),
        problem.unique_experts.reshape(-1),
        problem.context_len,
        frozen(costs.base_ms),
        frozen(costs.alpha_ms),
        frozen(costs.context_ms),
        (0,) * (problem.k_max + 1),
        marginal,
        draft_length,
    )
    return Solution(frozen(draft_length), frozen(marginal))


def solve_many(problem: Problem, models: Sequence[LengthCosts]) -> list[Solution]:
    """Solve under many cost models; each solution equals that of `solve` bit for bit.

    U and S are read once for up to `LANES` models, which makes the kernel's share of a sweep of 32 models cost
    about as much as seven single solves.
    """
    solutions: list[Solution] = []
    for start in range(0, len(models), LANES):
        block = models[start : start + LANES]
        if len(block) < FEW or problem.k_max > UNROLLED:
            solutions.extend(solve(problem, costs) for costs in block)
        else:
            solutions.extend(_side_by_side(problem, block))
    return solutions


def _side_by_side(problem: Problem, models: Sequence[LengthCosts]) -> list[Solution]:
    """Solve under up to `LANES` models, a few generations at a time: lanes that stay in the cache are turned there."""
    from kernels.bellman import solve_lanes  # noqa: PLC0415

    K, count = problem.k_max, len(models)
    cost = aligned((K + 1, 3 * LANES))
    for lane, costs in enumerate(models):
        _same_k(problem, costs)
        cost[:, lane] = costs.base_ms
        cost[:, LANES + lane] = costs.alpha_ms
        cost[:, 2 * LANES + lane] = costs.context_ms
    laid_out = frozen(cost.reshape(-1))
    bounds = _whole_generations(problem.offsets)
    most = int(np.diff(bounds).max(initial=0))
    lanes, shortest = aligned((most + K, LANES)), np.empty((most, count), np.int16)
    marginal, draft_length = np.zeros((count, problem.positions + K)), np.empty((count, problem.positions), np.int16)
    for first, end in pairwise(bounds.tolist()):
        n = end - first
        solve_lanes(
            problem.survival[first:end].reshape(-1),
            problem.unique_experts[first:end].reshape(-1),
            problem.context_len[first:end],
            laid_out,
            (0,) * (K + 1),
            (0,) * LANES,
            lanes[: n + K].reshape(-1),
            shortest[:n].reshape(-1),
        )
        for start in range(0, n, _PIECE):
            stop = min(start + _PIECE, n)
            marginal[:, first + start : first + stop] = lanes[start:stop, :count].T
            draft_length[:, first + start : first + stop] = shortest[start:stop].T
    return [Solution(frozen(k), frozen(d)) for k, d in zip(draft_length, marginal, strict=True)]


def _whole_generations(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bounds of parts that hold the generations beginning within the same `_PIECE` positions."""
    begin = offsets[:-1]
    new = np.diff(begin // _PIECE, prepend=-1) > 0
    return np.unique(np.append(begin[new], offsets[-1]))


@dataclass(frozen=True)
class Decisions:
    """What is said about every decision of a policy; see `kernels.decisions.summarise`.

    Attributes
    ----------
    draft_length : (N,) int16
    marginal_ms : (N,) float64, milliseconds
    modal_advance : (N,) int16, tokens
    expected_advance : (N,) float32, tokens
    visit_prob : (N,) float64
        Probability that a round starts at the position.
    q_gap_ms : (N,) float64, milliseconds
        Q of the runner-up minus Q of k*; inf where only one length may be chosen.
    """

    draft_length: NDArray[np.int16]
    marginal_ms: NDArray[np.float64]
    modal_advance: NDArray[np.int16]
    expected_advance: NDArray[np.float32]
    visit_prob: NDArray[np.float64]
    q_gap_ms: NDArray[np.float64]


def describe(problem: Problem, costs: LengthCosts, solution: Solution) -> Decisions:
    """Describe each optimal decision: advances, visit probability and the gap to the runner-up."""
    from kernels.decisions import summarise  # noqa: PLC0415

    n = problem.positions
    modal = np.empty(n, dtype=np.int16)
    expected = np.empty(n, dtype=np.float32)
    gap = np.empty(n)
    summarise(
        solution.draft_length,
        problem.survival,
        problem.unique_experts,
        problem.context_len,
        frozen(costs.base_ms),
        frozen(costs.alpha_ms),
        frozen(costs.context_ms),
        solution.padded_marginal_ms,
        modal,
        expected,
        gap,
    )
    visit = visits(problem, solution.draft_length)
    return Decisions(solution.draft_length, solution.marginal_ms, modal, expected, visit, gap)


def visits(problem: Problem, draft_length: NDArray[np.int16]) -> NDArray[np.float64]:
    """Probability that a round of one policy starts at each position, (N,), for its draft lengths (N,)."""
    from kernels.evaluation import visit_probability  # noqa: PLC0415

    visit = np.empty(problem.positions + problem.k_max)
    visit_probability(frozen(draft_length), problem.survival, visit)
    return frozen(visit[: problem.positions])


def rounds_of(problem: Problem, draft_lengths: NDArray[np.int16]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expected rounds of policies (N, P), worked out side by side in blocks of `WIDE`.

    Returns
    -------
    (N, P) float64
        Probability that a round of the policy starts at the position.
    (G, P, K + 1, 5) float64
        Sums by generation, policy and draft length; see `kernels.evaluation.expected_rounds`.
    """
    from kernels.evaluation import expected_rounds  # noqa: PLC0415

    policies, K = draft_lengths.shape[1], problem.k_max
    visit = np.empty(draft_lengths.shape)
    totals = np.empty((problem.generations, policies, K + 1, 5))
    for start in range(0, policies, WIDE):
        block = slice(start, min(start + WIDE, policies))
        count = block.stop - start
        width = 1 if count == 1 else WIDE
        laid_out = np.zeros((problem.positions, width), dtype=np.int16)
        laid_out[:, :count] = draft_lengths[:, block]
        lanes = aligned((problem.positions, width))
        sums = np.empty((problem.generations, count, K + 1, 5))
        expected_rounds(
            frozen(laid_out.reshape(-1)),
            problem.survival.reshape(-1),
            problem.unique_experts.reshape(-1),
            problem.context_len,
            problem.to_end,
            problem.offsets,
            (0,) * (K + 1),
            (0,) * width,
            min(width, -(-count // VECTOR) * VECTOR),
            lanes.reshape(-1),
            sums,
        )
        visit[:, block], totals[:, block] = lanes[:, :count], sums
    return visit, totals


def evaluate(problem: Problem, costs: LengthCosts, draft_lengths: NDArray[np.int16]) -> NDArray[np.float64]:
    """Marginal value e(t) = J(t) - J(t + 1) of policies (N, P) under one cost model; (N, P), milliseconds."""
    from kernels.evaluation import policy_marginal  # noqa: PLC0415

    _same_k(problem, costs)
    marginal = np.zeros((problem.positions + problem.k_max, draft_lengths.shape[1]))
    policy_marginal(
        frozen(draft_lengths),
        problem.survival,
        problem.unique_experts,
        problem.context_len,
        frozen(costs.base_ms),
        frozen(costs.alpha_ms),
        frozen(costs.context_ms),
        marginal,
    )
    return frozen(marginal[: problem.positions])


def _same_k(problem: Problem, costs: LengthCosts) -> None:
    if costs.k_max != problem.k_max:
        raise ValueError(f"costs reach k = {costs.k_max}, the problem k = {problem.k_max}; lay both out for one k_max")
