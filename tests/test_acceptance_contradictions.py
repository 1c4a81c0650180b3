"""Counts that contradict one another are refused, and no label makes the reader lay out more than a draft can be."""

import json
import time
from typing import Any

import pytest

from oracle.acceptance import acceptance_from_text, mixed, step_times_from_text
from oracle.errors import InputError

_NAME = "vllm:spec_decode_num_"


def prometheus(positions: dict[str, float], **totals: float) -> str:
    lines = [f'{_NAME}{name}_total{{model_name="m"}} {value}' for name, value in totals.items()]
    lines += [
        f'{_NAME}accepted_tokens_per_pos_total{{model_name="m",position="{j}"}} {count}'
        for j, count in positions.items()
    ]
    return "\n".join(lines) + "\n"


def said(text: str, *words: Any) -> str:
    with pytest.raises(InputError) as caught:
        acceptance_from_text(text, "f", *words)
    return str(caught.value)


# --- counters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["128", "99999999999", "9" * 5000, "-1", "1.5", "", "x\x1b[31m"])
def test_a_position_no_draft_has(label: str) -> None:
    start = time.process_time()
    text = prometheus({"0": 80, label: 60}, drafts=100)
    found = said(text)
    assert "f, line 3: the label position is " in found
    assert "it is a number from 0 to 127" in found
    assert "\x1b" not in found
    assert time.process_time() - start < 1


def test_the_last_position_a_draft_can_have() -> None:
    counts = {str(j): 50 for j in range(128)}
    assert acceptance_from_text(prometheus(counts, drafts=100), "f").curves[0].draft_length == 128


POSITIONS = {"0": 884, "1": 746, "2": 508, "3": 430}


def test_totals_that_fit_the_positions() -> None:
    for accepted in (2568, 2567, 2550):  # counters are read one after another while rounds go on
        text = prometheus(POSITIONS, drafts=1000, draft_tokens=4000, accepted_tokens=accepted)
        assert acceptance_from_text(text, "f").notes == ()


@pytest.mark.parametrize(
    ("totals", "fault"),
    [
        (
            {"accepted_tokens": 9},
            f"f: {_NAME}accepted_tokens_total is 9, and the positions sum to 2568; keep all lines",
        ),
        ({"accepted_tokens": 2500}, "accepted_tokens_total is 2500, and the positions sum to 2568"),
        ({"draft_tokens": 9000}, "f: 9000 tokens drafted in 1000 rounds are more than the 4 positions counted"),
        ({"draft_tokens": 2000}, "f: 2568 tokens accepted of 2000 drafted"),
    ],
)
def test_totals_that_contradict_the_positions(totals: dict[str, float], fault: str) -> None:
    assert fault in said(prometheus(POSITIONS, drafts=1000, **totals))


def vllm_log(accepted: int, drafted: int, rates: str) -> str:
    counts = f"Accepted: {accepted} tokens, Drafted: {drafted} tokens"
    return f"SpecDecoding metrics: {counts}, Per-position acceptance rate: {rates}"


def test_a_log_line_whose_counts_contradict_its_rates() -> None:
    rates = "0.884, 0.746, 0.508, 0.430"
    acceptance_from_text(vllm_log(1284, 2000, rates), "f")
    for accepted, drafted in ((1284, 1000), (1000, 2456), (1284, 9000)):
        found = said(vllm_log(accepted, drafted, rates))
        assert found.startswith(
            f"f, line 1: Accepted: {accepted} tokens and Drafted: {drafted} tokens contradict the rates"
        )
    # three digits leave room where hardly anything is accepted: 1 of 2,000 rounds may be written as 0.000 or 0.001
    acceptance_from_text(vllm_log(1, 4000, "0.001, 0.000"), "f")


@pytest.mark.parametrize(
    "line",
    [
        "SpecDecoding metrics: Accepted: 5 tokens, Drafted: 9 tokens, Per-position acceptance rate: {}",
        "draft acceptance = 0.5 (    5 accepted /    10 generated), acceptance rate per position = ({})",
    ],
)
def test_more_rates_than_a_draft_has_tokens(line: str) -> None:
    assert "f, line 1: 129 rates; a draft has at most 128 tokens" in said(line.format(", ".join(["0.500"] * 129)))


