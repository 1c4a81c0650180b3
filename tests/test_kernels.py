"""Every kernel against its naive twin, exhaustive enumeration and QuantEcon."""

from dataclasses import replace

import enumeration
import naive
import numpy as np
import pytest
import referee_quantecon
import strategies
from hypothesis import given, settings
from laid_out import costs_of, make, offsets_of, parts
from numpy.typing import NDArray

from kernels.decisions import continuation_credit
from kernels.evaluation import visit_probability
from kernels.windows import new_experts, unique_experts
from oracle import solver
from oracle.columns import frozen
from oracle.costs import LengthCosts
from oracle.problem import aligned
from oracle.solver import WIDE, describe, evaluate, rounds_of, solve, solve_many, visits

KINDS: tuple[strategies.Kind, ...] = ("dyadic", "binary", "general")


def random_policies(problem: strategies.Problem, count: int) -> list[list[list[int]]]:
    """`count` random policies, each a list of draft lengths for every generation."""
    return [[problem.policy(g, seed) for g in range(problem.generations)] for seed in range(count)]


def columns(policies: list[list[list[int]]]) -> NDArray[np.int16]:
    return np.stack([np.array([k for g in policy for k in g], dtype=np.int16) for policy in policies], axis=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", range(10))
def test_solution_equals_naive_twin(kind: strategies.Kind, block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        problem = strategies.random_problem(seed, kind)
        arrays = make(problem)
        solution = solve(arrays, costs_of(problem))
        values = solution.value_ms(arrays.offsets)
        d = parts(problem, solution.marginal_ms)
        k = parts(problem, solution.draft_length)
        for g in range(problem.generations):
            twin = naive.solve(problem.generation(g), problem.costs)
            if kind == "general":
                np.testing.assert_allclose(values[g], twin.value[0], rtol=1e-12, atol=1e-12)
                for t, choice in enumerate(k[g]):
                    assert twin.q[t][int(choice)] - twin.value[t] <= 1e-9
            else:
                assert values[g] == twin.value[0]
                assert k[g].tolist() == twin.draft_length
                assert d[g].tolist() == naive.marginal(twin.value)


@settings(max_examples=150, deadline=None)
@given(strategies.dyadic_problems())
def test_solution_equals_naive_twin_on_shrinkable_problems(problem: strategies.Problem) -> None:
    solution = solve(make(problem), costs_of(problem))
    twins = [naive.solve(problem.generation(g), problem.costs) for g in range(problem.generations)]
    assert solution.draft_length.tolist() == [k for twin in twins for k in twin.draft_length]


def test_no_policy_at_all_is_better() -> None:
    for seed in range(150):
        problem = strategies.random_problem(seed, "dyadic", lengths=(5,), K=2)
        solution = solve(make(problem), costs_of(problem))
        best, choices, _ = enumeration.best(problem.generation(0), problem.costs)
        assert solution.marginal_ms.sum() == best[0]
        assert solution.draft_length.tolist() == list(choices)


@pytest.mark.parametrize("kind", KINDS)
def test_quantecon_finds_the_same_policy(kind: strategies.Kind) -> None:
    for seed in range(40):
        problem = strategies.random_problem(seed, kind, lengths=(12 if kind == "dyadic" else 300,), K=4)
        solution = solve(make(problem), costs_of(problem))
        value, k = referee_quantecon.solve(problem.generation(0), problem.costs)
        if kind == "general":
            np.testing.assert_allclose(solution.marginal_ms.sum(), value[0], rtol=1e-12)
            twin = naive.solve(problem.generation(0), problem.costs)
            assert all(twin.q[t][int(c)] - twin.value[t] <= 1e-9 for t, c in enumerate(solution.draft_length))
        else:
            assert solution.marginal_ms.sum() == value[0]
            assert solution.draft_length.tolist() == k.tolist()


def test_quantecon_on_a_long_text() -> None:
    problem = strategies.random_problem(7, "general", lengths=(4000,), K=10, k_min=0, missing=False)
    solution = solve(make(problem), costs_of(problem))
    value, _ = referee_quantecon.solve(problem.generation(0), problem.costs)
    np.testing.assert_allclose(np.cumsum(solution.marginal_ms[::-1])[::-1], value[:-1], rtol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 31, 32, 33, 70])
def test_lanes_equal_single_solves_bit_for_bit(count: int) -> None:
    for seed in range(12):
        problem = strategies.random_problem(seed, "general" if seed % 2 else "dyadic")
        arrays = make(problem)
        rng = np.random.default_rng(seed)
        full = costs_of(problem)
        models = [
            LengthCosts(
                full.verify_ms * rng.uniform(0.5, 2),
                full.alpha_ms * rng.choice([0.0, 0.5, 1.0, 3.0]),
                full.context_ms * rng.uniform(0, 2),
                full.draft_ms * rng.uniform(0, 2),
                full.reject_ms,
                full.allowed,
            )
            for _ in range(count)
        ]
        for one, lane in zip([solve(arrays, m) for m in models], solve_many(arrays, models), strict=True):
            assert one.draft_length.tolist() == lane.draft_length.tolist()
            assert one.padded_marginal_ms.tobytes() == lane.padded_marginal_ms.tobytes()


def test_lanes_in_parts_equal_single_solves_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few generations, of one that is longer than a part, and of empty ones."""
    problem = strategies.random_problem(3, "general", lengths=(0, 3, 2, 0, 1, 30, 0, 0, 4, 9, 1, 0), K=4, k_min=0)
    arrays, full = make(problem), costs_of(problem)
    models = [replace(full, alpha_ms=w * full.alpha_ms) for w in range(9)]
    assert solver._whole_generations(arrays.offsets).tolist() == [0, 50]
    monkeypatch.setattr(solver, "_PIECE", 5)
    assert solver._whole_generations(arrays.offsets).tolist() == [0, 5, 36, 40, 49, 50]
    for one, lane in zip([solve(arrays, m) for m in models], solve_many(arrays, models), strict=True):
        assert one.draft_length.tolist() == lane.draft_length.tolist()
        assert one.padded_marginal_ms.tobytes() == lane.padded_marginal_ms.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_survival_and_its_ends(kind: strategies.Kind) -> None:
    for seed in range(80):
        problem = strategies.random_problem(seed, kind)
        arrays = make(problem)
        t = 0
        for g, n in enumerate(problem.lengths):
            for i in range(n):
                s = naive.survival(problem.match_probs[g][i].tolist())
                left = n - i
                expected = [s[j] if j < left else 0.0 for j in range(1, problem.K + 1)]
                assert arrays.survival[t].tolist() == expected
                assert arrays.to_end[t] == (s[left] if left <= problem.K else 0.0)
                t += 1


@pytest.mark.parametrize("seed", range(80))
def test_windows_equal_sets(seed: int) -> None:
    problem = strategies.random_problem(seed, "general", unique="routing")
    assert problem.experts is not None
    offsets = offsets_of(problem)
    ids = np.concatenate([np.zeros((0, problem.layers, problem.top_k), problem.experts[0].dtype), *problem.experts])
    words = -(-problem.num_experts // 64)
    new = np.full((len(ids), problem.K + 1), 9999, dtype=np.uint16)
    new_experts(
        frozen(ids.reshape(len(ids), problem.layers * problem.top_k)),
        offsets,
        (0,) * problem.top_k,
        aligned((problem.K + 1, words * problem.layers), np.uint64),
        aligned((words * problem.layers,), np.uint64),
        new,
    )
    twins = [naive.new_experts(e.tolist(), problem.K) for e in problem.experts]
    assert new.tolist() == [row for twin in twins for row in twin]
    unique = np.full((len(ids), problem.K + 1), np.nan)
    unique_experts(frozen(new), offsets, float(problem.layers), unique)
    tables = [naive.unique_experts(e.tolist(), problem.K) for e in problem.experts]
    assert unique.tolist() == [row for table in tables for row in table]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 3, WIDE + 1])
def test_policy_evaluation_and_visits(kind: strategies.Kind, count: int) -> None:
    exact = kind != "general"
    for seed in range(60 if count < WIDE else 15):
        problem = strategies.random_problem(seed, kind)
        arrays = make(problem)
        policies = random_policies(problem, count)
        laid_out = columns(policies)
        marginal = evaluate(arrays, costs_of(problem), laid_out)
        visit, _ = rounds_of(arrays, laid_out)
        for p, policy in enumerate(policies):
            alone = parts(problem, visits(arrays, laid_out[:, p]))
            for g, (e, v) in enumerate(zip(parts(problem, marginal[:, p]), parts(problem, visit[:, p]), strict=True)):
                cost = naive.evaluate(problem.generation(g), problem.costs, policy[g])
                starts = naive.visit_probs(problem.generation(g), policy[g])
                if exact:
                    assert e.tolist() == naive.marginal(cost)
                    assert v.tolist() == alone[g].tolist() == starts
                else:
                    np.testing.assert_allclose(e.sum(), cost[0], rtol=1e-12, atol=1e-12)
                    np.testing.assert_allclose(v, starts, rtol=1e-12, atol=1e-14)
                    np.testing.assert_allclose(alone[g], starts, rtol=1e-12, atol=1e-14)


def test_no_visit_is_below_zero() -> None:
    """Where a long draft is almost certain to match, a visit is the difference of almost equal numbers."""
    rng = np.random.default_rng(3)
    n, K = 2_000, 6
    survival = np.cumprod(1.0 - rng.choice([0.0, 2.0**-53, 2.0**-40, 0.1], p=[0.3, 0.4, 0.2, 0.1], size=(n, K)), axis=1)
    for j in range(1, K + 1):
        survival[n - j :, j - 1] = 0.0
    lengths = rng.integers(0, K + 1, size=n).astype(np.int16)
    exact = np.zeros(n + K + 1)
    exact[0] = 1.0
    for t, k in enumerate(lengths):  # nothing is subtracted but neighbours of one product
        reach = np.append(np.insert(survival[t, :k], 0, 1.0), 0.0)
        exact[t + 1 : t + k + 2] += exact[t] * (reach[:-1] - reach[1:])
    visit = np.empty(n + K)
    visit_probability(frozen(lengths), frozen(survival), visit)
    assert exact[:n].min() < 1e-14
    assert visit[:n].min() >= 0
    np.testing.assert_allclose(visit[:n], exact[:n], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_descriptions_of_decisions(kind: strategies.Kind) -> None:
    for seed in range(60):
        problem = strategies.random_problem(seed, kind)
        arrays, costs = make(problem), costs_of(problem)
        solution = solve(arrays, costs)
        said = describe(arrays, costs, solution)
        t = 0
        for g, n in enumerate(problem.lengths):
            generation = problem.generation(g)
            twin = naive.solve(generation, problem.costs)
            for i in range(n):
                k, row = int(solution.draft_length[t]), generation.match_probs[i]
                assert said.expected_advance[t] == pytest.approx(naive.expected_advance(row, k, n - i), rel=1e-6)
                gap = naive.q_gap(twin.q[i])
                if gap is None:
                    assert said.q_gap_ms[t] == np.inf
                else:
                    assert said.q_gap_ms[t] == pytest.approx(gap, abs=1e-9 * max(1.0, abs(twin.value[i])))
                chances = naive.clipped_advance_probs(row, k, n - i)
                likeliest = chances[int(said.modal_advance[t])]
                assert likeliest >= max(chances.values()) - 1e-15
                if kind != "general":
                    assert said.modal_advance[t] == naive.modal_advance(row, k, n - i)
                t += 1


def test_credit_is_the_price_of_the_positions_saved() -> None:
    for seed in range(40):
        problem = strategies.random_problem(seed, "general")
        arrays = make(problem)
        solution = solve(arrays, costs_of(problem))
        credit = np.empty((arrays.positions, problem.K + 1))
        continuation_credit(arrays.survival, solution.padded_marginal_ms, credit)
        d = solution.padded_marginal_ms
        for t in range(arrays.positions):
            for k in range(problem.K + 1):
                direct = sum(arrays.survival[t, j] * d[t + 1 + j] for j in range(k))
                assert credit[t, k] == direct
