"""Contests of the remaining kernels: survival, policy evaluation, visits, totals and descriptions."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.policies import reference_policies
from oracle.problem import Problem
from oracle.solver import solve

from . import rivals
from .contests import Bout, Contest, Rival
from .inputs import K, costs, match_probabilities, offsets_of, problem_of

SURVIVAL = "survival"
EVALUATION = "evaluation"
_CELLS = 5  # sums that `totals_by_length` keeps


def survival_contests(generations: int) -> Iterator[Contest]:
    """Survival from one match probability a position, and from one a depth."""
    from kernels.survival import survival_along, survival_by_depth  # noqa: PLC0415

    rng = np.random.default_rng(5)
    offsets = offsets_of(generations)
    n = int(offsets[-1])
    along = match_probabilities(rng, n)
    by_depth = frozen(match_probabilities(rng, n * K).reshape(n, K))
    survival = np.empty((n, K))
    to_end = np.empty(n)

    def ours() -> None:
        survival_along(along, offsets, survival, to_end)

    def check() -> None:
        ours()
        np.testing.assert_array_equal(rivals.survival_in_numpy(along, generations, K), survival)

    numpy = Rival(lambda: rivals.survival_in_numpy(along, generations, K), check, "products over a sliding window")
    yield Contest(
        name="survival_along",
        what=f"one match probability a position, K = {K}",
        bytes_per_position=4 + 8 * K + 8,
        bouts=(Bout(n, ours, {"NumPy": numpy}),),
    )
    yield Contest(
        name="survival_by_depth",
        what=f"one match probability a depth, K = {K}",
        bytes_per_position=4 * K + 8 * K + 8,
        bouts=(Bout(n, lambda: survival_by_depth(by_depth, offsets, survival, to_end)),),
    )


def evaluation_contests(generations: int) -> Iterator[Contest]:
    """Evaluation of 13 policies side by side, and the description of one."""
    problem = problem_of(generations)
    model = costs()
    optimum = solve(problem, model)
    policies = reference_policies(problem, model, optimum, solve(problem, model.without_experts()))
    lengths = frozen(policies.draft_length)
    yield from _side_by_side(problem, lengths)
    yield from _side_by_side(problem, frozen(lengths[:, :1]))
    yield _description(problem, lengths)


def _side_by_side(problem: Problem, lengths: NDArray[np.int16]) -> Iterator[Contest]:
    from kernels.evaluation import policy_marginal, totals_by_length, visit_probability  # noqa: PLC0415

    n, P = lengths.shape
    p = problem
    model = costs()
    coefficients = (frozen(model.base_ms), frozen(model.alpha_ms), frozen(model.context_ms))
    marginal = np.zeros((n + K, P))
    visit = np.empty((n, P))
    totals = np.empty((p.generations, P, K + 1, _CELLS))
    visit_probability(lengths, p.survival, p.offsets, visit)
    what = "1 policy" if P == 1 else f"{P} policies"
    yield Contest(
        name=f"policy_marginal, {what}",
        what=f"value of {what}, K = {K}",
        bytes_per_position=10 * P + 8 * (2 * K + 2),
        bouts=(
            Bout(
                n,
                lambda: policy_marginal(lengths, p.survival, p.unique_experts, p.context_len, *coefficients, marginal),
            ),
        ),
    )
    yield Contest(
        name=f"visit_probability, {what}",
        what=f"where rounds of {what} start, K = {K}",
        bytes_per_position=10 * P + 8 * K,
        bouts=(Bout(n, lambda: visit_probability(lengths, p.survival, p.offsets, visit)),),
    )
    yield Contest(
        name=f"totals_by_length, {what}",
        what=f"sums over the rounds of {what}, K = {K}",
        bytes_per_position=10 * P + 8 * (K + 1) + 16,
        bouts=(
            Bout(
                n,
                lambda: totals_by_length(
                    lengths, frozen(visit), p.unique_experts, p.context_len, p.to_end, p.offsets, totals
                ),
            ),
        ),
    )


def _description(problem: Problem, lengths: NDArray[np.int16]) -> Contest:
    from kernels.decisions import summarise  # noqa: PLC0415

    n = problem.positions
    model = costs()
    marginal = solve(problem, model).padded_marginal_ms
    coefficients = (frozen(model.base_ms), frozen(model.alpha_ms), frozen(model.context_ms))
    chosen = frozen(lengths[:, 0])
    modal, expected, gap = np.empty(n, np.int16), np.empty(n, np.float32), np.empty(n)

    def run() -> None:
        summarise(
            chosen,
            problem.survival,
            problem.unique_experts,
            problem.context_len,
            *coefficients,
            marginal,
            modal,
            expected,
            gap,
        )

    return Contest(
        name="summarise",
        what=f"advances and gaps of the optimum, K = {K}",
        bytes_per_position=2 + 8 * (2 * K + 2) + 8 + 14,
        bouts=(Bout(n, run),),
    )
