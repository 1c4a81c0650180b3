"""Stability against solving again by hand under every draw, planted ties, and what is shown of it."""

from dataclasses import replace
from pathlib import Path

import naive
import numpy as np
import pyarrow.parquet as pq
import pytest
import strategies
from hypothesis import given, settings
from laid_out import costs_of, make
from traces_factory import DENSE, lists, trace_table

from oracle.costs import LengthCosts, LengthRange, choose_range
from oracle.errors import InputError
from oracle.figures.stability import stability_figure
from oracle.latency.draws import Draws, draws_from_file
from oracle.latency.model import DraftLine, LatencyModel
from oracle.solver import evaluate, solve
from oracle.stability import corpus as corpora
from oracle.stability import tally as tallies
from oracle.stability.decisions import LABELS, DecisionDraws, decide, draw_costs, rows_table
from oracle.stability.study import Stability, stability
from oracle.summaries.stability import stability_tables
from oracle.tables import render
from oracle.traces import Traces


def moved(problem: strategies.Problem, count: int, seed: int) -> list[strategies.Problem]:
    """Problems with other coefficients, whole milliseconds apart: arithmetic stays exact where it was."""
    rng = np.random.default_rng(seed)
    allowed = np.isin(np.arange(problem.K + 1), problem.allowed)
    return [
        replace(
            problem,
            beta0=problem.beta0 + allowed * rng.integers(0, 4, problem.K + 1),
            alpha=problem.alpha + allowed * rng.integers(0, 2, problem.K + 1),
        )
        for _ in range(count)
    ]


@settings(max_examples=40, deadline=None)
@given(strategies.dyadic_problems())
def test_counts_and_regret_equal_a_naive_solve_of_every_draw(problem: strategies.Problem) -> None:
    arrays, costs = make(problem), costs_of(problem)
    oracle = solve(arrays, costs)
    draws = moved(problem, 35, seed=arrays.positions)  # more than the lanes of one solve, and a rest
    found = decide(arrays, [costs_of(each) for each in draws], oracle)
    counts, regret = np.zeros((arrays.positions, problem.K + 1), int), np.zeros(arrays.positions)
    value = np.zeros((problem.generations, len(draws)))
    for w, each in enumerate(draws):
        twins = [naive.solve(problem.generation(g), each.costs) for g in range(problem.generations)]
        value[:, w] = [twin.value[0] for twin in twins]
        t = 0
        for twin in twins:
            for k, q in zip(twin.draft_length, twin.q, strict=True):
                counts[t, k] += 1
                regret[t] += q[int(oracle.draft_length[t])] - q[k]
                t += 1
    assert (found.optimal == counts).all()
    np.testing.assert_array_equal(found.value_ms, value)
    np.testing.assert_allclose(found.regret_ms, regret / len(draws), rtol=1e-12, atol=1e-12)
    others = [
        {k: n for k, n in enumerate(row) if n and k != best}
        for row, best in zip(counts.tolist(), oracle.draft_length.tolist(), strict=True)
    ]
    expected = [max(other, key=lambda k: (other[k], -k)) if other else -1 for other in others]
    assert found.runner_up()[0].tolist() == expected


def test_labels_begin_where_they_say() -> None:
    optimal = np.array([[100, 0], [95, 5], [94, 6], [50, 50], [49, 51], [0, 100]], dtype=np.int32)
    found = DecisionDraws(np.zeros(6, np.int16), optimal, np.zeros(6), np.zeros((1, 100)))
    assert [LABELS[i] for i in found.label] == ["stable", "stable", "leaning", "leaning", "open", "open"]
    assert found.probability.tolist() == [1.0, 0.95, 0.94, 0.5, 0.49, 0.0]
    assert found.runner_up()[0].tolist() == [-1, 1, 1, 1, 1, 1]
    twenty = DecisionDraws(np.zeros(1, np.int16), np.array([[19, 1]], np.int32), np.zeros(1), np.zeros((1, 20)))
    assert LABELS[twenty.label[0]] == "stable"


