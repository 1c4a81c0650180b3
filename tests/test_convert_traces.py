"""Payloads of every engine become traces that say what happened, and solve end to end."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from engine_samples import make
from engine_samples.make import DENSE, RECORDED
from in_process import printed

from oracle.acceptance import acceptance_from_text
from oracle.recorded_by import conversion
from oracle.recorded_by.aligned import Wanted
from oracle.recorded_by.alignment import INFER
from oracle.recorded_by.conversion import convert_trace
from oracle.recorded_by.scored_text import ScoredTexts
from oracle.recorded_by.source import open_source
from oracle.traces import Traces, load_traces

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "tests" / "engine_samples"
ROUTED = Wanted(num_experts=8, top_k=2)
DENSE_TARGET = Wanted(dense_target=True)
WITH_ROUTING = ("vllm-detailed", "vllm-summary", "sglang-native", "sglang-openai")
WITHOUT = ("trtllm", "llamacpp-rounds", "aiperf")


def converted(name: str, folder: Path, wanted: Wanted, **more) -> Traces:
    convert_trace(open_source([SAMPLES / name], None), folder / "traces.parquet", wanted, **more)
    return load_traces(folder / "traces.parquet")


def test_samples_are_what_the_script_writes(tmp_path):
    make.write(tmp_path)
    for name in make.texts():
        assert (tmp_path / name).read_text() == (SAMPLES / name).read_text(), name
    assert (tmp_path / "vllm-routing.npy").read_bytes() == (SAMPLES / "vllm-routing.npy").read_bytes()


@pytest.mark.parametrize("name", WITH_ROUTING)
def test_routing_is_that_of_the_emitting_pass(name, tmp_path):
    traces = converted(f"{name}.jsonl", tmp_path, ROUTED)
    assert (traces.layers, traces.top_k, traces.num_experts) == (2, 2, 8)
    at = 0
    for request in RECORDED:
        for t in range(request.positions):
            emitted = len(request.prompt) + 1 + t  # the prefill token is none of the positions
            expected = np.delete(request.experts(emitted), DENSE, axis=0)
            assert traces.experts[at + t].tolist() == expected.tolist()
        at += request.positions
    assert traces.positions == at


@pytest.mark.parametrize("name", [*WITH_ROUTING, *WITHOUT])
def test_positions_names_and_context(name, tmp_path):
    traces = converted(f"{name}.jsonl", tmp_path, ROUTED if name in WITH_ROUTING else DENSE_TARGET)
    assert np.diff(traces.offsets).tolist() == [request.positions for request in RECORDED]
    assert traces.context_start.tolist() == [len(request.prompt) + 1 for request in RECORDED]
    assert set(traces.match_kind) == {"empirical"}
    if name == "llamacpp-rounds":
        assert traces.generation == tuple(f"llamacpp-rounds/{i}" for i in range(1, len(RECORDED) + 1))
    else:
        assert traces.generation == tuple(request.name for request in RECORDED)


@pytest.mark.parametrize("name", ["vllm-detailed", "sglang-native", "llamacpp-rounds"])
def test_token_ids_are_those_of_decode(name, tmp_path):
    traces = converted(f"{name}.jsonl", tmp_path, ROUTED if name in WITH_ROUTING else DENSE_TARGET)
    assert traces.table.column("token_id").to_pylist() == [request.tokens[1:] for request in RECORDED]


@pytest.mark.parametrize("name", ["vllm-detailed", "llamacpp-rounds", "aiperf"])
def test_rounds_are_laid_out_where_steps_are_told(name, tmp_path):
    traces = converted(f"{name}.jsonl", tmp_path, ROUTED if name in WITH_ROUTING else DENSE_TARGET)
    assert traces.logged_draft_length.tolist() == [d for request in RECORDED for d in request.drafted]
    assert traces.logged_advance.tolist() == [a + 1 for request in RECORDED for a in request.accepted]


@pytest.mark.parametrize("name", ["vllm-summary", "sglang-native", "trtllm"])
def test_rounds_are_not_made_up(name, tmp_path):
    traces = converted(f"{name}.jsonl", tmp_path, ROUTED if name in WITH_ROUTING else DENSE_TARGET)
    assert traces.logged_draft_length is None


def test_text_and_category(tmp_path):
    traces = converted("vllm-detailed.jsonl", tmp_path, ROUTED)
    assert traces.category == tuple(request.category for request in RECORDED)
    assert traces.table.column("token_text").to_pylist() == [[f" t{i}" for i in r.tokens[1:]] for r in RECORDED]


def naive_rates() -> list[float]:
    """Jeffreys' mean at each depth; what was not drafted is not at risk."""
    found = []
    for j in range(1, make.K + 1):
        steps = [step for r in RECORDED for step in zip(r.accepted, r.drafted, strict=True)]
        risk = sum(d >= j and a >= j - 1 for a, d in steps)
        found.append((sum(a >= j for a, _ in steps) + 0.5) / (risk + 1))
    return found


