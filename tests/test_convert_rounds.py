"""Timed passes become rounds, and counters a table; what the payload lacks is told or refused."""

from pathlib import Path

import pytest
from engine_samples import make
from engine_samples.make import RECORDED
from in_process import printed

from oracle.acceptance import read_acceptance
from oracle.errors import Faults, InputError
from oracle.recorded_by.timings import Told, rounds_of, rows_in
from oracle.rounds import load_rounds

SAMPLES = make.HERE


def faults_of(trees: list, told: Told) -> tuple[str, ...]:
    faults = Faults()
    with pytest.raises(InputError) as caught:
        list(rounds_of(rows_in(iter([("here", tree) for tree in trees]), told, faults), "rounds", faults))
    return caught.value.faults


def refused(*words: str | Path) -> str:
    with pytest.raises(InputError) as caught:
        printed(*words)
    return str(caught.value)


def test_bench_forward(tmp_path):
    output = tmp_path / "rounds.parquet"
    told = ["--unique-experts", "1:2,2:3.5,3:4.6", "--draft-ms", "1:1.5,2:2.5"]
    shown = printed("convert", SAMPLES / "vllm-bench-forward.json", "-o", output, *told)
    assert "no alpha can be fitted from these rounds" in shown
    rounds = load_rounds(output)
    assert rounds.draft_length.tolist() == [0, 1, 2]
    assert rounds.target_ms.tolist() == [5.9, 6.8, 7.7]
    assert rounds.draft_ms.tolist() == [0, 1.5, 2.5]
    assert rounds.unique_experts.tolist() == [2, 3.5, 4.6]
    assert rounds.context_len.tolist() == [513, 513, 513]  # the cache, and the pass's own input token
    assert rounds.numeric("batch_size").tolist() == [4, 4, 4]
    assert "no faults" in printed("validate", output)


def test_what_was_not_measured_is_told_or_refused():
    assert faults_of(make.BENCH_FORWARD[1:2], Told()) == (
        "here: unique experts of m = 2 are neither recorded nor told; say --unique-experts by m, as 1:8,2:13.1 (0 for "
        "a dense target)",
        "here: the time of a draft of 1 tokens is neither recorded nor told; say --draft-ms, as 1:1.5",
    )


def test_cases_that_are_no_verification():
    case = {"case": "prefill", "median_us": 5, "requests": [{"query_len": 512, "kv_len": 0, "num_draft_tokens": 0}]}
    assert faults_of([case], Told(0.0)) == (
        "here: is no case of verification: every request has one draft length D and D + 1 query tokens (the case "
        "verify=N*Q@KV:D with Q = D + 1)",
    )
    assert faults_of([{"case": "x", "median_us": "5", "requests": [{}]}], Told(0.0)) == (
        "here: median_us is '5'; it is a number from 0 on",
        "here.requests[0]: query_len is None; it is a whole number from 0 on",
        "here.requests[0]: kv_len is None; it is a whole number from 0 on",
        "here.requests[0]: num_draft_tokens is None; it is a whole number from 0 on",
    )


@pytest.mark.parametrize(
    ("batched_is", "lengths", "batches"), [("verified", [0, 1, 3], [1, 1, 1]), ("batch", [0, 0, 0], [1, 2, 4])]
)
def test_batched_bench(batched_is, lengths, batches, tmp_path):
    output = tmp_path / "rounds.parquet"
    told = ["--unique-experts", "0", "--draft-ms", "1:1,3:2", "--batched-is", batched_is]
    printed("convert", SAMPLES / "llamacpp-batched.jsonl", "-o", output, *told)
    rounds = load_rounds(output)
    assert rounds.draft_length.tolist() == lengths
    assert rounds.numeric("batch_size").tolist() == batches
    assert rounds.target_ms == pytest.approx([6, 7, 9])  # t_tg over tg passes
    assert rounds.context_len.tolist() == [128 + 16.5] * 3  # mean over 32 passes


def test_batched_bench_must_be_said_what_it_stands_for():
    assert faults_of(make.BATCHED_BENCH[1:2], Told(0.0)) == (
        "here: times passes over 2 sequences, one position each; say what that stands for with --batched-is batch (a "
        "batch of so many requests without drafts) or verified (m positions of one request)",
    )


