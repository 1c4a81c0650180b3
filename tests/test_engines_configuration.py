"""Configurations against the engines' own rules: whole texts, and what is refused."""

import json
import shlex
from itertools import pairwise
from typing import Any

import pytest

from oracle.engines import ENGINES, SGLANG_PADDED_GRAPHS, configuration, schedule_of
from oracle.errors import InputError

BY_LOAD = [((1, 16), 5), ((17, 64), 3), ((65, None), 0)]


def refused(*words: Any, **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        configuration(*words, **more)
    return str(caught.value)


def vllm_config(text: str) -> Any:
    """What vLLM's parser gets once a shell has read the last line."""
    flag, value = shlex.split(text.splitlines()[-1])
    assert flag == "--speculative-config"
    return json.loads(value)


def vllm_length(schedule: list[list[int]], batch_size: int) -> int:
    """K as the engine reads a schedule: inclusive ranges; gaps and the tail carry the K before them."""
    return [k for first, _, k in schedule if first <= batch_size][-1]


def trtllm_length(keys: dict[int, int], batch_size: int, *, upper: bool) -> int:
    """K as TensorRT-LLM reads a schedule: up to its key, off beyond the last; before, from its key on."""
    if upper:
        return next((k for key, k in sorted(keys.items()) if batch_size <= key), 0)
    return [k for key, k in sorted(keys.items()) if key <= batch_size][-1]


FIXED = {
    "vllm": """--speculative-config '{"method": "eagle3", "num_speculative_tokens": 3}'\n""",
    "sglang": f"# {SGLANG_PADDED_GRAPHS}\n--speculative-algorithm EAGLE3 --speculative-num-steps 3 "
    "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4\n",
    "trtllm": "speculative_config:\n  decoding_type: Eagle3\n  max_draft_len: 3\n",
    "llamacpp": "--spec-type draft-mtp --spec-draft-n-max 3 --spec-draft-n-min 0 --spec-draft-p-min 0\n",
    "transformers": "assistant_model.generation_config.update(\n    num_assistant_tokens=3,\n"
    '    num_assistant_tokens_schedule="constant",\n    assistant_confidence_threshold=0.0,\n)\n',
    "mlx": "--num-draft-tokens 3\n",
}
METHODS = {"vllm": "eagle3", "sglang": "EAGLE3", "trtllm": "Eagle3", "llamacpp": "draft-mtp"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_fixed_length(engine: str) -> None:
    assert configuration(engine, 3, method=METHODS.get(engine)) == FIXED[engine]


@pytest.mark.parametrize("engine", ENGINES)
def test_off_leaves_every_flag_out(engine: str) -> None:
    text = configuration(engine, "off")
    assert text == configuration(engine, 0) == configuration(engine, [((1, 8), 0), ((9, None), 0)])
    assert all(line.startswith("# off: ") for line in text.splitlines())


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp"])
def test_a_word_in_capitals_stands_for_a_method_that_was_not_said(engine: str) -> None:
    word = {"vllm": "METHOD", "sglang": "ALGORITHM", "trtllm": "TYPE", "llamacpp": "TYPE"}[engine]
    text = configuration(engine, 2)
    assert f"# {word}: how drafts are made, such as " in text
    assert word in text.splitlines()[-1] or word in text.splitlines()[-2]


def test_llama_cpp_gets_current_flags_only() -> None:
    for setting in (1, 5, "off"):
        text = configuration("llamacpp", setting, "b9999", draft_model="draft model.gguf")
        assert "--draft-max" not in text
        assert "--draft-min" not in text
    assert "--spec-draft-model 'draft model.gguf' --spec-draft-n-max 5" in configuration(
        "llamacpp", 5, draft_model="draft model.gguf"
    )


@pytest.mark.parametrize("k", [1, 2, 7])
def test_llama_cpp_never_gets_a_least_draft(k: int) -> None:
    """`--spec-draft-n-min` throws shorter drafts away: it is no `@min`, which drafts at least so many, nor a K."""
    flags = shlex.split(configuration("llamacpp", k, method="draft-mtp", most_draft_tokens=9, max_batch_size=4))
    assert flags[flags.index("--spec-draft-n-min") + 1] == "0"
    assert flags[flags.index("--spec-draft-n-max") + 1] == str(k)
    assert flags[flags.index("--spec-draft-p-min") + 1] == "0"
    assert "n-min" not in configuration("llamacpp", "off")


def test_vllm_schedule_as_in_its_documentation() -> None:
    text = configuration("vllm", BY_LOAD, "0.33.0", method="eagle3", max_batch_size=512)
    assert text == (
        "# checked with vLLM 0.33\n"
        "# ranges of batch sizes include both ends; above 512, K = 0 goes on\n"
        """--speculative-config '{"method": "eagle3", "num_speculative_tokens": 5, """
        """"num_speculative_tokens_per_batch_size": [[1, 16, 5], [17, 64, 3], [65, 512, 0]]}'\n"""
    )


@pytest.mark.parametrize(
    ("ranges", "written"),
    [
        ([((1, 4), 2), ((9, 16), 1)], [[1, 8, 2], [9, 16, 1]]),  # the gap carries the K before it
        ([((1, 4), 2), ((5, 8), 2), ((9, None), 4)], [[1, 8, 2], [9, 9, 4]]),  # neighbours join, the tail goes on
        ([((1, 1), 0), ((2, None), 3)], [[1, 1, 0], [2, 2, 3]]),  # on MoE more requests may draft longer
    ],
)
def test_vllm_ranges_are_contiguous_from_1(ranges: Any, written: list[list[int]]) -> None:
    config = vllm_config(configuration("vllm", ranges, method="mtp"))
    schedule = config["num_speculative_tokens_per_batch_size"]
    assert schedule == written
    assert schedule[0][0] == 1
    assert all(b[0] == a[1] + 1 for a, b in pairwise(schedule))
    assert all(k <= config["num_speculative_tokens"] for _, _, k in schedule)
    for size in range(1, 40):
        asked = [k for (first, _), k in ranges if first <= size][-1]
        assert vllm_length(schedule, size) == asked


def test_vllm_maximum_and_data_parallelism() -> None:
    config = vllm_config(configuration("vllm", BY_LOAD, method="mtp", most_draft_tokens=7))
    assert config["num_speculative_tokens"] == 7
    said = refused("vllm", BY_LOAD, most_draft_tokens=4)
    assert "K = 5 is above num_speculative_tokens = 4; raise --most-draft-tokens, or lower K" in said
    assert "do not work with data parallelism (--data-parallel 2)" in refused("vllm", BY_LOAD, data_parallel=2)
    assert configuration("vllm", 3, method="eagle3", data_parallel=2) == FIXED["vllm"]  # one K does
    assert "# checked with vLLM 0.33; see that 0.20 knows these options\n" in configuration("vllm", BY_LOAD, "0.20")


def test_vllm_survives_a_shell() -> None:
    config = vllm_config(configuration("vllm", 2, method="eagle3", draft_model="it's a $(path)"))
    assert config == {"method": "eagle3", "model": "it's a $(path)", "num_speculative_tokens": 2}


def test_sglang_says_that_graphs_pad_batches() -> None:
    for setting in (3, BY_LOAD):
        first = configuration("sglang", setting, method="EAGLE3").splitlines()[0]
        assert first == (
            "# under CUDA graphs SGLang pads a batch to the next captured size, and padded rows can be routed to "
            "experts of their own (sgl-project/sglang#25852): step times, and experts counted on the device, are those "
            "of the padded size"
        )
    assert "CUDA" not in configuration("sglang", "off")


def test_sglang_schedule_pins_each_k_with_one_candidate() -> None:
    text = configuration("sglang", BY_LOAD, method="EAGLE3")
    assert text == (
        f"# {SGLANG_PADDED_GRAPHS}\n"
        "# keys are lower bounds of the batch size; one candidate pins K, 0 is off; not with attention DP\n"
        "cat > draft-lengths.json <<'END'\n"
        '{"1": {"candidate_steps": [5]}, "17": {"candidate_steps": [3]}, "65": {"candidate_steps": [0]}}\n'
        "END\n"
        "--speculative-algorithm EAGLE3 --speculative-num-steps 5 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 6 --speculative-adaptive --speculative-adaptive-config draft-lengths.json\n"
    )
    slots = json.loads(text.splitlines()[3])
    assert all(len(slot["candidate_steps"]) == 1 for slot in slots.values())
    assert "need --speculative-algorithm EAGLE or EAGLE3, not NGRAM" in refused("sglang", BY_LOAD, method="NGRAM")


DOCUMENTED = [((1, 4), 4), ((5, 8), 2), ((9, 32), 1), ((33, None), 0)]


@pytest.mark.parametrize(
    ("version", "keys", "remark"),
    [
        (
            "1.2.0",
            {1: 4, 5: 2, 9: 1, 33: 0},
            "keys are lower bounds (up to version 1.2); from 33 on, K = 0 without end",
        ),
        (
            "1.2.0rc4",
            {1: 4, 5: 2, 9: 1, 33: 0},
            "keys are lower bounds (up to version 1.2); from 33 on, K = 0 without end",
        ),
        (
            "1.3.0",
            {4: 4, 8: 2, 32: 1},
            "keys are upper bounds (after version 1.2); above batch size 32 drafting is off",
        ),
    ],
)
def test_trtllm_schedule_by_version(version: str, keys: dict[int, int], remark: str) -> None:
    written = ", ".join(f"{size}: {k}" for size, k in keys.items())
    assert configuration("trtllm", DOCUMENTED, version, method="Eagle3") == (
        "# checked with TensorRT-LLM 1.2 and after\n"
        f"# TensorRT-LLM {version}: {remark}\n"
        "speculative_config:\n  decoding_type: Eagle3\n  max_draft_len: 4\n"
        f"  draft_len_schedule: {{{written}}}\n"
    )
    for size in range(1, 60):
        asked = [k for (first, _), k in DOCUMENTED if first <= size][-1]
        assert trtllm_length(keys, size, upper=version == "1.3.0") == asked


def test_trtllm_names_the_version_and_refuses_what_it_cannot_do() -> None:
    assert "name yours with --engine-version" in refused("trtllm", DOCUMENTED)
    assert "version 'newest' cannot be read" in refused("trtllm", 3, "newest")
    on = [((1, 4), 4), ((5, None), 2)]
    assert "drafting is off, and K = 2 from batch size 5 on has no end" in refused("trtllm", on, "1.3")
    assert "draft_len_schedule: {4: 4, 64: 2}" in configuration("trtllm", on, "1.3", max_batch_size=64)
    assert "draft_len_schedule: {1: 4, 5: 2}" in configuration("trtllm", on, "1.1")
    rising = [((1, 4), 2), ((5, 8), 4)]
    assert "the smallest batch sizes must draft max_draft_len" in refused("trtllm", rising, "1.3")
    assert "(max_draft_len = 6)" in refused("trtllm", DOCUMENTED, "1.3", most_draft_tokens=6)


def test_trtllm_yaml_quotes_what_yaml_would_bend() -> None:
    assert '  speculative_model_dir: "/models/a: b"\n' in configuration("trtllm", 2, "1.2", draft_model="/models/a: b")
    assert '  speculative_model: "/m"\n' in configuration("trtllm", 2, "1.3", draft_model="/m")


@pytest.mark.parametrize("engine", ["llamacpp", "transformers", "mlx"])
def test_engines_without_a_schedule_say_so(engine: str) -> None:
    assert "has no draft length by batch size, and the schedule holds K = 0, 3, 5" in refused(engine, BY_LOAD)
    assert "K = 3 is above the maximum of draft tokens = 2" in refused(engine, 3, most_draft_tokens=2)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ([], "the schedule is empty"),
        ([((2, 4), 1)], "the schedule starts at batch size 2"),
        ([((1, 8), 3), ((8, 16), 1)], "range 2 of the schedule (8–16): overlaps the range before it"),
        ([((1, None), 3), ((8, 16), 1)], "range 2 of the schedule (8–16): overlaps the range before it"),
        ([((1, 0), 3)], "the last is not below the first"),
        (-1, "the draft length is -1; it is a whole number from 0 (off) to 128"),
        (129, "the draft length is 129"),
        (True, "the draft length is True"),
        ([((1, 4), 2.5)], "the draft length is 2.5"),
    ],
)
def test_impossible_requests(setting: Any, said: str) -> None:
    assert said in refused("vllm", setting)


def test_an_unknown_engine() -> None:
    assert "'tgi' is not a known engine; known: vllm, sglang" in refused("tgi", 2)


def test_a_schedule_passes_through() -> None:
    schedule = schedule_of(BY_LOAD)
    assert schedule_of(schedule) is schedule
    assert schedule.longest == 5
    assert schedule.fixed is None
    assert schedule_of([((1, 4), 2), ((5, None), 2)]).fixed == 2
