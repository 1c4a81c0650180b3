"""QuantEcon's `backward_induction` as a rival: a generation as a Markov decision process.

States are positions, actions are draft lengths, beta is 1. Each round moves on by at least one position, so as many
stages as there are positions are exact. Short blocks, solved from the far end, keep the work from growing with N²;
building their matrices is not timed.
"""

import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from oracle.costs import LengthCosts
from oracle.problem import Problem

from .inputs import K

NAME = "QuantEcon"
_BLOCK = 32  # positions of a block


def available() -> bool:
    """Say whether QuantEcon is installed."""
    return find_spec("quantecon") is not None


def solver(problem: Problem, costs: LengthCosts) -> Callable[[], NDArray[np.float64]]:
    """Build the decision process of a problem of one generation; give what solves it for V(0) … V(N)."""
    from quantecon.markov import DiscreteDP, backward_induction  # noqa: PLC0415

    N = problem.positions
    blocks = []
    for stop in range(N, 0, -_BLOCK):
        first = max(stop - _BLOCK, 0)
        states = min(stop + K, N) + 1 - first
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="infinite horizon solution methods are disabled")
            process = DiscreteDP(*_matrices(problem, costs, first, stop, states))
        blocks.append((first, stop, states, process))

    def run() -> NDArray[np.float64]:
        value = np.zeros(N + 1)
        for first, stop, states, process in blocks:
            values, _ = backward_induction(process, stop - first, v_term=-value[first : first + states])
            value[first:stop] = -values[0, : stop - first]
        return value

    return run


def _matrices(
    problem: Problem, costs: LengthCosts, first: int, stop: int, states: int
) -> tuple[NDArray[np.float64], object, float, NDArray[np.int64], NDArray[np.int64]]:
    """Rewards, transitions, beta, states and actions of positions first … stop - 1; later states stay put."""
    from scipy.sparse import coo_matrix  # noqa: PLC0415

    movable = stop - first
    t = np.repeat(np.arange(movable), K + 1)
    k = np.tile(np.arange(K + 1), movable)
    still = np.arange(movable, states)
    U = problem.unique_experts[first:stop]
    cost = costs.base_ms + costs.alpha_ms * U + costs.context_ms * problem.context_len[first:stop, None]
    reach = np.hstack([np.ones((movable, 1)), problem.survival[first:stop], np.zeros((movable, 1))])
    rows, columns, chances = [len(t) + still - movable], [still], [np.ones(len(still))]
    for advance in range(1, K + 2):
        pair = np.flatnonzero(k + 1 >= advance)
        goes_on = np.where(k[pair] + 1 > advance, reach[t[pair], advance], 0.0)
        rows.append(pair)
        columns.append(np.minimum(t[pair] + advance, states - 1))
        chances.append(reach[t[pair], advance - 1] - goes_on)
    where = (np.concatenate(rows), np.concatenate(columns))
    transitions = coo_matrix((np.concatenate(chances), where), shape=(len(t) + len(still), states))
    return (
        np.concatenate([-cost.reshape(-1), np.zeros(len(still))]),
        transitions,
        1.0,
        np.concatenate([t, still]),
        np.concatenate([k, np.zeros(len(still), dtype=np.int64)]),
    )
