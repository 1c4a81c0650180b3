"""Contests of the remaining kernels: survival, policy evaluation, visits, totals and descriptions."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.policies import reference_policies
from oracle.problem import Problem, aligned
from oracle.solver import WIDE, solve

from . import rivals
from .contests import Bout, Contest, Rival
from .inputs import K, costs, match_probabilities, offsets_of, problem_of

SURVIVAL = "survival"
EVALUATION = "evaluation"
POLICIES = 12
_CELLS = 5  # sums that `expected_rounds` keeps


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
    """Evaluation of `POLICIES` policies side by side and of one, and the description of one."""
    problem = problem_of(generations)
    model = costs()
    optimum = solve(problem, model)
    policies = reference_policies(problem, model, optimum, {"experts=0": solve(problem, model.without_experts())})
    lengths = policies.draft_length[:, :POLICIES]
    for some in (lengths, lengths[:, :1]):
        yield _values(problem, frozen(some))
        yield _rounds(problem, some)
    yield _visits(problem, frozen(lengths[:, 0]))
    yield _description(problem, lengths)


def _values(problem: Problem, lengths: NDArray[np.int16]) -> Contest:
    from kernels.evaluation import policy_marginal  # noqa: PLC0415

    n, P = lengths.shape
    model = costs()
    coefficients = (frozen(model.base_ms), frozen(model.alpha_ms), frozen(model.context_ms))
    marginal = np.zeros((n + K, P))
    p = problem

    def run() -> None:
        policy_marginal(lengths, p.survival, p.unique_experts, p.context_len, *coefficients, marginal)

    what = _policies(P)
    return Contest(
        name=f"policy_marginal, {what}",
        what=f"value of {what}, K = {K}",
        bytes_per_position=10 * P + 8 * (2 * K + 2),
        bouts=(Bout(n, run),),
    )


def _rounds(problem: Problem, lengths: NDArray[np.int16]) -> Contest:
    from kernels.evaluation import expected_rounds  # noqa: PLC0415

    n, P = lengths.shape
    width = 1 if P == 1 else WIDE
    laid_out = np.zeros((n, width), dtype=np.int16)
    laid_out[:, :P] = lengths
    chosen = frozen(laid_out.reshape(-1))
    visit = aligned((n * width,))
    totals = np.empty((problem.generations, P, K + 1, _CELLS))
    p = problem

    def run() -> None:
        expected_rounds(
            chosen,
            p.survival.reshape(-1),
            p.unique_experts.reshape(-1),
            p.context_len,
            p.to_end,
            p.offsets,
            (0,) * (K + 1),
            (0,) * width,
            width,
            visit,
            totals,
        )

    what = _policies(P)
    return Contest(
        name=f"expected_rounds, {what}",
        what=f"visits of {what} and their sums, K = {K}",
        bytes_per_position=10 * width + 8 * (2 * K + 1) + 16,
        bouts=(Bout(n, run),),
    )


def _visits(problem: Problem, draft_length: NDArray[np.int16]) -> Contest:
    from kernels.evaluation import visit_probability  # noqa: PLC0415

    n = problem.positions
    visit = np.empty(n + K)
    return Contest(
        name="visit_probability",
        what=f"where rounds of the optimum start, K = {K}",
        bytes_per_position=10 + 8 * K,
        bouts=(Bout(n, lambda: visit_probability(draft_length, problem.survival, visit)),),
    )


def _policies(count: int) -> str:
    return "1 policy" if count == 1 else f"{count} policies"


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
