"""Draft lengths of several policies on one batch, as the kernels take them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
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
    bounds
        Names of the policies that no engine is known to be able to run: they look ahead, or only their author knows.
    """

    names: tuple[str, ...]
    draft_length: NDArray[np.int16]
    drafted: NDArray[np.int16] | None = None
    bounds: frozenset[str] = frozenset()


def beside(first: PolicySet, second: PolicySet) -> PolicySet:
    """Put other policies' lengths on the same batch beside the first."""
    drafted = None
    if first.drafted is not None or second.drafted is not None:
        drafted = frozen(np.column_stack([_made(first), _made(second)]))
    return PolicySet(
        (*first.names, *second.names),
        frozen(np.column_stack([first.draft_length, second.draft_length])),
        drafted,
        first.bounds | second.bounds,
    )


def _made(policies: PolicySet) -> NDArray[np.int16]:
    return policies.draft_length if policies.drafted is None else policies.drafted


def static(k: int) -> str:
    """Text form of the policy that drafts k everywhere, at the end of the text too: engines do not know N."""
    return f"static:{k}"


def blind(change: str) -> str:
    """Name the optimum under changed costs, paid for at full cost; `change` as `oracle.changes` names it."""
    return {"experts=0": "blind", "experts=0, beta0 refitted": "blind:refitted"}.get(change, f"under {change}")


def reference_policies(
    problem: Problem, costs: LengthCosts, oracle: Solution, moved: Mapping[str, Solution]
) -> PolicySet:
    """The bound, the optima under changed costs, and every static length the cost model allows.

    `oracle` is the optimum of the full cost model; `moved` are those of changed ones by the name of the change, paid
    for at full cost (`blind`: of alpha = 0). All of them look ahead over the whole text: no engine can run them.
    """
    solutions = {"oracle": oracle} | {blind(change): solution for change, solution in moved.items()}
    names = [*solutions, *(static(k) for k in costs.lengths)]
    lengths = np.empty((problem.positions, len(names)), dtype=np.int16)
    for p, solution in enumerate(solutions.values()):
        lengths[:, p] = solution.draft_length
    lengths[:, len(solutions) :] = costs.lengths
    return PolicySet(tuple(names), lengths, bounds=frozenset(solutions))
