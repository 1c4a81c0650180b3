"""Scores and intervals against the naive twin's totals and against enumeration of resamples."""

import itertools

import naive
import numpy as np
import pytest
import strategies
from laid_out import costs_of, make

from oracle import scores
from oracle.intervals import Interval
from oracle.policies import PolicySet, reference_policies
from oracle.resampling import bootstrap, cluster_sums
from oracle.solver import solve


def scored(problem: strategies.Problem) -> tuple[scores.PolicyTotals, PolicySet]:
    arrays, costs = make(problem), costs_of(problem)
    blind = solve(arrays, costs.without_experts())
    policies = reference_policies(arrays, costs, solve(arrays, costs), {"experts=0": blind})
    names = tuple(f"g{g}" for g in range(problem.generations))
    return scores.total(arrays, costs, policies, names, names), policies


@pytest.mark.parametrize("kind", ["dyadic", "binary", "general"])
def test_totals_equal_naive_twin(kind: strategies.Kind) -> None:
    for seed in range(60):
        problem = strategies.random_problem(seed, kind)
        totals, policies = scored(problem)
        starts = np.concatenate([[0], np.cumsum(problem.lengths)])
        for g, p in itertools.product(range(problem.generations), range(len(policies.names))):
            k = policies.draft_length[starts[g] : starts[g + 1], p].tolist()
            twin = naive.totals(problem.generation(g), problem.costs, k)
            ours = dict(zip(scores.MEASURES, totals.sums[g, p], strict=True))
            expected = {
                "rounds": twin.rounds,
                "drafted": twin.drafted,
                "accepted": twin.accepted,
                "verify_ms": twin.base_ms,
                "expert_ms": twin.expert_ms,
                "context_ms": twin.context_ms,
                "draft_ms": twin.draft_ms,
                "reject_ms": twin.reject_ms,
            }
            for name, value in expected.items():
                assert ours[name] == pytest.approx(value, rel=1e-11, abs=1e-11), name
            cost = naive.evaluate(problem.generation(g), problem.costs, k)
            assert totals.total_ms[g, p] == pytest.approx(cost[0], rel=1e-11, abs=1e-11)
            past = [
                v for t, v in enumerate(naive.visit_probs(problem.generation(g), k)) if t + k[t] >= problem.lengths[g]
            ]
            assert ours["past_end"] == pytest.approx(sum(past), abs=1e-12)


def test_oracle_never_costs_more_than_any_policy() -> None:
    for seed in range(80):
        problem = strategies.random_problem(seed, "general")
        totals, policies = scored(problem)
        oracle = totals.total_ms[:, [policies.names.index("oracle")]]
        assert (oracle <= totals.total_ms * (1 + 1e-12)).all()


def test_expected_equals_simulated_when_matches_are_certain() -> None:
    for seed in range(60):
        problem = strategies.random_problem(seed, "binary")
        totals, policies = scored(problem)
        starts = np.concatenate([[0], np.cumsum(problem.lengths)])
        for g, p in itertools.product(range(problem.generations), range(len(policies.names))):
            k = policies.draft_length[starts[g] : starts[g + 1], p].tolist()
            twin, rounds = naive.simulate(problem.generation(g), problem.costs, k)
            assert totals.of("rounds")[g, p] == len(rounds)
            assert totals.of("accepted")[g, p] == twin.accepted
            assert totals.total_ms[g, p] == twin.total_ms


def test_scores_follow_from_totals() -> None:
    problem = strategies.random_problem(3, "general", lengths=(30, 25, 40), K=4, k_min=0, missing=False)
    totals, policies = scored(problem)
    rows = {row.policy: row for row in scores.score(totals)}
    assert set(rows) == {"oracle", "blind", "static:0", "static:1", "static:2", "static:3", "static:4"}
    tokens = 95
    for p, name in enumerate(policies.names):
        ms = totals.total_ms[:, p].sum() / tokens
        row = rows[name]
        assert row.ms_per_token == pytest.approx(ms)
        assert sum(row.split_ms_per_token) == pytest.approx(ms)
        assert row.speedup == pytest.approx(rows["static:0"].ms_per_token / ms)
        assert row.regret_ms_per_token == pytest.approx(ms - rows["oracle"].ms_per_token, abs=1e-12)
        assert row.tokens_per_round == pytest.approx(tokens / totals.of("rounds")[:, p].sum())
        assert row.ms_per_token_interval is not None
        assert row.ms_per_token_interval.low <= row.ms_per_token <= row.ms_per_token_interval.high
    assert rows["static:0"].acceptance is None
    assert rows["static:0"].gain_captured == 0
    assert rows["oracle"].gain_captured == 1
    assert rows["oracle"].regret_interval == Interval(0.0, 0.0)


def test_without_k_0_speedups_are_not_available() -> None:
    problem = strategies.random_problem(4, "general", lengths=(30,), K=3, k_min=1, missing=False)
    rows = scores.score(scored(problem)[0])
    assert all(row.speedup is None and row.gain_captured is None for row in rows)
    assert all(row.ms_per_token_interval is None for row in rows), "one generation carries no interval"


def test_texts_without_positions_are_not_scored() -> None:
    assert scores.score(scored(strategies.random_problem(1, "general", lengths=(0, 0)))[0]) == []


def test_bootstrap_interval_equals_the_exact_distribution_of_resamples() -> None:
    """With three clusters all 27 resamples can be listed; the interval must be a quantile of that distribution."""
    totals = np.array([[1.0, 1.0], [4.0, 2.0], [9.0, 1.0]])
    exact = sorted(
        sum(totals[i, 0] for i in draw) / sum(totals[i, 1] for i in draw)
        for draw in itertools.product(range(3), repeat=3)
    )
    [interval] = bootstrap(totals, lambda sums: sums[:, :1] / sums[:, 1:], draws=20_000)
    assert interval is not None
    # 1 of 27 resamples lies at each end, 3.7 % > 2.5 %: both ends of the interval are the extreme resamples
    assert interval == Interval(exact[0], exact[-1])
    assert bootstrap(totals, lambda s: s[:, :1] / s[:, 1:]) == bootstrap(totals, lambda s: s[:, :1] / s[:, 1:])
    assert bootstrap(totals[:1], lambda sums: sums) == [None, None]


def test_clusters_are_added_up_by_name() -> None:
    sums, names = cluster_sums(np.array([[1.0], [10.0], [100.0]]), ("a", "b", "a"))
    assert names == ("a", "b")
    assert sums.tolist() == [[101.0], [10.0]]


def test_many_clusters_are_resampled_in_groups() -> None:
    """The interval of a mean over 20,000 clusters against the normal approximation, which is exact to 1 % there."""
    values = np.random.default_rng(1).gamma(2.0, size=20_000)
    [interval] = bootstrap(np.column_stack([values, np.ones_like(values)]), lambda s: s[:, :1] / s[:, 1:], draws=4_000)
    assert interval is not None
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    assert interval.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.1 * half)
