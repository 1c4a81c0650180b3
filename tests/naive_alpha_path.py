"""Naive twin of the path of a scale s on all alpha: rational numbers, cut by cut, from the definition.

Nothing here imports numpy, Numba or the product. Along s every V_s(t) is concave and piecewise linear. An interval is
cut where the line that holds just right of its left end meets the line that holds just left of its right end; where
the two are one line, V_s(t) is that line all over the interval, and the lengths optimal inside do not change.

    V(t) = min_k C_s(t,k) + Σ_a P(A=a)·V(min(t+a, N)),   C_s(t,k) = base + s·alpha_k·U(t,k) + context_k·L(t)
"""

from fractions import Fraction
from typing import NamedTuple

from naive import Costs, Generation


class Line(NamedTuple):
    """A value at a point, and its slope in s to one side."""

    value: Fraction
    slope: Fraction


class Piece(NamedTuple):
    """From `s_from` on, up to the next piece, `draft_length` is optimal."""

    s_from: Fraction
    draft_length: int


def round_line(generation: Generation, costs: Costs, t: int, k: int, s: Fraction) -> Line:
    """C_s(t,k) and its slope."""
    expert = Fraction(costs.alpha[k]) * Fraction(generation.unique_experts[t][k])
    fixed = Fraction(costs.beta0[k]) + Fraction(costs.draft[k]) + Fraction(costs.reject[k])
    fixed += Fraction(costs.context[k]) * (generation.context_start + t)
    return Line(fixed + s * expert, expert)


def advance_probs(p: list[float], k: int) -> dict[int, Fraction]:
    """P(A = a) of a round that drafts k, as rational numbers."""
    probs, reach = {}, Fraction(1)
    for a in range(1, k + 1):
        probs[a] = reach * (1 - Fraction(p[a - 1]))
        reach *= Fraction(p[a - 1])
    probs[k + 1] = reach
    return probs


def solve(generation: Generation, costs: Costs, s: Fraction, side: int) -> tuple[list[Line], list[int]]:
    """V (N lines) and the optimal lengths just right (side = 1) or left (side = -1) of s; ties to the shortest."""
    N = len(generation.match_probs)
    best = [Line(Fraction(0), Fraction(0))] * (N + 1)
    lengths = [0] * N
    for t in reversed(range(N)):
        choices = []
        for k in costs.lengths:
            value, slope = round_line(generation, costs, t, k, s)
            for a, probability in advance_probs(list(generation.match_probs[t]), k).items():
                after = best[min(t + a, N)]
                value += probability * after.value
                slope += probability * after.slope
            choices.append((value, side * slope, k))
        value, slope, lengths[t] = min(choices)
        best[t] = Line(value, side * slope)
    return best[:N], lengths


def cuts(generation: Generation, costs: Costs, low: Fraction, high: Fraction) -> list[Fraction]:
    """Every s between `low` and `high` at which some V_s(t) has a corner, ascending; ends not included."""
    right_of_low, _ = solve(generation, costs, low, 1)
    left_of_high, _ = solve(generation, costs, high, -1)
    for first, last in zip(right_of_low, left_of_high, strict=True):
        if first.slope != last.slope:
            at_low = last.value - last.slope * (high - low)
            s = low + (at_low - first.value) / (first.slope - last.slope)
            assert low < s < high, "two lines of a concave function meet between the points where they hold"
            return [*cuts(generation, costs, low, s), s, *cuts(generation, costs, s, high)]
        assert first.value + first.slope * (high - low) == last.value
    return []


def alpha_path(generation: Generation, costs: Costs, s_max: Fraction) -> list[list[Piece]]:
    """The pieces of every position; just right of a breakpoint its new length holds."""
    pieces: list[list[Piece]] = [[] for _ in generation.match_probs]
    for s in [Fraction(0), *cuts(generation, costs, Fraction(0), s_max)]:
        _, lengths = solve(generation, costs, s, 1)
        for t, k in enumerate(lengths):
            if not pieces[t] or pieces[t][-1].draft_length != k:
                pieces[t].append(Piece(s, k))
    return pieces
