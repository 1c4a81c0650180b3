"""Where speculation pays: closed forms against direct search, several measured batch sizes, schedules, tenants."""

from dataclasses import replace
from typing import Any

import naive_crossover
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.crossover import pays
from oracle.crossover.answer import crossover
from oracle.crossover.costs import BASES, FIRST_REQUEST, BatchCosts, Scaling, batch_costs
from oracle.crossover.mixing import measured_and_beyond, mixing_costs, tenant_counts
from oracle.crossover.study import shown_sizes
from oracle.crossover.traffic import Traffic, by_formula, equal_match_lengths
from oracle.crossover.unique_experts import BatchExperts
from oracle.engines import configuration
from oracle.errors import InputError
from oracle.latency.model import DraftLine, DraftTable, LatencyModel, ModelByBatchSize

TIMES = st.lists(st.lists(st.floats(0.1, 100), min_size=4, max_size=4), min_size=1, max_size=12)


@given(TIMES, st.floats(0, 1))
def test_acceptance_needed_is_where_direct_search_turns_on(times: list[list[float]], match: float) -> None:
    ms = np.array(times)
    on = pays.states_of(pays.speed_ups(ms, equal_match_lengths(match, 3))) == pays.ON
    needed = pays.acceptance_needed(ms)
    sure = np.abs(needed - match) > 1e-7  # nearer is a tie
    assert np.array_equal(on[sure], (match > needed)[sure])