# --- requests --------------------------------------------------------------------------------------------------------

HISTOGRAM = {"acceptance_histogram": [1, 1, 0, 1, 1], "num_spec_tokens": 4}
STEPS = {"per_step_accepted": [0, 1, 3, 4, 0], "per_step_drafted": [4, 4, 4, 4, 0], "num_spec_tokens": 4}


@pytest.mark.parametrize("counts", [HISTOGRAM, STEPS])
@pytest.mark.parametrize(
    ("totals", "fault"),
    [
        ({"num_spec_steps": 99}, "f: num_spec_steps is 99, the counts by position are of 4 rounds; which holds?"),
        ({"num_spec_steps": 1}, "f: num_spec_steps is 1, the counts by position are of 4 rounds; which holds?"),
        ({"spec_verify_ct": 40}, "f: spec_verify_ct is 40, the counts by position are of 4 rounds; which holds?"),
        ({"num_accepted_draft_tokens": 3}, "f: num_accepted_draft_tokens is 3, the counts by position sum to 8"),
        ({"spec_num_correct_drafts": 80}, "f: spec_num_correct_drafts is 80, the counts by position sum to 8"),
    ],
)
def test_totals_that_contradict_a_request(counts: dict[str, Any], totals: dict[str, int], fault: str) -> None:
    assert fault in said(json.dumps(counts | totals))


@pytest.mark.parametrize("counts", [HISTOGRAM, STEPS])
def test_totals_that_fit_a_request(counts: dict[str, Any]) -> None:
    for rounds in (4, 5):  # of the steps, one drafted nothing
        whole = counts | {"num_spec_steps": rounds, "num_accepted_draft_tokens": 8, "acceptance_rate": 0.5}
        assert acceptance_from_text(json.dumps(whole), "f").curves[0].draft_length == 4


def test_a_histogram_with_an_endless_key() -> None:
    assert "whole numbers from 0 on" in said(json.dumps({"acceptance_histogram": {"9" * 5000: 1}}))


# --- what people type ------------------------------------------------------------------------------------------------


def test_more_rates_than_positions_lay_nothing_out() -> None:
    many = json.dumps({"rates": [0.5] * 100_000})
    assert "f: 100000 rates for a draft of at most 128 tokens" in said(many, "survival")
    assert "draft_length is 1e+300; it is a whole number of at least 1 and at most 128" in said(
        '{"rates": [0.5], "draft_length": 1e300}', "survival"
    )


@pytest.mark.parametrize("rate", ["nan", "inf", "-inf", "x"])
def test_a_rate_that_is_no_number(rate: str) -> None:
    assert f"rate is '{rate}'; it is a number\n" in said(f"position,rate\n1,{rate}\n", "survival")


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("1,1e-300,,1", "step_ms is 1e-300; at least 1e-06 and at most 1e+09: which unit?"),
        ("1,,1e303,1", "tokens_per_second is 1e+303; at least 1e-06 and at most 1e+09: which unit?"),
        ("1,5,,1e300", "batch_size is '1e300'; it is a whole number of at least 1 and at most 1e+06"),
    ],
)
def test_numbers_no_machine_gives(row: str, fault: str) -> None:
    with pytest.raises(InputError) as caught:
        step_times_from_text(f"draft_length,step_ms,tokens_per_second,batch_size\n{row}\n", "f")
    assert fault in str(caught.value)


def test_weights_where_no_tenant_is_named() -> None:
    one = acceptance_from_text("position,rate\n1,.5\n", "f", "survival")
    with pytest.raises(InputError) as caught:
        mixed(one, {"a": 1.0})
    assert str(caught.value) == (
        "tenant weights name a, and the acceptance names no tenants; name them, as --acceptance TENANT=FILE"
    )
    two = acceptance_from_text("position,rate,tenant\n1,.5,a\n1,.7,b\n", "f", "survival")
    whole = mixed(two, {"a": 1e308, "b": 1e308})
    assert whole.curves[0].survival.tolist() == pytest.approx([0.6])
    for wrong in (float("nan"), float("inf"), 0.0, -1.0):
        with pytest.raises(InputError, match="weights are positive and finite"):
            mixed(two, {"a": wrong, "b": 1.0})