def test_lines_of_rounds(tmp_path):
    output = tmp_path / "rounds.parquet"
    printed("convert", SAMPLES / "llamacpp-rounds.jsonl", "-o", output, "--to", "rounds", "--unique-experts", "0")
    rounds = load_rounds(output)
    expected = [line for request in RECORDED for line in make.llamacpp_rounds(request)]
    assert len(rounds.generation_names) == len(RECORDED)
    assert rounds.draft_length.tolist() == [line["draft"]["n"] for line in expected]
    assert rounds.target_ms == pytest.approx([line["timing"]["t_verify_us"] / 1000 for line in expected])
    assert rounds.draft_ms == pytest.approx([line["timing"]["t_draft_us"] / 1000 for line in expected])
    contexts = []
    for request in RECORDED:
        cached = len(request.prompt)  # the prefill token is emitted, and not in the cache yet
        for accepted in request.accepted:
            contexts.append(cached + 1)
            cached += accepted + 1
    assert rounds.context_len.tolist() == contexts


def test_lines_that_do_not_follow_one_another(tmp_path):
    lines = make.llamacpp_rounds(RECORDED[0])
    path = tmp_path / "r.jsonl"
    path.write_text(make.lines([lines[0], lines[2]]))
    said = refused("convert", path, "-o", tmp_path / "t.parquet", "--dense")
    assert (
        f"{path}, request 1, round 1: prompt_pos is {lines[2]['prompt_pos']} where the rounds before it lead to "
        in said
    )
    assert "are lines missing, or requests mixed?" in said
    bad = {**lines[0], "verify": {"n_accepted": 9, "target_id": 1}}
    path.write_text(make.lines([bad]))
    said = refused("convert", path, "-o", tmp_path / "t.parquet", "--dense")
    assert "9 tokens accepted of 3 drafted; at most n, and n at most 128" in said


@pytest.mark.parametrize("name", ["vllm-metrics.prom", "vllm.log"])
def test_counters_become_a_table_that_reads_back(name, tmp_path):
    output = tmp_path / "acceptance.csv"
    printed("convert", SAMPLES / name, "-o", output)
    [curve] = read_acceptance(output, "survival").curves
    assert curve.survival == pytest.approx([0.8, 0.4, 0.24])
    assert (curve.draft_length, curve.rounds) == (3, 1000)


def test_counters_are_no_requests(tmp_path):
    said = refused("convert", SAMPLES / "vllm.log", "-o", tmp_path / "t.parquet", "--to", "trace")
    assert said.strip().endswith(
        "vllm.log: holds acceptance and no requests, so no trace can be made of it; counters go beside requests, with "
        "--acceptance"
    )
    words = ["convert", SAMPLES / "llamacpp-timings.jsonl", "-o", tmp_path / "a.csv", "--to", "acceptance"]
    assert refused(*words) == (
        "the inputs hold totals, which do not tell positions, so no table by position can be made; `recommend "
        "--acceptance` reads them as they are"
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--routing-start", "x"], "--routing-start is 'x'; give a token number from 0 on, or infer"),
        (["--dense-layers", "a"], "--dense-layers is 'a'; write layer numbers from 0 on, as 0,1,2 (or '' for none)"),
        (["--dense-layers", "7"], "--dense-layers names layers outside 0 … 2, which is what was recorded"),
        (["--match", "greedy"], "--match greedy needs the draft's scores of the texts; give --draft-logprobs"),
        (
            ["--draft-logprobs", str(SAMPLES / "draft-vllm.jsonl")],
            "--draft-logprobs and --target-logprobs need --match",
        ),
    ],
)
def test_options_that_do_not_go_together(words, text, tmp_path):
    source = SAMPLES / "vllm-detailed.jsonl"
    said = refused("convert", source, "-o", tmp_path / "t.parquet", "--num-experts", "8", *words)
    assert text in said
    assert list(tmp_path.iterdir()) == []


def test_output_over_an_input(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(make.texts()["vllm-detailed.jsonl"])
    assert "would replace the input" in refused("convert", path, "-o", path, "--num-experts", "8")
    assert path.read_text() == make.texts()["vllm-detailed.jsonl"]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp", "aiperf"])
def test_explain_says_what_is_and_is_not_given(engine):
    said = printed("convert", "--explain", engine)
    assert [word for word in ("Can give", "Cannot give", "Layout") if word in said] == [
        "Can give",
        "Cannot give",
        "Layout",
    ]