@pytest.mark.parametrize("name", ["vllm-detailed", "llamacpp-rounds", "aiperf"])
def test_not_drafted_is_not_rejected(name, tmp_path):
    traces = converted(f"{name}.jsonl", tmp_path, ROUTED if name in WITH_ROUTING else DENSE_TARGET)
    assert traces.match_probs.shape[1] == make.K
    assert np.ptp(traces.match_probs, axis=0).max() == 0
    # one context: the design effect shrinks the counts, so the mean moves from the raw rate by half a round at most
    assert traces.match_probs[0] == pytest.approx(naive_rates(), abs=0.02)


def test_histograms_count_tokens_not_drafted_as_rejected(tmp_path):
    whole = converted("vllm-detailed.jsonl", tmp_path, ROUTED).match_probs[0]
    summed = converted("vllm-summary.jsonl", tmp_path, ROUTED).match_probs[0]
    assert summed[2] < whole[2]


def test_acceptance_beside_the_requests(tmp_path):
    for text in (make.PROMETHEUS, make.LOG):
        beside = acceptance_from_text(text, "counters")
        traces = converted("vllm-detailed.jsonl", tmp_path, ROUTED, acceptance=beside)
        assert traces.match_probs[0] == pytest.approx([0.8, 0.5, 0.6])  # survival .8 .4 .24, turned conditional


@pytest.mark.parametrize("name", ["vllm", "sglang", "openai"])
def test_reference_from_a_draft_served_alone(name, tmp_path):
    draft = ScoredTexts(SAMPLES / f"draft-{name}.jsonl")
    traces = converted("vllm-detailed.jsonl", tmp_path, Wanted(num_experts=8, match="reference"), draft=draft)
    assert set(traces.match_kind) == {"reference"}
    less = 1.0 if name == "vllm" else 0.0
    expected = [
        np.exp(request.logprob(len(request.prompt) + 1 + t) - less)
        for request in RECORDED
        for t in range(request.positions)
    ]
    assert traces.match_prob == pytest.approx(expected, rel=1e-6)


def test_arrays_saved_in_process(tmp_path):
    first = RECORDED[0]
    for path, prompt in ((SAMPLES / f"{first.name}.npz", None), (SAMPLES / "vllm-routing.npy", len(first.prompt))):
        beside = acceptance_from_text(make.PROMETHEUS, "counters")
        wanted = Wanted(num_experts=8, prompt_tokens=prompt)
        convert_trace(open_source([path], None, prompt), tmp_path / "t.parquet", wanted, acceptance=beside)
        traces = load_traces(tmp_path / "t.parquet")
        assert traces.positions == first.positions
        expected = [np.delete(first.experts(len(first.prompt) + 1 + t), DENSE, axis=0) for t in range(first.positions)]
        assert traces.experts.tolist() == np.array(expected).tolist()


