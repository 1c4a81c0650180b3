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
    joined,
    mixed,
    read_acceptance,
    read_step_times,
    step_times_from_model,
    step_times_from_text,
    survival_from,
)
from oracle.acceptance.curves import Acceptance, clustered, counted
from oracle.errors import InputError, InputWarning
from oracle.latency.model import DraftLine, DraftTable, LatencyModel

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


# --- errors of the rates -----------------------------------------------------------------------------------------


def test_binomial_errors_from_the_definition() -> None:
    """Variance of the accepted tokens of one round, by enumerating its outcomes, over the rounds."""
    survival = np.array([0.8, 0.5, 0.2])
    chance = -np.diff([1.0, *survival, 0.0])
    accepted = np.arange(4)
    variance = float(chance @ accepted**2 - (chance @ accepted) ** 2)
    curve = counted(survival, 3, None, 50)
    assert curve.covariance is not None
    assert float(curve.covariance.sum()) == pytest.approx(variance / 50)
    assert curve.covariance[0, 0] == pytest.approx(0.8 * 0.2 / 50)


def test_clustered_errors_are_those_of_leaving_one_request_out() -> None:
    rng = np.random.default_rng(5)
    requests = [[(min(int(rng.geometric(0.4)) - 1, 3), 3) for _ in range(rng.integers(3, 9))] for _ in range(12)]
    counts = [
        ([sum(a >= j for a, _ in steps) for j in range(3)], [sum(a >= j for a, _ in steps) for j in range(1, 4)])
        for steps in requests
    ]
    curve = clustered(np.array([r for r, _ in counts], float), np.array([h for _, h in counts], float), 3, None)
    without = []
    for out in range(12):
        kept = [step for i, steps in enumerate(requests) if i != out for step in steps]
        without.append([sum(a >= j for a, _ in kept) / len(kept) for j in (1, 2, 3)])
    expected = 11 / 12 * sum(np.outer(d, d) for d in np.array(without) - np.mean(without, axis=0))
    assert curve.covariance is not None
    np.testing.assert_allclose(curve.covariance, expected, rtol=1e-9)
    assert curve.quantile == pytest.approx(2.200985, abs=1e-6)  # Student's t, 11 degrees of freedom


# --- tenants -----------------------------------------------------------------------------------------------------


def test_a_mix_weighs_tenants_by_their_rounds() -> None:
    """Two requests of a and one of b in flight: in each step a emits two rounds and b one. Enumerated."""
    a, b = counted(np.array([0.9, 0.6]), 2, "a", 400), counted(np.array([0.3, 0.0]), 2, "b", 100)
    mix = mixed(Acceptance((a, b)), {"a": 2, "b": 1}).curves[0]
    rounds = [a.mean_length(2), a.mean_length(2), b.mean_length(2)]
    assert mix.mean_length(2) == pytest.approx(sum(rounds) / 3)
    assert a.covariance is not None
    assert b.covariance is not None
    assert mix.covariance is not None
    np.testing.assert_allclose(mix.covariance, 4 / 9 * a.covariance + 1 / 9 * b.covariance)
    assert mixed(Acceptance((a, b))).curves[0].mean_length(2) == pytest.approx((2.5 + 1.3) / 2)


def test_a_mix_holds_the_depths_that_all_tenants_have() -> None:
    a4, b2 = counted(np.array([0.9, 0.6, 0.4, 0.2]), 4, "a", None), counted(np.array([0.3, 0.1]), 2, "b", None)
    mix = mixed(Acceptance((a4, b2)), {"a": 1, "b": 1})
    assert [curve.draft_length for curve in mix.curves] == [2]
    assert "K = 2 of the mix: measured at a longer draft for a" in mix.notes
    assert "K = 4 is left out of the mix: no acceptance at that depth for b" in mix.notes


def test_weights_that_do_not_fit() -> None:
    acceptance = Acceptance((counted(np.array([0.9]), 1, "a", 4), counted(np.array([0.3]), 1, "b", 1)))
    with pytest.raises(InputError, match="tenant weights name a, c; the acceptance is of a, b"):
        mixed(acceptance, {"a": 1, "c": 1})
    with pytest.raises(InputError, match="the weight of tenant b is 0; weights are positive"):
        mixed(acceptance, {"a": 1, "b": 0})


def test_files_joined_under_tenants_names() -> None:
    part = acceptance_from_text("[0.5, 0.4]", "f", "survival")
    assert joined([("a", part), ("b", part)]).tenants == ("a", "b")
    with pytest.raises(InputError, match="acceptance at K = 2 is given twice; keep one, or name tenants"):
        joined([(None, part), (None, part)])


# --- step times --------------------------------------------------------------------------------------------------


