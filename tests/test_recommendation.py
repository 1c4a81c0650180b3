"""The arithmetic of a recommendation: published measurements, closed forms, and a search over a grid."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.acceptance import Acceptance, StepTimes, acceptance_from_text, mixed, step_times_from_text
from oracle.acceptance.curves import clustered, counted
from oracle.errors import InputError
from oracle.intervals import Interval
from oracle.recommendation.answers import Recommendation
from oracle.recommendation.arithmetic import recommend
from oracle.recommendation.break_even import break_evens, equal_match_length, overtakes
from oracle.recommendation.tenants import by_tenant
from oracle.summaries.recommendation import recommendation_tables, verdict
from oracle.tables import render

# Qwen3.6-35B-A3B on a 3060 laptop: survival of drafts of four tokens, and tokens per second of K = 0 … 4
F1_SURVIVAL = [0.8835, 0.7465, 0.508, 0.430]
F1_RATES = {0: 22.92, 1: 27.58, 2: 29.39, 3: 27.78, 4: 26.09}
# gemma4-26b-a4b on a DGX Spark: acceptance measured at K = 4 and at K = 2, at one request and at eight
F2_SURVIVAL = [{"rates": [0.844, 0.599, 0.385, 0.271]}, {"rates": [0.766, 0.545]}]
F2_RATES = {1: {4: 55.6, 2: 54.9}, 8: {4: 210.0, 2: 303.6}}
# M5 Max: milliseconds of a round, K = 0 being the floor; no acceptance was reported
F4_MS = {
    "8.5k": {0: 20.34, 1: 25.41, 2: 31.18, 3: 35.70, 4: 41.33, 6: 53.58},
    "short": {0: 18.24, 1: 23.61, 2: 28.12, 3: 33.91, 4: 38.87, 6: 50.16, 8: 62.70},
}


def survival(rows: Any) -> Acceptance:
    return acceptance_from_text(json.dumps(rows), "f", "survival")


def text_of(answer: Recommendation) -> str:
    return render(recommendation_tables([answer]))


# --- published measurements --------------------------------------------------------------------------------------


def test_f1_best_is_k_2() -> None:
    answer = recommend(survival(F1_SURVIVAL), StepTimes(tokens_per_second=F1_RATES))
    assert answer.recommended == 2
    assert answer.tied == ()
    assert answer.of(4).mean_acceptance_length == pytest.approx(3.568)
    assert verdict(answer) == "K = 2: 29.4 tokens/s, 28.2 % above off"
    lengths = {k: 1 + sum(F1_SURVIVAL[:k]) for k in F1_RATES}
    for k, rate in F1_RATES.items():
        assert answer.of(k).step_ms == pytest.approx(1e3 * lengths[k] / rate)
    assert "acceptance at K = 1, 2, 3 was not measured: it is the start of drafts of 4 tokens" in text_of(answer)


def test_f1_step_times_give_the_rates_back() -> None:
    known = recommend(survival(F1_SURVIVAL), StepTimes(tokens_per_second=F1_RATES))
    steps = StepTimes(step_ms={c.draft_length: c.step_ms for c in known.candidates if c.step_ms is not None})
    answer = recommend(survival(F1_SURVIVAL), steps)
    assert answer.recommended == 2
    for k, rate in F1_RATES.items():
        assert answer.of(k).tokens_per_second == pytest.approx(rate)


def test_f1_read_as_conditional_would_be_another_answer() -> None:
    """What trap 1 costs: the running product of survival makes K = 4 emit 2.9 tokens a round, not 3.6."""
    wrong = np.cumprod(F1_SURVIVAL)
    assert 1 + wrong.sum() == pytest.approx(3.022, abs=1e-3)
    assert 1 + sum(F1_SURVIVAL) == pytest.approx(3.568)


def test_f2_a_tie_at_one_request_and_k_2_at_eight() -> None:
    answers = {
        size: recommend(survival(F2_SURVIVAL), StepTimes(tokens_per_second=rates, batch_size=size))
        for size, rates in F2_RATES.items()
    }
    one, eight = answers[1], answers[8]
    assert one.best is not None
    assert one.best.draft_length == 4
    assert one.tied == (2,)
    assert one.recommended == 2  # ties go to the shorter draft
    assert "K = 2, K = 4: a tie within the noise of 2 %; the shorter draft is taken" in text_of(one)
    assert eight.recommended == 2
    assert eight.tied == ()
    rate = {k: eight.of(k).tokens_per_second for k in (2, 4)}
    assert rate[2] is not None
    assert rate[4] is not None
    assert round(100 * (rate[2] / rate[4] - 1)) == 45
    assert "44.6 % above the next best, K = 4" in text_of(eight)
    assert [eight.of(k).measured_at for k in (2, 4)] == [2, 4]  # acceptance is taken per K
    assert eight.of(2).step_ms == pytest.approx(8e3 * 2.311 / 303.6)
    assert "K = 0 was not measured: whether off would be faster cannot be told" in eight.limits


def test_f2_is_no_tie_when_the_noise_is_one_percent() -> None:
    answer = recommend(survival(F2_SURVIVAL), StepTimes(tokens_per_second=F2_RATES[1]), noise=0.01)
    assert answer.recommended == 4
    assert answer.tied == ()


def positive_root(k: int, asked: float) -> float:
    """The p with 1 + p + … + p^k = asked, from the roots of the polynomial."""
    roots = np.roots([*([1.0] * k), 1.0 - asked])
    real = [root.real for root in roots if abs(root.imag) < 1e-9 and root.real > 0]
    assert len(real) == 1
    return float(real[0])


@pytest.mark.parametrize("context", F4_MS)
def test_f4_at_what_acceptance_each_k_pays(context: str) -> None:
    ms = F4_MS[context]
    answer = recommend(None, StepTimes(step_ms=ms, setting=context))
    assert answer.recommended is None
    assert answer.best is None
    for each in answer.break_evens[1:]:
        k = each.draft_length
        assert each.match_over_off is not None
        assert each.length_over_off == pytest.approx(ms[k] / ms[0])
        assert each.match_over_off == pytest.approx(positive_root(k, ms[k] / ms[0]))
        assert equal_match_length(each.match_over_off, k) / ms[k] == pytest.approx(1 / ms[0])
    assert "K = 1 from 0." in verdict(answer)
    assert "no acceptance is known" in text_of(answer)


# --- break-evens -------------------------------------------------------------------------------------------------


def test_closed_forms_of_short_drafts() -> None:
    assert overtakes(0, 20.0, 1, 25.0) == pytest.approx(0.25)  # 1 + p = 1.25
    assert overtakes(0, 20.0, 2, 32.0) == pytest.approx((-1 + math.sqrt(1 + 4 * 0.6)) / 2)  # p + p² = 0.6
    assert overtakes(0, 20.0, 1, 20.0) == 0.0
    assert overtakes(0, 20.0, 1, 19.0) == 0.0
    assert overtakes(0, 20.0, 1, 40.0) == math.inf  # even certain matches only draw level
    assert overtakes(1, 10.0, 3, 20.0) == math.inf


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(10, 60), min_size=2, max_size=6), st.integers(0, 2))
def test_best_ranges_agree_with_a_search_over_a_grid(times: list[int], start: int) -> None:
    ms = {start + i: float(t) for i, t in enumerate(times)}
    found = {each.draft_length: each for each in break_evens(ms)}
    for p in np.linspace(0.0005, 0.9995, 333):
        rates = {k: sum(p**j for j in range(k + 1)) / ms[k] for k in ms}
        best, second = sorted(rates, key=lambda k: -rates[k])[:2]
        if rates[best] <= rates[second] * (1 + 1e-9):
            continue
        low, high = found[best].best_from, found[best].best_to
        assert low is not None
        assert high is not None
        assert low <= p <= high


# --- intervals and verdicts --------------------------------------------------------------------------------------

STEPS = StepTimes(step_ms={0: 10.0, 1: 12.0, 2: 15.0, 3: 20.0})


def test_off_wins_when_it_does() -> None:
    answer = recommend(Acceptance((counted(np.array([0.1, 0.02, 0.0]), 3, None, None),)), STEPS)
    assert answer.recommended == 0
    assert verdict(answer) == "off (K = 0): off wins, 100.0 tokens/s"
    table = recommendation_tables([answer])[2]
    assert table.name == "break_even"
    assert table.rows[1]["length_over_off"] == pytest.approx(1.2)
    assert table.rows[1]["length_now"] == pytest.approx(1.1)
    near = recommend(Acceptance((counted(np.array([0.21, 0.02, 0.0]), 3, None, None),)), STEPS)
    assert near.tied == (0,)
    assert verdict(near) == "off (K = 0), 100.0 tokens/s"  # a tie with K = 1 is settled by the shorter draft


def test_the_interval_of_counted_rounds() -> None:
    shape = np.array([0.8, 0.5, 0.2])
    answer = recommend(Acceptance((counted(shape, 3, None, 400),)), STEPS)
    length = 1 + 0.8 + 0.5
    variance = (0.8 + 3 * 0.5) - 1.3**2  # E[a²] − E[a]², a accepted of two: Σ (2j − 1) S_j
    half = 1.959963984540054 * math.sqrt(variance / 400)
    around = answer.of(2).interval
    assert around is not None
    assert around.low == pytest.approx(1e3 * (length - half) / 15)
    assert around.high == pytest.approx(1e3 * (length + half) / 15)
    assert answer.of(2).interval_from == "rounds"
    assert answer.of(0).interval == Interval(98.0, 102.0)
    assert answer.of(0).interval_from == "noise"


def test_intervals_cover_the_truth() -> None:
    """Rounds drawn from a known survival: 95 % intervals hold it about 95 times in a hundred."""
    rng = np.random.default_rng(11)
    shape = np.array([0.7, 0.4])
    truth = 1e3 * 2.1 / 15
    chance = -np.diff([1.0, *shape, 0.0])
    held = {"rounds": 0, "requests": 0}
    for _ in range(300):
        accepted = rng.choice(3, size=(25, 12), p=chance)
        at_risk = np.stack([(accepted >= j).sum(axis=1) for j in (0, 1)], axis=1).astype(float)
        hits = np.stack([(accepted >= j).sum(axis=1) for j in (1, 2)], axis=1).astype(float)
        sampled = np.array([(accepted >= j).mean() for j in (1, 2)])
        for curve in (counted(sampled, 2, None, accepted.size), clustered(at_risk, hits, 2, None)):
            around = recommend(Acceptance((curve,)), STEPS).of(2).interval
            assert around is not None
            held[curve.interval_from] += around.low <= truth <= around.high
    assert all(0.90 <= count / 300 <= 0.985 for count in held.values()), held


def test_a_difference_that_the_counts_cannot_tell() -> None:
    shape = np.array([0.8, 0.48, 0.2])
    few, many = (recommend(Acceptance((counted(shape, 3, None, n),)), STEPS, noise=0.0) for n in (15, 100_000))
    assert few.of(1).verdict == "not enough data"
    assert few.undecided == (1,)
    assert verdict(few).startswith("not enough data; provisionally K = 2: 152.0 tokens/s")
    assert many.of(1).verdict == ""
    assert many.recommended == 2
    # one curve: its errors are shared, and only S_2 and the two step times tell K = 1 from K = 2
    w = np.array([1e3 / 15 - 1e3 / 12, 1e3 / 15])
    cov = (np.minimum.outer(shape[:2], shape[:2]) - np.outer(shape[:2], shape[:2])) / 15
    gap = 1e3 * 2.28 / 15 - 1e3 * 1.8 / 12
    assert 0 < gap <= 1.96 * math.sqrt(w @ cov @ w)


def test_lengths_without_acceptance_are_left_out_and_named() -> None:
    answer = recommend(Acceptance((counted(np.array([0.8]), 1, None, None),)), STEPS)
    assert [c.draft_length for c in answer.candidates] == [0, 1]
    assert "left out: K = 2, 3: no acceptance was measured at that depth" in answer.notes


def test_what_cannot_be_answered() -> None:
    one = Acceptance((counted(np.array([0.8]), 1, None, None),))
    with pytest.raises(InputError, match="no draft length K ≥ 1 has both an acceptance and a step time"):
        recommend(one, StepTimes(step_ms={0: 10.0, 2: 15.0}))
    with pytest.raises(InputError, match="the noise is 1; it is a share from 0 to below 1"):
        recommend(one, STEPS, noise=1.0)
    two = Acceptance((counted(np.array([0.8]), 1, "a", None), counted(np.array([0.7]), 1, "b", None)))
    with pytest.raises(InputError, match="of several tenants; mix them, or take one"):
        recommend(two, STEPS)
    with pytest.raises(InputError, match="only K = 0 was measured"):
        recommend(None, StepTimes(tokens_per_second={0: 20.0}))


def test_throughput_alone_names_the_best() -> None:
    answer = recommend(None, StepTimes(tokens_per_second=F1_RATES))
    assert answer.recommended == 2
    assert answer.break_evens == ()
    assert answer.of(2).mean_acceptance_length is None


# --- tenants -----------------------------------------------------------------------------------------------------


def test_tenants_and_their_mix() -> None:
    """Code accepts nearly all, chat little: each has its own best, and the mix lies between."""
    code, chat = (
        counted(np.array([0.95, 0.9, 0.85]), 3, "code", None),
        counted(np.array([0.15, 0.0, 0.0]), 3, "chat", None),
    )
    both = Acceptance((code, chat))
    answer = recommend(mixed(both, {"code": 1, "chat": 1}), STEPS)
    own = by_tenant(both, answer)
    assert {tenant: each.recommended for tenant, each in own.answers.items()} == {"code": 2, "chat": 0}
    assert own.answers["code"].of(3).tokens_per_second == pytest.approx(1e3 * 3.7 / 20)
    assert answer.of(2).tokens_per_second == pytest.approx(1e3 * (2.85 + 1.15) / 2 / 15)
    assert answer.recommended == 2
    table = recommendation_tables([answer], [own])[-1]
    assert table.name == "tenants"
    assert [row["tenant"] for row in table.rows[::4]] == ["code", "chat", "all, mixed"]
    assert "chat: K = 0 of its own against K = 2: 30.4 % more" in table.notes


def test_tenants_of_a_measured_throughput_share_its_step_times() -> None:
    both = Acceptance((counted(np.array([0.9]), 1, "a", None), counted(np.array([0.5]), 1, "b", None)))
    answer = recommend(mixed(both), StepTimes(tokens_per_second={0: 100.0, 1: 170.0}))
    assert answer.of(1).step_ms == pytest.approx(10.0)
    assert by_tenant(both, answer).answers["b"].of(1).tokens_per_second == pytest.approx(150.0)


# --- tables -----------------------------------------------------------------------------------------------------


def test_tables_hold_full_precision_and_every_setting() -> None:
    answers = [
        recommend(survival(F2_SURVIVAL), table)
        for table in step_times_from_text(
            "batch_size,draft_length,tokens_per_second\n1,4,55.6\n1,2,54.9\n8,4,210\n8,2,303.6\n", "f"
        )
    ]
    tables = {table.name: table for table in recommendation_tables(answers)}
    assert list(tables) == ["recommendation", "draft_lengths", "break_even"]
    assert [(row["batch_size"], row["draft_length"]) for row in tables["recommendation"].rows] == [(1, 2), (8, 2)]
    lengths = [(row["batch_size"], row["draft_length"]) for row in tables["draft_lengths"].rows]
    assert lengths == [(1, 2), (1, 4), (8, 2), (8, 4)]
    assert tables["draft_lengths"].rows[0]["tokens_per_second"] == 54.9
    assert tables["break_even"].rows[3]["length_over_recommended"] == pytest.approx(3.099 * 303.6 / 210)
