"""Every policy there is, for small N: nothing is assumed about the Bellman equation.

A policy is one draft length a position. Its cost is summed over every possible sequence of advances (no value
function, no recursion over states), so the optimum found here is optimal by exhaustion.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from naive import Costs, Generation, advance_probs, round_cost


def outcomes(generation: Generation, policy: dict[int, int], start: int) -> Iterator[tuple[float, list[int]]]:
    """(probability, positions at which rounds start) of every course that decoding from `start` can take."""
    N = len(generation.match_probs)
    courses = [(1.0, [start])]
    while courses:
        probability, starts = courses.pop()
        t = starts[-1]
        if t >= N:
            yield probability, starts[:-1]
            continue
        for a, chance in advance_probs(generation.match_probs[t], policy[t]).items():
            if chance > 0.0:
                courses.append((probability * chance, [*starts, t + a]))


def policy_cost(generation: Generation, costs: Costs, policy: dict[int, int], start: int) -> float:
    """Expected milliseconds from `start` to the end of the text."""
    return sum(
        probability * sum(round_cost(generation, costs, t, policy[t]) for t in starts)
        for probability, starts in outcomes(generation, policy, start)
    )


def policies(lengths: Sequence[int], start: int, N: int) -> Iterator[dict[int, int]]:
    """Every assignment of draft lengths to the positions start … N-1."""
    for chosen in product(lengths, repeat=N - start):
        yield dict(zip(range(start, N), chosen, strict=True))


def best_from(generation: Generation, costs: Costs, start: int) -> tuple[float, dict[int, float]]:
    """The least cost from `start`, and the least cost by the first draft length (that is Q(start, ·))."""
    N = len(generation.match_probs)
    if start >= N:
        return 0.0, {}
    by_first: dict[int, float] = {}
    for policy in policies(costs.lengths, start, N):
        cost = policy_cost(generation, costs, policy, start)
        by_first[policy[start]] = min(cost, by_first.get(policy[start], cost))
    return min(by_first.values()), by_first


def best(generation: Generation, costs: Costs) -> tuple[list[float], list[int], list[dict[int, float]]]:
    """V (N+1), k* (N, ties to the shortest) and Q (N), each position's policies enumerated anew."""
    N = len(generation.match_probs)
    found = [best_from(generation, costs, start) for start in range(N)]
    draft_length = [min(q, key=lambda k: (q[k], k)) for _, q in found]
    return [value for value, _ in found] + [0.0], draft_length, [q for _, q in found]
