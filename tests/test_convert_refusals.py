"""Wrong payloads are refused with the place, the rule and the way out; nothing is written."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_samples import make
from engine_samples.make import RECORDED

from oracle.acceptance import acceptance_from_text
from oracle.errors import InputError
from oracle.recorded_by.aligned import Wanted
from oracle.recorded_by.conversion import convert_trace
from oracle.recorded_by.scored_text import ScoredTexts
from oracle.recorded_by.source import open_source

ROUTED = Wanted(num_experts=8, top_k=2)
FIRST = RECORDED[0]
P, E = len(FIRST.prompt), len(FIRST.tokens)


def refused(
    folder: Path, records: list[Any] | str, wanted: Wanted = ROUTED, engine: str | None = None, **more
) -> list[str]:
    """Faults of a file, its name left out."""
    path = folder / "r.jsonl"
    path.write_text(records if isinstance(records, str) else make.lines(records))
    output = folder / "traces.parquet"
    with pytest.raises(InputError) as caught:
        convert_trace(open_source([path], engine, wanted.prompt_tokens), output, wanted, **more)
    assert not output.exists()
    assert not list(folder.glob(".*partial"))
    return [fault.replace(f"{path}, ", "") for fault in caught.value.faults]


def vllm(routing: bytes | str | None = None, **changes: Any) -> dict[str, Any]:
    record = make.vllm(FIRST)
    if routing is not None:
        record["choices"][0]["routed_experts"] = routing if isinstance(routing, str) else make.b64(routing)
    return record | changes


def test_raw_int32_read_as_vllm(tmp_path):
    raw = FIRST.rows().astype("<i4").tobytes()
    assert refused(tmp_path, [vllm(raw)]) == [
        "line 1.choices[0].routed_experts: is not a .npy file (it starts with b'\\x00\\x00\\x00\\x00\\x00\\x00'); raw "
        "int32, as SGLang sends it, is read with --from sglang"
    ]


def test_rows_off_by_one(tmp_path):
    rows = FIRST.rows().astype(np.uint8)
    for wrong, text in ((np.concatenate([rows, rows[-1:]]), "leave its row out"), (rows[1:], "say from where with")):
        [fault] = refused(tmp_path, [vllm(make.npy(wrong))])
        assert fault.startswith(
            f"line 1.choices[0].routed_experts: {len(wrong)} rows of routing where {P} prompt and {E} emitted tokens "
            f"have {P + E - 1} (one fewer than tokens, from token 0 on); "
        )
        assert text in fault


def test_rows_of_flat_routing_off_by_one(tmp_path):
    record = make.sglang(FIRST)
    rows = FIRST.rows().astype("<i4")
    record["meta_info"]["routed_experts"] = make.b64(np.concatenate([rows, rows[-1:]]).tobytes())
    [fault] = refused(tmp_path, [record])
    assert fault.startswith(f"line 1.routed_experts: {(P + E) * 6} ids are no whole number of layers for ")


def test_flat_routing_needs_its_shape(tmp_path):
    assert refused(tmp_path, [make.sglang(FIRST)], Wanted(num_experts=8)) == [
        "line 1.routed_experts: a flat array does not say its shape; say --top-k, and --routing-start as a "
        "number if the server left prompt rows out"
    ]


def test_the_layout_of_vllm_0_21(tmp_path):
    record = vllm() | {"prompt_routed_experts": "AAAA"}
    assert refused(tmp_path, [record]) == [
        "line 1: prompt_routed_experts is vLLM 0.21's layout, which has a row for the last token too, though that was "
        "never an input; record with a version that sends routed_experts alone (0.22 on)"
    ]


def test_pads_in_the_middle(tmp_path):
    record = make.sglang(FIRST)
    rows = FIRST.rows().astype("<i4")
    rows[P + 2] = -1
    record["meta_info"]["routed_experts"] = make.b64(rows.tobytes())
    faults = refused(tmp_path, [record])
    assert faults == [
        "line 1.routed_experts, position 2: routing[MoE layer 0, slot 0] is -1; the row was not recorded; leave the "
        "request out"
    ]


def test_ids_beyond_the_experts(tmp_path):
    [fault] = refused(tmp_path, [vllm()], Wanted(num_experts=4))
    assert fault.endswith("ids lie in 0 … 3: is --num-experts right, and was raw int32 read in the right shape?")


def test_routing_that_was_lost(tmp_path):
    assert refused(tmp_path, [vllm(make.npy(np.zeros((P + E - 1, 3, 2), np.uint8)))]) == [
        "every layer reads 0 or -1 throughout, as dense layers do; was routing captured at all? (Engines that lose the "
        "capture under speculation send zeros)"
    ]


def test_the_target_must_be_told(tmp_path):
    assert refused(tmp_path, [vllm()], Wanted()) == [
        "no engine sends the number of experts a layer; say it with --num-experts"
    ]
    assert refused(tmp_path, [vllm()], Wanted(dense_target=True)) == [
        "--dense says that the target has no experts, but the requests hold routing; leave --dense out"
    ]
    assert refused(tmp_path, [make.trtllm(FIRST)], Wanted()) == [
        "the requests hold no routing, without which experts would cost nothing; record it (--explain ENGINE says "
        "how), or say --dense if the target is dense"
    ]
    without = make.vllm(RECORDED[1])
    del without["choices"][0]["routed_experts"]
    assert refused(tmp_path, [vllm(), without]) == ["1 of 2 requests hold routing; a trace needs it of all, or of none"]


def test_one_target_a_trace(tmp_path):
    other = make.vllm(RECORDED[1])
    other["choices"][0]["routed_experts"] = make.b64(make.npy(RECORDED[1].rows()[:, 1:]))
    assert refused(tmp_path, [vllm(), other]) == [
        "line 2.choices[0]: routing of 2 layers x 2 where the requests before have 3 x 2; one trace holds one target"
    ]


def test_steps_that_contradict_one_another(tmp_path):
    def with_steps(**steps: Any) -> dict[str, Any]:
        record = vllm()
        record["metrics"]["speculative_decoding"] = {"num_spec_tokens": 3, **steps}
        return record

    both = "per_step_accepted and per_step_drafted"
    place = "line 1.choices[0]"
    assert refused(tmp_path, [with_steps(per_step_accepted=[1, 2])]) == [
        f"{place}: {both} are lists of whole numbers from 0 on, one a round"
    ]
    assert refused(tmp_path, [with_steps(per_step_accepted=[1, 2], per_step_drafted=[3])]) == [
        f"{place}: 2 steps accepted, 1 drafted; one number a round in both"
    ]
    assert refused(tmp_path, [with_steps(per_step_accepted=[4], per_step_drafted=[3])]) == [
        f"{place}, step 0: 4 tokens accepted of 3 drafted"
    ]
    advances = [a + 1 for a in FIRST.accepted] + [1]
    [fault] = refused(tmp_path, [with_steps(per_step_accepted=advances, per_step_drafted=[9] * len(advances))])[:1]
    assert fault.startswith(f"{place}: num_spec_tokens is 3")


def test_advances_read_as_accepted(tmp_path):
    record = vllm()
    metrics = record["metrics"]["speculative_decoding"]
    metrics["num_spec_tokens"] = 4
    metrics["per_step_accepted"] = [a + 1 for a in FIRST.accepted]
    metrics["per_step_drafted"] = [4] * len(FIRST.accepted)
    fault = refused(tmp_path, [record])[-1]
    assert fault.endswith("is the token that prefill emits counted, or an accepted count the advance already?")


def test_survival_is_not_read_as_conditional(tmp_path):
    with pytest.raises(InputError, match=r"which are survival; their running product would be wrong"):
        acceptance_from_text(make.PROMETHEUS, "metrics", "conditional")
    totals = acceptance_from_text('{"predicted_n": 30, "draft_n": 20, "draft_n_accepted": 10}', "t", None, 4)
    assert refused(tmp_path, [vllm()], acceptance=totals) == [
        "--acceptance holds totals, which do not tell positions; give counters by position, or per-request metrics"
    ]


def test_totals_tell_no_positions(tmp_path):
    text = (Path(make.HERE) / "llamacpp-timings.jsonl").read_text()
    assert refused(tmp_path, text, Wanted(dense_target=True)) == [
        "the requests hold no accepted tokens by position (no engine sends match probabilities, and totals do not tell "
        "positions); record per-request metrics, or give --acceptance FILE (counters, log lines, a table) or "
        "--draft-logprobs FILE"
    ]


def test_ids_occur_once(tmp_path):
    assert refused(tmp_path, [vllm(), vllm()]) == [
        "line 2.choices[0]: the id 'cmpl-0' was there before (line 1.choices[0]); "
        "each request has its own: is a response in the files twice?"
    ]


def test_counts_that_disagree(tmp_path):
    assert refused(tmp_path, [vllm(usage={"prompt_tokens": P, "completion_tokens": E + 1})])[0] == (
        f"line 1.choices[0]: {E} token ids, but {E + 1} completion tokens are counted; a special token at the end may "
        "be left out of one of them: record both from the same response"
    )


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("[" * 4000 + "]" * 4000 + "\n{}", "line 1: JSON nested 4000 deep"),
        ('{"choices": [], "id": NaN}\n', "line 1: NaN is not a JSON number"),
        ('{"choices": [{}]\n{"choices": []}\n', ""),
        ('{"a": 1}\n', "line 1: is no record of a known engine (a); say which with --from"),
        (
            '{"id": "x", "object": "chat.completion.chunk", "choices": [{}]}\n',
            "line 1: is one piece of a streamed response",
        ),
    ],
)
def test_json_that_is_none(text, start, tmp_path):
    assert refused(tmp_path, text)[0].startswith(start)


def test_text_from_files_is_escaped(tmp_path):
    record = vllm(id="a\x1b[31m")
    assert "\x1b" not in refused(tmp_path, [record, record])[0]


def test_all_faults_at_once(tmp_path):
    bad = [make.vllm(request) for request in RECORDED[:3]]
    for record in bad:
        record["choices"][0]["routed_experts"] = "no base64!"
    assert [fault.split(":")[0] for fault in refused(tmp_path, bad)] == [
        f"line {i}.choices[0].routed_experts" for i in (1, 2, 3)
    ]


def test_files_of_two_kinds(tmp_path):
    names = ("vllm-detailed.jsonl", "trtllm.jsonl")
    with pytest.raises(InputError, match=r"the inputs are not of one kind \(.*vllm, trace; .*trtllm, trace\)"):
        open_source([make.HERE / name for name in names], None)
    with pytest.raises(InputError, match=r"is no file; give files \(they are read twice, so no pipe\)"):
        open_source([tmp_path], None)


def test_scored_texts_that_do_not_fit(tmp_path):
    wanted = Wanted(num_experts=8, match="reference")
    path = tmp_path / "draft.jsonl"
    shorter = make.scored_by_openai(FIRST)
    shorter["choices"][0]["logprobs"]["token_logprobs"].pop()
    path.write_text(make.lines([shorter]))
    [fault] = refused(tmp_path, [vllm()], wanted, draft=ScoredTexts(path))
    assert f"{P + E - 1} log-probabilities for {P} prompt and {E} emitted tokens" in fault
    positive = make.scored_by_openai(FIRST)
    positive["choices"][0]["logprobs"]["token_logprobs"][P + 1] = 0.7
    path.write_text(make.lines([positive]))
    [fault] = refused(tmp_path, [vllm()], wanted, draft=ScoredTexts(path))
    assert fault == (
        "draft.jsonl, line 1, position 0: the log-probability is 0.7; natural logarithms of probabilities are at most "
        "0: were probabilities recorded?"
    ).replace("draft.jsonl", str(path))
    path.write_text(make.lines([make.scored_by_openai(RECORDED[1])]))
    [fault] = refused(tmp_path, [vllm()], wanted, draft=ScoredTexts(path))
    assert fault == "line 1.choices[0]: draft.jsonl holds no record with the id 'cmpl-0'"
    path.write_text(make.lines([shorter, shorter]))
    with pytest.raises(InputError, match="the id 'cmpl-0' is there twice; keep one record of it"):
        ScoredTexts(path)


def test_a_record_may_be_no_object(tmp_path):
    assert refused(tmp_path, [vllm(), [3]])[0] == "line 2[0]: is no object; give one record a line"
    assert base64.b64decode(json.loads(json.dumps(vllm()))["choices"][0]["routed_experts"])[:6] == b"\x93NUMPY"


def test_by_what_no_record_names(tmp_path):
    assert refused(tmp_path, [vllm()], Wanted(num_experts=8, by=("tenant",))) == [
        "--by tenant: no record names its tenant; add the key tenant to the records"
    ]