def tally_of(problem: strategies.Problem, draws: list[strategies.Problem], cluster: tuple[str, ...]):
    arrays, costs = make(problem), costs_of(problem)
    oracle = solve(arrays, costs)
    found = decide(arrays, [costs_of(each) for each in draws], oracle)
    spent, visit = corpora.corpus_tally(arrays, costs, oracle, found, cluster)
    return arrays, costs, oracle, found, spent, visit


def test_tallies_count_each_decision_once() -> None:
    problem = strategies.random_problem(18, "general", lengths=(40, 0, 25, 33), K=5, k_min=0, missing=False)
    clusters = ("a", "a", "b", "c")  # the empty generation is no cluster of its own: every resample has a decision
    arrays, _, oracle, found, _, visit = tally_of(problem, moved(problem, 20, 1), clusters)
    assert len(set(found.label.tolist())) == 3, "the problem must have all labels for this test to say anything"
    counted = tallies.tally(found, visit, arrays.offsets, clusters)
    rows = {row.draft_length: row for row in tallies.stability_rows(counted)}
    for k, row in rows.items():
        here = np.ones(98, bool) if k is None else oracle.draft_length == k
        assert row.decisions == here.sum()
        assert row.positions.labels == pytest.approx([(found.label[here] == i).mean() for i in range(3)])
        weights = visit[here] / visit[here].sum()
        assert row.visits.labels == pytest.approx([weights[found.label[here] == i].sum() for i in range(3)])
        assert row.positions.probability == pytest.approx(found.probability[here].mean())
        assert row.visits.regret_ms == pytest.approx(weights @ found.regret_ms[here])
    assert set(rows) == {None, *oracle.draft_length.tolist()}
    low, high = rows[None].positions.intervals[0].low, rows[None].positions.intervals[0].high
    assert low <= rows[None].positions.labels[0] <= high
    histogram = counted.histogram.sum(axis=0)
    assert histogram[tallies.POSITIONS].sum() == 98
    assert histogram[tallies.POSITIONS, -1] == (found.label == 0).sum()  # the last bin begins at 0.95
    assert histogram[tallies.VISITS].sum() == pytest.approx(visit.sum())
    nothing = tallies.StabilityTally(("a",), np.zeros((1, 2, 3, 5)), np.zeros((1, 2, tallies.BINS)))
    assert tallies.stability_rows(nothing) == []


def test_headline_numbers_equal_evaluating_every_policy_under_every_draw() -> None:
    problem = strategies.random_problem(7, "general", lengths=(30, 12, 25), K=4, k_min=0, missing=False)
    draws = moved(problem, 12, 3)
    arrays, costs, oracle, _, spent, _ = tally_of(problem, draws, ("a", "b", "c"))
    lengths = np.broadcast_to(np.arange(5, dtype=np.int16), (67, 5))
    policies = np.column_stack([oracle.draft_length, lengths])
    drawn = [costs_of(each) for each in draws]
    spent_ms = np.array([evaluate(arrays, each, policies).sum(axis=0) for each in drawn])
    optimum = np.array([solve(arrays, each).marginal_ms.sum() for each in drawn])
    static = spent_ms[:, 1:]
    quantities, chances = corpora.corpus(spent, costs, drawn)
    expected = {
        "oracle_ms_per_token": optimum / 67,
        "speedup_over_off": static[:, 0] / optimum,
        "speedup_over_best_static": static.min(axis=1) / optimum,
        "best_static_minus_off_ms_per_token": (static[:, 1:].min(axis=1) - static[:, 0]) / 67,
        "unknown_coefficients_ms_per_token": (spent_ms[:, 0] - optimum) / 67,
    }
    assert [q.name for q in quantities] == list(expected)
    for quantity in quantities:
        ends = np.percentile(expected[quantity.name], [2.5, 97.5])
        assert (quantity.coefficients.low, quantity.coefficients.high) == pytest.approx(ends, rel=1e-9, abs=1e-12)
        assert quantity.both is not None
    assert quantities[0].value == pytest.approx(solve(arrays, costs).marginal_ms.sum() / 67)
    assert quantities[-1].value == pytest.approx(expected["unknown_coefficients_ms_per_token"].mean())
    assert [c.coefficients for c in chances] == [(static.argmin(axis=1) == k).mean() for k in range(5)]
    assert sum(c.both for c in chances) == pytest.approx(1.0)


