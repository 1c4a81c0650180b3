"""The referees agree among themselves before they judge anything else."""

import math

import enumeration
import naive
import numpy as np
import pytest
import referee_quantecon
from hypothesis import given, settings
from strategies import Problem, binary_problems, dyadic_problems, general_problems, random_problem, random_routing

NEAR_TIE_MS = 1e-9


def assert_same_solution(
    mine: naive.Solution, value: list[float], draft_length: list[int], *, exact: bool, near_tie_ms: float = NEAR_TIE_MS
) -> None:
    """Exact on dyadic inputs; elsewhere V to 1e-12 relative and any k whose Q is within 1e-9 ms of V."""
    if exact:
        assert mine.value == value
        assert mine.draft_length == draft_length
        return
    assert value == pytest.approx(mine.value, rel=1e-12, abs=0.0)
    for t, k in enumerate(draft_length):
        assert mine.q[t][k] - mine.value[t] <= near_tie_ms


def costs(beta0: list[float]) -> naive.Costs:
    """Nothing but beta0, for k = 0 … 3."""
    zeros = [0.0] * 4
    return naive.Costs(beta0=beta0, draft=zeros, reject=zeros, alpha=zeros, context=zeros, lengths=[0, 1, 2, 3])


def generation(match_prob: list[float], K: int = 3, U: float = 1.0, context_start: int = 5) -> naive.Generation:
    return naive.Generation(naive.by_depth(match_prob, K), [[U] * (K + 1) for _ in match_prob], context_start)


@pytest.mark.parametrize("kind", ["dyadic", "binary", "general"])
def test_quantecon_agrees_with_the_naive_recursion_on_random_problems(kind: str) -> None:
    for seed in range(500):
        problem = random_problem(seed, kind)  # type: ignore[arg-type]
        for g in range(problem.generations):
            value, draft_length = referee_quantecon.solve(problem.generation(g), problem.costs)
            mine = naive.solve(problem.generation(g), problem.costs)
            assert_same_solution(mine, value.tolist(), draft_length.tolist(), exact=kind != "general")


def test_quantecon_in_blocks_equals_quantecon_in_one_piece_and_scales() -> None:
    problem = random_problem(7, "binary", lengths=(2000,), K=10, k_min=0, missing=False, unique="recorded")
    value, draft_length = referee_quantecon.solve(problem.generation(0), problem.costs)
    mine = naive.solve(problem.generation(0), problem.costs)
    assert_same_solution(mine, value.tolist(), draft_length.tolist(), exact=True)
    short = random_problem(8, "general", lengths=(50,), K=6)
    whole = referee_quantecon.solve(short.generation(0), short.costs, block=1000)
    cut = referee_quantecon.solve(short.generation(0), short.costs, block=3)
    np.testing.assert_allclose(cut[0], whole[0], rtol=1e-13)
    assert (cut[1] == whole[1]).all()


