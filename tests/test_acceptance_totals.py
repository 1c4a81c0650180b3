"""Totals of requests: what llama.cpp, SGLang and others tell without positions, and what may be said from it."""

import json
import math
from typing import Any

import numpy as np
import pytest

from oracle.acceptance import acceptance_from_text, mixed, with_constant_match
from oracle.acceptance.curves import Acceptance, counted
from oracle.acceptance.totals import Totals, from_totals
from oracle.errors import InputError


def read(tree: Any, at: int | None = None) -> Acceptance:
    return acceptance_from_text(json.dumps(tree), "f", None, at)


def said(tree: Any, at: int | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read(tree, at)
    return str(caught.value)


def timings(predicted: int, drafted: int, accepted: int) -> dict[str, Any]:
    return {"timings": {"predicted_n": predicted, "draft_n": drafted, "draft_n_accepted": accepted}}


# what each engine calls rounds, accepted and drafted tokens: 20 rounds of K = 3, 30 tokens accepted
NAMED = [
    {"meta_info": {"spec_verify_ct": 20, "spec_num_correct_drafts": 30, "spec_num_proposed_drafts": 60}},
    {"meta_info": {"spec_verify_ct": 20, "spec_accepted_drafts": 30, "spec_proposed_drafts": 60}},
    {"meta_info": {"spec_verify_ct": 20, "spec_accept_token_num": 30, "spec_draft_token_num": 60}},
    {"metrics": {"num_spec_steps": 20, "num_accepted_draft_tokens": 30, "num_draft_tokens": 60, "num_spec_tokens": 3}},
    {"choices": [{"num_spec_steps": 20, "total_accepted_draft_tokens": 30, "total_draft_tokens": 60}]},
    timings(51, 60, 30),  # beside the accepted tokens: one of prefill, and one that ends each of the 20 rounds
]


@pytest.mark.parametrize("tree", NAMED)
def test_the_mean_acceptance_length_at_the_measured_k_and_nothing_else(tree: Any) -> None:
    acceptance = read(tree)
    curve = acceptance.at(3)
    assert curve is not None
    assert curve.mean_length(3) == pytest.approx(1 + 30 / 20)
    assert curve.rounds == 20
    assert [acceptance.at(k) for k in (1, 2, 4)] == [None, None, None]
    assert "they tell the acceptance at K = 3 and at no other length" in acceptance.notes[-1]


def test_zero_counts_are_absent_in_llama_cpp() -> None:
    nothing = {"timings": {"predicted_n": 50}}
    accepted_none = {"timings": {"predicted_n": 21, "draft_n": 60}}
    assert "no request in it drafted anything" in said([nothing])
    curve = read([nothing, accepted_none]).at(3)
    assert curve is not None
    assert curve.mean_length(3) == 1.0


def test_k_follows_from_nearly_whole_means_only() -> None:
    near = read(timings(256, 259, 167))  # of a server that stated K = 3, 259 / 88 steps
    assert [curve.draft_length for curve in near.curves] == [3]
    assert "K = 3 follows from 2.94 tokens drafted a round" in near.notes[0]
    assert "3.40 tokens were drafted a round, so K is not told; say it with --acceptance-at K" in said(
        timings(51, 68, 30)
    )
    told = read(timings(51, 68, 30), at=5)
    assert told.curves[0].draft_length == 5
    assert "3.40 tokens were drafted a round, not K = 5" in told.notes[0]
    assert "so the acceptance is a lower bound" in told.notes[0]


@pytest.mark.parametrize(
    ("tree", "at", "fault"),
    [
        (NAMED[0], 2, "3.00 tokens a round are more than K = 2; say the right --acceptance-at"),
        (
            timings(51, 60, 30),
            2,
            "f.timings: 60 tokens drafted and 30 of them accepted, in 51 predicted, contradict K = 2; say the right",
        ),
        (timings(50, 20, 30), None, "30 tokens accepted of 20 drafted"),
        (timings(20, 60, 30), None, "the counts do not tell K; say it with --acceptance-at K"),
        (timings(20, 60, 30), 3, "60 tokens drafted and 30 of them accepted, in 20 predicted, contradict K = 3"),
        (
            timings(20, 400, 200),
            None,
            "draft_n_accepted is 200, predicted_n 20; accepted tokens are predicted, but for",
        ),
        (timings(50, 60.5, 30), None, "predicted_n, draft_n_accepted and draft_n are whole numbers from 0 on"),  # type: ignore[arg-type]
        (timings(50, 60, 30), 129, "K = 129; a draft has 1 to 128 tokens"),
        (
            {"spec_verify_ct": -1, "spec_num_correct_drafts": 3, "spec_num_proposed_drafts": 6},
            None,
            "spec_verify_ct, spec_num_correct_drafts and spec_num_proposed_drafts are whole numbers",
        ),
    ],
)
def test_counts_that_contradict(tree: Any, at: int | None, fault: str) -> None:
    assert fault in said(tree, at)


def test_counts_are_survival_too() -> None:
    with pytest.raises(InputError, match="holds totals of requests, which are survival"):
        acceptance_from_text(json.dumps(NAMED[0]), "f", "conditional")


def test_errors_are_those_of_leaving_one_request_out() -> None:
    rng = np.random.default_rng(2)
    counts = [(int(r), int(rng.integers(0, 3 * r))) for r in rng.integers(5, 40, size=9)]
    curve = from_totals([Totals("f", a, 3 * r, r) for r, a in counts], "f").curves[0]
    whole = 1 + sum(a for _, a in counts) / sum(r for r, _ in counts)
    without = []
    for out in range(9):
        kept = [pair for i, pair in enumerate(counts) if i != out]
        without.append(1 + sum(a for _, a in kept) / sum(r for r, _ in kept))
    variance = 8 / 9 * sum((x - np.mean(without)) ** 2 for x in without)
    assert curve.mean_length(3) == pytest.approx(whole)
    assert curve.length_error(3) == pytest.approx(math.sqrt(variance))
    assert curve.quantile == pytest.approx(2.306004, abs=1e-6)  # Student's t, 8 degrees of freedom
    assert curve.interval_from == "requests"


def test_tenants_and_their_mix_stay_totals() -> None:
    rows = [{"tenant": "a", **timings(51, 60, 30)}, {"tenant": "b", **timings(31, 60, 10)}]
    acceptance = read(rows)
    assert acceptance.tenants == ("a", "b")
    mix = mixed(acceptance, {"a": 3, "b": 1})
    assert [mix.at(k) is None for k in (1, 2, 3)] == [True, True, False]
    assert mix.curves[0].mean_length(3) == pytest.approx((3 * 2.5 + 1.5) / 4)


# --- the assumption ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accepted", [0, 1, 30, 59, 60])
def test_constant_match_is_the_root_of_the_polynomial(accepted: int) -> None:
    assumed = with_constant_match(read(timings(21 + accepted, 60, accepted)))
    curve = assumed.curves[0]
    roots = np.roots([1.0, 1.0, 1.0, -accepted / 20])
    p = max(float(root.real) for root in roots if abs(root.imag) < 1e-9)
    np.testing.assert_allclose(curve.survival, [p, p**2, p**3], atol=1e-12)
    assert curve.mean_length(3) == pytest.approx(1 + accepted / 20)
    assert assumed.at(1) is curve
    assert "assumed: one match probability" in assumed.notes[-1]
    assert "an assumption, not a measurement" in assumed.notes[-1]


def test_errors_under_the_assumption_to_first_order() -> None:
    acceptance = from_totals([Totals("f", 30, 60, 20), Totals("f", 42, 90, 30), Totals("f", 20, 60, 20)], "f")
    curve, whole = with_constant_match(acceptance).curves[0], acceptance.curves[0]
    assert curve.covariance is not None
    error = whole.length_error(3)
    assert curve.length_error(3) == pytest.approx(error)
    step = 1e-5
    moved = from_totals([Totals("f", 92 + 70 * step, 210, 70)], "f")
    at = with_constant_match(moved).curves[0].survival
    base = with_constant_match(from_totals([Totals("f", 92, 210, 70)], "f")).curves[0].survival
    slope = (at - base) / step  # dS_j / d(mean acceptance length)
    assert error is not None
    np.testing.assert_allclose(np.sqrt(np.diag(curve.covariance)), slope * error, rtol=1e-4)


def test_nothing_is_assumed_of_what_is_known() -> None:
    with pytest.raises(InputError, match="these hold acceptance by position: leave it out"):
        with_constant_match(Acceptance((counted(np.array([0.5]), 1, None, 9),)))
