"""The ablation against re-solving by hand, and its decomposition against exact rational arithmetic."""

from fractions import Fraction

import naive
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from laid_out import costs_of, make, parts
from traces_factory import DENSE, trace_table

from oracle import ablation
from oracle.costs import LengthCosts
from oracle.problem import Problem
from oracle.solver import Solution, solve, visits
from oracle.traces import Traces

EPS = np.finfo(float).eps


def exact_difference(problem: Problem, costs: LengthCosts, solution: Solution, t: int, k: int, other: int) -> Fraction:
    """Q(t, k) - Q(t, other) from the same doubles, without rounding."""

    def q(length: int) -> Fraction:
        terms = [
            Fraction(costs.verify_ms[length]),
            Fraction(costs.draft_ms[length]),
            Fraction(costs.reject_ms[length]),
            Fraction(costs.alpha_ms[length]) * Fraction(problem.unique_experts[t, length]),
            Fraction(costs.context_ms[length]) * Fraction(problem.context_len[t]),
        ]
        credit = [
            Fraction(problem.survival[t, j]) * Fraction(solution.padded_marginal_ms[t + 1 + j]) for j in range(length)
        ]
        return sum(terms) - sum(credit)

    return q(k) - q(other)


@settings(max_examples=120, deadline=None)
@given(strategies.general_problems(), st.integers(0, 2**32 - 1))
def test_terms_sum_to_the_exact_difference(problem: strategies.Problem, seed: int) -> None:
    arrays, costs = make(problem), costs_of(problem)
    solution = solve(arrays, costs)
    rng = np.random.default_rng(seed)
    k, other = rng.choice(problem.allowed, size=(2, arrays.positions))
    terms = ablation.decompose(arrays, costs, solution, k, other)
    for t in range(arrays.positions):
        exact = exact_difference(arrays, costs, solution, t, int(k[t]), int(other[t]))
        error = abs(sum((Fraction(x) for x in terms[t]), Fraction(0)) - exact)
        assert error <= 8 * EPS * float(np.abs(terms[t]).sum())


def test_terms_are_those_of_the_naive_twin() -> None:
    for seed in range(60):
        problem = strategies.random_problem(seed, "dyadic")
        arrays, costs = make(problem), costs_of(problem)
        solution = solve(arrays, costs)
        k = np.array([c for g in range(problem.generations) for c in problem.policy(g, seed)], dtype=np.int64)
        terms = parts(problem, ablation.decompose(arrays, costs, solution, k, solution.draft_length))
        choices, best = parts(problem, k), parts(problem, solution.draft_length)
        for g in range(problem.generations):
            twin = naive.solve(problem.generation(g), problem.costs)
            for t, row in enumerate(terms[g]):
                expected = naive.decompose(
                    problem.generation(g), problem.costs, twin.value, t=t, k=int(choices[g][t]), other=int(best[g][t])
                )
                ours = dict(zip(ablation.TERMS, row, strict=True))
                assert ours["verify_ms"] == expected["base"]
                assert ours["expert_load_ms"] + ours["expert_price_ms"] == expected["expert"]
                assert ours["context_ms"] == expected["context"]
                assert ours["draft_ms"] == expected["draft"]
                assert ours["reject_ms"] == expected["reject"]
                assert ours["continuation_ms"] == expected["continuation"]


def test_one_context_coefficient_has_no_term() -> None:
    problem = strategies.random_problem(2, "general", lengths=(30,), K=4, missing=False)
    arrays, costs = make(problem), costs_of(problem)
    shared = LengthCosts(
        costs.verify_ms, costs.alpha_ms, np.full(5, 0.25), costs.draft_ms, costs.reject_ms, costs.allowed
    )
    assert shared.shared_context
    solution = solve(arrays, shared)
    terms = ablation.decompose(arrays, shared, solution, np.full(30, 4), solution.draft_length)
    assert (terms[:, ablation.TERMS.index("context_ms")] == 0).all()


def shifted(problem: strategies.Problem) -> tuple[Problem, ablation.Shifts]:
    arrays, costs = make(problem), costs_of(problem)
    without = costs.without_experts()
    oracle, blind = solve(arrays, costs), solve(arrays, without)
    visit = visits(arrays, oracle.draft_length)
    nothing = np.full(arrays.positions, np.nan, dtype=np.float32)
    return arrays, ablation.shifts(arrays, costs, without, oracle, blind, visit, nothing)


