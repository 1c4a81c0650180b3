"""Changes of the cost model: each term's exact values, the refit, the regimes taken out, and real fits."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.changes import Change, Replaced, Scaled, Span, lanes_of, parse_change
from oracle.changes.terms import CONTEXT, EXPERTS
from oracle.costs import LengthCosts, length_costs
from oracle.errors import InputError
from oracle.latency.fit import fit_latency
from oracle.latency.model import DraftTable, LatencyModel, ModelByBatchSize
from oracle.problem import make_problem
from oracle.rounds import RoundFiles
from oracle.solver import solve
from oracle.traces import TraceFiles

CASES = Path(__file__).parents[1] / "cases"
ARRAYS = ("verify_ms", "alpha_ms", "context_ms", "draft_ms", "reject_ms")
PER_M = [
    {"m": 1, "rounds": 10, "mean_unique_experts": 4.0, "mean_context_len": 100.0},
    {"m": 2, "rounds": 30, "mean_unique_experts": 7.0, "mean_context_len": 200.0},
    {"m": 3, "rounds": 10, "mean_unique_experts": 9.0, "mean_context_len": 300.0},
    {"m": 4, "rounds": 20, "mean_unique_experts": 10.0, "mean_context_len": 400.0},
]
MODEL = LatencyModel(
    m=(1, 2, 3, 4),
    beta0_ms=(2.0, 3.0, 3.5, 5.0),
    alpha_ms_per_expert=(0.25, 0.25, 0.5, 0.125),
    context_ms_per_token=0.0078125,
    draft=DraftTable((1, 2, 3), (1.5, 2.5, 3.0)),
    reject_ms=0.25,
    fit={"per_m": PER_M, "alpha_source": ["borrowed from m = 2", "own", "own", "own"]},
)
COSTS = length_costs(MODEL, 0, 3)
U, L = np.array([4.0, 7.0, 9.0, 10.0]), np.array([100.0, 200.0, 300.0, 400.0])


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as error:
        call()
    return str(error.value)


def same(one: LengthCosts, other: LengthCosts) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in (*ARRAYS, "allowed"))


@pytest.mark.parametrize(
    ("text", "array", "expected"),
    [
        ("experts=0.5", "alpha_ms", [0.125, 0.125, 0.25, 0.0625]),
        ("experts=1ms", "alpha_ms", [1, 1, 1, 1]),
        ("context=0", "context_ms", [0, 0, 0, 0]),
        ("draft=0.5", "draft_ms", [0, 0.75, 1.25, 1.5]),
        ("draft=2ms", "draft_ms", [0, 2, 2, 2]),
        ("base=2", "verify_ms", [4, 6, 7, 10]),
        ("reject=4", "reject_ms", [0, 1, 1, 1]),
        ("reject=0.5ms", "reject_ms", [0, 0.5, 0.5, 0.5]),
        ("alpha[3]*2", "alpha_ms", [0.25, 0.25, 1, 0.125]),
        ("alpha[3]=0.08ms", "alpha_ms", [0.25, 0.25, 0.08, 0.125]),
        ("alpha[2-4]*0", "alpha_ms", [0.25, 0, 0, 0]),
        ("beta0[1]=2.5ms", "verify_ms", [2.5, 3, 3.5, 5]),
        ("context[2-3]*2", "context_ms", [0.0078125, 0.015625, 0.015625, 0.0078125]),
        ("draft[3]=1.2ms", "draft_ms", [0, 1.5, 2.5, 1.2]),
        ("draft[1-2]*2, draft=0.5, draft[3]=7ms", "draft_ms", [0, 1.5, 2.5, 7]),
        ("draft=0.5, draft[1-2]=2ms", "draft_ms", [0, 2, 2, 1.5]),
    ],
)
def test_each_term_changes_exactly_what_it_names(text: str, array: str, expected: list[float]) -> None:
    changed = parse_change(text, model=MODEL).as_is(COSTS, MODEL)
    assert getattr(changed, array).tolist() == expected
    assert same(replace(changed, **{array: getattr(COSTS, array)}), COSTS)
    assert (changed.alpha_ms.dtype, changed.verify_ms.dtype) == (np.float64, np.float64)


def test_lengths_that_may_not_be_chosen_keep_their_zeros() -> None:
    costs = replace(length_costs(MODEL, 1, 3), allowed=np.array([False, True, False, True]))
    costs = replace(costs, **{name: np.where(costs.allowed, getattr(costs, name), 0.0) for name in ARRAYS})
    text = "experts=1ms, base=1ms, context=1ms, draft=1ms, reject=1ms, regime=flat"
    for changed in (parse_change(text).as_is(costs, MODEL), parse_change(text).refitted(costs, MODEL)):
        assert changed is not None
        assert all((getattr(changed, name)[[0, 2]] == 0).all() for name in ARRAYS)
        assert changed.alpha_ms[[1, 3]].tolist() == [1, 1]


def mean_cost(costs: LengthCosts) -> np.ndarray:
    return costs.verify_ms + costs.alpha_ms * U + costs.context_ms * L + costs.draft_ms + costs.reject_ms


refittable = st.builds(
    lambda kind, quantity, first, width, number: kind(quantity, Span(first, min(first + width, 4)), number),
    st.sampled_from([Scaled, Replaced]), st.sampled_from([EXPERTS, CONTEXT]), st.integers(1, 4), st.integers(0, 3),
    st.floats(0, 3),
)  # fmt: skip


@given(st.lists(refittable, min_size=1, max_size=3))
def test_a_refit_keeps_the_mean_cost_of_each_length(terms: list[Scaled | Replaced]) -> None:
    change = Change(tuple(terms))
    as_is, refitted = change.as_is(COSTS, MODEL), change.refitted(COSTS, MODEL)
    if refitted is None:
        assert same(as_is, COSTS)
    else:
        np.testing.assert_allclose(mean_cost(refitted), mean_cost(COSTS), rtol=1e-12)
        assert same(replace(refitted, verify_ms=as_is.verify_ms), as_is)


def test_later_base_terms_act_on_the_refitted_beta0() -> None:
    before, after = (parse_change(t).refitted(COSTS, MODEL) for t in ("base=2, experts=0", "experts=0, base=2"))
    assert before is not None
    assert after is not None
    assert before.verify_ms.tolist() == [5, 7.75, 11.5, 11.25]
    assert after.verify_ms.tolist() == [6, 9.5, 16, 12.5]


@pytest.mark.parametrize("text", ["draft=0.5", "base=1.1", "reject=0", "beta0[2]*2", "experts=1", "alpha[2]*1"])
def test_only_changes_of_alpha_and_c_can_be_refitted(text: str) -> None:
    assert parse_change(text).refitted(COSTS, MODEL) is None
    assert [lane.name for lane in lanes_of([parse_change(text)], COSTS, MODEL)] == [text]


def test_without_the_means_there_is_no_refit_and_a_note_says_so() -> None:
    untold = replace(MODEL, fit={"per_m": [{k: v for k, v in row.items() if k == "m"} for row in PER_M]})
    for text, what in (("alpha[3]*2", "U"), ("context=0", "L"), ("regime=flat", "U")):
        change = parse_change(text)
        assert change.refitted(COSTS, untold) is None
        said = f"{text}: the model file does not tell the mean {what} of its rounds, so beta0 is not refitted"
        assert said in change.notes(COSTS, untold)
        assert said not in change.notes(COSTS, MODEL)
    partly = replace(MODEL, fit={"per_m": PER_M[2:3]})
    assert parse_change("alpha[3]*0").refitted(COSTS, partly) is not None
    assert parse_change("alpha[2]*0").refitted(COSTS, partly) is None


def test_flat_averages_measured_alphas_by_rounds_and_lays_a_line() -> None:
    """Against numpy's polynomial fit; m = 1, whose alpha is borrowed, counts only where its sum is measured."""
    rounds = np.array([10, 30, 10, 20.0])
    alpha = (0.25 * 30 + 0.5 * 10 + 0.125 * 20) / 60
    change, m = parse_change("regime=flat"), np.arange(1, 5)
    as_is, refitted = change.as_is(COSTS, MODEL), change.refitted(COSTS, MODEL)
    assert refitted is not None
    for costs, values, count in (
        (as_is, COSTS.verify_ms, slice(1, 4)),
        (refitted, COSTS.verify_ms + (COSTS.alpha_ms - alpha) * U, slice(0, 4)),
    ):
        line = np.polyfit(m[count], values[count], 1, w=np.sqrt(rounds[count]))
        np.testing.assert_allclose(costs.alpha_ms, alpha, rtol=1e-14)
        np.testing.assert_allclose(costs.verify_ms, np.polyval(line, m), rtol=1e-12)
        assert np.array_equal(costs.context_ms, COSTS.context_ms)
    assert rounds @ mean_cost(refitted) == pytest.approx(rounds @ mean_cost(COSTS), rel=1e-13)
    untold = replace(MODEL, fit=None)
    np.testing.assert_allclose(change.as_is(COSTS, untold).alpha_ms, 1.125 / 4, rtol=1e-14)
    assert np.polyfit(m, COSTS.verify_ms, 1)[0] == pytest.approx(np.diff(change.as_is(COSTS, untold).verify_ms)[0])
    two = length_costs(MODEL, 0, 1)  # one alpha of its own is left, so both lengths count
    np.testing.assert_allclose(change.as_is(two, MODEL).verify_ms, two.verify_ms, rtol=1e-15)
    one = length_costs(MODEL, 2, 2)
    assert same(change.as_is(one, MODEL), one)


