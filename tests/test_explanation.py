"""A decision taken apart: against the naive twin, exact rational arithmetic, and what was derived on paper."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import naive
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from laid_out import costs_of, make
from test_ablation import EPS, exact_difference
from traces_factory import trace_table

from oracle.errors import InputError
from oracle.explanation import COMPONENTS, Explanation, explain, explain_decision
from oracle.explanation.decision import components_alone, match_probs_from
from oracle.latency.model import LatencyModel
from oracle.solver import evaluate, solve
from oracle.traces import Traces, load_traces

CASES = Path(__file__).parents[1] / "cases"
PAPER = CASES / "hand-one-expert-too-many"
PARTS = ("base", "expert", "context", "draft", "reject")


def one_generation(seed: int, kind: strategies.Kind, n: int, **more: Any) -> strategies.Problem:
    return strategies.random_problem(seed, kind, lengths=(n,), **more)


def explained(problem: strategies.Problem, t: int) -> Explanation:
    costs = costs_of(problem)
    p = np.array([p if t + j < problem.lengths[0] else np.nan for j, p in enumerate(problem.match_probs[0][t])])
    return explain(make(problem), costs, costs.without_experts(), t, p.astype(np.float64))


def only(costs: naive.Costs, part: str) -> naive.Costs:
    """The naive coefficients with one part kept."""
    names = {"base": "beta0", "expert": "alpha"}
    nothing = [0.0] * len(costs.beta0)
    fields = ("beta0", "alpha", "context", "draft", "reject")
    return costs._replace(**{name: nothing for name in fields if name != names.get(part, part)})


@pytest.mark.parametrize("kind", ["dyadic", "binary"])
def test_a_decision_is_that_of_the_naive_twin(kind: strategies.Kind) -> None:
    for seed in range(60):
        problem = one_generation(seed, kind, 1 + seed % 9)
        costs, generation = problem.costs, problem.generation(0)
        full, changed = naive.solve(generation, costs), naive.ablate(generation, costs)
        visit = naive.visit_probs(generation, full.draft_length)
        for t in range(problem.lengths[0]):
            found = explained(problem, t)
            k, k0 = full.draft_length[t], changed.blind.draft_length[t]
            assert (found.draft_length, found.changed_length, found.shift) == (k, k0, k0 - k)
            assert found.lengths.tolist() == list(problem.allowed)
            assert found.rest_ms == full.value[t + 1]
            assert (found.q_ms + full.value[t + 1]).tolist() == [full.q[t][j] for j in problem.allowed]
            assert (found.changed_q_ms + changed.blind.value[t + 1]).tolist() == list(changed.blind.q[t].values())
            assert found.terms_ms.sum(axis=1).tolist() == [full.q[t][j] - full.q[t][k] for j in problem.allowed]
            assert found.visit_prob == visit[t]
            next_q = None if found.next_one is None else found.next_one.changed_ms.sum()
            assert next_q == changed.next_q_ms[t]
            assert (found.ablated is None) == (k == k0)
            gap = naive.q_gap(full.q[t])
            assert gap is None or (found.q_gap_ms, full.q[t][found.runner_up] - full.q[t][k]) == (gap, gap)


def test_every_difference_is_split_among_the_components_future_included() -> None:
    for seed in range(60):
        problem = one_generation(seed, "dyadic", 1 + seed % 9)
        costs, generation = problem.costs, problem.generation(0)
        best = naive.solve(generation, costs).draft_length
        alone = {part: naive.evaluate(generation, only(costs, part), best) for part in PARTS}
        for t in range(problem.lengths[0]):
            found = explained(problem, t)
            for k in problem.allowed:
                parts = found.attributed_ms(k)
                for c, part in enumerate(PARTS):
                    pair = [naive.cost_parts(generation, costs, t, j)[part] for j in (k, best[t])]
                    after = [naive.continuation(generation, alone[part], t, j) for j in (k, best[t])]
                    assert parts[c].tolist() == [pair[0] - pair[1], after[0] - after[1]], (seed, t, k, part)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.data())
def test_terms_and_components_sum_to_the_difference(seed: int, n: int, data: st.DataObject) -> None:
    problem = one_generation(seed, "general", n)
    arrays, costs = make(problem), costs_of(problem)
    t = data.draw(st.integers(0, n - 1))
    found, solution = explained(problem, t), solve(arrays, costs)
    size = float(np.abs(found.cost_ms).sum(axis=1).max() + np.abs(found.credit_ms).sum(axis=1).max())
    for i, k in enumerate(problem.allowed):
        exact = exact_difference(arrays, costs, solution, t, k, found.draft_length)
        error = abs(sum((Fraction(x) for x in found.terms_ms[i]), Fraction(0)) - exact)
        assert error <= 8 * EPS * float(np.abs(found.terms_ms[i]).sum())
        assert found.attributed_ms(k).sum() == pytest.approx(float(exact), abs=1e-12 * size)
        assert found.q_ms[i] == pytest.approx(found.cost_ms[i].sum() - found.credit_ms[i].sum(), abs=1e-12 * size)
    for one in filter(None, (found.next_one, found.ablated)):
        moved = float(one.full_ms.sum()) + one.direct_ms + one.continuation_ms
        assert moved == pytest.approx(float(one.changed_ms.sum()), abs=1e-12 * size)
    if found.ablated is not None:
        assert found.ablated.full_ms.sum() >= -1e-9
        assert found.ablated.changed_ms.sum() <= 1e-9


def test_marginal_values_of_the_components_add_up_to_that_of_all() -> None:
    problem = one_generation(11, "general", 40, K=6, k_min=0, missing=False)
    arrays, costs = make(problem), costs_of(problem)
    oracle = solve(arrays, costs)
    parts = [evaluate(arrays, alone, oracle.draft_length[:, None])[:, 0] for alone in components_alone(costs)]
    np.testing.assert_allclose(np.sum(parts, axis=0), oracle.marginal_ms, rtol=1e-12)


def on_paper() -> Explanation:
    traces = load_traces(PAPER / "trace.parquet")
    return explain_decision(traces, LatencyModel.load(PAPER / "model.json"), 0).explanation


def test_the_paper_decision() -> None:
    (expected,) = json.loads((PAPER / "expected.json").read_text())["solutions"]
    found, paper = on_paper(), expected["decomposition"]
    assert found.draft_length == paper["other"]
    beta0, more, dearer, context, draft, reject, continuation = found.terms_ms[paper["draft_length"]]
    assert (beta0, more + dearer, context) == (paper["base"], paper["expert"], paper["context"])
    assert (draft, reject, continuation) == (paper["draft"], paper["reject"], paper["continuation"])
    assert found.ablated is not None
    # Q0(0, 2) - Q0(0, 1) = -1/2; the new expert costs 2, and position 2 saves 6 with it, 4 without, at S = 1/2
    assert (found.ablated.full_ms.sum(), found.ablated.changed_ms.sum()) == (0.5, -0.5)
    assert (found.ablated.direct_ms, found.ablated.continuation_ms) == (-2, 1)
    # the price of position 2: beta0 4 and one expert 2, bought with 1/2
    parts = dict(zip(COMPONENTS, found.attributed_ms(2).tolist(), strict=True))
    assert parts["verify_ms"] == [1, -2]
    assert parts["expert_ms"] == [2, -1]
    assert parts["draft_ms"] == [0.5, 0]


def test_the_paper_scale_of_alpha() -> None:
    """Q_s(0, 1) = 10 + 4s and Q_s(0, 2) = 9.5 + 5s meet at s = 1/2; Q_s(0, 0) = 12 + 6s is always dearer."""
    scale = on_paper().scale
    assert (scale.below, scale.draft_length_below) == (pytest.approx(0.5, abs=1e-12), 2)
    assert np.isnan(scale.above)
    assert scale.draft_length_above is None


def test_the_scales_are_where_the_decision_changes() -> None:
    checked = 0
    for seed in range(100):
        problem = one_generation(seed, "general", 25, K=5, k_min=0, missing=False, unique="routing", alpha_zero=False)
        arrays, costs = make(problem), costs_of(problem)
        t = seed % 20
        scale = explained(problem, t).scale
        for at, k, side in (
            (scale.below, scale.draft_length_below, -1),
            (scale.above, scale.draft_length_above, 1),
        ):
            if np.isnan(at):
                continue
            checked += 1
            solved = [
                int(solve(arrays, replace(costs, alpha_ms=(at + step) * costs.alpha_ms)).draft_length[t])
                for step in (-side * 1e-7, side * 1e-7)
            ]
            assert solved == [explained(problem, t).draft_length, k], (seed, at)
    assert checked > 20


def test_match_probabilities_stop_at_the_end_of_the_text() -> None:
    traces = load_traces(PAPER / "trace.parquet")
    assert match_probs_from(traces, 1, 2).tolist() == [0.5, 0.25]
    np.testing.assert_array_equal(match_probs_from(traces, 2, 2), [0.25, np.nan])
    by_depth = load_traces(CASES / "hand-end-of-text" / "trace.parquet")
    assert by_depth.match_probs is not None
    assert match_probs_from(by_depth, 0, 1).tolist() == by_depth.match_probs[0, :1].tolist()


def test_a_generation_without_positions_is_refused() -> None:
    traces = Traces.from_arrow(trace_table((0,)), "t.parquet")
    with pytest.raises(InputError) as refusal:
        explain_decision(traces, LatencyModel.load(PAPER / "model.json"), 0)
    assert str(refusal.value) == (
        "t.parquet, generation 'g0': has no positions, so there is no decision to explain; choose another generation"
    )


def test_positions_that_are_not_there_are_refused() -> None:
    table = load_traces(PAPER / "trace.parquet").table
    model = LatencyModel.load(PAPER / "model.json")
    traces = Traces.from_arrow(table, "t.parquet")
    for position in (3, -1):
        with pytest.raises(InputError, match="generation 'one-too-many'") as refusal:
            explain_decision(traces, model, position)
        assert str(refusal.value).endswith(f"position is {position}; its positions are 0 … 2")
