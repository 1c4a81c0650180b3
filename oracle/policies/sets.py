"""Draft lengths of several policies on one batch, as the kernels take them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.costs import LengthCosts
from oracle.problem import Problem
from oracle.solver import Solution


@dataclass(frozen=True)
class PolicySet:
    """Draft lengths of several policies on one batch.

    Attributes
    ----------
    names
        Text form of each policy, P of them.
    draft_length : (N, P) int16
        k(t) of each policy: the draft tokens that are verified.
    drafted : (N, P) int16, or None
        Draft steps made, at least k(t): a policy that looks at a token and then leaves it out has paid for its
        step. None: no policy does that.
    """

    names: tuple[str, ...]
    draft_length: NDArray[np.int16]
    drafted: NDArray[np.int16] | None = None


def static(k: int) -> str:
    """Text form of the policy that drafts k everywhere, at the end of the text too: engines do not know N."""
    return f"static:{k}"


def reference_policies(
    problem: Problem, costs: LengthCosts, oracle: Solution, blind: Solution, refitted: Solution | None = None
) -> PolicySet:
    """The bound, the policies that are blind to experts, and every static length the cost model allows.

    `oracle` is the optimum of the full cost model. `blind` is that of alpha = 0 with the other coefficients kept,
    `blind:refitted` that of a model in which each length costs the mean of its experts; both are then paid for
    at full cost. All three look ahead over the whole text: no engine can run them.
    """
    solutions = {"oracle": oracle, "blind": blind} | ({"blind:refitted": refitted} if refitted else {})
    names = [*solutions, *(static(k) for k in costs.lengths)]
    lengths = np.empty((problem.positions, len(names)), dtype=np.int16)
    for p, solution in enumerate(solutions.values()):
        lengths[:, p] = solution.draft_length
    lengths[:, len(solutions) :] = costs.lengths
    return PolicySet(tuple(names), lengths)
