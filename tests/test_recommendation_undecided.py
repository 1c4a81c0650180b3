"""What is said where the data cannot tell: which length stands, and whether the estimate of what is missing holds."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oracle.acceptance import Acceptance, StepTimes, acceptance_from_text
from oracle.acceptance.curves import counted
from oracle.engines.schedule import Step, schedule_of
from oracle.intervals import Interval
from oracle.recommendation.answers import Against, Candidate, Recommendation, Sample
from oracle.recommendation.arithmetic import judged, recommend, shortest
from oracle.recommendation.by_batch_size import ranges_of, remarks_on
from oracle.recommendation.tenants import by_tenant
from oracle.summaries.recommendation import recommendation_tables, verdict
from oracle.tables import render

STEPS = StepTimes(step_ms={0: 10.0, 1: 12.0, 2: 15.0, 3: 20.0})


def counted_at(shape: list[float], rounds: float) -> Recommendation:
    return recommend(Acceptance((counted(np.array(shape), len(shape), None, rounds),)), STEPS)


def why(answer: Recommendation) -> str:
    return str(recommendation_tables([answer])[0].rows[1]["value"])


# --- which length stands ---------------------------------------------------------------------------------------------


def answered(behind: dict[int, tuple[float, float, float]], best: int, noise: float = 0.02) -> dict[int, str]:
    """Verdicts where lengths lie so far behind the best: (share, low, high)."""
    rates = {best: 100.0} | {k: 100.0 * (1 + share) for k, (share, _, _) in behind.items()}
    candidates = [Candidate(k, None, None, None, rate, None, "") for k, rate in sorted(rates.items())]

    def over(first: int, k: int) -> Against:
        assert first == best
        return Against(behind[k][0], Interval(*behind[k][1:]), noise)

    found = judged(candidates, over)
    assert shortest(found) == min([best, *(k for k, (share, _, _) in behind.items() if share >= -noise)])
    return {c.draft_length: c.verdict for c in found}


def test_only_what_could_change_the_answer_leaves_it_open() -> None:
    found = answered(
        {0: (-0.01, -0.2, 0.18), 2: (-0.05, -0.11, 0.01), 3: (-0.05, -0.13, 0.03), 4: (-0.3, -0.4, -0.2)}, 1
    )
    assert found == {0: "tie", 1: "best", 2: "not significant", 3: "not enough data", 4: ""}
    # a shorter length would be set as soon as it is as good, so it leaves the answer open whatever its upper end
    assert answered({0: (-0.05, -0.11, 0.01)}, 1) == {0: "not enough data", 1: "best"}
    assert answered({0: (-0.05, -0.09, -0.01)}, 1) == {0: "", 1: "best"}


def test_few_clusters_leave_every_length_open_but_those_that_tie() -> None:
    rates = {0: 80.0, 1: 100.0, 2: 99.0}
    candidates = [Candidate(k, None, None, None, rate, None, "") for k, rate in rates.items()]

    def judge(clusters: int | None, *, interval: bool = True) -> tuple[Candidate, ...]:
        def over(first: int, k: int) -> Against:
            share = rates[k] / rates[first] - 1
            return Against(share, Interval(share - 0.005, share + 0.005) if interval else None, 0.02, clusters)

        return judged(candidates, over)

    def answer(clusters: int | None, *, interval: bool = True) -> Recommendation:
        sample = Sample(clusters, "clusters") if clusters else None
        return Recommendation(judge(clusters, interval=interval), 1, (), 0.02, 1, None, (), (), sample)

    for clusters in (1, 2, 9):
        few = answer(clusters, interval=clusters > 1)
        assert [c.verdict for c in few.candidates] == ["not enough data", "best", "tie"]
        assert few.provisional
        assert few.more_needed == 10 - clusters, "below ten nothing is settled, however clear it looks"
        assert verdict(few).startswith("not enough data; provisionally K = 1: ")
        assert f"; {clusters} cluster{'' if clusters == 1 else 's'} only: below 10 no difference" in why(few)
    for clusters in (10, 39, None):
        assert [c.verdict for c in answer(clusters).candidates] == ["", "best", "tie"]
        assert not answer(clusters).provisional
    averages = answer(0, interval=False)
    assert [c.verdict for c in averages.candidates] == ["not enough data", "best", "tie"]
    assert averages.provisional
    assert (averages.more_needed, averages.times_as_much) == (None, None), "more averages tell no errors"
    assert not answer(None, interval=False).provisional, "only the stated noise is known: it decides"


def test_one_request_of_many_rounds_is_few_requests() -> None:
    """Its interval counts rounds; what is missing is requests, however many rounds there were."""
    survival = np.array([0.8, 0.6, 0.4])
    alone = replace(counted(survival, 3, None, 300), requests=1)
    answer = recommend(Acceptance((alone,)), STEPS)
    assert answer.sample == Sample(300, "rounds")
    assert answer.few == Sample(1, "requests")
    assert (answer.times_as_much, answer.more_needed) == (10, 9)
    assert "; measure about 9 more requests (10 times as much in all; " in why(answer)
    assert why(answer).endswith("; 1 request only: below 10 no difference counts as significant")


def test_the_fewest_requests_of_any_difference_count() -> None:
    """Acceptance at one length from 9 requests, at the others from 4 and 40."""
    rates = {0: 80.0, 1: 90.0, 2: 100.0, 3: 70.0}
    requests = {0: 40, 1: 9, 3: 4}
    candidates = [Candidate(k, None, None, None, rate, None, "") for k, rate in rates.items()]

    def answer(requests: dict[int, int]) -> Recommendation:
        found = judged(candidates, lambda _, k: Against(rates[k] / 100 - 1, Interval(-0.4, -0.05), 0.02, requests[k]))
        return Recommendation(found, 2, (), 0.02, 1, None, (), (), Sample(5000, "rounds"))

    assert (answer(requests).few, answer(requests).more_needed) == (Sample(4, "requests"), 6)
    assert why(answer({0: 40, 1: 9, 3: 40})).count("; measure about 1 more request (1.1 times as much in all; ") == 1
    assert answer({0: 40, 1: 10, 3: 40}).few is None


def test_no_factor_is_shown_that_asks_for_nothing() -> None:
    candidates = [Candidate(k, None, None, None, rate, None, "") for k, rate in {0: 95.0, 1: 100.0}.items()]
    found = judged(candidates, lambda _, k: Against(-0.05, Interval(-0.1001, 0.0001), 0.02, None))
    answer = Recommendation(found, 1, (), 0.02, 1, None, (), (), Sample(100, "rounds"))
    assert answer.more_needed == 1
    assert "; measure about 1 more round (hardly more than there is; an estimate, " in why(answer)


def test_a_tie_on_few_clusters_is_provisional_too() -> None:
    candidates = [Candidate(k, None, None, None, rate, None, "") for k, rate in {0: 99.0, 1: 100.0}.items()]
    found = judged(candidates, lambda _, k: Against(-0.01, Interval(-0.02, -0.005), 0.02, 4))
    few = Recommendation(found, shortest(found), (), 0.02, 1, None, (), (), Sample(4, "clusters"))
    assert (few.undecided, few.recommended) == ((), 0)
    assert verdict(few) == "not enough data; provisionally off (K = 0), 99.0 tokens/s"
    assert why(few).endswith("; 4 clusters only: below 10 no difference counts as significant")


# --- how much more to measure ----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.02, 0.98), min_size=3, max_size=3).map(lambda x: np.cumprod(x).tolist()), st.integers(2, 60)
)
def test_the_estimate_is_enough_where_the_differences_stay(shape: list[float], rounds: int) -> None:
    answer = counted_at(shape, rounds)
    assume(answer.undecided)
    assert answer.more_needed is not None
    assert answer.times_as_much is not None
    assert answer.times_as_much >= 1
    assert not counted_at(shape, (rounds + answer.more_needed) * (1 + 1e-9)).undecided
    short = 0.99 * answer.times_as_much * rounds
    assert short < rounds or counted_at(shape, short).undecided


def test_the_estimate_by_hand() -> None:
    """One curve: only S_2 and the step times tell K = 1 from K = 2; errors shrink with the root of the rounds."""
    shape = np.array([0.8, 0.55, 0.1])
    answer = counted_at(shape.tolist(), 10)
    w = np.array([1e3 / 15 - 1e3 / 12, 1e3 / 15])
    cov = (np.minimum.outer(shape[:2], shape[:2]) - np.outer(shape[:2], shape[:2])) / 10
    gap, half = 1e3 * 2.35 / 15 - 1e3 * 1.8 / 12, 1.959963984540054 * math.sqrt(w @ cov @ w)
    assert answer.undecided[-1] == 1
    assert answer.times_as_much == pytest.approx((half / gap) ** 2)
    missing = (half / gap) ** 2 * 10 - 10
    assert answer.more_needed is not None
    assert missing <= answer.more_needed <= 1.1 * missing + 1
    assert f"measure about {answer.more_needed:,} more rounds (" in why(answer)


def test_four_rounds_are_not_enough_to_turn_drafting_off() -> None:
    answer = recommend(
        Acceptance((counted(np.array([0.8, 0.6]), 2, None, 4),)),
        StepTimes(step_ms={0: 43.63, 1: 68.29, 2: 89.49}),
    )
    assert answer.undecided == (0,)
    assert answer.recommended == 1  # K = 2 is best by 1.8 %, a tie that the shorter draft wins
    assert verdict(answer) == "not enough data; provisionally K = 1: 26.4 tokens/s, 15.0 % above off"
    assert why(answer) == (
        "K = 2 came out best, K = 1 ties with it and is shorter; not to be told from K = 2: off (-14.5 % [-47.2; "
        "+18.1]); measure about 17 more rounds (5.0 times as much in all; an estimate, which takes the differences as "
        "they were found)"
    )
    many = recommend(
        Acceptance((counted(np.array([0.8, 0.6]), 2, None, 4000),)),
        StepTimes(step_ms={0: 43.63, 1: 68.29, 2: 89.49}),
    )
    assert many.undecided == ()
    assert many.recommended == 1
    assert why(many).startswith("K = 1, K = 2: a tie within the noise of 2 %")


def test_a_tie_that_hides_a_difference_says_so() -> None:
    steps = StepTimes(step_ms={0: 10.0, 1: 15.0})
    few, many = (
        recommend(Acceptance((counted(np.array([0.51]), 1, None, rounds),)), steps) for rounds in (20, 100_000)
    )
    assert few.recommended == many.recommended == 0
    assert "a tie within the noise of 2 % (the data leave room for 1" in why(few)
    assert why(many).startswith("off, K = 1: a tie within the noise of 2 %; the shorter draft is taken")


# --- few requests ----------------------------------------------------------------------------------------------------


def requests(count: int, tenant: str | None = None) -> Any:
    one = {"acceptance_histogram": [1, 1, 0, 1, 1], "num_spec_tokens": 4}
    return [one | ({"tenant": tenant} if tenant else {})] * count


def test_few_requests_are_named_where_their_errors_may_be_zero() -> None:
    steps = StepTimes(step_ms={0: 10.0, 2: 12.0, 4: 15.0})
    for count, said in (
        (1, "1 request only: its interval takes rounds as independent, and they are not"),
        (2, "2 requests only: intervals from so few are too narrow to be trusted"),
        (9, "9 requests only: intervals from so few are too narrow to be trusted"),
    ):
        answer = recommend(acceptance_from_text(json.dumps(requests(count)), "f"), steps)
        assert f"acceptance at K = 2, 4: {said}" in answer.notes
    alike = recommend(acceptance_from_text(json.dumps(requests(2)), "f"), steps)
    around = alike.of(4).length_interval
    assert around is not None
    assert around.low == around.high  # two requests that are alike
    assert not any(
        "only" in note for note in recommend(acceptance_from_text(json.dumps(requests(10)), "f"), steps).notes
    )
    totals = [{"num_spec_steps": 5, "num_accepted_draft_tokens": 8, "num_draft_tokens": 20, "num_spec_tokens": 4}] * 3
    answer = recommend(acceptance_from_text(json.dumps(totals), "f"), steps)
    assert "acceptance at K = 4: 3 requests only: intervals from so few are too narrow to be trusted" in answer.notes


def test_few_requests_of_one_tenant() -> None:
    from oracle.acceptance import mixed  # noqa: PLC0415

    both = acceptance_from_text(json.dumps([*requests(12, "many"), *requests(2, "few\x1b[2J")]), "f")
    answer = recommend(mixed(both), StepTimes(step_ms={0: 10.0, 4: 15.0}))
    assert "acceptance at K = 4: 2 requests only: intervals from so few are too narrow to be trusted" in answer.notes
    notes = by_tenant(both, answer).notes
    assert (
        r"few\x1b[2J: acceptance at K = 4: 2 requests only: intervals from so few are too narrow to be trusted" in notes
    )
    assert not any(note.startswith("many") for note in notes)


# --- several batch sizes ---------------------------------------------------------------------------------------------


def at_sizes(best: dict[int, int]) -> list[Recommendation]:
    tables = (StepTimes(tokens_per_second={0: 1.0, k or 3: 2.0 if k else 0.5}, batch_size=n) for n, k in best.items())
    return [recommend(None, table) for table in tables]


def test_a_schedule_says_what_is_extrapolated() -> None:
    answers = at_sizes({64: 4, 16: 2})
    assert ranges_of(answers) == [((1, 16), 2), ((17, 63), 2), ((64, None), 4)]
    assert list(remarks_on(answers)) == [
        "measured at batch sizes 16, 64; extrapolated: 1 to 15 (K of 16), 17 to 63 (K of 16), above 64 (K of 64)"
    ]
    assert list(remarks_on(at_sizes({1: 4, 2: 3, 4: 0}))) == [
        "measured at batch sizes 1, 2, 4; extrapolated: 3 (K of 4), above 4 (K of 4)"
    ]
    assert list(remarks_on(at_sizes({8: 2}))) == [
        "measured at batch size 8 only; at every other one this K is extrapolated"
    ]
    falling = at_sizes({1: 4, 64: 0})
    assert ranges_of(falling) == [((1, 1), 4), ((2, 63), 0), ((64, None), 0)], "a gap takes the shorter of its ends"
    assert list(remarks_on(falling)) == [
        "measured at batch sizes 1, 64; extrapolated: 2 to 63 (K of 64), above 64 (K of 64)"
    ]
    assert schedule_of(ranges_of(falling)).steps == (Step(1, 1, 4), Step(2, None, 0))
    assert ranges_of(at_sizes({4: 2})) == [((1, None), 2)]
    assert ranges_of(at_sizes({2: 1, 3: 3})) == [((1, 2), 1), ((3, None), 3)]
    open_at_1 = counted_at([0.8, 0.55, 0.1], 10)
    assert (
        list(remarks_on([open_at_1]))[1] == f"batch size 1: not enough data, K = {open_at_1.recommended} is provisional"
    )


def test_what_holds_at_every_batch_size_is_said_once() -> None:
    page = render(recommendation_tables(at_sizes({1: 4, 8: 2, 32: 0})))
    assert page.startswith("Recommended draft length by batch size\n")
    for once in ("contexts: acceptance", "the bound: how much", "other loads: step times", "Static draft lengths"):
        assert page.count(once) == 1
    assert "8 requests: K = 1 and K above 2: nothing is interpolated" in page


# --- what would change the answer ------------------------------------------------------------------------------------


def test_a_length_no_draft_can_reach_is_never_needed() -> None:
    answer = recommend(
        Acceptance((counted(np.array([0.9, 0.8, 0.1]), 3, None, None),)),
        StepTimes(step_ms={0: 10.0, 1: 16.0, 2: 18.0, 3: 40.0}),
    )
    assert answer.recommended == 2
    table = next(each for each in recommendation_tables([answer]) if each.name == "break_even")
    rows = {row["draft_length"]: row for row in table.rows}
    assert rows[1]["length_over_recommended"] == pytest.approx(2.7 * 16 / 18)  # above 2, the most that K = 1 emits
    assert rows[1]["never_over_recommended"] is True
    assert rows[3]["length_over_recommended"] == pytest.approx(2.7 * 40 / 18)
    shown = {k: table.columns[3].show(row) for k, row in rows.items()}
    assert shown == {0: "–", 1: "never", 2: "–", 3: "never"}
    over_off = {k: table.columns[2].show(row) for k, row in rows.items()}
    assert over_off == {0: "–", 1: "1.600", 2: "1.800", 3: "never"}


def test_left_out_lengths_are_no_gap_in_what_was_measured() -> None:
    acceptance = Acceptance((counted(np.array([0.8, 0.6, 0.3]), 3, None, None),))
    cut = recommend(acceptance, STEPS.within(1, 2))
    assert "left out by --k-min and --k-max: K = 0, 3" in cut.notes
    assert "K = 0 was left out by --k-min: whether off would be faster cannot be told" in cut.limits
    assert not any("not measured: whether" in limit or "K above 2" in limit for limit in cut.limits)
    assert any(limit.startswith("K above 3: nothing is interpolated") for limit in cut.limits)