def test_without_coefficient_errors_both_intervals_are_those_of_the_traces() -> None:
    problem = strategies.random_problem(7, "general", lengths=(30, 12, 25), K=4, k_min=1, missing=False)
    costs = costs_of(problem)
    _, _, _, _, spent, _ = tally_of(problem, [problem] * 9, ("a", "b", "c"))
    quantities, chances = corpora.corpus(spent, costs, [costs] * 9)
    assert [q.name for q in quantities] == [
        "oracle_ms_per_token",
        "speedup_over_best_static",
        "unknown_coefficients_ms_per_token",
    ]  # k = 0 may not be chosen
    for quantity in quantities[:2]:
        assert quantity.both == quantity.traces
        assert quantity.coefficients.low == quantity.coefficients.high == pytest.approx(quantity.value)
    assert [c.draft_length for c in chances] == [1, 2, 3, 4]
    _, _, _, _, alone, _ = tally_of(problem, [problem] * 9, ("a", "a", "a"))
    for quantity in corpora.corpus(alone, costs, [costs] * 9)[0]:
        assert quantity.traces is None
        assert quantity.both is None


def test_a_resample_without_any_token_leaves_no_interval() -> None:
    problem = strategies.random_problem(7, "general", lengths=(30, 0), K=4, k_min=0, missing=False)
    costs = costs_of(problem)
    _, _, _, _, spent, _ = tally_of(problem, [problem] * 9, ("a", "b"))
    quantities, chances = corpora.corpus(spent, costs, [costs] * 9)
    assert all(q.coefficients is not None and q.traces is None and q.both is None for q in quantities)
    assert all(c.traces is None and c.both is None for c in chances)
    assert sum(c.coefficients for c in chances) == 1.0


def small_model(variance: float, beta0: tuple[float, ...] = (4.0, 4.0)) -> LatencyModel:
    """K = 1, a dense target, drafting free: the lengths differ by beta0 alone, and its errors are known."""
    names = ["beta0_ms[1]", "beta0_ms[2]", "alpha_ms_per_expert[1]", "alpha_ms_per_expert[2]", "context_ms_per_token"]
    covariance = np.zeros((5, 5))
    covariance[1, 1] = variance
    fit = {
        "clusters": 30,
        "alpha_source": ["no experts", "no experts"],
        "per_m": [{"m": m, "mean_unique_experts": 0.0, "mean_context_len": 9.0} for m in (1, 2)],
        "coefficients": {
            "names": names,
            "values": [*beta0, 0.0, 0.0, 0.0],
            "clusters": [30, 30, 0, 0, 30],
            "covariance_cr3": covariance.tolist(),
        },
        "draft": {"choice": "free", "line": None, "table": []},
        "reject": None,
    }
    return LatencyModel((1, 2), beta0, (0.0, 0.0), 0.0, DraftLine(0.0, 0.0), fit=fit)


def never_matching() -> list[Traces]:
    """Two batches of a dense target whose draft never matches: a round emits one token whatever it drafts."""
    batches = []
    for prefix, lengths in (("a", (3, 2, 4)), ("b", (3,))):
        no_match = lists(lengths, np.zeros(sum(lengths), np.float32))
        table = trace_table(lengths, K=1, prefix=prefix, drop=(*DENSE, "cluster"), match_prob=no_match)
        batches.append(Traces.from_arrow(table))
    return batches


def examined(variance: float, draws: int = 2000, rows: Path | None = None, **more) -> Stability:
    model = small_model(variance, **more)
    found = draws_from_file(model, draws=draws)
    return stability(never_matching(), model, found, LengthRange(0, 1), rows=rows)


def test_no_errors_no_doubt() -> None:
    found = examined(0.0, draws=20)
    assert found.rows[0].positions.labels == (1.0, 0.0, 0.0)
    assert found.rows[0].positions.probability == 1.0
    assert found.rows[0].visits.regret_ms == 0.0
    assert [c.coefficients for c in found.statics] == [1.0, 0.0]


