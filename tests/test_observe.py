"""Concurrency, prefix sharing and prompt lookup of request logs against naive twins, and planted rates."""

import random
from collections import OrderedDict
from itertools import pairwise

import naive_observe as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_observe import Logged
from observe_logs import gathered, logs, planted_text
from scipy.stats import binomtest

from kernels.lookup_rounds import count_rounds
from kernels.prefix_stack import stack_positions
from kernels.prompt_lookup import look_up
from oracle.columns import frozen
from oracle.intervals import Interval
from oracle.levers.fitted import Measured, fit_autocorrelation
from oracle.levers.matches import mean_length
from oracle.observe import repetitiveness as lookup
from oracle.observe.concurrency import in_flight
from oracle.observe.gathered import Settings, lookup_counts
from oracle.observe.prefix_sharing import prefix_sharing
from oracle.observe.regimes import around
from oracle.observe.study import Wanted, study
from oracle.recorder.lookup import proposals

texts = st.lists(st.integers(0, 3), max_size=24)


@settings(max_examples=150, deadline=None)
@given(logs(), st.integers(1, 3), st.booleans())
def test_every_capacity_is_an_lru_cache_of_its_own(log: list[Logged], size: int, isolated: bool) -> None:
    found = prefix_sharing(gathered(log, Settings(block_size=size, isolate_tenants=isolated)))
    order = sorted(range(len(log)), key=lambda i: log[i].arrival)
    for late in (False, True):
        for capacity in (*range(1, 14), None):
            expected = naive.hit_tokens(log, size, capacity, delayed=late, isolated=isolated)
            assert found.hit_tokens(capacity, delayed=late).tolist() == [expected[i] for i in order]


@settings(max_examples=60, deadline=None)
@given(logs(), st.integers(1, 3))
def test_a_larger_cache_finds_no_less_and_never_more_than_may_be_reused(log: list[Logged], size: int) -> None:
    found = prefix_sharing(gathered(log, Settings(block_size=size)))
    by_capacity = [found.hit_tokens(capacity) for capacity in (*found.capacities(), None)]
    assert all((small <= large).all() for small, large in pairwise(by_capacity))
    assert (by_capacity[-2] == by_capacity[-1]).all(), "the largest capacity shown finds all there is"
    prompts = np.array([len(r.prompt) for r in sorted(log, key=lambda r: r.arrival)])
    assert (by_capacity[-1] <= np.maximum(prompts - 1, 0)).all()


def test_stack_positions_on_long_streams_equal_an_ordered_dictionary() -> None:
    """Requests of one block each: plain LRU reuse distances."""
    rng = np.random.default_rng(4)
    block = frozen(rng.zipf(1.3, 4000).clip(max=500).astype(np.int32))
    n = len(block)
    request = frozen(np.repeat(np.arange(n), 2))
    position = np.full(n, -1, np.int64)
    looks = frozen(np.tile([True, False], n))
    stack_positions(block, frozen(np.arange(n + 1)), request, frozen(np.ones(2 * n, np.int64)), looks, position)
    stack: OrderedDict[int, None] = OrderedDict()
    for i, b in enumerate(block.tolist()):
        assert position[i] == (list(reversed(stack)).index(b) + 1 if b in stack else 0)
        stack[b] = None
        stack.move_to_end(b)


@settings(max_examples=300, deadline=None)
@given(texts, texts, st.integers(1, 3), st.integers(0, 2), st.integers(1, 6))
def test_lookup_counts_equal_the_naive_twin(
    prompt: list[int], output: list[int], shortest: int, more: int, depth: int
) -> None:
    asked = Settings(draft_length=depth, shortest=shortest, longest=shortest + more)
    arrays = (np.array(each, np.int64) for each in (prompt, output))
    expected = naive.lookup_counts(prompt, output, shortest, shortest + more, depth)
    assert lookup_counts(*arrays, asked).tolist() == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=40), st.integers(1, 5))
def test_lookup_proposes_what_the_recorder_does(text: list[int], longest: int) -> None:
    tokens = np.array(text, np.int64)
    at_risk, matched = np.empty(len(text) - 1, np.int16), np.empty(len(text) - 1, np.int16)
    look_up(frozen(tokens), 1, 1, longest, 4, at_risk, matched)
    for t in range(1, len(text)):
        proposed = proposals(tokens[:t], 4, longest)[: len(text) - t]
        same = np.cumprod(proposed == tokens[t : t + len(proposed)]).sum()
        assert (at_risk[t - 1], matched[t - 1]) == (len(proposed), same)


