"""Draft lengths side by side against the naive twin: maxima, static lengths, terms of a round, shares of k*."""

import dataclasses

import naive
import numpy as np
import pytest
import strategies
from laid_out import costs_of, make
from traces_factory import trace_table

from oracle import unit_sums
from oracle.by_length import TERMS, ByLength, by_length, capped, limits, round_terms, shares, tally
from oracle.costs import length_costs
from oracle.errors import InputError
from oracle.latency.model import DraftLine, LatencyModel
from oracle.problem import make_problem
from oracle.resampling import bootstrap
from oracle.solver import solve
from oracle.summaries.by_length import limit_table, plateau, round_table, share_table
from oracle.traces import Traces

MODEL = LatencyModel((1, 2, 3, 4), (5.0, 5.5, 6.5, 7.0), (0.25, 0.25, 0.25, 0.25), 0.001, DraftLine(0.5, 0.25))


def tallied(problem: strategies.Problem) -> ByLength:
    return tally(make(problem), costs_of(problem), tuple(f"c{g // 2}" for g in range(problem.generations)))


def up_to(costs: naive.Costs, k: int) -> naive.Costs:
    return costs._replace(lengths=[length for length in costs.lengths if length <= k])


def some(kind: strategies.Kind, count: int) -> list[strategies.Problem]:
    problems = [strategies.random_problem(seed, kind) for seed in range(count)]
    return [problem for problem in problems if sum(problem.lengths)]


@pytest.mark.parametrize("kind", ["dyadic", "general"])
def test_every_total_equals_the_naive_twin(kind: strategies.Kind) -> None:
    for problem in some(kind, 50):
        found = tallied(problem)
        for g in range(problem.generations):
            text = problem.generation(g)
            for i, k in enumerate(problem.allowed):
                best = naive.solve(text, up_to(problem.costs, k))
                assert found.capped_ms[g, i] == pytest.approx(best.value[0], rel=1e-12, abs=1e-12)
                static = naive.evaluate(text, problem.costs, [k] * problem.lengths[g])
                assert found.static_ms[g, i] == pytest.approx(static[0], rel=1e-12, abs=1e-12)
                unique = sum(row[k] for row in text.unique_experts)
                assert found.unique_sums[g, i] == pytest.approx(unique, rel=1e-6, abs=1e-9)
            assert found.tokens[g] == problem.lengths[g]
            assert found.chosen[g, 0].sum() == problem.lengths[g]


def test_shares_count_the_oracles_decisions_and_rounds() -> None:
    for problem in some("dyadic", 50):
        counts = dict.fromkeys(problem.allowed, 0.0)
        visits = dict.fromkeys(problem.allowed, 0.0)
        for g in range(problem.generations):
            policy = naive.solve(problem.generation(g), problem.costs).draft_length
            for k, visit in zip(policy, naive.visit_probs(problem.generation(g), policy), strict=True):
                counts[k] += 1
                visits[k] += visit
        for one in shares(tallied(problem)):
            assert one.decisions == counts[one.draft_length]
            assert one.positions.value == pytest.approx(counts[one.draft_length] / sum(counts.values()))
            assert one.rounds.value == pytest.approx(visits[one.draft_length] / sum(visits.values()))


def test_terms_of_a_round_are_means_over_decisions() -> None:
    for problem in some("general", 50):
        texts = [problem.generation(g) for g in range(problem.generations)]
        places = [(text, t) for text, n in zip(texts, problem.lengths, strict=True) for t in range(n)]
        for one in round_terms(tallied(problem)):
            cost = np.mean([naive.round_cost(text, problem.costs, t, one.draft_length) for text, t in places])
            assert sum(one.terms_ms) == pytest.approx(cost, rel=1e-6)
            assert one.total.value == pytest.approx(cost, rel=1e-6)


def test_a_longer_maximum_never_costs_more_and_the_last_is_the_oracle() -> None:
    for problem in some("general", 60):
        found = tallied(problem)
        assert (np.diff(found.capped_ms, axis=1) <= 1e-9 * np.abs(found.capped_ms[:, 1:]) + 1e-12).all()
        assert (found.capped_ms <= found.static_ms * (1 + 1e-12) + 1e-12).all()
        whole = solve(make(problem), costs_of(problem)).value_ms(make(problem).offsets)
        assert found.capped_ms[:, -1].tolist() == whole.tolist()
        assert found.capped_ms[:, 0] == pytest.approx(found.static_ms[:, 0], rel=1e-12, abs=1e-12)