def test_another_model_prices_the_same_lengths(tmp_path: Path) -> None:
    other = replace(MODEL, beta0_ms=(1.0, 1.5, 1.75, 2.5), fit={"per_m": [dict(PER_M[0], mean_unique_experts=8.0)]})
    path = tmp_path / 'a,"b".json'
    other.save(path)
    text = 'model="' + str(path).replace('"', '""') + '"'
    change = parse_change(f"{text}, experts=0")
    assert (str(change), change) == (f"{text}, experts=0", parse_change(str(change)))
    costs = length_costs(MODEL, 0, 0)
    assert same(parse_change(text).as_is(COSTS, MODEL), length_costs(other, 0, 3))
    gap = length_costs(replace(MODEL, m=(1, 2, 3, 5)), 0, 3)  # lacks k = 3, which the other model prices
    assert parse_change(text).as_is(gap, MODEL).verify_ms.tolist() == [1.0, 1.5, 1.75, 0.0]
    assert parse_change(text).refitted(COSTS, MODEL) is None
    refitted = change.refitted(costs, MODEL)
    assert refitted is not None
    assert refitted.verify_ms.tolist() == [1.0 + 0.25 * 8.0]  # the mean U behind the other model
    replace(MODEL, m=(1, 2, 4, 5), draft=DraftTable((1, 3), (1.5, 3.0))).save(path)
    said = refusal(lambda: parse_change(text).as_is(COSTS, MODEL))
    assert f"{path}: cannot price k = 2: it has no such m = k + 1 or no draft time there; it prices k = 0, 1, 3" in said