def test_extreme_token_ids_are_told_apart() -> None:
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    text = np.array([low, high, 0])
    assert lookup_counts(text, text, Settings(draft_length=2))[:4].tolist() == [1, 1, 1, 1]
    assert lookup_counts(text, text[::-1].copy(), Settings(draft_length=2))[:4].tolist() == [2, 0, 0, 0]


def test_what_is_not_proposed_or_lies_beyond_the_text_is_not_rejected() -> None:
    by_depth, totals = np.zeros((2, 3), np.int64), np.zeros(3, np.int64)
    # a short proposal accepted whole; then none; then two of which the text reaches one
    count_rounds(np.array([1, 9, 0, 1], np.int16), np.array([1, 9, 0, 1], np.int16), 3, False, by_depth, totals)
    assert by_depth.tolist() == [[2, 0, 0], [2, 0, 0]]
    assert totals.tolist() == [3, 1, 2]


@settings(max_examples=100, deadline=None)
@given(logs(), st.integers(1, 4))
def test_concurrency_equals_a_count_in_every_unit_of_time(log: list[Logged], width: int) -> None:
    flight = in_flight(*(np.array([getattr(r, name) for r in log], float) for name in ("arrival", "end")))
    first, last = min(r.arrival for r in log), max(r.end for r in log)
    if flight is None:
        assert first == last
        return
    counts = naive.in_flight(log, first, last)
    edges = np.arange(first - 1, last + width + 1, width, dtype=float)
    found = flight.within(edges)
    for s, begin in enumerate(range(first - 1, last + width + 1, width)[:-1]):
        inside = [counts[t - first] for t in range(begin, begin + width) if first <= t < last]
        assert found.request_seconds[s] == sum(inside)
        assert found.busy_seconds[s] == sum(c > 0 for c in inside)
        assert found.seconds[s] == len(inside)
        assert found.peak[s] == max(inside, default=0)
    for share in (0.01, 0.5, 0.9, 1.0):
        at = int(np.ceil(share * len(counts) - 1e-9)) - 1
        assert flight.quantile(share) == sorted(counts)[max(at, 0)]


@pytest.mark.parametrize(("after_match", "after_mismatch"), [(0.8, 0.1), (0.5, 0.5), (0.9, 0.6)])
def test_planted_rates_are_recovered(after_match: float, after_mismatch: float) -> None:
    prompt, output = planted_text(random.Random(7), 60_000, after_match, after_mismatch)
    asked = Settings(draft_length=6, shortest=1, longest=1)
    totals = lookup_counts(np.array(prompt), np.array(output), asked).astype(float)
    rate = after_mismatch / (1 - after_match + after_mismatch)
    x = after_match - after_mismatch
    close = 5 * 0.5 / np.sqrt(60_000) / (1 - abs(x))
    assert float(lookup.acceptance(totals, "renewal")) == pytest.approx(rate, abs=close)
    assert float(lookup.after_a_match(totals, "renewal")) == pytest.approx(after_match, abs=close)
    assert totals[-1] / totals[-2] == pytest.approx(after_mismatch, abs=close)
    assert float(lookup.autocorrelation(totals, "renewal")) == pytest.approx(x, abs=3 * close)
    assert lookup.conditional(totals)[1:] == pytest.approx(after_match, abs=4 * close)
    played = float(lookup.tokens_a_round(totals, "renewal"))
    assert played == pytest.approx(float(mean_length(rate, 6, "renewal", x)), rel=0.03)
    assert lookup.predicted(totals)["renewal"] == pytest.approx(played, rel=0.03)
    assert lookup.predicted(totals)["stationary"] == pytest.approx(played, rel=0.03)
    gated = float(lookup.tokens_a_round(totals, "gated"))
    assert gated == pytest.approx(float(mean_length(rate, 6, "gated", x)), rel=0.03)


