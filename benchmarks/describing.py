"""Contests of what is said about a policy's decisions: advances, gaps, and what a longer draft is credited with."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.problem import Problem
from oracle.solver import solve

from . import needs, numpy_rivals
from .contests import Bout, Contest, Rival
from .inputs import K, costs


def contests(problem: Problem, chosen: NDArray[np.int16]) -> Iterator[Contest]:
    """Both kernels beside NumPy; `chosen` (N,): the optimum's draft lengths."""
    marginal = solve(problem, costs()).padded_marginal_ms
    yield _description(problem, chosen, marginal)
    yield _credit(problem, marginal)


def _description(problem: Problem, chosen: NDArray[np.int16], marginal: NDArray[np.float64]) -> Contest:
    from kernels.decisions import summarise  # noqa: PLC0415

    n, model = problem.positions, costs()
    coefficients = frozen(model.base_ms), frozen(model.alpha_ms), frozen(model.context_ms)
    modal, expected, gap = np.empty(n, np.int16), np.empty(n, np.float32), np.empty(n)

    def ours() -> None:
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

    def theirs() -> tuple[NDArray[np.int16], NDArray[np.float64], NDArray[np.float64]]:
        return numpy_rivals.summarise(problem, model, chosen, marginal)

    def check() -> None:
        ours()
        found = theirs()
        np.testing.assert_array_equal(found[0], modal)
        np.testing.assert_allclose(found[1], expected, rtol=1e-6)
        np.testing.assert_allclose(found[2], gap, rtol=1e-9, atol=1e-9)

    return Contest(
        name="summarise",
        what=f"advances and gaps of the optimum, K = {K}",
        needs=needs.summarise(K, float(chosen.mean())),
        bouts=(Bout(n, ours, {"NumPy": Rival(theirs, check)}),),
    )


def _credit(problem: Problem, marginal: NDArray[np.float64]) -> Contest:
    from kernels.decisions import continuation_credit  # noqa: PLC0415

    credit = np.empty((problem.positions, K + 1))

    def ours() -> None:
        continuation_credit(problem.survival, marginal, credit)

    def theirs() -> NDArray[np.float64]:
        return numpy_rivals.continuation_credit(problem.survival, marginal)

    def check() -> None:
        ours()
        np.testing.assert_allclose(theirs(), credit, rtol=1e-12)

    return Contest(
        name="continuation_credit",
        what=f"price of the positions each length saves, K = {K}",
        needs=needs.continuation_credit(K),
        bouts=(Bout(problem.positions, ours, {"NumPy": Rival(theirs, check, "over a sliding window")}),),
    )
