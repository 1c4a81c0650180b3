"""The crossover of the published coefficients: every printed number, and the same by direct search."""

import naive_crossover
import numpy as np
import pytest
from test_cli import PUBLISHED

from oracle.crossover import pays
from oracle.crossover.answer import Crossover, crossover
from oracle.crossover.costs import FIRST_REQUEST, Scaling
from oracle.crossover.formulas import mixed_unique_experts, uniform_unique_experts
from oracle.crossover.traffic import by_formula, equal_match_lengths
from oracle.latency.model import LatencyModel

KV_MS = 98304 / 2e12 * 1e3  # a token of context at 2 TB/s
SCALING = Scaling(token_ms=0.0, floor_ms=0.042, kv_read_ms=KV_MS, off_ms=5.7)
SIZES = (1, 2, 4, 5, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)


def answered(match: float, context: float, most: int = 2048, k_max: int = 10, **more: object) -> Crossover:
    overlap = float(more.pop("overlap", 0.0))  # type: ignore[arg-type]
    traffic = by_formula(
        equal_match_lengths(match, k_max), context, num_experts=128, top_k=8, most=most, overlap=overlap
    )
    scaling = more.pop("scaling", SCALING)
    return crossover(traffic, LatencyModel.load(PUBLISHED), range(1, k_max + 1), scaling=scaling, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("context", "match", "intervals", "first", "last"),
    [
        (1000, 0.30, ((16, 656),), 656, 656),
        (1000, 0.38, ((1, 1), (12, 744)), 1, 744),
        (1000, 0.45, ((1, 1), (4, 4), (8, 2048)), 1, None),
        (200, 0.50, ((1, 1), (3, 4), (7, 670)), 1, 670),
        (200, 0.60, ((1, 728),), 728, 728),
        (200, 0.70, ((1, 788),), 788, 788),
    ],
)
def test_every_interval_is_found_where_a_bisection_would_miss_some(
    context: float, match: float, intervals: tuple[tuple[int, int], ...], first: int, last: int | None
) -> None:
    found = answered(match, context).crossings
    assert found.intervals == intervals
    assert (found.first_exit, found.last_exit, found.censored) == (first, last, last is None)
    on = [
        any(naive_crossover.published_speed_up(k, B, context, match) > 1 for k in range(1, 11)) for B in range(1, 2049)
    ]
    assert list(found.intervals) == naive_crossover.intervals(on)


def test_acceptance_needed_by_batch_size() -> None:
    needed = answered(0.7, 200).acceptance_needed
    printed = (0.42, 0.55, 0.47, 0.51, 0.47, 0.31, 0.12, 0.03, 0.01, 0.01, 0.22, 0.75, 0.78)
    assert tuple(np.round(needed[np.array(SIZES) - 1], 2)) == printed


def test_speed_up_rises_then_falls_after_a_bump_at_one() -> None:
    top = answered(0.7, 1000).speed_up.max(axis=1)
    assert tuple(np.round(top[[0, 1, 63, 255, 1023]], 2)) == (1.27, 1.20, 2.91, 2.15, 1.18)


@pytest.mark.parametrize(("context", "least"), [(1000, 0.46), (200, 0.81)])
def test_limit_of_large_batches_is_a_closed_form(context: float, least: float) -> None:
    closed = 0.042 / (0.042 + KV_MS * context)
    assert round(closed, 2) == least
    for match in (closed - 1e-6, closed + 1e-6):
        limit = answered(match, context, most=8).limit
        assert (np.nanmax(limit[1:]) > 1) == (match > closed)
        far = [naive_crossover.published_speed_up(k, 10**9, context, match) for k in range(11)]
        assert limit == pytest.approx(far, rel=1e-6)


@pytest.mark.parametrize(("off_ms", "needed"), [(5.0, 0.51), (5.7, 0.37), (7.3, 0.13)])
def test_the_round_without_drafts_decides_batch_size_one(off_ms: float, needed: float) -> None:
    found = answered(0.5, 1000, most=2, scaling=Scaling(token_ms=0.0, floor_ms=0.042, kv_read_ms=KV_MS, off_ms=off_ms))
    assert round(float(found.acceptance_needed[0]), 2) == needed