@pytest.mark.parametrize("kind", ["dyadic", "binary"])
def test_shifts_equal_naive_twin(kind: strategies.Kind) -> None:
    for seed in range(80):
        problem = strategies.random_problem(seed, kind)
        _, found = shifted(problem)
        twins = [naive.ablate(problem.generation(g), problem.costs) for g in range(problem.generations)]
        assert (found.changed_length - found.draft_length).tolist() == [s for twin in twins for s in twin.shift]
        expected = [np.nan if q is None else q for twin in twins for q in twin.next_q_ms]
        np.testing.assert_array_equal(found.next_q_ms, expected)


def test_prevalence_counts_what_the_shifts_say() -> None:
    problem = strategies.random_problem(
        18, "general", lengths=(40, 0, 25, 33), K=5, k_min=0, missing=False, unique="routing", alpha_zero=False
    )
    arrays, found = shifted(problem)
    names = ("a", "b", "a", "c")
    counted = ablation.join([ablation.tally(found, arrays.offsets, names, problem.K)])
    rows = {row.boundary: row for row in ablation.prevalence(counted)}
    k, k0, v = found.draft_length.astype(int), found.changed_length.astype(int), found.visit_prob
    assert (k0 != k).any(), "the problem must have shifts for this test to say anything"
    assert rows["any"].decisions == (k0 != k).sum()
    assert rows["any"].share == pytest.approx((k0 != k).mean())
    assert rows["any"].visit_share == pytest.approx(v[k0 != k].sum() / v.sum())
    assert rows["longer"].share == pytest.approx((k0 > k).mean())
    assert rows["shorter"].share == pytest.approx((k0 < k).mean())
    for boundary in range(5):
        here = (k == boundary) & (k0 > k)
        assert rows[f"{boundary} → longer"].decisions == here.sum()
        assert rows[f"{boundary} → longer"].visit_share == pytest.approx(v[here].sum() / v.sum())
    for i, j in np.ndindex(6, 6):
        assert counted.transitions[0, i, j] == ((k == i) & (k0 == j)).sum()
        assert counted.transitions[1, i, j] == pytest.approx(v[(k == i) & (k0 == j)].sum())


def test_shares_of_a_category_are_those_of_its_generations_alone() -> None:
    problem = strategies.random_problem(
        18, "general", lengths=(40, 0, 25, 33), K=5, k_min=0, missing=False, unique="routing", alpha_zero=False
    )
    arrays, found = shifted(problem)
    counted = ablation.join(
        [ablation.tally(found, arrays.offsets, ("a", "b", "a", "c"), 5, ("code", "prose", "prose", ""))]
    )
    assert ablation.categories_of(counted) == ("code", "prose")
    last = slice(int(arrays.offsets[2]), int(arrays.offsets[3]))
    k, changed, v = (a[last].astype(float) for a in (found.draft_length, found.changed_length, found.visit_prob))
    rows = {row.boundary: row for row in ablation.prevalence(counted, "prose")}
    assert rows["any"].share == pytest.approx((k != changed).mean())
    assert rows["shift"].visit_share == pytest.approx((v * (changed - k)).sum() / v.sum())
    assert (rows["shift"].decisions, rows["shift"].clusters) == (25, 2)
    assert ablation.prevalence(counted, "nowhere") == []
    again = ablation.tally(found, arrays.offsets, ("a", "b", "a", "c"), 5, ("code", "prose", "prose", ""))
    both = ablation.join([again, again])
    assert [row.share for row in ablation.prevalence(both)] == [row.share for row in ablation.prevalence(counted)]


