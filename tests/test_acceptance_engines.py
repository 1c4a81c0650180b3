"""What servers print of rounds, against the rounds themselves: simulated ones, and runs that were published."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from engine_counters import Request, llama_line, llama_mean_line, llama_timings, served, vllm_counters, vllm_log

from oracle.acceptance import acceptance_from_text
from oracle.acceptance.curves import Acceptance, Curve
from oracle.errors import InputError
from oracle.recorded_by.alignment import positions_of


def read(trees: Sequence[Any], at: int | None = None) -> Acceptance:
    return acceptance_from_text("\n".join(json.dumps(tree) for tree in trees) + "\n", "f", None, at)


def curve_of(acceptance: Acceptance) -> Curve:
    (curve,) = acceptance.curves
    return curve


def mean_length(requests: Sequence[Request]) -> float:
    """From the rounds that drafted."""
    return 1 + sum(r.accepted for r in requests) / sum(len(r.rounds) for r in requests)


def simulated(seed: int, n: int, k: int = 4, limit: int = 160, match: float = 0.7, **more: float) -> list[Request]:
    rng = random.Random(seed)
    return [served(rng, k, limit, match, **more) for _ in range(n)]


# --- simulated -------------------------------------------------------------------------------------------------------


def test_every_engine_tells_of_the_same_rounds() -> None:
    k = 3
    requests = simulated(1, 40, k)
    histograms = [[sum(a == j for _, a in r.rounds) for j in range(k + 1)] for r in requests]
    steps = [
        {"per_step_accepted": [a for _, a in r.rounds], "per_step_drafted": [n for n, _ in r.rounds]} for r in requests
    ]
    totals = [
        {"spec_verify_ct": len(r.rounds), "spec_num_correct_drafts": r.accepted, "spec_num_proposed_drafts": r.drafted}
        for r in requests
    ]
    told = {
        "counters": acceptance_from_text(vllm_counters(requests, k), "f"),
        "log": acceptance_from_text(vllm_log([requests[:15], requests[15:]], k), "f"),
        "llama.cpp": acceptance_from_text("".join(llama_line(r, k) for r in requests), "f"),
        "histograms": read([{"acceptance_histogram": each, "num_spec_tokens": k} for each in histograms]),
        "totals": read([{"meta_info": each} for each in totals]),
    }
    survival = [sum(r.of(j) for r in requests) / sum(len(r.rounds) for r in requests) for j in range(1, k + 1)]
    for name, acceptance in told.items():
        curve = curve_of(acceptance)
        assert curve.mean_length(k) == pytest.approx(mean_length(requests), rel=2e-3), name
        assert curve.rounds == pytest.approx(sum(len(r.rounds) for r in requests), rel=2e-3), name
        if name != "totals":
            assert curve.survival.tolist() == pytest.approx(survival, abs=2e-3), name
    # where each step is told, a draft cut short by the end of the text is no rejection
    whole = [(n, a) for r in requests for n, a in r.rounds if n == k]
    assert curve_of(read(steps)).mean_length(k) == pytest.approx(1 + sum(a for _, a in whole) / len(whole), rel=0.02)


@pytest.mark.parametrize("line", [lambda r: llama_line(r, 3), llama_mean_line])
def test_lines_that_accepted_nothing_are_rounds_too(line: Any) -> None:
    """Texts so short that many accept nothing: leaving those out would select on what is measured."""
    requests = [r for r in simulated(2, 400, 3, 12, 0.12) if r.drafted]
    some = [r for r in requests if r.accepted]
    assert len(some) < 0.9 * len(requests)
    assert mean_length(some) > 1.05 * mean_length(requests)
    acceptance = acceptance_from_text("".join(map(line, requests)), "f", None, 3)
    assert curve_of(acceptance).mean_length(3) == pytest.approx(mean_length(requests), rel=0.03)
    nothing = len(requests) - len(some)
    assert any(f"f: {nothing} of {len(requests)} " in note for note in acceptance.notes)


def test_lines_that_accepted_nothing_say_what_is_in_doubt() -> None:
    text = llama_line(Request([(4, 2)] * 20), 4) + llama_line(Request([(4, 0)] * 20), 4)
    acceptance = acceptance_from_text(text, "f")
    curve = curve_of(acceptance)
    assert curve.survival.tolist() == [0.5, 0.5, 0.0, 0.0]
    assert (curve.rounds, curve.requests) == (40, 2)
    assert acceptance.notes == (
        "f: 1 of 2 lines at K = 4 show no rate above 0 and so do not tell their rounds: 20 of K tokens are taken, and "
        "up to 80 if drafts stopped early (the mean acceptance length is then down to 1.40, not 2.00)",
    )
    nothing = acceptance_from_text(llama_line(Request([(4, 0)] * 20), 4), "f")
    assert nothing.notes[0].endswith(": 20 of K tokens are taken, and up to 80 if drafts stopped early")
    alone = curve_of(nothing)
    assert (alone.survival.tolist(), alone.rounds, alone.draft_length) == ([0.0] * 4, 20, 4)


def test_mean_lengths_beside_lines_that_tell_none() -> None:
    """K follows from the lines that tell their rounds."""
    lines = llama_mean_line(Request([(4, 2)] * 30)) + llama_mean_line(Request([(4, 0)] * 10))
    acceptance = acceptance_from_text(lines, "f")
    assert curve_of(acceptance).mean_length(4) == pytest.approx(1 + 60 / 40)
    assert "f: 1 of 2 requests tell no rounds: every round of theirs is taken to have drafted K = 4 tokens" in (
        acceptance.notes
    )


@pytest.mark.parametrize(
    ("accepted", "drafted"),
    [(0, 80), (90, 80), (40, 800), (40, 19)],
)
def test_lines_whose_counts_contradict_their_rates(accepted: int, drafted: int) -> None:
    line = f"draft acceptance = 0.5 ({accepted:5d} accepted / {drafted:5d} generated), mean acceptance length =  3.00"
    with pytest.raises(InputError) as caught:
        acceptance_from_text(f"{line}, acceptance rate per position = (0.700, 0.600, 0.400, 0.300)", "f")
    assert str(caught.value) == (
        f"f, line 1: {accepted} accepted of {drafted} generated contradict the rates; is the line whole? (versions "
        "that leave out drafts accepted in part, where a model cannot be rolled back, print such lines)"
    )


def test_timings_count_the_steps_after_prefill() -> None:
    """Limits of length: steps are rounds, and the steps without a draft, which the note bounds."""
    requests = simulated(3, 60)
    acceptance = read([llama_timings(r) for r in requests], 4)
    curve = curve_of(acceptance)
    rounds, plain = sum(len(r.rounds) for r in requests), sum(r.plain for r in requests)
    assert plain > 0
    assert curve.rounds == rounds + plain
    drafted = sum(r.drafted for r in requests) / 4
    assert drafted < rounds < rounds + plain
    accepted = sum(r.accepted for r in requests)
    assert (
        f"there were {drafted:.1f}, and the mean acceptance length is {1 + accepted / drafted:.2f}, not"
        in (acceptance.notes[0])
    )
    assert curve.mean_length(4) == pytest.approx(mean_length(requests), rel=0.02)


def test_timings_of_texts_that_end_by_themselves() -> None:
    """Tokens accepted beyond an end are not predicted: no request is lost for it."""
    requests = simulated(4, 400, limit=400, match=0.8, end=0.01)
    assert any(r.sampled - 1 - r.accepted < len(r.rounds) for r in requests)
    curve = curve_of(read([llama_timings(r) for r in requests], 4))
    assert curve.mean_length(4) == pytest.approx(mean_length(requests), rel=0.03)
    ended = read([{"timings": {"predicted_n": 3, "draft_n": 4, "draft_n_accepted": 4}}], 4)
    assert (curve_of(ended).rounds, curve_of(ended).mean_length(4)) == (1, 5)


def test_timings_with_drafts_given_up_are_lower_bounds() -> None:
    requests = simulated(5, 60, give_up=0.2)
    acceptance = read([llama_timings(r) for r in requests], 4)
    assert curve_of(acceptance).mean_length(4) < mean_length(requests)
    assert any("so the acceptance is a lower bound" in note for note in acceptance.notes)


def test_short_texts_do_not_tell_k() -> None:
    requests = simulated(6, 30, 3, 12)
    with pytest.raises(InputError, match="the counts do not tell K; say it with --acceptance-at K"):
        read([llama_timings(r) for r in requests])


# --- published runs --------------------------------------------------------------------------------------------------

# https://github.com/ggml-org/llama.cpp/pull/24536, comment of 2026-06-15: one request, with K = 3 and a limit of 256
RUN_LINE = (
    "0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted /   259 generated), "
    "mean acceptance length =  2.92, acceptance rate per position = (0.805, 0.632, 0.483)\n"
)
RUN_TOKENS = 256  # "eval time = 2296.72 ms / 256 tokens"
RUN_DRAFTS = 87  # "#calls(b,g,a) = 1 87 87, #gen drafts = 87"
RUN_SURVIVORS = (70, 55, 42)  # 0.805, 0.632 and 0.483 of 87


def test_both_readers_tell_of_one_run() -> None:
    by_line = curve_of(acceptance_from_text(RUN_LINE, "f"))
    timings = {"timings": {"predicted_n": RUN_TOKENS, "draft_n": 259, "draft_n_accepted": 167}}
    acceptance = read([timings])
    by_timings = curve_of(acceptance)
    assert by_line.survival.tolist() == [round(each / RUN_DRAFTS, 3) for each in RUN_SURVIVORS]
    assert sum(RUN_SURVIVORS) == 167
    assert round(by_line.rounds or 0) == RUN_DRAFTS
    # 256 = 1 of prefill + 167 accepted + 87 that end rounds + 1 for which the limit left no room to draft
    assert by_timings.rounds == RUN_DRAFTS + 1
    assert positions_of(RUN_TOKENS) == 167 + RUN_DRAFTS + 1  # what a trace of it would hold
    assert by_timings.mean_length(3) == pytest.approx(1 + 167 / 88)
    assert by_line.mean_length(3) == pytest.approx(1 + 167 / 87, abs=1e-3)
    assert by_timings.draft_length == by_line.draft_length == 3
    assert acceptance.notes[1] == (
        "f: llama.cpp's timings tell no rounds: the 88 tokens predicted beside the one of prefill and those accepted "
        "are taken for rounds; steps without a draft (the last token of a length limit, drafts given up) are among "
        "them, and a text that ends within a draft hides one; if each held K = 3 tokens there were 86.3, and the mean "
        "acceptance length is 2.93, not 2.90"
    )


# https://github.com/ggml-org/llama.cpp/pull/22673, comment of 2026-05-05: --spec-draft-n-max 4 and a limit of 192;
# predicted, drafted and accepted tokens of nine requests. All drafted a multiple of 4, so that drafts were whole.
BENCH = (
    (192, 180, 146),
    (192, 216, 136),
    (192, 224, 134),
    (53, 52, 39),
    (192, 196, 141),
    (22, 32, 13),
    (192, 264, 124),
    (192, 192, 143),
    (192, 220, 136),
)


def test_requests_of_a_published_benchmark() -> None:
    """Beside the accepted tokens and one a round, predicted_n holds prefill's, and at a limit at times one more."""
    beside = [predicted - accepted - drafted // 4 for predicted, drafted, accepted in BENCH]
    assert beside == [1, 2, 2, 1, 2, 1, 2, 1, 1]
    trees = [
        {"timings": dict(zip(("predicted_n", "draft_n", "draft_n_accepted"), each, strict=True))} for each in BENCH
    ]
    curve = curve_of(read(trees))
    rounds = sum(drafted // 4 for _, drafted, _ in BENCH)
    assert (curve.draft_length, curve.rounds) == (4, rounds + 4)
    assert curve.mean_length(4) == pytest.approx(1 + sum(accepted for *_, accepted in BENCH) / rounds, rel=0.01)
