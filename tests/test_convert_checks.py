"""What a conversion checks since it would go unnoticed: scores of another text, lost rows, a wrong word for a shape."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_samples import make
from engine_samples.make import RECORDED
from test_convert_refusals import FIRST, ROUTED, E, P, refused

from oracle.errors import Faults, InputError
from oracle.observe.request_log import LogForm, requests_in
from oracle.recorded_by import llama_cpp
from oracle.recorded_by.aligned import Wanted
from oracle.recorded_by.alignment import INFER
from oracle.recorded_by.conversion import convert_trace
from oracle.recorded_by.scored_text import scored
from oracle.recorded_by.source import open_source
from oracle.summaries.conversion import conversion_tables

LAYERS = FIRST.rows().shape[1]


def without_first_rows(lost: int, number: int = 0) -> dict[str, Any]:
    """A response whose routing lacks rows at the front."""
    record = make.vllm(RECORDED[number])
    record["choices"][0]["routed_experts"] = make.b64(make.npy(RECORDED[number].rows()[lost:]))
    return record


def notes_of(folder: Path, records: list[dict[str, Any]], wanted: Wanted) -> list[str]:
    path = folder / "r.jsonl"
    path.write_text(make.lines(records))
    found = convert_trace(open_source([path], None), folder / "t.parquet", wanted)
    return list(conversion_tables(found, "x", "t.parquet")[0].notes)


def test_inferred_starts_are_told(tmp_path):
    infer = Wanted(num_experts=8, top_k=2, routing_start=INFER)
    assert "inferred first token with a row of routing: token 2 in 1 requests" in notes_of(
        tmp_path, [without_first_rows(2)], infer
    )
    varied = [without_first_rows(2), without_first_rows(0, 1)]
    assert (
        "inferred first token with a row of routing: token 2 in 1, token 0 in 1 requests; it varies, as with cached "
        "prefixes, but rows that were lost look the same"
    ) in notes_of(tmp_path, varied, infer)


def test_one_row_less_may_be_a_lost_last_row(tmp_path):
    infer = Wanted(num_experts=8, top_k=2, routing_start=INFER)
    assert refused(tmp_path, [without_first_rows(1)], infer) == [
        "--routing-start infer finds one row missing in 1 requests: a row lost at the end looks the same, and all "
        "others would move by one position; say --routing-start 1 if the prompt's first row was left out"
    ]
    assert notes_of(tmp_path, [without_first_rows(1)], Wanted(num_experts=8, top_k=2, routing_start=1))


def test_a_shape_that_rests_on_a_word_can_be_checked(tmp_path):
    said = notes_of(tmp_path, [make.sglang(FIRST)], ROUTED)
    assert (
        f"the engine sends routing without its shape: {LAYERS} layers follow from --top-k 2 as given, and a wrong one "
        "can go unnoticed; --layers checks it"
    ) in said
    right = Wanted(num_experts=8, top_k=2, layers=LAYERS)
    assert not any("without its shape" in note for note in notes_of(tmp_path, [make.sglang(FIRST)], right))
    (tmp_path / "t.parquet").unlink()
    wrong = Wanted(num_experts=8, top_k=1, layers=LAYERS)
    traces = tmp_path / "traces.parquet"
    [fault] = refused(tmp_path, [make.sglang(FIRST)], wrong)
    assert fault == (
        f"line 1.routed_experts: has {2 * LAYERS} layers; --layers says {LAYERS} (all hidden layers, dense ones among "
        "them): is one of the two wrong, or --top-k?"
    )
    assert not traces.exists()


def test_another_engine_than_the_one_named(tmp_path):
    assert refused(tmp_path, [make.vllm(FIRST)], engine="sglang") == [
        "line 1: is a record of vllm, but --from says sglang; correct it, or leave it out"
    ]


def test_scores_of_another_text_are_refused():
    record = make.scored_by_sglang(FIRST)
    assert scored(record, FIRST.tokens, "here").logprob.size == P + E
    record["meta_info"]["input_token_logprobs"][P + 3][1] += 1
    with pytest.raises(InputError) as caught:
        scored(record, FIRST.tokens, "here")
    assert str(caught.value) == (
        f"here: the scored text is not that of the request: its token 3 after the prompt is {FIRST.tokens[3] + 1}, and "
        f"{FIRST.tokens[3]} was emitted; score the very ids that were emitted"
    )


@pytest.mark.parametrize(
    ("more", "prompt"), [({}, 5), ({"cache_n": 900}, 905), ({"cache_n": 0}, 5), ({"n_past": 11}, 5)]
)
def test_a_prompt_in_the_cache_counts(more, prompt):
    tree = {"timings": {"prompt_n": 5, "predicted_n": 7, **more}}
    faults = Faults()
    [request] = llama_cpp.requests_in(tree, "here", faults)
    assert (request.prompt_tokens, len(faults)) == (prompt, 0)


def test_a_cached_prompt_of_unknown_length_is_refused():
    faults = Faults()
    list(llama_cpp.requests_in({"timings": {"prompt_n": 5, "predicted_n": 7, "n_past": 911}}, "here", faults))
    with pytest.raises(InputError) as caught:
        faults.raise_if_any()
    assert str(caught.value) == (
        "here.timings: n_past is 911, more than prompt_n + predicted_n = 12: part of the prompt came from a cache, and "
        "these timings do not say how much; send cache_prompt false"
    )


def test_a_prompt_longer_than_its_routing(tmp_path):
    path = tmp_path / "z.npy"
    np.save(path, FIRST.rows())
    with pytest.raises(InputError) as caught:
        convert_trace(open_source([path], None, 500), tmp_path / "t.parquet", ROUTED)
    assert str(caught.value) == (
        f"{path}: a prompt of 500 tokens, but {len(FIRST.rows())} rows of routing; there is a row for every token but "
        "the last: is --prompt-tokens right?"
    )


def test_headers_that_hide_a_huge_or_odd_shape(tmp_path):
    for shape in ("(0, 4611686018427387904, 4611686018427387904)", "(True, 2, 3)"):
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
        raw = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 6
        record = make.vllm(FIRST)
        record["choices"][0]["routed_experts"] = make.b64(raw)
        [fault] = refused(tmp_path, [record])
        assert "the .npy header is damaged" in fault


def test_a_log_named_json_that_is_none(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("not json\n")
    with pytest.raises(InputError, match=r"log\.jsonl.*not JSON|log\.jsonl.*JSON"):
        list(requests_in([path], LogForm(), Faults()))
