"""The path of the optimum along a scale on all alpha: rational twin, dense sweeps, re-solves at every breakpoint."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import naive_alpha_path
import numpy as np
import pyarrow.parquet as pq
import pytest
import strategies
from hypothesis import given, settings
from laid_out import costs_of, make
from numpy.typing import NDArray

from kernels.survival import survival_along
from oracle.ablation import q_values
from oracle.alpha_path.path import AlphaPath, alpha_path, alpha_path_table, scaled
from oracle.columns import frozen
from oracle.costs import LengthCosts
from oracle.errors import InputError
from oracle.problem import Problem
from oracle.solver import solve, solve_many

S_MAX = 2


def pieces_of(path: AlphaPath) -> list[list[tuple[float, int]]]:
    ends = path.piece_offsets.tolist()
    rows = list(zip(path.s_from.tolist(), path.draft_length.tolist(), strict=True))
    return [rows[a:b] for a, b in pairwise(ends)]


def twin_of(problem: strategies.Problem) -> list[list[naive_alpha_path.Piece]]:
    each = (
        naive_alpha_path.alpha_path(problem.generation(g), problem.costs, Fraction(S_MAX))
        for g in range(problem.generations)
    )
    return [pieces for generation in each for pieces in generation]


def problem_of(kind: strategies.Kind, seed: int) -> strategies.Problem:
    if kind == "dyadic":
        return strategies.random_problem(seed, kind)
    return strategies.random_problem(seed, kind, K=1 + seed % 4, lengths=(5, 8, 0, 3))


@pytest.mark.parametrize("kind", ["dyadic", "binary"])
def test_every_breakpoint_is_that_of_rational_arithmetic(kind: strategies.Kind) -> None:
    changes = 0
    for seed in range(150):
        problem = problem_of(kind, seed)
        ours = pieces_of(alpha_path(make(problem), costs_of(problem), S_MAX))
        twin = [[(float(s), k) for s, k in pieces] for pieces in twin_of(problem)]
        assert ours == twin, seed  # the nearest doubles to the rational numbers, ties included
        changes += sum(len(pieces) - 1 for pieces in twin)
    assert changes > 200


def test_breakpoints_of_any_numbers_are_those_of_rational_arithmetic() -> None:
    changes = 0
    for seed in range(60):
        problem = problem_of("general", seed)
        ours = pieces_of(alpha_path(make(problem), costs_of(problem), S_MAX))
        for mine, exact in zip(ours, twin_of(problem), strict=True):
            assert [k for _, k in mine] == [k for _, k in exact], seed
            np.testing.assert_allclose([s for s, _ in mine], [float(s) for s, _ in exact], rtol=1e-9)
            changes += len(mine) - 1
    assert changes > 100


def test_ties_that_decimals_round_apart_stay_ties() -> None:
    """Costs in tenths of a millisecond cannot be written exactly; the path does not depend on the unit of cost."""
    changes = 0
    for kind in ("dyadic", "binary"):
        for seed in range(300):
            problem = strategies.random_problem(seed, kind)
            arrays, costs = make(problem), costs_of(problem)
            columns = (costs.verify_ms, costs.alpha_ms, costs.context_ms, costs.draft_ms, costs.reject_ms)
            tenths = LengthCosts(*(column / 10 for column in columns), costs.allowed)
            rounded, exact = alpha_path(arrays, tenths, S_MAX), alpha_path(arrays, costs, S_MAX)
            np.testing.assert_array_equal(rounded.piece_offsets, exact.piece_offsets)
            np.testing.assert_array_equal(rounded.draft_length, exact.draft_length)
            np.testing.assert_allclose(rounded.s_from, exact.s_from, rtol=1e-12)
            changes += int(exact.breakpoints.sum())
    assert changes > 1000


def gaps(problem: Problem, costs: LengthCosts, s: float, k: NDArray[np.int16]) -> NDArray[np.float64]:
    """Q - V of given lengths at a scale, milliseconds."""
    there = scaled(costs, s)
    q = q_values(problem, there, solve(problem, there))
    return q[np.arange(problem.positions), k] - q.min(axis=1)


def matched_well(N: int, K: int) -> tuple[Problem, LengthCosts]:
    """A text that matches nineteen times of twenty: breakpoints reach far, and U takes few values."""
    rng = np.random.default_rng(N)
    offsets = frozen(np.array([0, N]))
    survival, to_end = np.empty((N, K)), np.empty(N)
    survival_along(frozen(rng.beta(19.0, 1.0, N).astype(np.float32)), offsets, survival, to_end)
    unique = np.cumsum(np.where(np.arange(K + 1) > 0, rng.integers(0, 9, (N, K + 1)) / 2, 4.0), axis=1)
    context_len = np.arange(N) + 100.0
    problem = Problem(offsets, frozen(context_len), frozen(survival), frozen(unique), frozen(to_end), "recorded")
    k = np.arange(K + 1.0)
    costs = LengthCosts(5 + 0.3 * k, np.full(K + 1, 0.5), np.full(K + 1, 0.001), 0.2 * k, 0 * k, k >= 0)
    return problem, costs


@pytest.mark.parametrize(("N", "K", "count"), [(120, 10, 4000), (60, 32, 400), (600, 4, 600)])
def test_a_dense_sweep_finds_nothing_else(N: int, K: int, count: int) -> None:
    problem, costs = matched_well(N, K)
    path = alpha_path(problem, costs, S_MAX)
    assert path.breakpoints.sum() > N / 4, "the problem must have breakpoints for this test to say anything"
    scales = np.linspace(0.0, S_MAX, count)
    solutions = solve_many(problem, [scaled(costs, float(s)) for s in scales])
    different = 0
    for s, solution in zip(scales, solutions, strict=True):
        k = path.draft_length_at(float(s))
        if (k != solution.draft_length).any():
            different += 1
            assert gaps(problem, costs, float(s), k).max() <= 1e-9
    assert different < count / 50


@settings(max_examples=80, deadline=None)
@given(strategies.general_problems())
def test_both_lengths_are_optimal_at_each_breakpoint_and_one_on_either_side(drawn: strategies.Problem) -> None:
    problem, costs = make(drawn), costs_of(drawn)
    path = alpha_path(problem, costs, S_MAX)
    for t, pieces in enumerate(pieces_of(path)):
        assert pieces[0][0] == 0.0
        ends = [s for s, _ in pieces[1:]] + [float(S_MAX)]
        for (s, k), end in zip(pieces, ends, strict=True):
            assert s < end
            for inside in (s, (s + end) / 2, end):
                choice = np.full(problem.positions, drawn.allowed[0], dtype=np.int16)
                choice[t] = k
                assert gaps(problem, costs, inside, choice)[t] <= 1e-9
        assert all(a != b for (_, a), (_, b) in pairwise(pieces))


def test_a_suffix_has_the_suffix_of_the_path_and_generations_do_not_mix() -> None:
    drawn = strategies.random_problem(5, "dyadic", lengths=(9, 0, 7), K=3, missing=False, alpha_zero=False)
    whole, costs = make(drawn), costs_of(drawn)
    expected = pieces_of(alpha_path(whole, costs, S_MAX))
    for first, end in ((0, 9), (9, 16), (4, 9), (12, 16)):
        part = Problem(
            frozen(np.array([0, end - first])),
            frozen(whole.context_len[first:end]),
            frozen(whole.survival[first:end]),
            frozen(whole.unique_experts[first:end]),
            frozen(whole.to_end[first:end]),
            "recorded",
        )
        assert pieces_of(alpha_path(part, costs, S_MAX)) == expected[first:end]


def test_a_decision_may_come_back() -> None:
    for seed in range(400):
        drawn = problem_of("binary", seed)
        path = alpha_path(make(drawn), costs_of(drawn), S_MAX)
        came_back = [len({k for _, k in pieces}) < len(pieces) for pieces in pieces_of(path)]
        assert path.returns.tolist() == came_back
        if any(came_back):
            return
    pytest.fail("no decision of any problem came back to a length")


def hand_made() -> AlphaPath:
    offsets = np.array([0, 1, 4, 6])
    s_from = np.array([0.0, 0.0, 0.5, 1.0, 0.0, 1.5])
    return AlphaPath(2.0, offsets, s_from, np.array([3, 2, 1, 2, 0, 4], dtype=np.int16))


def test_nearest_changes_of_a_path_written_by_hand() -> None:
    path = hand_made()
    below, above = path.change_below(), path.change_above()
    np.testing.assert_array_equal(below.s, [np.nan, 1.0, np.nan])
    np.testing.assert_array_equal(below.draft_length, [-1, 1, -1])
    np.testing.assert_array_equal(above.s, [np.nan, np.nan, 1.5])
    np.testing.assert_array_equal(above.draft_length, [-1, -1, 4])
    np.testing.assert_array_equal(path.change_below(0.75).s, [np.nan, 0.5, np.nan])
    np.testing.assert_array_equal(path.change_above(0.75).s, [np.nan, 1.0, 1.5])
    assert path.draft_length_at(1.0).tolist() == [3, 2, 0]
    assert path.draft_length_at(0.75).tolist() == [3, 1, 0]
    assert path.returns.tolist() == [False, True, False]
    scales = np.array([0.0, 0.5, 0.75, 1.0, 2.0])
    counts = path.counts_at(scales, 5)
    for s, row in zip(scales, counts, strict=True):
        np.testing.assert_array_equal(row, np.bincount(path.draft_length_at(float(s)), minlength=6))
    with pytest.raises(ValueError, match=r"s is 2.5; the path covers 0 … 2.0"):
        path.draft_length_at(2.5)


def test_rows_of_a_file_read_back_as_nested_lists(tmp_path: Path) -> None:
    table = alpha_path_table(hand_made(), ("a", "b", "c"), np.array([0, 2, 2, 3]))
    pq.write_table(table, tmp_path / "path.parquet")
    assert pq.read_table(tmp_path / "path.parquet").to_pydict() == {
        "generation": ["a", "b", "c"],
        "s_from": [[[0.0], [0.0, 0.5, 1.0]], [], [[0.0, 1.5]]],
        "draft_length": [[[3], [2, 1, 2]], [], [[0, 4]]],
        "first_change_below": [[None, 1.0], [], [None]],
        "draft_length_below": [[None, 1], [], [None]],
        "first_change_above": [[None, None], [], [1.5]],
        "draft_length_above": [[None, None], [], [4]],
    }


@pytest.mark.parametrize("lengths", [(), (0,), (0, 0)])
def test_nothing_has_no_path(lengths: tuple[int, ...]) -> None:
    drawn = strategies.random_problem(1, "general", lengths=(0,), K=3)
    empty = make(drawn)
    problem = replace(empty, offsets=frozen(np.zeros(1 + len(lengths), np.int64)))
    path = alpha_path(problem, costs_of(drawn))
    assert path.positions == 0
    assert len(path.change_above().s) == len(path.change_below().s) == len(path.returns) == 0
    assert not path.counts_at(np.array([0.0, 1.0]), 3).any()


def test_where_no_draft_is_possible_nothing_changes() -> None:
    one = frozen(np.ones(3))
    problem = Problem(frozen(np.array([0, 3])), one, frozen(np.zeros((3, 0))), frozen(np.ones((3, 1))), one, "routing")
    path = alpha_path(problem, LengthCosts(*np.ones((5, 1)), np.ones(1, dtype=bool)))
    assert pieces_of(path) == [[(0.0, 0)]] * 3


@pytest.mark.parametrize("s_max", [0.5, np.nan, np.inf, -1.0])
def test_a_path_that_misses_alpha_as_fitted_is_refused(s_max: float) -> None:
    drawn = strategies.random_problem(1, "general")
    with pytest.raises(InputError) as refusal:
        alpha_path(make(drawn), costs_of(drawn), s_max)
    assert str(refusal.value) == (
        f"the path of scales on alpha ends at {s_max}; it must reach alpha as fitted, s = 1, and end somewhere: "
        "give a finite number of at least 1 (--s-max 2)"
    )


def test_costs_and_problem_of_different_reach_are_refused() -> None:
    drawn = strategies.random_problem(1, "general", K=3)
    longer = costs_of(strategies.random_problem(1, "general", K=4))
    with pytest.raises(ValueError, match="costs reach k = 4, the problem k = 3"):
        alpha_path(make(drawn), longer)


def test_a_tie_exactly_at_the_fitted_alpha_is_told_from_the_length_that_is_chosen() -> None:
    """V of k = 0 and k = 1 are equal at s = 1, and the shorter draft wins there: it changes above, not below."""
    path = AlphaPath(2.0, np.array([0, 2]), np.array([0.0, 1.0]), np.array([0, 1], dtype=np.int16))
    for chosen, below, above in ((0, (np.nan, -1), (1.0, 1)), (1, (1.0, 0), (np.nan, -1))):
        at = np.array([chosen], dtype=np.int16)
        for change, (s, k) in ((path.change_below(1.0, at), below), (path.change_above(1.0, at), above)):
            np.testing.assert_array_equal(change.s, [s])
            assert change.draft_length.tolist() == [k]
    assert path.change_below().draft_length.tolist() == [0], "without it the piece that begins at 1 is taken"
