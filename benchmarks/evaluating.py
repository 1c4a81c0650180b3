"""Contests of policy evaluation: values, visits, their sums, and what draft steps cost that are left out."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.policies import reference_policies
from oracle.problem import Problem, aligned
from oracle.solver import WIDE, solve, visits

from . import describing, needs, numpy_rivals
from .contests import Bout, Contest, Rival
from .inputs import K, costs, first_generations, problem_of

GROUP = "evaluation"
POLICIES = 12
_CELLS = 5  # sums that `expected_rounds` keeps
_PART = 16  # rivals that go position by position get one generation in so many
_STEPPED = "position by position, all generations at once"


def contests(generations: int) -> Iterator[Contest]:
    """Evaluation of `POLICIES` policies side by side and of one, and what is said about one."""
    problem = problem_of(generations)
    model = costs()
    optimum = solve(problem, model)
    policies = reference_policies(problem, model, optimum, {"experts=0": solve(problem, model.without_experts())})
    lengths = policies.draft_length[:, :POLICIES]
    few = max(1, generations // _PART)
    for some in (lengths, lengths[:, :1]):
        yield _values(problem, frozen(some), few)
        yield _rounds(problem, frozen(some), few)
    yield _visits(problem, frozen(lengths[:, 0]), few)
    yield _discarded(problem, frozen(lengths))
    yield from describing.contests(problem, frozen(lengths[:, 0]))


class Values:
    """The arguments of `kernels.evaluation.policy_marginal`, allocated once."""

    def __init__(self, problem: Problem, lengths: NDArray[np.int16]) -> None:
        self.problem, self.lengths = problem, frozen(lengths[: problem.positions])
        self.marginal = np.zeros((problem.positions + K, lengths.shape[1]))
        model = costs()
        self._coefficients = frozen(model.base_ms), frozen(model.alpha_ms), frozen(model.context_ms)

    def run(self) -> None:
        """Call the kernel."""
        from kernels.evaluation import policy_marginal  # noqa: PLC0415

        p = self.problem
        policy_marginal(self.lengths, p.survival, p.unique_experts, p.context_len, *self._coefficients, self.marginal)


def _values(problem: Problem, lengths: NDArray[np.int16], few: int) -> Contest:
    whole, part = Values(problem, lengths), Values(first_generations(problem, few), lengths)

    def theirs() -> NDArray[np.float64]:
        return numpy_rivals.policy_marginal(part.problem, costs(), part.lengths)

    def check() -> None:
        part.run()
        np.testing.assert_allclose(theirs(), part.marginal[:-K], rtol=1e-11, atol=1e-11)

    P = lengths.shape[1]
    return Contest(
        name=f"policy_marginal, {_policies(P)}",
        what=f"value of {_policies(P)}, K = {K}",
        needs=needs.policy_marginal(K, P, float(lengths.mean())),
        bouts=(
            Bout(problem.positions, whole.run),
            Bout(part.problem.positions, part.run, {"NumPy": Rival(theirs, check, _STEPPED)}),
        ),
    )


class Rounds:
    """The arguments of `kernels.evaluation.expected_rounds`, allocated once."""

    def __init__(self, problem: Problem, lengths: NDArray[np.int16]) -> None:
        self.problem, self.lengths = problem, frozen(lengths[: problem.positions])
        n, P = self.lengths.shape
        self._width = 1 if P == 1 else WIDE
        laid_out = np.zeros((n, self._width), dtype=np.int16)
        laid_out[:, :P] = self.lengths
        self._chosen = frozen(laid_out.reshape(-1))
        self._visit = aligned((n * self._width,))
        self.totals = np.empty((problem.generations, P, K + 1, _CELLS))

    def run(self) -> None:
        """Call the kernel."""
        from kernels.evaluation import expected_rounds  # noqa: PLC0415

        p = self.problem
        expected_rounds(
            self._chosen,
            p.survival.reshape(-1),
            p.unique_experts.reshape(-1),
            p.context_len,
            p.to_end,
            p.offsets,
            (0,) * (K + 1),
            (0,) * self._width,
            self._width,
            self._visit,
            self.totals,
        )


def _rounds(problem: Problem, lengths: NDArray[np.int16], few: int) -> Contest:
    whole, part = Rounds(problem, lengths), Rounds(first_generations(problem, few), lengths)

    def theirs() -> NDArray[np.float64]:
        return numpy_rivals.expected_rounds(part.problem, part.lengths)

    def check() -> None:
        part.run()
        np.testing.assert_allclose(theirs(), part.totals[..., :3], rtol=1e-9, atol=1e-9)

    P = lengths.shape[1]
    return Contest(
        name=f"expected_rounds, {_policies(P)}",
        what=f"visits of {_policies(P)} and their sums, K = {K}",
        needs=needs.expected_rounds(K, P, float(lengths.mean())),
        bouts=(
            Bout(problem.positions, whole.run),
            Bout(part.problem.positions, part.run, {"NumPy": Rival(theirs, check, _STEPPED)}),
        ),
    )


def _visits(problem: Problem, draft_length: NDArray[np.int16], few: int) -> Contest:
    from kernels.evaluation import visit_probability  # noqa: PLC0415

    n = problem.positions
    visit = np.empty(n + K)
    part = first_generations(problem, few)
    of_part, chosen = np.empty(part.positions + K), frozen(draft_length[: part.positions])

    def ours() -> None:
        visit_probability(chosen, part.survival, of_part)

    def theirs() -> NDArray[np.float64]:
        return numpy_rivals.visits(part, chosen[:, None])

    def check() -> None:
        ours()
        np.testing.assert_allclose(theirs()[:, 0], of_part[:-K], rtol=1e-11, atol=1e-13)

    return Contest(
        name="visit_probability",
        what=f"where rounds of the optimum start, K = {K}",
        needs=needs.visit_probability(K, float(draft_length.mean())),
        bouts=(
            Bout(n, lambda: visit_probability(draft_length, problem.survival, visit)),
            Bout(part.positions, ours, {"NumPy": Rival(theirs, check, _STEPPED)}),
        ),
    )


def _discarded(problem: Problem, lengths: NDArray[np.int16]) -> Contest:
    """One draft step more than is verified where that is possible, as a rule that looks at a token first makes it."""
    from kernels.discarded import add_up_discarded  # noqa: PLC0415

    P = lengths.shape[1]
    visit = frozen(np.stack([visits(problem, frozen(lengths[:, p])) for p in range(P)], axis=1))
    made = frozen(np.minimum(lengths + 1, K).astype(np.int16))
    steps = frozen(costs().draft_ms)
    tokens, ms = np.empty((2, problem.generations, P))

    def ours() -> None:
        add_up_discarded(visit, lengths, made, problem.offsets, steps, tokens, ms)

    def theirs() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return numpy_rivals.add_up_discarded(visit, lengths, made, problem.offsets[:-1], steps)

    def check() -> None:
        ours()
        for found, expected in zip(theirs(), (tokens, ms), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)

    return Contest(
        name=f"add_up_discarded, {_policies(P)}",
        what=f"draft steps left out, {_policies(P)}",
        needs=needs.add_up_discarded(P, float((made > lengths).mean())),
        bouts=(Bout(problem.positions, ours, {"NumPy": Rival(theirs, check)}),),
    )


def _policies(count: int) -> str:
    return "1 policy" if count == 1 else f"{count} policies"
