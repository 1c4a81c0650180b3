"""Acceptance by position: what each kind of file says, against counts done by hand and naive twins."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oracle.acceptance import (
    acceptance_from_text,
    read_acceptance,
    survival_from,
)
from oracle.acceptance.curves import Acceptance, counted
from oracle.errors import InputError, InputWarning

LOG = (
    "(APIServer pid=22) INFO 09-09 11:51:35 [metrics.py:96] SpecDecoding metrics: Mean acceptance length: {mean}, "
    "Accepted throughput: 4.37 tokens/s, Drafted throughput: 4.92 tokens/s, Accepted: {accepted} tokens, "
    "Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, Avg Draft acceptance rate: 88.8%"
)


def said(text: str, acceptance_is: Any = None) -> str:
    with pytest.raises(InputError) as caught:
        acceptance_from_text(text, "f", acceptance_is)
    return str(caught.value)


def rates(acceptance: Acceptance, k: int) -> list[float]:
    curve = acceptance.at(k)
    assert curve is not None
    return [round(float(s), 9) for s in curve.survival]


def prometheus(counts: Sequence[float], drafts: float, drafted: float, **labels: str) -> str:
    shown = "".join(f',{name}="{value}"' for name, value in labels.items())
    lines = [
        "# TYPE vllm:spec_decode_num_drafts counter",
        f'vllm:spec_decode_num_drafts_total{{model_name="m"{shown}}} {drafts}',
        f'vllm:spec_decode_num_drafts_created{{model_name="m"{shown}}} 1.7e9',
        f'vllm:spec_decode_num_draft_tokens_total{{model_name="m"{shown}}} {drafted}',
    ]
    for j, count in enumerate(counts):
        name = f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{model_name="m",position="{j}"{shown}}}'
        lines.append(f"{name} {count}")
    return "\n".join(lines) + "\n"


# --- survival or conditional -------------------------------------------------------------------------------------


def test_survival_is_taken_as_it_is_and_conditional_is_multiplied() -> None:
    assert survival_from([0.8, 0.6], "survival", "f").tolist() == [0.8, 0.6]
    assert survival_from([0.5, 0.75], "conditional", "f").tolist() == [0.5, 0.375]


def test_the_user_must_say_which() -> None:
    text = said("position,rate\n1,0.8\n2,0.6\n")
    assert "say what the rates are, with --acceptance-is survival" in text
    assert "or --acceptance-is conditional" in text


def test_the_running_product_of_engines_survival_is_refused() -> None:
    log = LOG.format(mean="2.40", accepted=140, drafted=200, rates="0.800, 0.600")
    for text in (log, prometheus([80, 60], 100, 200), json.dumps({"per_step_accepted": [1], "per_step_drafted": [2]})):
        assert "which are survival; their running product would be wrong" in said(text, "conditional")


def test_a_stated_mean_length_contradicts_a_wrong_reading() -> None:
    row = {"rates": [0.8835, 0.7465, 0.508, 0.43], "mean_acceptance_length": 3.568}
    assert rates(acceptance_from_text(json.dumps(row), "f", "survival"), 4) == row["rates"]
    with pytest.warns(InputWarning, match="never rise, which looks like survival"):
        text = said(json.dumps(row), "conditional")
    assert "read as survival they do: say --acceptance-is survival" in text


def test_survival_that_rises_and_rates_out_of_range() -> None:
    assert "position 2: survival rises from 0.5 to 0.6" in said("[0.5, 0.6]", "survival")
    text = said("[80, -0.1]", "survival")
    assert "position 1: the rate is 80; a probability lies in [0, 1] (no percent)" in text
    assert "position 2: the rate is -0.1" in text


# --- typed tables ------------------------------------------------------------------------------------------------


def test_csv_and_json_say_the_same() -> None:
    csv = acceptance_from_text(
        "draft_length,position,rate,rounds,tenant\n4,1,.844,1000,a\n4,2,.599,,a\n2,1,.766,,a\n2,2,.545,,a\n",
        "f",
        "survival",
    )
    rows = [
        {"draft_length": 4, "rates": [0.844, 0.599], "rounds": 1000, "tenant": "a"},
        {"draft_length": 2, "rates": [0.766, 0.545], "tenant": "a"},
    ]
    forms = (rows, {"acceptance": rows})
    for each in (csv, *(acceptance_from_text(json.dumps(form), "f", "survival") for form in forms)):
        assert each.tenants == ("a",)
        assert rates(each, 2) == [0.766, 0.545]
        assert each.curves[0].rounds == 1000
        assert each.curves[1].rounds is None
    lines = "\n".join(json.dumps(row) for row in rows)
    assert rates(acceptance_from_text(lines, "f", "survival"), 2) == [0.766, 0.545]


def test_acceptance_is_taken_per_k_and_never_extended() -> None:
    acceptance = acceptance_from_text(
        json.dumps([{"rates": [0.844, 0.599, 0.385, 0.271]}, {"rates": [0.766, 0.545]}]), "f", "survival"
    )
    at = {k: acceptance.at(k) for k in range(1, 6)}
    assert {k: None if curve is None else curve.draft_length for k, curve in at.items()} == {
        1: 2,  # the nearest longer draft
        2: 2,
        3: 4,
        4: 4,
        5: None,
    }


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("position,rate\n0,0.5\n", "position 0 where 1 is next; they count from 1 for each K"),
        ("position,rate\n1,0.5\n3,0.2\n", "line 3: position 3 where 2 is next"),
        ("position,rate\n1\n", "line 2: 1 cells under 2 columns"),
        ("position,share\n1,0.5\n", "'share' is not a column here; known: position, rate"),
        ("position,position\n1,0.5\n", "the column position is there twice"),
        ("position,rate\n1,high\n", "rate is 'high'; it is a number"),
        ("position,rate\n", "holds no rows"),
        (f"position,rate\n1,{'0' * 200_000}\n", "cannot be read as CSV"),
        ("position,rate,rounds\n1,0.5,10\n2,0.4,20\n", "rounds differs between positions"),
        ('[{"rates": [0.5, 0.4], "draft_length": 1}]', "2 rates for a draft length of 1"),
        ('[{"rates": ["0.5"]}]', "rates are a list of numbers"),
        ('[{"rates": [0.5]}, {"rates": [0.6]}]', "acceptance at K = 1 is given twice"),
        ('[{"rate": [0.5]}]', "'rate' is not a key here"),
        ('[{"rates": [NaN]}]', "NaN is not a JSON number"),
        ('[{"rates": [0.5], "tenant": 3}]', "tenant is 3; it is a text"),
        ('[{"rates": []}]', "no rates; give one for each position"),
        ('{"acceptance": 3}', "holds no list of objects"),
    ],
)
def test_faults_of_typed_tables(text: str, fault: str) -> None:
    assert fault in said(text, "survival")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, fault in (("none", "No such file"), ("empty", "the file is empty"), ("binary", "is not UTF-8 text")):
        with pytest.raises(InputError, match=fault):
            read_acceptance(tmp_path / name)


# --- what engines write ------------------------------------------------------------------------------------------


def test_log_lines_weigh_by_their_rounds() -> None:
    lines = [
        LOG.format(mean="2.40", accepted=140, drafted=200, rates="0.800, 0.600"),  # 100 rounds
        "INFO nothing of interest",
        LOG.format(mean="1.90", accepted=270, drafted=600, rates="0.600, 0.300"),  # 300 rounds
    ]
    acceptance = acceptance_from_text("\n".join(lines), "f")
    assert rates(acceptance, 2) == [0.65, 0.375]
    assert acceptance.curves[0].rounds == pytest.approx(400)
    assert acceptance.notes == ()


def test_log_lines_of_two_draft_lengths_stay_apart_and_damage_is_seen() -> None:
    four = LOG.format(mean="3.10", accepted=2099, drafted=4000, rates="0.844, 0.599, 0.385, 0.271")
    two = LOG.format(mean="2.31", accepted=1311, drafted=2000, rates="0.766, 0.545")
    acceptance = acceptance_from_text(f"{four}\n{two}", "f", "survival")
    assert rates(acceptance, 2) == [0.766, 0.545]
    assert rates(acceptance, 4) == [0.844, 0.599, 0.385, 0.271]
    cut = LOG.format(mean="3.10", accepted=2099, drafted=4000, rates="0.844, 0.599")
    assert "line 1: the rates make a mean acceptance length of 2.44, the line says 3.10" in said(cut)
    assert "the rates rise with the position" in said(LOG.format(mean="2.1", accepted=1, drafted=2, rates="0.5, 0.6"))
    assert "no line 'SpecDecoding metrics: …'" in said("SpecDecoding metrics: Draft acceptance rate: 100.0%")


def test_prometheus_counts_are_survival_over_drafts() -> None:
    text = prometheus([400, 300], 500, 1000, engine="0") + prometheus([366, 245], 500, 1000, engine="1")
    acceptance = acceptance_from_text(text, "f")
    assert rates(acceptance, 2) == [0.766, 0.545]
    assert acceptance.curves[0].rounds == 1000
    tenants = prometheus([40, 10], 50, 100, tenant="a") + prometheus([5, 5], 50, 100, tenant="b")
    by_tenant = acceptance_from_text(tenants, "f")
    assert by_tenant.tenants == ("a", "b")
    assert rates(by_tenant.of("b"), 2) == [0.1, 0.1]


def test_prometheus_says_when_rounds_drafted_less_than_k() -> None:
    acceptance = acceptance_from_text(prometheus([400, 100], 500, 700), "f")
    assert "1.40 tokens were drafted a round, not K = 2" in acceptance.notes[0]
    assert "these rates are lower bounds" in acceptance.notes[0]


def test_faults_of_prometheus_text() -> None:
    assert "nothing was drafted yet" in said(prometheus([0, 0], 0, 0))
    assert "the counters rise with the position" in said(prometheus([5, 6], 10, 20))
    assert "or above the drafts" in said(prometheus([11, 6], 10, 20))
    lines = prometheus([5, 4], 10, 20).splitlines()
    assert "position 0 is missing" in said("\n".join([*lines[:4], lines[-1]]))
    other = prometheus([5, 4], 10, 20).replace('"m"', '"n"')
    assert "counters of several models (m, n)" in said(prometheus([5, 4], 10, 20) + other)
    assert "the counter is 'NaN'" in said(prometheus([5, 4], 10, 20).replace(" 10\n", " NaN\n"))


def naive_survival(steps: Sequence[tuple[int, int]], k: int) -> list[float]:
    """From the definition: of the rounds that drafted position j and accepted all before it, how many accepted it."""
    survival, product = [], 1.0
    for j in range(1, k + 1):
        at_risk = [accepted for accepted, drafted in steps if drafted >= j and accepted >= j - 1]
        if not at_risk:
            break
        product *= sum(accepted >= j for accepted in at_risk) / len(at_risk)
        survival.append(round(product, 9))
    return survival


def test_not_drafted_is_not_rejected() -> None:
    """Five rounds by hand: two drafted one token only; both accepted it."""
    steps = [(1, 1), (1, 1), (0, 3), (2, 3), (3, 3)]
    metrics = {
        "per_step_accepted": [a for a, _ in steps],
        "per_step_drafted": [d for _, d in steps],
        "num_spec_tokens": 4,
    }
    response = {"choices": [{"text": "x"}], "metrics": {"speculative_decoding": metrics}}
    acceptance = acceptance_from_text(json.dumps(response), "f")
    assert acceptance.curves[0].draft_length == 4
    assert rates(acceptance, 1) == [0.8, 0.8, 0.4]  # 4/5, then 2/2, then 1/2; position 4 was never drafted
    assert rates(acceptance, 1) == naive_survival(steps, 4)
    assert acceptance.at(4) is None
    assert "if it stops where it expects a rejection, survival is still over-estimated" in acceptance.notes[0]


def test_many_requests_agree_with_the_naive_count() -> None:
    rng = np.random.default_rng(3)
    requests = []
    for _ in range(30):
        drafted = rng.integers(0, 6, size=rng.integers(1, 9))
        requests.append([(int(rng.integers(0, d + 1)), int(d)) for d in drafted])
    text = "\n".join(
        json.dumps(
            {
                "tenant": "ab"[i % 2],
                "metrics": {
                    "speculative_decoding": {
                        "per_step_accepted": [a for a, _ in steps],
                        "per_step_drafted": [d for _, d in steps],
                        "num_spec_tokens": 5,
                    }
                },
            }
        )
        for i, steps in enumerate(requests)
    )
    acceptance = acceptance_from_text(text, "f")
    for i, tenant in enumerate("ab"):
        own = [step for steps in requests[i::2] for step in steps]
        assert rates(acceptance.of(tenant), 1) == naive_survival(own, 5)
        assert acceptance.of(tenant).curves[0].interval_from == "requests"


def test_histograms_dense_sparse_and_of_tensorrt_llm() -> None:
    dense = {"acceptance_histogram": [8, 0, 6, 6], "num_spec_tokens": 3, "num_draft_tokens": 60}
    sparse = {"acceptance_histogram": {"0": 8, "2": 6, "3": 6}, "num_spec_tokens": 3}
    trtllm = {"choices": [{"speculative_decoding": {**sparse, "total_draft_tokens": 60, "acceptance_rate": 0.5}}]}
    for tree in (dense, sparse, trtllm):
        acceptance = acceptance_from_text(json.dumps(tree), "f")
        assert rates(acceptance, 3) == [0.6, 0.6, 0.3]  # 12 of 20, 12 of 20, 6 of 20
        assert acceptance.curves[0].mean_length(3) == pytest.approx(2.5)
        assert acceptance.notes == ()
    short = acceptance_from_text(json.dumps({**dense, "num_draft_tokens": 40}), "f")
    assert "so the rates are lower bounds" in short.notes[0]


@pytest.mark.parametrize(
    ("metrics", "fault"),
    [
        ({"per_step_accepted": [2], "per_step_drafted": [1]}, "step 0: 2 tokens accepted of 1 drafted"),
        ({"per_step_accepted": [1, 1], "per_step_drafted": [1]}, "2 steps accepted, 1 drafted"),
        ({"per_step_accepted": [1]}, "are lists of whole numbers from 0 on"),
        ({"per_step_accepted": [1], "per_step_drafted": [3], "num_spec_tokens": 2}, "num_spec_tokens is 2"),
        ({"acceptance_histogram": {"0": 1, "129": 1}}, "counts 129 accepted tokens; at most 128"),
        ({"acceptance_histogram": [1, -1]}, "whole numbers from 0 on"),
        ({"per_step_accepted": [0], "per_step_drafted": [0]}, "no request in it drafted anything"),
    ],
)
def test_faults_of_request_metrics(metrics: dict[str, Any], fault: str) -> None:
    assert fault in said(json.dumps(metrics))


def test_every_survival_is_a_survival() -> None:
    """All 27 conditional triples of {0, 1/2, 1}: the product falls and mean lengths add up."""
    for given in itertools.product((0.0, 0.5, 1.0), repeat=3):
        survival = survival_from(given, "conditional", "f")
        assert (np.diff([1.0, *survival]) <= 0).all()
        assert counted(survival, 3, None, None).mean_length(3) == 1 + given[0] * (1 + given[1] * (1 + given[2]))