def test_the_batch_size_picks_the_block_of_another_model(tmp_path: Path) -> None:
    blocks = [replace(MODEL, batch_size=b, beta0_ms=(b, b + 1, b + 2, b + 3), fit=None) for b in (1, 8)]
    path = tmp_path / "sizes.json"
    ModelByBatchSize(blocks).save(path)
    changed = parse_change(f"model={path}", batch_size=8).as_is(COSTS, MODEL)
    assert changed.verify_ms.tolist() == [8, 9, 10, 11]
    assert "holds several batch sizes (1, 8)" in refusal(lambda: parse_change(f"model={path}"))
    assert "no batch size 4; measured: 1, 8" in refusal(lambda: parse_change(f"model={path}", batch_size=4))


@pytest.fixture(scope="module", params=["rounds", "rounds-grouped_mm"])
def fitted(request: pytest.FixtureRequest) -> LatencyModel:
    return fit_latency(RoundFiles(CASES / "tiny-moe" / f"{request.param}.parquet")).model


def test_experts_0_equals_what_an_ablation_takes(fitted: LatencyModel) -> None:
    costs = length_costs(fitted, 0, 10)
    as_is, refitted = lanes_of([parse_change("experts=0", model=fitted)], costs, fitted)
    assert (as_is.name, refitted.name) == ("experts=0", "experts=0, beta0 refitted")
    assert same(as_is.costs, costs.without_experts())
    assert fitted.fit is not None
    mean = np.array([row["mean_unique_experts"] for row in fitted.fit["per_m"]])
    without = replace(costs, verify_ms=costs.verify_ms + costs.alpha_ms * mean, alpha_ms=np.zeros(11))
    assert same(refitted.costs, without)


def test_a_refit_keeps_the_mean_time_of_recorded_rounds(fitted: LatencyModel) -> None:
    """The means of T that the fit recorded, which no coefficient says: beta0' + alpha'·mean U + c'·mean L."""
    assert fitted.fit is not None
    rows = fitted.fit["per_m"]
    mean_u, mean_l, mean_t = (
        np.array([row[f"mean_{what}"] for row in rows]) for what in ("unique_experts", "context_len", "target_ms")
    )
    costs = length_costs(fitted, 0, 10)
    for text in ("experts=0", "experts=0.3, context=0", "alpha[2-4]*0.5, context[7]=0.002ms"):
        refitted = parse_change(text, model=fitted).refitted(costs, fitted)
        assert refitted is not None
        time = refitted.verify_ms + refitted.alpha_ms * mean_u + refitted.context_ms * mean_l
        np.testing.assert_allclose(time, mean_t, rtol=1e-9)


def test_one_context_coefficient_still_moves_decisions() -> None:
    """Its term is zero at a decision, but it prices every further round: without it the optimum drafts less."""
    model = LatencyModel.load(CASES / "published-a100" / "model.json")
    model = replace(model, context_ms_per_token=0.01)
    costs = length_costs(model, 1, 10)
    without = parse_change("context=0").as_is(costs, model)
    problems = [make_problem(traces, 10) for traces in TraceFiles(CASES / "tiny-moe" / "traces.parquet")]
    k, k0 = (np.concatenate([solve(p, c).draft_length for p in problems]) for c in (costs, without))
    assert costs.shared_context
    assert (k0 < k).mean() > 0.01
    assert (k0 > k).mean() < 0.01