def test_the_change_of_a_difference_is_its_own_cost_and_the_continuation() -> None:
    """Q'(k') - Q'(k*) = Q(k') - Q(k*) - alpha terms + the continuation's own change, from the naive twin's values."""
    for seed in range(60):
        problem = strategies.random_problem(seed, "dyadic")
        arrays, found = shifted(problem)
        costs = costs_of(problem)
        t = 0
        for g in range(problem.generations):
            generation = problem.generation(g)
            full = naive.solve(generation, problem.costs)
            blind = naive.solve(generation, naive.without_experts(problem.costs))
            for i in range(len(full.draft_length)):
                k, k0 = int(found.draft_length[t]), int(found.changed_length[t])
                changed = blind.q[i][k0] - blind.q[i][k]
                assert found.changed_q_ms[t] == changed
                U = arrays.unique_experts[t]
                saved = costs.alpha_ms[k0] * U[k0] - costs.alpha_ms[k] * U[k]
                assert found.continuation_change_ms[t] == changed - (full.q[i][k0] - full.q[i][k]) + saved
                whole = k > 0 and i + k >= len(full.draft_length)
                reach = 1.0 if k == 0 else arrays.to_end[t] if whole else arrays.survival[t, k - 1]
                assert found.survival[t] == reach
                t += 1


def test_every_length_of_every_decision_is_priced() -> None:
    problem = strategies.random_problem(5, "general", lengths=(7, 0, 4), K=3)
    arrays, costs = make(problem), costs_of(problem)
    solution = solve(arrays, costs)
    traces = Traces.from_arrow(trace_table(problem.lengths, drop=DENSE), "made.parquet")
    rows = ablation.every_length(arrays, costs, solution, solution, "", traces).to_pylist()
    assert len(rows) == 11 * len(costs.lengths)
    q = ablation.q_values(arrays, costs, solution)
    for row in rows:
        t = int(arrays.offsets[traces.generation.index(row["generation"])]) + row["position"]
        best = int(solution.draft_length[t])
        assert row["optimal"] == (row["draft_length"] == best)
        assert row["q_difference_ms"] == pytest.approx(q[t, row["draft_length"]] - q[t, best], abs=1e-12)
        assert sum(row[f"q_difference_{term}"] for term in ablation.TERMS) == pytest.approx(row["q_difference_ms"])


def test_terms_are_counted_by_the_length_that_the_oracle_chose() -> None:
    problem = strategies.random_problem(
        18, "general", lengths=(40, 0, 25, 33), K=5, k_min=0, missing=False, unique="routing", alpha_zero=False
    )
    arrays, found = shifted(problem)
    counted = ablation.join([ablation.tally(found, arrays.offsets, ("a", "b", "a", "c"), 5)])
    k, changed = found.draft_length.astype(int), found.changed_length.astype(int)
    assert len(set(k[changed != k])) > 1, "several lengths must move for this test to say anything"
    for boundary in range(6):
        for direction, moved in enumerate((changed > k, changed < k)):
            here = moved & (k == boundary)
            np.testing.assert_allclose(
                counted.terms_ms[direction, boundary], found.terms_ms[here].sum(axis=0), atol=1e-12
            )
            expected = found.continuation_change_ms[here].sum()
            np.testing.assert_allclose(counted.continuation_change_ms[direction, boundary], expected, atol=1e-12)


def test_the_next_token_is_known_up_to_the_last_one_of_the_text() -> None:
    table = trace_table((4, 3), drop=DENSE)
    traces = Traces.from_arrow(table, "made.parquet")
    assert traces.match_prob is not None
    k = np.array([3, 2, 2, 0, 1, 1, 1], dtype=np.int16)
    p = traces.match_prob
    expected = [p[3], p[3], np.nan, p[3], p[5], p[6], np.nan]
    np.testing.assert_array_equal(ablation.next_match_prob(traces, k, 4), np.array(expected, dtype=np.float32))
    at_most = ablation.next_match_prob(traces, k, 3)
    assert np.isnan(at_most[0]), "no longer draft may be chosen"


def test_survival_of_a_draft_that_ends_the_text_is_kept() -> None:
    problem = strategies.random_problem(7, "general", lengths=(3,), K=3, k_min=3, missing=False)
    arrays, found = shifted(problem)
    assert found.draft_length.tolist() == [3, 3, 3]
    match = problem.match_probs[0].astype(float)
    expected = [match[0, :3].prod(), match[1, :2].prod(), match[2, 0]]
    np.testing.assert_allclose(found.survival, expected, rtol=1e-12)
    assert arrays.positions == 3


def test_prevalence_of_nothing_is_nothing() -> None:
    arrays, found = shifted(strategies.random_problem(1, "general", lengths=(0,), K=3))
    assert ablation.prevalence(ablation.join([ablation.tally(found, arrays.offsets, ("a",), 3)])) == []
