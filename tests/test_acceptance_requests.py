"""Counts by position of SGLang and ik_llama.cpp, by hand."""

import json
from typing import Any

import pytest

from oracle.acceptance import acceptance_from_text
from oracle.errors import InputError


def said(tree: Any) -> str:
    with pytest.raises(InputError) as caught:
        acceptance_from_text(json.dumps(tree), "f")
    return str(caught.value)


@pytest.mark.parametrize("name", ["spec_correct_drafts_histogram", "spec_accept_histogram"])
def test_sglang_histograms_now_and_formerly(name: str) -> None:
    meta = {"spec_verify_ct": 20, "spec_num_proposed_drafts": 80, name: [8, 0, 6, 6]}
    acceptance = acceptance_from_text(json.dumps([{"text": "x", "meta_info": meta}]), "f")
    curve = acceptance.curves[0]
    assert curve.draft_length == 4  # 80 proposed in 20 rounds, though no round accepted four
    assert [round(float(s), 9) for s in curve.survival] == [0.6, 0.6, 0.3, 0.0]
    assert acceptance.notes == ()


def test_sglang_rounds_of_several_lengths_are_lower_bounds() -> None:
    meta = {"spec_verify_ct": 20, "spec_num_proposed_drafts": 50, "spec_correct_drafts_histogram": [8, 0, 6, 6]}
    acceptance = acceptance_from_text(json.dumps({"meta_info": meta}), "f")
    assert acceptance.curves[0].draft_length == 3
    assert "positions not drafted count as rejected, so the rates are lower bounds" in acceptance.notes[0]


def depths(*rows: tuple[int, int]) -> dict[str, Any]:
    listed = [{"depth": j, "draft_n": n, "draft_n_accepted": a} for j, (n, a) in enumerate(rows, 1)]
    return {"timings": {"predicted_n": 256, "draft_n": 30, "draft_n_accepted": 12, "draft_by_depth": listed}}


def test_ik_llama_counts_by_depth() -> None:
    acceptance = acceptance_from_text(json.dumps(depths((20, 15), (20, 10), (20, 4))), "f")
    assert [round(float(s), 9) for s in acceptance.curves[0].survival] == [0.75, 0.5, 0.2]
    assert acceptance.notes == ()
    short = acceptance_from_text(json.dumps(depths((20, 10), (10, 2))), "f")
    assert [round(float(s), 9) for s in short.curves[0].survival] == [0.5, 0.1]
    assert "lower bounds" in short.notes[0]


@pytest.mark.parametrize(
    ("tree", "fault"),
    [
        (depths((20, 10), (20, 11)), "accepts more tokens than were drafted there, or than were accepted before it"),
        (depths((20, 10), (5, 8)), "accepts more tokens than were drafted there"),
        ({"draft_by_depth": [{"depth": 2, "draft_n": 3, "draft_n_accepted": 1}]}, "count from 1 without a gap"),
        ({"draft_by_depth": [{"depth": 1, "draft_n": 3}]}, "holds depth, draft_n, draft_n_accepted for each depth"),
        ({"draft_by_depth": []}, "holds depth, draft_n, draft_n_accepted for each depth"),
    ],
)
def test_faults_of_depths(tree: Any, fault: str) -> None:
    assert fault in said(tree)
