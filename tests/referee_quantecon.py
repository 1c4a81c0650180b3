"""A referee from outside: QuantEcon's `DiscreteDP` solves a generation as a Markov decision process.

States are the positions t = 0 … N with N absorbing, actions are the allowed draft lengths, rewards are −C(t,k) and
beta = 1. Every round moves forward by at least one position, so as many steps of `backward_induction` as there are
positions reach the fixed point. Long generations are cut into blocks solved from the far end; the states just behind
a block keep the values already found (`v_term`), so the work grows with N and not with N².
"""

import warnings

import numpy as np
from naive import Costs, Generation
from numpy.typing import NDArray
from quantecon.markov import DiscreteDP, backward_induction
from scipy.sparse import coo_matrix


def _block(
    generation: Generation, costs: Costs, first: int, states: int, movable: int
) -> tuple[NDArray[np.float64], coo_matrix, NDArray[np.int64], NDArray[np.int64]]:
    """Rewards, transitions, states and actions of positions first … first+movable-1; later states stay where they are.

    State s is position first + s; what goes beyond the last state stops there (that is N, the end of the text).
    """
    lengths = np.asarray(costs.lengths, dtype=np.int64)
    t = np.repeat(np.arange(movable), len(lengths))
    k = np.tile(lengths, movable)
    p = np.asarray(generation.match_probs, dtype=np.float64)[first : first + movable]
    U = np.asarray(generation.unique_experts, dtype=np.float64)[first : first + movable]
    S = np.cumprod(np.hstack([np.ones((movable, 1)), p]), axis=1)
    beta0, draft, reject, alpha, context = (np.asarray(c, dtype=np.float64)[k] for c in costs[:5])
    L = generation.context_start + first + t
    reward = -(beta0 + draft + reject + alpha * U[t, k] + context * L)

    rows, columns, chances = [], [], []
    for a in range(1, int(lengths.max()) + 2):
        pair = np.flatnonzero(k + 1 >= a)
        stops = 1.0 - p[t[pair], np.minimum(a, p.shape[1]) - 1] if p.shape[1] else np.ones(len(pair))
        rows.append(pair)
        columns.append(np.minimum(t[pair] + a, states - 1))
        chances.append(S[t[pair], a - 1] * np.where(k[pair] + 1 == a, 1.0, stops))
    still = np.arange(movable, states)
    rows.append(len(t) + still - movable)
    columns.append(still)
    chances.append(np.ones(len(still)))
    transitions = coo_matrix(
        (np.concatenate(chances), (np.concatenate(rows), np.concatenate(columns))), shape=(len(t) + len(still), states)
    )
    return (
        np.concatenate([reward, np.zeros(len(still))]),
        transitions,
        np.concatenate([t, still]),
        np.concatenate([k, np.full(len(still), lengths[0])]),
    )


def solve(generation: Generation, costs: Costs, block: int = 128) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """V (N+1) and k* (N, ties to the shortest) as QuantEcon finds them."""
    N = len(generation.match_probs)
    value = np.zeros(N + 1)
    draft_length = np.zeros(N, dtype=np.int64)
    reach = max(costs.lengths) + 1
    for stop in range(N, 0, -block):
        first = max(stop - block, 0)
        movable = stop - first
        states = min(stop + reach, N + 1) - first
        R, Q, s_indices, a_indices = _block(generation, costs, first, states, movable)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="infinite horizon solution methods are disabled with beta=1")
            problem = DiscreteDP(R, Q, 1.0, s_indices, a_indices)
        values, policies = backward_induction(problem, movable, v_term=-value[first : first + states])
        value[first:stop] = -values[0, :movable]
        draft_length[first:stop] = policies[0, :movable]
    return value, draft_length