@pytest.mark.parametrize(("overlap", "needed"), [(0.0, 0.477), (0.4, 0.317), (0.8, 0.135)])
def test_overlap_of_rows_lowers_what_is_needed(overlap: float, needed: float) -> None:
    found = answered(0.5, 1000, most=5, overlap=overlap)
    assert round(float(found.acceptance_needed[4]), 3) == needed
    ms = [naive_crossover.published_round_ms(k + 1, 5, 1000, overlap=overlap) for k in range(11)]
    draft = [0.0, *(0.459 * k + 0.073 for k in range(1, 11))]
    assert found.round_ms[4] == pytest.approx(np.add(ms, draft), rel=1e-12)


def test_kv_cache_ends_the_batch_sizes_and_may_hide_the_exit() -> None:
    tokens = int(11e9 / 98304)  # 90 % of 80 GB without 61 GB of weights
    found = answered(0.38, 1000, kv_tokens=tokens)
    assert (found.most, found.clipped) == (111, True)
    assert found.crossings.intervals == ((1, 1), (12, 111))
    assert found.crossings.last_exit is None
    assert [int(n) for n in found.most_requests] == [tokens // (1000 + k) for k in range(11)]
    held = naive_crossover.published_speed_up(10, 110, 1000, 0.38) * (
        naive_crossover.published_round_ms(1, 111, 1000) / 111 * 110 / naive_crossover.published_round_ms(1, 110, 1000)
    )
    assert int(found.running[110, 10]) == 110  # ten draft tokens more a request do not fit into 111
    assert found.speed_up[110, 10] == pytest.approx(held, rel=1e-9)
    assert found.ends()[-1][0][1] == 111


def test_context_read_like_the_first_one_takes_the_large_exit_away() -> None:
    found = answered(0.38, 1000, scaling=Scaling(token_ms=0.0, floor_ms=0.042, kv_read_ms=FIRST_REQUEST, off_ms=5.7))
    assert found.crossings.last_exit is None
    assert np.nanmax(found.limit[1:]) > 1


def test_by_draft_length_long_drafts_cost_more_than_they_do_by_tokens() -> None:
    found = answered(
        0.7, 1000, scaling=Scaling(by="length", token_ms=0.0, floor_ms=0.042, kv_read_ms=KV_MS, off_ms=5.7)
    )
    assert int(found.best[:128].max()) <= 3  # m = 5 is where experts become dear; far beyond, compute hides them
    assert int(answered(0.7, 1000).best[:128].max()) > 3


def test_unknown_without_a_price_for_no_draft() -> None:
    found = answered(0.7, 1000, most=8, scaling=Scaling(token_ms=0.0, floor_ms=0.042, kv_read_ms=KV_MS))
    assert found.states.tolist()[0] == 2
    assert found.crossings.intervals == ((2, 8),)
    needed = float(found.off_base_needed_ms[0])
    assert 2 < needed < 5.7
    for off_ms, on in (needed - 1e-7, False), (needed + 1e-7, True):
        again = answered(
            0.7, 1000, most=1, scaling=Scaling(token_ms=0.0, floor_ms=0.042, kv_read_ms=KV_MS, off_ms=off_ms)
        )
        assert bool(again.states[0]) == on


def test_unique_experts_by_formula() -> None:
    assert round(float(uniform_unique_experts(16, 128, 8)), 1) == 82.4
    assert round(float(uniform_unique_experts(2, 128, 8)), 1) == 15.5
    printed = [8, 30.5, 57.4, 102]  # top-8 of 256 at m = 1, 4, 8, 16: what the formula says, not what was measured
    assert [round(float(u), 1) for u in uniform_unique_experts([1, 4, 8, 16], 256, 8)] == pytest.approx(
        printed, abs=0.051
    )
    disjoint = np.zeros((2, 1, 128))
    disjoint[0, 0, :8], disjoint[1, 0, 8:16] = 1.0, 1.0
    assert float(mixed_unique_experts([1.0, 1.0], disjoint)) == 16.0  # above the uniform formula


def test_popularity_of_a_zipf_law() -> None:
    share = 1 / np.arange(1, 129)
    scale = 8.0
    for _ in range(200):
        pi = np.minimum(1.0, scale * share / share.sum())
        scale *= 8 / pi.sum()
    rng = np.random.default_rng(0)
    by_tenants = {
        T: np.mean(
            [
                float(
                    mixed_unique_experts(np.full(T, 16 / T), np.stack([rng.permutation(pi) for _ in range(T)])[:, None])
                )
                for _ in range(200)
            ]
        )
        for T in (4, 16)
    }
    assert round(float(mixed_unique_experts([16.0], pi[None, None])), 1) == 54.3
    assert by_tenants[4] == pytest.approx(67.1, abs=1.6)  # printed for one draw of tenants; draws differ by 0.8
    assert by_tenants[16] == pytest.approx(82.1, abs=1.6)


def test_a_cache_that_holds_fewer_drafts_is_no_exit() -> None:
    found = answered(0.7, 1000, kv_tokens=40000, noise=0.02)
    assert [int(n) for n in found.most_requests[:2]] == [40, 39]
    assert found.crossings.intervals == ((1, 39),)
    assert (found.crossings.first_exit, found.crossings.last_exit, found.crossings.censored) == (None, None, True)
    assert pays.STATES[found.states[39]] == "does not fit"
    assert found.ranges == (((1, 5), 2), ((6, 40), 9))  # 39 with drafts are faster than 40 without
    off, on = (naive_crossover.published_round_ms(m, B, 1000) for m, B in ((1, 40), (8, 39)))
    wanted = 39 * sum(0.7**j for j in range(8)) / (on + 0.459 * 7 + 0.073) / (40 / off)
    assert found.speed_up[39, 7] == pytest.approx(wanted, rel=1e-12)


def test_where_drafts_push_too_many_out_they_do_not_pay() -> None:
    found = answered(0.7, 10, kv_tokens=40)  # 4 requests without drafts, 2 with ten tokens each
    assert found.most_requests.tolist() == [4, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2]
    for B in range(1, 5):
        rates = [
            min(B, int(n))
            * sum(0.7**j for j in range(k + 1))
            / (naive_crossover.published_round_ms(k + 1, min(B, int(n)), 10) + (0.459 * k + 0.073 if k else 0.0))
            for k, n in enumerate(found.most_requests)
        ]
        assert found.speed_up[B - 1] == pytest.approx(np.array(rates) / rates[0], rel=1e-12)
        pays_whole = any(rates[k] > rates[0] and found.most_requests[k] >= B for k in range(1, 11))
        pays_fewer = any(rate > rates[0] for rate in rates[1:])
        state = "on" if pays_whole else "does not fit" if pays_fewer else "off"
        assert pays.STATES[found.states[B - 1]] == state


@pytest.mark.parametrize(("match", "context"), [(0.38, 1000), (0.7, 1000), (0.5, 200)])
@pytest.mark.parametrize("B", [4, 16, 64, 256, 700, 1024, 2000])
def test_break_evens_of_prices_that_were_not_measured_flip_the_answer(match: float, context: float, B: int) -> None:
    found = answered(match, context, most=B)

    def state(floor_ms: float, kv_read_ms: float) -> str:
        scaling = Scaling(token_ms=0.0, floor_ms=floor_ms, kv_read_ms=kv_read_ms, off_ms=5.7)
        return pays.STATES[answered(match, context, most=B, scaling=scaling).states[-1]]

    floor, kv = (float(each[-1]) for each in (found.break_evens.floor_most_ms, found.break_evens.kv_read_needed_ms))
    if np.isfinite(floor):
        assert [state(floor * by, KV_MS) for by in (1 - 1e-6, 1 + 1e-6)] == ["on", "off"]
    if kv > 0:
        assert [state(0.042, kv * by) for by in (1 - 1e-6, 1 + 1e-6)] == ["off", "on"]
    else:
        assert state(0.042, 0.0) == "on"


def test_without_a_price_context_of_further_requests_takes_nothing() -> None:
    plain, zero, first = (
        answered(0.7, 1000, most=256, scaling=Scaling(token_ms=0.0, floor_ms=0.042, off_ms=5.7, **more))  # type: ignore[arg-type]
        for more in ({}, {"kv_read_ms": 0.0}, {"kv_read_ms": FIRST_REQUEST})
    )
    assert np.array_equal(plain.round_ms, zero.round_ms)
    assert (plain.speed_up[1:, 2] < first.speed_up[1:, 2]).all()  # reading context is shared by the rows of a round