def test_two_lengths_that_tie_are_optimal_in_half_of_the_draws(tmp_path: Path) -> None:
    """beta0(2) is symmetric about beta0(1): k = 0 is optimal wherever the draw is above; 0.5 within five errors."""
    rows = tmp_path / "stability.parquet"
    found = examined(0.01, rows=rows)
    half = pytest.approx(0.5, abs=5 * np.sqrt(0.25 / 2000))
    assert found.rows[0].positions.probability == half
    assert found.statics[0].coefficients == half
    # expected regret: E[max(4 - beta0(2), 0)] = 0.1 · E|t(29)| / 2
    assert found.rows[0].positions.regret_ms == pytest.approx(0.1 * 0.8184 / 2, rel=0.15)
    table = pq.read_table(rows)
    assert table["generation"].to_pylist() == ["a0", "a1", "a2", "b0"]
    assert [len(row) for row in table["label"].to_pylist()] == [3, 2, 4, 3]
    flat = {name: np.concatenate(table[name].to_pylist()) for name in table.column_names[1:]}
    assert set(flat["label"].tolist()) <= {"leaning", "open"}
    assert (flat["draft_length"] == 0).all()
    assert (flat["runner_up"] == 1).all()
    np.testing.assert_allclose(flat["k_star_probability"] + flat["runner_up_probability"], 1.0, rtol=1e-6)


def test_rows_have_no_runner_up_where_k_star_always_is_optimal() -> None:
    found = DecisionDraws(np.zeros(2, np.int16), np.array([[4, 0], [3, 1]], np.int32), np.zeros(2), np.zeros((1, 4)))
    table = rows_table(found, np.ones(2), ("q",), np.array([0, 2]))
    assert table["runner_up"].to_pylist() == [[None, 1]]
    assert table["label"].to_pylist() == [["stable", "leaning"]]


def test_what_is_shown() -> None:
    text = render(stability_tables(examined(0.01, draws=100, beta0=(4.0, 4.1))))
    for said in (
        "Stability of 12 decisions when the cost coefficients move within their errors, by k*",
        "100 draws of the cost coefficients: multivariate t with 29 degrees of freedom from the model file's CR3 "
        "covariance, draft times drawn by themselves (30 clusters)",
        "stable: k* is optimal in at least 95 % of the draws; leaning: in at least 50 %; open: in less",
        "a share of 100 draws has a standard error of up to 5.0 points",
        "coefficients alone: 100 draws on all traces as they are, without trace sampling",
        "best static K >= 1 against k = 0: not significant, the interval of both holds 0",
        "static:0 is no speculation: its row says how often that beats the best static length K >= 1",
    ):
        assert said in text
    sure = render(stability_tables(examined(1e-6, draws=100, beta0=(4.0, 4.1))))
    assert "best static K >= 1 against k = 0: k = 0 is cheaper, the interval of both leaves out 0" in sure


def test_the_figure_is_the_same_twice(tmp_path: Path) -> None:
    found = examined(0.01, draws=50)
    one, other = (stability_figure(found, tmp_path / name).read_text() for name in ("a.svg", "b.svg"))
    assert one == other
    assert "share of 50 draws in which k* is optimal" in one


def test_refusals(tmp_path: Path) -> None:
    model = small_model(0.01)
    drawn = Draws((model,) * 3, "file", 30, 0, 0)
    with pytest.raises(InputError, match="the traces hold no generations, so there is no decision whose stability"):
        stability([], model, drawn, LengthRange(0, 1), rows=tmp_path / "none.parquet")
    assert not list(tmp_path.iterdir())
    recorded = Traces.from_arrow(trace_table((3,), K=1))
    with pytest.raises(InputError, match="unique experts come from none and recorded; examine such traces apart"):
        stability([*never_matching(), recorded], model, drawn, choose_range(model, 1))


def test_costs_of_the_draws_have_the_lengths_asked_for() -> None:
    drawn = draw_costs(draws_from_file(small_model(0.01), draws=5), LengthRange(1, 1))
    assert all(isinstance(each, LengthCosts) and each.lengths == (1,) for each in drawn)