def test_capped_costs_leave_no_trace_of_longer_lengths() -> None:
    costs = costs_of(strategies.random_problem(3, "general"))
    k = costs.lengths[0]
    only = capped(costs, k)
    assert only.lengths == (k,)
    assert not only.alpha_ms[k + 1 :].any()
    assert not only.verify_ms[k + 1 :].any()


def test_intervals_resample_clusters_and_pair() -> None:
    problem = next(p for p in some("general", 200) if sum(n > 0 for n in p.lengths) >= 4 and len(p.allowed) > 1)
    found = tallied(problem)
    names = sorted(set(found.cluster))
    rows = np.array([[g for g, c in enumerate(found.cluster) if c == name] for name in names], dtype=object)
    per_cluster = np.array([[found.static_ms[list(r), 0].sum(), found.capped_ms[list(r), -1].sum()] for r in rows])
    (ratio,) = bootstrap(per_cluster, lambda sums: sums[:, :1] / sums[:, 1:])
    ours = limits(found)[-1].capped_speedup.interval
    assert ours is not None
    assert ratio is not None
    assert (ours.low, ours.high) == pytest.approx((ratio.low, ratio.high))


def test_tables_say_what_the_numbers_are() -> None:
    problem = next(p for p in some("general", 50) if p.allowed[0] == 0 and len(p.allowed) > 2)
    found = tallied(problem)
    table = limit_table(found)
    assert table.notes[0] == "speed-up over k = 0"
    assert [row["draft_length"] for row in table.rows] == list(problem.allowed)
    assert table.rows[0]["static_speedup"] == 1.0
    terms = round_table(found).rows
    for row in terms:
        assert sum(row[term] for term in TERMS) == pytest.approx(row["round_ms"])
    assert sum(row["share"] for row in share_table(found).rows) == pytest.approx(1)
    flat = plateau(found)
    reached = {row["draft_length"]: row["gain_reached"] for row in table.rows}
    assert flat is None or all(reached[k] < 0.99 <= reached[flat] for k in problem.allowed if k < flat)


def test_the_longest_maximum_is_no_plateau() -> None:
    """It reaches all of the oracle's gain by definition."""
    kinds = set()
    for problem in some("general", 80):
        found = tallied(problem)
        reached = [one.gain_reached for one in limits(found)]
        flat, below = plateau(found), [one for one in reached[:-1] if one is not None and one.value >= 0.99]
        assert flat != problem.allowed[-1]
        assert (flat is None) == (not below)
        kinds.add((flat is None, reached[-1] is None))
    assert kinds >= {(True, False), (False, False)}  # both no plateau and one do occur where there is a gain


def test_without_m_1_the_baseline_is_named() -> None:
    problem = next(p for p in some("general", 200) if p.allowed[0] > 0)
    said = limit_table(tallied(problem)).notes[0]
    assert said == (
        f"speed-up over k = {problem.allowed[0]}: the model has no m = 1, so speed-ups over k = 0 are not available"
    )


def test_a_walk_adds_generations_up_by_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of clusters, and of groups of them where there are many, give the figures of all generations."""
    lengths = (9, 4, 0, 12, 7, 5, 3, 8)
    table = trace_table(lengths, K=4, cluster=[f"q{g // 2}" for g in range(len(lengths))])
    whole = Traces.from_arrow(table)
    costs = length_costs(MODEL, 0, 3)
    twin = tally(make_problem(whole, 3), costs, whole.cluster_of)
    found = by_length([Traces.from_arrow(table.slice(at, 3)) for at in (0, 3, 6)], costs, threads=2)
    assert (found.cluster, found.clusters) == (("q0", "q1", "q2", "q3"), 4)
    for of in (limits, round_terms, shares):
        for one, other in zip(of(found), of(twin), strict=True):
            assert_close(one, other)
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 2)
    grouped = by_length([whole], costs)
    assert len(grouped.cluster) <= 2
    assert grouped.clusters == 4
    assert grouped.static_ms.sum(axis=0) == pytest.approx(found.static_ms.sum(axis=0), rel=1e-12)
    with pytest.raises(InputError, match="the traces hold no positions, so there is no draft length to compare"):
        by_length([Traces.from_arrow(trace_table((0, 0)))], costs)


def assert_close(one: object, other: object) -> None:
    for field in dataclasses.fields(one):  # type: ignore[arg-type]
        a, b = getattr(one, field.name), getattr(other, field.name)
        if dataclasses.is_dataclass(a):
            assert_close(a, b)
        else:
            assert a == (None if b is None else pytest.approx(b, rel=1e-9, abs=1e-12)), field.name
