"""Schedules against every schedule there is, and what is said where they set K = 0 although some K pays."""

from collections.abc import Sequence
from dataclasses import replace

import naive_crossover
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_crossover import linear_model

from oracle.crossover.answer import Crossover, crossover
from oracle.crossover.schedule import claimed, schedule
from oracle.crossover.traffic import Traffic, by_formula, equal_match_lengths
from oracle.summaries.crossover import schedule_table
from oracle.summaries.crossover_headline import headline
from oracle.summaries.crossover_texts import unclaimed

NAN = float("nan")
UPS = st.lists(
    st.lists(st.sampled_from([NAN, 0.9, 0.985, 1.0, 1.01, 1.03, 1.05, 1.2]), min_size=2, max_size=2),
    min_size=1,
    max_size=6,
)
HALVES = st.lists(st.sampled_from([NAN, 0.0, 0.04]), min_size=6, max_size=6)


def lengths_of(ranges: Sequence[tuple[tuple[int, int], int]]) -> list[int]:
    return [k for (first, last), k in ranges for _ in range(first, last + 1)]


@settings(deadline=None)
@given(UPS, HALVES, st.sampled_from([0.0, 0.02]))
def test_no_schedule_has_fewer_ranges_or_loses_less(
    drafted: list[list[float]], spread: list[float], noise: float
) -> None:
    up = np.array([[1.0, *each] for each in drafted])
    half = np.array([[NAN, h, h] for h in spread[: len(up)]])
    ranges = schedule(up, half, noise)
    assert [first for (first, _), _ in ranges] == [1, *(last + 1 for (_, last), _ in ranges[:-1])]
    key = naive_crossover.schedule_key(up.tolist(), half.tolist(), noise, lengths_of(ranges))
    assert key is not None
    assert key == pytest.approx(naive_crossover.best_schedule_key(up.tolist(), half.tolist(), noise), abs=1e-12)


def curve(*ups: float, half: float = NAN) -> tuple[np.ndarray, np.ndarray]:
    up = np.column_stack([np.ones(len(ups)), ups])
    return up, np.column_stack([np.full(len(ups), NAN), np.full(len(ups), half)])


def test_the_end_of_drafts_is_where_they_stop_to_gain_not_where_the_tolerance_is_used_up() -> None:
    up, half = curve(1.1, 1.05, 1.03, 1.01, 0.99, 0.97)
    assert schedule(up, half, 0.02) == [((1, 3), 1), ((4, 6), 0)]
    assert schedule(up, half, 0.0) == [((1, 4), 1), ((5, 6), 0)]
    assert schedule(*curve(1.1, 1.05, 1.03, 1.01, half=0.06), 0.02) == [((1, 1), 1), ((2, 4), 0)]


def test_a_curve_along_the_noise_is_not_cut_to_pieces() -> None:
    assert schedule(*curve(1.1, 1.015, 1.03, 1.0, 1.05, 1.015, 0.9), 0.02) == [((1, 5), 1), ((6, 7), 0)]
    assert schedule(*curve(1.1, 1.0, 0.9, 1.05), 0.02) == [((1, 1), 1), ((2, 3), 0), ((4, 4), 1)]


def test_a_length_must_be_claimed_itself() -> None:
    up, half = np.array([[1.0, 1.05, 1.06]]), np.array([[NAN, 0.02, 0.5]])
    assert claimed(up, half, 0.02).tolist() == [[False, True, False]]
    assert schedule(up, half, 0.02) == [((1, 1), 1)]
    assert schedule(np.full((2, 3), NAN), np.full((2, 3), NAN), 0.02) == [((1, 2), 0)]


def test_what_is_set_off_although_it_pays_is_said() -> None:
    found = answered(0.53)
    shown = {B: float(found.speed_up[B - 1, found.best[B - 1]]) for B in range(1, 65)}
    off = [B for B, up in shown.items() if 1 < up <= 1 / 0.98]
    assert off
    assert np.flatnonzero(found.unclaimed).tolist() == [B - 1 for B in off]
    said = unclaimed(found)
    assert (
        f"where some K ≥ 1 pays, but not by more than 2 % (speed-up at most {max(shown[B] for B in off):.3f})" in said
    )
    notes = schedule_table(found).notes
    assert notes[0].startswith(
        "K ≥ 1 only where it is faster than K = 0 by more than 2 %; of such schedules the fewest"
    )
    assert notes[1] == said
    assert unclaimed(answered(0.9, noise=0.0)) == ""


def answered(match: float, noise: float = 0.02) -> Crossover:
    traffic: Traffic = by_formula(equal_match_lengths(match, 2), 100.0, num_experts=32, top_k=2, most=64)
    cheap = replace(linear_model(beta0_ms=(9.0, 9.5, 10.0)), alpha_ms_per_expert=(0.15, 0.15, 0.15))
    return crossover(traffic, cheap, [1, 2], noise=noise)


def test_the_headline_follows_the_schedule() -> None:
    found = answered(0.9)
    said = headline(found)[-1]
    assert said.startswith("the schedule sets K = ")
    for (first, last), k in found.ranges[:-1]:
        assert f"K = {k} at {first}{f' … {last}' if last > first else ''}" in said
    assert found.scheduled.tolist() == lengths_of(found.ranges)