def test_step_times_by_k_or_m_and_by_setting() -> None:
    by_k = step_times_from_text("draft_length,step_ms\n0,20\n2,31.5\n", "f")
    by_m = step_times_from_text('[{"m": 1, "step_ms": 20}, {"m": 3, "step_ms": 31.5}]', "f")
    assert by_k[0].step_ms == by_m[0].step_ms == {0: 20.0, 2: 31.5}
    several = step_times_from_text(
        "setting,batch_size,draft_length,tokens_per_second\na,1,2,50\na,8,2,300\nb,1,2,40\n", "f"
    )
    assert [(t.setting, t.batch_size, dict(t.tokens_per_second)) for t in several] == [
        ("a", 1, {2: 50.0}),
        ("a", 8, {2: 300.0}),
        ("b", 1, {2: 40.0}),
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("step_ms\n20\n", "give either draft_length (K) or m"),
        ("draft_length,m,step_ms\n1,2,20\n", "give either draft_length (K) or m"),
        ("draft_length,step_ms\n1,0\n", "K = 1 has not one positive step time"),
        ("draft_length,step_ms,tokens_per_second\n1,,\n", "K = 1 has no step time; give step_ms"),
        ("draft_length,step_ms,tokens_per_second\n1,2,3\n", "not one positive step time; give one"),
        ("draft_length,step_ms\n1,20\n1,21\n", "K = 1 is there twice"),
        (
            "draft_length,step_ms,tokens_per_second\n1,20,\n2,,30\n",
            "holds step_ms and tokens_per_second; give one kind",
        ),
        ("draft_length,step_ms\n1.5,20\n", "draft_length is '1.5'; it is a whole number"),
        ("draft_length,step_s\n1,20\n", "'step_s' is not a column here"),
        ("draft_length,step_ms\n300,20\n", "K = 300 is beyond 128"),
        ("draft_length,step_ms\n1,inf\n", "step_ms is 'inf'; it is a number"),
    ],
)
def test_faults_of_step_times(text: str, fault: str) -> None:
    with pytest.raises(InputError) as caught:
        step_times_from_text(text, "f")
    assert fault in str(caught.value)


MODEL = LatencyModel((1, 2, 3), (5.0, 7.0, 8.0), (0.1, 0.1, 0.2), 0.001, DraftLine(0.5, 0.25), reject_ms=0.125)


def test_a_model_priced_at_given_experts() -> None:
    steps = step_times_from_model(MODEL, {1: 8, 3: 20}, 2000)
    assert steps.step_ms == {0: pytest.approx(5 + 0.8 + 2), 2: pytest.approx(8 + 4 + 2 + 1.25 + 0.125)}
    assert "no U is given for K = 1: left out" in steps.notes
    assert step_times_from_model(MODEL, 0, 0).step_ms == {0: 5.0, 1: 7.875, 2: 9.375}
    with pytest.warns(InputWarning, match="one U = 8 for every m"):
        step_times_from_model(MODEL, 8, 0)


def test_what_a_model_cannot_price() -> None:
    with pytest.raises(InputError, match="names m = 5, which the latency model cannot price; it knows m = 1, 2, 3"):
        step_times_from_model(MODEL, {5: 8}, 0)
    with pytest.raises(InputError, match="falls from 9 at m = 1 to 8 at m = 2"):
        step_times_from_model(MODEL, {1: 9, 2: 8}, 0)
    table = LatencyModel((1, 2, 3), (5.0, 7.0, 8.0), (0.1,) * 3, 0.001, DraftTable((1,), (1.0,)))
    with pytest.raises(InputError, match="names m = 3"):
        step_times_from_model(table, {3: 8}, 0)
    negative = LatencyModel((1,), (-5.0,), (0.1,), 0.001, DraftLine(0.5, 0.0))
    with pytest.raises(InputError, match=r"prices a round over m = 1 at -4\.2 ms"):
        step_times_from_model(negative, {1: 8}, 0)


def test_step_times_within_a_range(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("draft_length,step_ms\n0,20\n2,31.5\n4,40\n")
    table = read_step_times(path)[0]
    assert table.within(1, 3).lengths == (2,)
    with pytest.raises(InputError, match="measured: K = 0, 2, 4"):
        table.within(5, None)


def test_every_survival_is_a_survival() -> None:
    """All 27 conditional triples of {0, 1/2, 1}: the product falls and mean lengths add up."""
    for given in itertools.product((0.0, 0.5, 1.0), repeat=3):
        survival = survival_from(given, "conditional", "f")
        assert (np.diff([1.0, *survival]) <= 0).all()
        assert counted(survival, 3, None, None).mean_length(3) == 1 + given[0] * (1 + given[1] * (1 + given[2]))