@given(TIMES, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_acceptance_is_on_wherever_a_lower_one_is(times: list[list[float]], a: float, b: float) -> None:
    ms = np.array(times)
    low, high = (pays.states_of(pays.speed_ups(ms, equal_match_lengths(p, 3))) for p in sorted((a, b)))
    assert not ((low == pays.ON) & (high != pays.ON)).any()


@given(st.lists(st.booleans(), max_size=40))
def test_all_intervals_and_exits(on: list[bool]) -> None:
    found = pays.crossings(np.array(on, np.int8))
    runs = naive_crossover.intervals(on)
    assert list(found.intervals) == runs
    ends = [None if last == len(on) else last for _, last in runs]
    assert (found.first_exit, found.last_exit) == ((ends[0], ends[-1]) if ends else (None, None))
    assert found.censored == bool(on and on[-1])


@given(TIMES, st.lists(st.floats(1, 4), min_size=4, max_size=4))
def test_off_base_needed_flips_the_answer(times: list[list[float]], lengths: list[float]) -> None:
    ms, length = np.array(times), np.array([1.0, *lengths[1:]])
    rest = ms[:, 0] / 2
    needed = pays.off_base_needed(ms, rest, length)
    for shift, state in ((-1e-6, pays.OFF), (1e-6, pays.ON)):
        moved = ms.copy()
        moved[:, 0] = rest + needed * (1 + np.sign(needed) * shift) + shift
        positive = moved[:, 0] > 0
        assert (pays.states_of(pays.speed_ups(moved, length))[positive] == state).all()


@given(st.floats(0.05, 0.95), st.floats(0, 0.05), st.integers(2, 60))
def test_drafting_for_further_requests_flips_the_answer(match: float, assumed: float, B: int) -> None:
    def state(draft_request_ms: float) -> tuple[float, int]:
        traffic = by_formula(equal_match_lengths(match, 2), 100.0, num_experts=64, top_k=4, most=B)
        scaling = Scaling(token_ms=0.0, draft_request_ms=draft_request_ms)
        found = crossover(traffic, linear_model(), [1, 2], scaling=scaling)
        return float(found.draft_request_most_ms[-1]), int(found.states[-1])

    most, at = state(assumed)
    assert at == (pays.ON if most > assumed else pays.OFF)
    if most > 1e-6:
        assert [state(most * factor)[1] for factor in (1 - 1e-6, 1 + 1e-6)] == [pays.ON, pays.OFF]


@settings(deadline=None)
@given(st.floats(0, 0.2), st.floats(0, 0.1), st.floats(0, 0.001), st.floats(0, 0.5), st.floats(0.05, 0.95))
def test_large_batches_tend_to_the_limit(token: float, floor: float, kv: float, draft: float, match: float) -> None:
    scaling = Scaling(token_ms=token, floor_ms=floor, kv_read_ms=kv, draft_request_ms=draft)
    length, context = equal_match_lengths(match, 2), np.full(3, 500.0)
    model, U = linear_model(), np.full((1, 3), 64.0)
    costs = batch_costs(model, [1, 2], 2, 1, scaling)
    full = costs.round_ms(U, context)[-1]
    limit = pays.large_batch_speed_ups(costs.growth_ms, full, context, length)
    B = 10**12
    n = B * np.arange(1, 4.0)
    ms = (
        1 + token * n + np.maximum(0.1 * 64, floor * n) + (0.001 + kv * B) * 500 + np.array([0, 2, 3]) + draft * (n - B)
    )
    direct = length / ms / (1 / ms[0])
    if max(token, floor, kv) > 1e-6:
        assert limit == pytest.approx(direct, rel=1e-3)


def linear_model(**more: Any) -> LatencyModel:
    plain = LatencyModel((1, 2, 3), (1.0, 1.0, 1.0), (0.1, 0.1, 0.1), 0.001, DraftLine(1.0, 1.0))
    return replace(plain, **more)


def test_a_limit_without_growth_is_the_round_with_all_experts() -> None:
    traffic = by_formula(equal_match_lengths(0.9, 2), 0.0, num_experts=64, top_k=4, most=4096)
    scaling = Scaling(token_ms=0.0, kv_read_ms=0.0)
    found = crossover(traffic, linear_model(), [1, 2], scaling=scaling)
    assert found.limit == pytest.approx(found.speed_up[-1], rel=1e-6)


def by_size() -> ModelByBatchSize:
    def block(size: int, base: tuple[float, ...], draft: float) -> LatencyModel:
        return LatencyModel((1, 2), base, (0.2, 0.3), 0.01 * size, DraftTable((1,), (draft,)), batch_size=size)

    return ModelByBatchSize([block(1, (2.0, 3.0), 1.0), block(4, (5.0, 9.0), 2.0), block(8, (9.0, 21.0), 2.0)])


def test_measured_batch_sizes_are_taken_as_they_are() -> None:
    model = by_size()
    traffic = by_formula(equal_match_lengths(0.9, 1), 100.0, num_experts=32, top_k=2, most=10)
    found = crossover(traffic, model, [1], scaling=Scaling(kv_read_ms=FIRST_REQUEST))
    for block in model.blocks:
        B = block.batch_size or 0
        U = traffic.unique_experts[B - 1]
        wanted = [
            b + a * u + 0.01 * B * 100 for b, a, u in zip(block.beta0_ms, block.alpha_ms_per_expert, U, strict=True)
        ]
        wanted[1] += block.draft_ms(1)
        assert found.round_ms[B - 1] == pytest.approx(wanted, rel=1e-12)
    kinds = [BASES[i] for i in found.costs.basis[:, 1]]
    assert kinds == ["measured", *["between"] * 2, "measured", *["between"] * 3, "measured", *["extrapolated"] * 2]
    assert found.extrapolated.tolist() == [False] * 8 + [True] * 2
    middle = found.costs.base_ms[5]  # batch size 6, half way between 4 and 8
    assert middle == pytest.approx([7.0, 15.0])
    # beyond: (21 - 9) ms over 4 requests of 2 positions is 1.5 ms a position
    tokens_ms = found.costs.token_ms * found.costs.further_tokens[9]
    assert found.costs.base_ms[9] + tokens_ms == pytest.approx([9 + 1.0 * 2, 21 + 1.5 * 4])
    assert found.costs.context_ms[9] == pytest.approx([0.08 + 2 * 0.01] * 2)


def test_batches_below_the_smallest_measured_one_are_not_made_up() -> None:
    model = linear_model(batch_size=3)
    traffic = by_formula(equal_match_lengths(0.9, 2), 100.0, num_experts=32, top_k=2, most=5)
    found = crossover(traffic, model, [1, 2])
    assert [pays.STATES[s] for s in found.states[:2]] == ["unknown", "unknown"]
    assert np.isnan(found.speed_up[:2]).all()
    assert found.crossings.intervals == ()
    assert found.ranges[0] == ((1, 5), 0)


def test_a_gain_that_comes_and_goes_is_found_whole() -> None:
    # verification jumps at 5 positions and experts saturate: on at 1, off at 2 and 3, on from 4 to 6, off beyond
    ms = np.array([[10, 14], [10, 17], [10, 16], [10, 14], [10, 13], [10, 12], [10, 18], [10, 19]], float)
    states = pays.states_of(pays.speed_ups(ms, np.array([1.0, 1.5])))
    assert pays.crossings(states).intervals == ((1, 1), (4, 6))


def test_schedules_go_to_engines() -> None:
    cheap = linear_model(beta0_ms=(9.0, 9.0, 9.0), batch_size=1)
    model = ModelByBatchSize([cheap, replace(cheap, reject_ms=99.0, batch_size=4)])
    traffic = by_formula(equal_match_lengths(0.9, 2), 100.0, num_experts=32, top_k=2, most=4)
    found = crossover(traffic, model, [1, 2])
    assert found.ends() == [((1, 1), 2), ((2, None), 0)]
    text = configuration("vllm", found.ends(), method="mtp")
    assert '"num_speculative_tokens_per_batch_size": [[1, 1, 2], [2, 2, 0]]' in text
    clipped = crossover(traffic, model, [1, 2], kv_tokens=320)
    assert clipped.ends() == [((1, 1), 2), ((2, 3), 0)]


def test_mixing_sets_tenants_beside_one() -> None:
    def of(mean: float) -> BatchExperts:
        cells = np.full((2, 1), mean)
        left = cells + np.array([[[-0.3]], [[0.0]], [[0.3]]])
        return BatchExperts(cells, left, np.full((2, 1), mean + 1), distinct_to=1 if mean < 7 else 2)

    costs = BatchCosts(
        *(np.full((2, 1), v) for v in (1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0)),
        basis=np.full((2, 1), 2),
        growth_ms=np.zeros((2, 1)),
        token_ms=np.zeros(1),
    )
    traffic = Traffic(
        np.zeros((2, 1)), np.ones(1), np.zeros(1), np.zeros((0, 2, 1)), np.zeros((0, 1)), np.zeros((0, 1)), 8, None
    )
    rows = mixing_costs({1: of(6.0), 2: of(7.0)}, (1, 2), traffic, costs)
    assert [(r.tenants, r.batch_size) for r in rows] == [(1, 1), (1, 2), (2, 2)]
    last = rows[-1]
    assert (last.extra, last.extra_ms, last.share, last.extra_formula) == (1.0, 0.5, 0.125, 1.0)
    assert last.share_formula == pytest.approx((1.0 + 0.5 * 8.0) / (1.0 + 0.5 * 7.0) - 1, rel=1e-12)
    assert last.extra_half == 0.0  # both sides move together: the difference is paired
    assert last.unique_half > 1.0
    assert not last.distinct
    assert measured_and_beyond(rows, [0]) == ([last], [])  # nothing else was measured
    sure = replace(last, batch_size=1, distinct=True)
    assert measured_and_beyond([*rows, sure], [0]) == ([sure], [last])
    assert measured_and_beyond([*rows, sure], [1]) == ([], [])


def test_numbers_that_are_shown() -> None:
    assert tenant_counts(1) == (1,)
    assert tenant_counts(5) == (1, 2, 4, 5)
    assert shown_sizes(20, [3, 40]) == (1, 2, 3, 4, 8, 16, 20)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"token_ms": -1.0}, "token_ms is -1; it is a finite number of milliseconds, at least 0"),
        ({"floor_ms": float("nan"), "off_ms": float("inf")}, "1. floor_ms is nan"),
    ],
)
def test_scaling_refuses(given: dict[str, float], said: str) -> None:
    with pytest.raises(InputError) as caught:
        Scaling(**given)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_traffic_refuses() -> None:
    with pytest.raises(InputError) as caught:
        by_formula(np.ones(2), float("nan"), num_experts=8, top_k=9, most=2, overlap=1.5)
    assert caught.value.faults == (
        "overlap is 1.5; it is a share and lies in [0, 1]",
        "context_len is nan; it is a finite number of tokens, at least 0",
        "top_k is 9 and num_experts 8; a token goes to 1 … num_experts experts of a layer",
    )
    with pytest.raises(InputError, match=r"the match probability is nan; a probability lies in \[0, 1\]"):
        equal_match_lengths(float("nan"), 2)
    traffic = by_formula(np.ones(3), 1000.0, num_experts=8, top_k=2, most=2)
    with pytest.raises(InputError, match=r"the KV cache holds 999 tokens, less than the 1000 of one context"):
        crossover(traffic, linear_model(), [1, 2], kv_tokens=999)