def test_the_stationary_reading_is_what_levers_fits_from_counters() -> None:
    prompt, output = planted_text(random.Random(1), 4000, 0.7, 0.2)
    totals = lookup_counts(np.array(prompt), np.array(output), Settings(draft_length=5, shortest=1, longest=1)).astype(
        float
    )
    (chain,) = fit_autocorrelation([Measured("p", survival=tuple(lookup.survival(totals)))])
    assert float(lookup.acceptance(totals, "stationary")) == chain.first
    assert float(lookup.after_a_match(totals, "stationary")) == pytest.approx(chain.following, rel=1e-12)
    assert float(lookup.autocorrelation(totals, "stationary")) == pytest.approx(chain.autocorrelation, rel=1e-12)


def test_rates_without_rounds_are_not_known() -> None:
    nothing = np.zeros(2 * 4 + 12)
    assert np.isnan(lookup.survival(nothing)).all()
    assert all(np.isnan(value) for value in lookup.predicted(nothing).values())
    never = lookup_counts(np.arange(10), np.arange(20, 40), Settings(draft_length=4)).astype(float)
    assert lookup.survival(never).tolist() == [0.0] * 4
    assert lookup.predicted(never)["independent"] == 1.0


def test_planted_prefix_sharing_is_exact() -> None:
    rng = random.Random(3)
    shared = tuple(rng.randrange(1000) for _ in range(40))
    log = [
        Logged(10 * i, 10 * i + 1, 10 * i + 5, shared + tuple(rng.randrange(10**6) for _ in range(25)), (1, 2), "")
        for i in range(20)
    ]
    found = prefix_sharing(gathered(log, Settings(block_size=16)))
    assert found.hit_tokens(None).tolist() == [0] + 19 * [32]  # two full blocks of 40 tokens
    assert found.hit_tokens(4).tolist() == [0] + 19 * [32]
    assert found.hit_tokens(1).tolist() == [0] + 19 * [16]  # the begin of a text is evicted last


def test_the_next_turn_finds_what_was_emitted() -> None:
    first = Logged(0, 1, 5, tuple(range(8)), tuple(range(100, 109)), "")
    second = Logged(9, 10, 12, (*first.prompt, *first.output, 7), (1,), "")
    found = prefix_sharing(gathered([first, second], Settings(block_size=4)))
    assert found.hit_tokens(None).tolist() == [0, 16]
    before_its_end = prefix_sharing(gathered([first, second._replace(arrival=3)], Settings(block_size=4)))
    assert before_its_end.hit_tokens(None).tolist() == [0, 8]


def test_nothing_found_is_not_known_for_certain() -> None:
    assert around(0.0, Interval(0.0, 0.0), 10) == Interval(0.0, pytest.approx(1 - 0.025**0.1))
    assert around(1.0, Interval(1.0, 1.0), 10) == Interval(pytest.approx(0.025**0.1), 1.0)
    assert around(0.0, Interval(0.0, 0.0)) is None
    assert around(0.5, Interval(0.5, 0.5), 10) is None
    assert around(0.5, Interval(0.6, 0.7)) == Interval(0.5, 0.7)
    apart = [
        Logged(10 * i, 10 * i + 1, 10 * i + 5, tuple(range(99 * i, 99 * i + 50)), (1, 2, 3), "") for i in range(12)
    ]
    found = study(gathered(apart), Wanted(unit="request")).whole
    assert found.prefix_share == 0
    exact = binomtest(0, 12).proportion_ci(method="exact")
    assert found.prefix_share_interval == Interval(0.0, pytest.approx(exact.high))


def test_intervals_are_of_whole_units() -> None:
    """Requests that repeat one another widen nothing if they are one cluster: the unit is resampled, not the row."""
    rng = random.Random(5)
    log = []
    for i in range(30):
        prompt, output = planted_text(rng, 40, 0.8, rng.random())
        log += [Logged(i, i + 1, i + 2, tuple(prompt[:200]), tuple(t % 200 for t in output), f"t{i}")] * 4
    by = {unit: study(gathered(log), Wanted(unit=unit)).whole for unit in ("tenant", "request")}
    widths = {}
    for unit, found in by.items():
        assert found.repetitiveness_interval is not None
        widths[unit] = found.repetitiveness_interval.high - found.repetitiveness_interval.low
    assert (by["tenant"].units, by["request"].units) == (30, 120)
    assert by["tenant"].repetitiveness == by["request"].repetitiveness
    assert widths["tenant"] == pytest.approx(2 * widths["request"], rel=0.2)