@pytest.mark.parametrize("kind", ["dyadic", "general"])
def test_no_policy_at_all_beats_the_naive_recursion(kind: str) -> None:
    for seed in range(1200):
        rng = np.random.default_rng(seed)
        n, K = (int(rng.integers(0, 5)), int(rng.integers(1, 4))) if seed % 100 else (6, 1 + seed // 100 % 3)
        problem = random_problem(seed, kind, lengths=(n if K < 3 else min(n, 5),), K=K)  # type: ignore[arg-type]
        value, draft_length, q = enumeration.best(problem.generation(0), problem.costs)
        mine = naive.solve(problem.generation(0), problem.costs)
        assert_same_solution(mine, value, draft_length, exact=kind == "dyadic")
        for t in range(len(q)):
            assert q[t] == pytest.approx(mine.q[t], rel=1e-12)


def test_all_4096_policies_of_six_positions_and_four_lengths() -> None:
    problem = random_problem(3, "dyadic", lengths=(6,), K=3, k_min=0, missing=False)
    value, draft_length, _ = enumeration.best(problem.generation(0), problem.costs)
    assert_same_solution(naive.solve(problem.generation(0), problem.costs), value, draft_length, exact=True)


def check_identities(problem: Problem, g: int) -> None:
    one, c = problem.generation(g), problem.costs
    N = problem.lengths[g]
    optimum = naive.solve(one, c)
    assert math.fsum(naive.marginal(optimum.value)) == pytest.approx(optimum.value[0], rel=1e-12)
    for policy in (optimum.draft_length, problem.policy(g, seed=g)):
        J, sums = naive.evaluate(one, c, policy), naive.totals(one, c, policy)
        assert all(j >= v - 1e-12 * v for j, v in zip(J, optimum.value, strict=True))
        assert sums.total_ms == pytest.approx(J[0], rel=1e-12)
        assert sums.emitted == pytest.approx(N, rel=1e-12)
        assert sums.drafted == pytest.approx(sums.accepted + sums.wasted, rel=1e-12)
    for t in range(N):
        for k in c.lengths:
            terms = naive.decompose(one, c, optimum.value, t=t, k=k, other=optimum.draft_length[t])
            difference = optimum.q[t][k] - optimum.value[t]
            scale = abs(optimum.q[t][k]) + abs(optimum.value[t]) + sum(abs(x) for x in terms.values())
            assert sum(terms.values()) == pytest.approx(difference, abs=1e-14 * scale)
            chances = naive.clipped_advance_probs(one.match_probs[t], k, N - t)
            assert sum(chances.values()) == pytest.approx(1.0, rel=1e-12)
            survived = sum(naive.survival(one.match_probs[t])[: min(k + 1, N - t)])
            assert naive.expected_advance(one.match_probs[t], k, N - t) == pytest.approx(survived, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(dyadic_problems())
def test_identities_on_dyadic_problems(problem: Problem) -> None:
    for g in range(problem.generations):
        check_identities(problem, g)


@settings(max_examples=60, deadline=None)
@given(general_problems())
def test_identities_on_general_problems(problem: Problem) -> None:
    for g in range(problem.generations):
        check_identities(problem, g)


@settings(max_examples=80, deadline=None)
@given(binary_problems())
def test_simulation_equals_expectation_where_matches_are_known(problem: Problem) -> None:
    for g in range(problem.generations):
        policy = problem.policy(g, seed=1)
        sums, rounds = naive.simulate(problem.generation(g), problem.costs, policy)
        assert sums == naive.totals(problem.generation(g), problem.costs, policy)
        assert sums.total_ms == naive.evaluate(problem.generation(g), problem.costs, policy)[0]
        assert [1.0 if t in {start for start, _, _ in rounds} else 0.0 for t in range(problem.lengths[g])] == (
            naive.visit_probs(problem.generation(g), policy)
        )


@settings(max_examples=60, deadline=None)
@given(dyadic_problems())
def test_new_experts_sum_to_unique_experts(problem: Problem) -> None:
    for routing in problem.experts or ():
        new, U = naive.new_experts(routing.tolist(), problem.K), naive.unique_experts(routing.tolist(), problem.K)
        for t in range(len(routing)):
            for k in range(problem.K + 1):
                inside = range(min(k, len(routing) - 1 - t) + 1)
                assert sum(new[t + j][j] for j in inside) / problem.layers == U[t][k]


def test_unique_experts_by_hand() -> None:
    rows = [[[0, 1], [5, 6]], [[1, 2], [5, 6]], [[0, 1], [7, 6]]]
    assert naive.unique_experts(rows, 3) == [[2.0, 2.5, 3.0, 3.0], [2.0, 3.0, 3.0, 3.0], [2.0, 2.0, 2.0, 2.0]]
    assert naive.new_experts(rows, 3) == [[4, 0, 0, 0], [4, 1, 0, 0], [4, 2, 1, 0]]


def test_routing_generator_gives_different_ids_in_range() -> None:
    rng = np.random.default_rng(5)
    for num_experts, top_k, id_type in [(1, 1, "uint8"), (8, 8, "uint8"), (256, 4, "uint8"), (1024, 8, "uint16")]:
        ids = random_routing(rng, 30, layers=3, top_k=top_k, num_experts=num_experts, id_type=id_type)  # type: ignore[arg-type]
        assert ids.shape == (30, 3, top_k)
        assert ids.dtype == np.dtype(id_type)
        assert ids.max() < num_experts
        assert all(len(set(token.tolist())) == top_k for row in ids for token in row)


def test_generated_match_probabilities_are_float32_and_padding_is_arbitrary() -> None:
    problem = random_problem(11, "general", lengths=(30,), K=4, depth_dependent=True)
    assert problem.match_probs[0].dtype == np.float32
    filled = naive.solve(problem.generation(0), problem.costs)
    table = problem.match_probs[0].copy()
    table[np.arange(30)[:, None] + np.arange(4)[None, :] >= 30] = 0.25
    assert naive.solve(problem.generation(0)._replace(match_probs=table.tolist()), problem.costs) == filled


def test_generators_cover_what_they_promise() -> None:
    drawn = [random_problem(seed) for seed in range(300)]
    assert {0, 1} <= {n for problem in drawn for n in problem.lengths}
    assert {0, 1} <= {problem.allowed[0] for problem in drawn}
    assert any(set(problem.allowed) != set(range(problem.allowed[0], problem.K + 1)) for problem in drawn)
    assert any(problem.match_prob is None for problem in drawn)
    assert any(problem.generations > 1 for problem in drawn)
    assert any(not problem.alpha.any() for problem in drawn)
    assert {problem.layers for problem in drawn} == set(range(1, 7))
    routed = [problem.experts[0].dtype for problem in drawn if problem.experts is not None]
    assert {np.dtype("uint8"), np.dtype("uint16")} == set(routed)
    assert max(problem.num_experts for problem in drawn if problem.experts is not None) == 1024


def test_all_rejected_means_no_draft_where_it_costs_no_more() -> None:
    for seed in range(100):
        problem = random_problem(seed, "general", k_min=0, missing=False)
        for g in range(problem.generations):
            one = problem.generation(g)
            rejected = one._replace(match_probs=[[0.0] * problem.K for _ in one.match_probs])
            mine = naive.solve(rejected, problem.costs)
            for t, k in enumerate(mine.draft_length):
                cost = [naive.round_cost(one, problem.costs, t, j) for j in problem.allowed]
                assert k == cost.index(min(cost))
                if all(cost[0] <= other for other in cost):
                    assert k == 0


@pytest.mark.parametrize("N", [0, 1, 3, 4, 5, 8, 9])
def test_all_match_at_constant_cost_takes_the_fewest_rounds(N: int) -> None:
    mine = naive.solve(generation([1.0] * N), costs(beta0=[2.0] * 4))
    assert mine.value == [2.0 * math.ceil((N - t) / 4) for t in range(N + 1)]
    # Ties go to the shortest draft that still leaves the fewest rounds.
    assert mine.draft_length == [(N - t - 1) % 4 for t in range(N)]


def test_one_position_takes_the_cheapest_round() -> None:
    mine = naive.solve(generation([1.0]), costs(beta0=[3.0, 2.5, 2.5, 4.0]))
    assert mine == naive.Solution([2.5, 0.0], [1], [{0: 3.0, 1: 2.5, 2: 2.5, 3: 4.0}])
    assert naive.q_gap(mine.q[0]) == 0.0
    assert naive.modal_advance([1.0, 0.0, 0.0], 3, left=1) == 1
    assert naive.q_gap({2: 1.0}) is None


def test_advances_by_hand() -> None:
    p = [0.5, 0.5, 1.0]
    assert naive.survival(p) == [1.0, 0.5, 0.25, 0.25]
    assert naive.advance_probs(p, 3) == {1: 0.5, 2: 0.25, 3: 0.0, 4: 0.25}
    assert naive.clipped_advance_probs(p, 3, left=2) == {1: 0.5, 2: 0.5}
    assert naive.modal_advance(p, 3, left=2) == 1  # a tie: the shorter
    assert naive.modal_advance(p, 3, left=9) == 1
    assert naive.expected_advance(p, 3, left=9) == 2.0
    assert naive.expected_accepted(p, 3, left=9) == 1.0
    assert naive.expected_accepted(p, 3, left=2) == 0.75


def test_taking_the_expert_cost_out_can_only_cheapen() -> None:
    shifts = set()
    for seed in range(150):
        problem = random_problem(seed, "dyadic", unique="routing", alpha_zero=False)
        for g in range(problem.generations):
            found = naive.ablate(problem.generation(g), problem.costs)
            assert all(v0 <= v for v0, v in zip(found.blind.value, found.full.value, strict=True))
            shifts |= set(found.shift)
            for t, gain in enumerate(found.next_q_ms):
                assert (gain is None) == (found.full.draft_length[t] + 1 not in problem.allowed)
    assert min(shifts) < 0 < max(shifts)