def test_exit_codes(tmp_path):
    words = [
        sys.executable,
        "-m",
        "oracle",
        "convert",
        str(SAMPLES / "vllm-detailed.jsonl"),
        "-o",
        str(tmp_path / "t.parquet"),
    ]
    for more, code in ((["--num-experts", "8"], 0), ([], 2)):
        done = subprocess.run([*words, *more], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == code
    assert done.stderr == "error: no engine sends the number of experts a layer; say it with --num-experts\n"


@pytest.mark.parametrize("name", [*WITH_ROUTING, *WITHOUT])
def test_convert_validate_solve_end_to_end(name, tmp_path):
    output = tmp_path / "traces.parquet"
    target = ["--num-experts", "8", "--top-k", "2"] if name in WITH_ROUTING else ["--dense"]
    shown = json.loads(printed("convert", SAMPLES / f"{name}.jsonl", "-o", output, *target, "--json"))
    assert shown["tables"]["match_probabilities"]["rows"][0]["depth"] == 1
    assert shown["provenance"]["inputs"][0]["name"] == f"{name}.jsonl"
    assert "no faults" in printed("validate", output)
    solved = printed("solve", output, "-m", ROOT / "cases" / "published-a100" / "model.json")
    assert "match probabilities are averages (match_kind empirical)" in solved


def test_provenance_is_in_the_file(tmp_path):
    output = tmp_path / "traces.parquet"
    said = ["--engine-version", "0.33", "--target", "big", "--draft", "small", "--device", "A100"]
    printed("convert", SAMPLES / "vllm-detailed.jsonl", "-o", output, "--num-experts", "8", *said)
    facts = printed("validate", output)
    for fact in ("engine vllm 0.33", "target big", "draft small", "device A100", "convert, reader vllm"):
        name, _, value = fact.partition(" ")
        assert any(
            value in line for line in facts.splitlines() if f"says of itself: {name}" in line or "reader" in fact
        )


def test_averages_by_request_are_shrunk_towards_the_others(tmp_path):
    pooled = converted("vllm-detailed.jsonl", tmp_path, ROUTED)
    traces = converted("vllm-detailed.jsonl", tmp_path, Wanted(num_experts=8, top_k=2, by=("request",)))
    first = traces.match_probs[traces.offsets[:-1], 0]
    for rate, request in zip(first, RECORDED, strict=True):
        own = sum(a >= 1 for a in request.accepted) / len(request.accepted)
        assert min(own, pooled.match_probs[0, 0]) - 0.05 < rate < max(own, pooled.match_probs[0, 0]) + 0.05
    assert 0 < np.ptp(first) < 1


def test_averages_by_category(tmp_path):
    traces = converted("vllm-detailed.jsonl", tmp_path, Wanted(num_experts=8, top_k=2, by=("category",)))
    first = traces.match_probs[traces.offsets[:-1], 0].tolist()
    assert [first[i] == first[i % 2] for i in range(6)] == [True] * 6
    assert first[0] != first[1]


def written(folder: Path, records: list, wanted: Wanted) -> Traces:
    path = folder / "records.jsonl"
    path.write_text(make.lines(records))
    convert_trace(open_source([path], None), folder / "traces.parquet", wanted)
    return load_traces(folder / "traces.parquet")


def test_rows_may_begin_inside_the_prompt_if_that_is_said(tmp_path):
    whole = written(tmp_path, [make.vllm(request) for request in RECORDED], ROUTED)
    short = [make.vllm(request) for request in RECORDED]
    for record, request in zip(short, RECORDED, strict=True):
        record["choices"][0]["routed_experts"] = make.b64(make.npy(request.rows()[len(request.prompt) - 1 :]))
    inferred = written(tmp_path, short, Wanted(num_experts=8, routing_start=INFER))
    assert inferred.experts.tolist() == whole.experts.tolist()
    for record, request in zip(short, RECORDED, strict=True):
        record["routed_experts_prompt_start"] = len(request.prompt) - 1
    assert written(tmp_path, short, ROUTED).experts.tolist() == whole.experts.tolist()


def test_a_request_that_emitted_the_prefill_token_only(tmp_path):
    short = make.vllm(RECORDED[0])
    request = RECORDED[0]
    short["choices"][0] |= {
        "token_ids": request.tokens[:1],
        "routed_experts": make.b64(make.npy(request.rows()[: len(request.prompt)])),
    }
    short["usage"]["completion_tokens"] = 1
    short["metrics"] = None
    traces = written(tmp_path, [short, make.vllm(RECORDED[1])], ROUTED)
    assert np.diff(traces.offsets).tolist() == [0, RECORDED[1].positions]


def test_several_choices_are_several_generations(tmp_path):
    record = make.vllm(RECORDED[0])
    second = make.vllm(RECORDED[0])["choices"][0]
    record["choices"].append(second | {"index": 1})
    traces = written(tmp_path, [record, make.vllm(RECORDED[1])], ROUTED)
    assert traces.generation == ("cmpl-0/0", "cmpl-0/1", "cmpl-1")
    assert traces.logged_draft_length is None  # metrics describe a request of one sequence


def test_a_document_of_many_responses(tmp_path):
    path = tmp_path / "responses.json"
    path.write_text(json.dumps([make.vllm(request) for request in RECORDED], indent=2))
    convert_trace(open_source([path], None), tmp_path / "t.parquet", ROUTED)
    expected = written(tmp_path, [make.vllm(request) for request in RECORDED], ROUTED)
    assert load_traces(tmp_path / "t.parquet").to_arrow().equals(expected.to_arrow())


def test_batches_make_no_difference(tmp_path, monkeypatch):
    records = [make.vllm(request) for request in RECORDED]
    whole = written(tmp_path, records, ROUTED).to_arrow()
    monkeypatch.setattr(conversion, "_BATCH_BYTES", 1)
    assert written(tmp_path, records, ROUTED).to_arrow().equals(whole)


def test_target_scores_bound_the_overlap(tmp_path):
    found = []
    for kind in ("overlap_lower", "overlap_upper"):
        scores = [ScoredTexts(SAMPLES / f"{of}-vllm.jsonl") for of in ("draft", "target")]
        wanted = Wanted(num_experts=8, match=kind)
        traces = converted("vllm-detailed.jsonl", tmp_path, wanted, draft=scores[0], target=scores[1])
        assert set(traces.match_kind) == {kind}
        found.append(traces.match_prob)
    assert (found[0] < found[1]).all()
