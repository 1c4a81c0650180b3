"""What a difference between two draft lengths is made of."""

import numpy as np
from numpy.typing import NDArray

from oracle.costs import LengthCosts
from oracle.problem import Problem
from oracle.solver import Solution

TERMS = ("verify_ms", "expert_load_ms", "expert_price_ms", "context_ms", "draft_ms", "reject_ms", "continuation_ms")


def decompose(
    problem: Problem,
    costs: LengthCosts,
    solution: Solution,
    k: NDArray[np.integer],
    other: NDArray[np.integer],
) -> NDArray[np.float64]:
    """Split Q(t, k) - Q(t, other) into its terms, for every position.

    The terms are differences from the start, so nothing is lost by cancellation: their sum equals the exact
    difference within 8 · eps · Σ|terms|. With one context coefficient for all lengths the context term is 0.

    Parameters
    ----------
    problem, costs, solution
        The solved problem; `solution` says what is followed after this round.
    k, other : (N,) int
        Draft lengths to compare; both must be allowed.

    Returns
    -------
    (N, 7) float64, milliseconds
        In the order of `TERMS`: beta0; more or fewer unique experts at the other length's price, alpha_other ·
        (U_k - U_other); another price of the same experts, (alpha_k - alpha_other) · U_k; context; draft steps;
        rejection; and the continuation, minus the price of the positions the longer draft is expected to save.
    """
    k, other = k.astype(np.int64), other.astype(np.int64)
    t = np.arange(problem.positions)
    U_k, U_other = problem.unique_experts[t, k], problem.unique_experts[t, other]
    alpha = costs.alpha_ms
    terms = np.empty((problem.positions, len(TERMS)))
    terms[:, 0] = costs.verify_ms[k] - costs.verify_ms[other]
    terms[:, 1] = alpha[other] * (U_k - U_other)
    terms[:, 2] = (alpha[k] - alpha[other]) * U_k
    terms[:, 3] = (costs.context_ms[k] - costs.context_ms[other]) * problem.context_len
    terms[:, 4] = costs.draft_ms[k] - costs.draft_ms[other]
    terms[:, 5] = costs.reject_ms[k] - costs.reject_ms[other]
    shorter, longer = np.minimum(k, other), np.maximum(k, other)
    saved = np.zeros(problem.positions)
    d = solution.padded_marginal_ms
    for j in range(1, problem.k_max + 1):
        between = (shorter < j) & (j <= longer)
        saved += np.where(between, problem.survival[:, j - 1] * d[t + j], 0.0)
    terms[:, 6] = np.where(k > other, -saved, saved)
    return terms


def q_values(problem: Problem, costs: LengthCosts, solution: Solution) -> NDArray[np.float64]:
    """Q(t, k) - V(t + 1) for every length, (N, K + 1), milliseconds; inf where a length is not allowed."""
    from kernels.decisions import continuation_credit  # noqa: PLC0415  # numba is slow to import

    credit = np.empty((problem.positions, problem.k_max + 1))
    continuation_credit(problem.survival, solution.padded_marginal_ms, credit)
    cost = costs.base_ms + costs.alpha_ms * problem.unique_experts
    cost += costs.context_ms * problem.context_len[:, None]
    return cost - credit
