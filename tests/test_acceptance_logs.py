"""Log lines of llama.cpp and SGLang, as their servers print them."""

import json

import pytest

from oracle.acceptance import acceptance_from_text
from oracle.acceptance.curves import Acceptance
from oracle.errors import InputError

LLAMA = (
    "0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted /   259 generated), "
    "mean acceptance length =  2.92, acceptance rate per position = (0.805, 0.632, 0.483)"
)
LLAMA_FOUR = (
    "0.16.519.195 I slot print_timing: id  0 | task 42 | draft acceptance = 0.66237 (  257 accepted /   388 generated)"
    ", mean acceptance length =  3.65, acceptance rate per position = (0.804, 0.701, 0.629, 0.515)"
)
LLAMA_BETWEEN = (
    "slot print_timing: id  0 | draft acceptance = 0.65959 ( 5995 accepted /  9089 generated), mean len =  4.30"
)
LLAMA_OLD = "slot print_timing: draft acceptance rate = 0.57576 (  171 accepted /   297 generated)"
SGLANG = (
    "[2025-05-31 18:31:21 DP0 TP0] Decode batch. #running-req: {n}, #token: 37217, token usage: 0.13, "
    "accept len: {length}, accept rate: 0.63, cuda graph: True, gen throughput (token/s): 171.01, #queue-req: 0"
)


def said(text: str, at: int | None = None) -> str:
    with pytest.raises(InputError) as caught:
        acceptance_from_text(text, "f", None, at)
    return str(caught.value)


def length(acceptance: Acceptance, k: int) -> float:
    curve = acceptance.at(k)
    assert curve is not None
    return curve.mean_length(k)


def test_llama_cpp_rates_by_position_are_survival_over_its_drafts() -> None:
    acceptance = acceptance_from_text(f"main: listening\n{LLAMA}\n", "f")
    curve = acceptance.curves[0]
    assert curve.survival.tolist() == [0.805, 0.632, 0.483]
    assert round(float(curve.rounds or 0)) == 87  # the server's own count of drafts in that run
    assert length(acceptance, 3) == pytest.approx(2.92)
    assert curve.interval_from == "rounds"
    assert acceptance.notes == ()


def test_llama_cpp_lines_weigh_by_their_drafts_and_lengths_stay_apart() -> None:
    other = LLAMA.replace("167 accepted", "  22 accepted").replace("259 generated", "  60 generated")
    other = other.replace("2.92", "2.10").replace("(0.805, 0.632, 0.483)", "(0.600, 0.300, 0.200)")
    acceptance = acceptance_from_text(f"{LLAMA}\n{LLAMA_FOUR}\n{other}", "f", "survival")
    three, four = acceptance.at(3), acceptance.at(4)
    assert three is not None
    assert four is not None
    assert three.survival[0] == pytest.approx((0.805 * 86.98 + 0.6 * 20) / 106.98, rel=1e-4)
    assert three.interval_from == "requests"
    assert four.survival.tolist() == pytest.approx([0.804, 0.701, 0.629, 0.515])


def test_llama_cpp_drafts_that_stop_early_are_named() -> None:
    short = LLAMA.replace("259 generated", "200 generated")
    note = acceptance_from_text(short, "f").notes[0]
    assert "2.30 tokens were drafted a round, not K = 3" in note
    assert "lower bounds" in note


@pytest.mark.parametrize(("lines", "are"), [(1, "1 line holds"), (2, "2 lines hold")])
def test_llama_cpp_lines_without_rates_are_left_out_beside_lines_with_rates(lines: int, are: str) -> None:
    acceptance = acceptance_from_text("\n".join([LLAMA, *[LLAMA_OLD] * lines]), "f")
    left_out = f"{are} no rates by position, whatever was accepted, and {'is' if lines == 1 else 'are'} left out"
    assert acceptance.notes == (f"f: {left_out}",)


def test_llama_cpp_damaged_lines() -> None:
    assert "make a mean acceptance length of 2.44, the line says 2.92" in said(LLAMA.replace(", 0.483", ""))
    assert "the rates rise with the position" in said(LLAMA.replace("0.483", "0.983"))
    with pytest.raises(InputError, match=r"holds llama\.cpp's rates in the log, which are survival"):
        acceptance_from_text(LLAMA, "f", "conditional")


def test_older_llama_cpp_tells_totals() -> None:
    between = acceptance_from_text(LLAMA_BETWEEN, "f")
    assert [curve.draft_length for curve in between.curves] == [5]  # 9089 / (5995 / 3.3) = 5.003 a round
    assert length(between, 5) == pytest.approx(4.30)
    assert between.at(4) is None
    assert "the counts do not tell K; say it with --acceptance-at K, or record acceptance by position" in said(
        LLAMA_OLD
    )
    old = acceptance_from_text(LLAMA_OLD, "f", None, 3)
    assert length(old, 3) == pytest.approx(1 + 3 * 171 / 297)
    assert "every round is taken to have drafted K = 3 tokens" in old.notes[0]


def test_sglang_lines_weigh_by_their_requests() -> None:
    text = "\n".join(SGLANG.format(n=n, length=x) for n, x in ((8, 2.9), (0, 1.0), (2, 1.9)))
    assert "SGLang's log tells the mean acceptance length and not K; say it with --acceptance-at K" in said(text)
    acceptance = acceptance_from_text(text, "f", None, 3)
    assert length(acceptance, 3) == pytest.approx((8 * 2.9 + 2 * 1.9) / 10)
    assert acceptance.at(2) is None
    assert any("are those of the padded size" in note for note in acceptance.notes)
    assert "accept len is 0.5; it counts the bonus token" in said(SGLANG.format(n=8, length=0.5), 3)
    assert "3.50 tokens a round are more than K = 3" in said(SGLANG.format(n=8, length=4.5), 3)


def test_a_response_that_quotes_a_log_is_no_log() -> None:
    for line in (LLAMA, SGLANG.format(n=8, length=2.9)):
        response = {"text": f"\n{line}\n", "meta_info": {"spec_correct_drafts_histogram": [1, 1]}}
        for text in (json.dumps(response), json.dumps([response], indent=1)):
            assert acceptance_from_text(text, "f").curves[0].survival.tolist() == [0.5]
