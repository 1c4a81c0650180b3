"""What is asked of an engine: texts that reach its configuration, versions, options that contradict the request."""

import json
import re
from typing import Any

import pytest

from oracle.engines import ENGINES, configuration
from oracle.errors import InputError

BY_LOAD = [((1, 16), 5), ((17, 64), 3), ((65, None), 0)]


def refused(*words: Any, **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        configuration(*words, **more)
    return str(caught.value)


def yaml_scalar(text: str) -> object:
    """What YAML 1.1 makes of a scalar, by its tables of implicit types; no parser is needed for these few forms."""
    if text.startswith('"'):
        return json.loads(text)  # YAML's double quotes hold JSON's
    if text.lower() in {"~", "", "null"}:
        return None
    if text.lower() in {"y", "yes", "on", "true", "n", "no", "off", "false"}:
        return text.lower() in {"y", "yes", "on", "true"}
    if re.fullmatch(
        r"[-+]?(0x[\da-fA-F_]+|[\d_]+(\.[\d_]*)?([eE][-+]?\d+)?|[\d_:]+|\.[\d_]+|\.(inf|nan))", text.lower()
    ):
        return 0.0
    return text


@pytest.mark.parametrize(
    "name",
    ["no", "NO", "Null", "~", "null", "true", "off", "y", "1.5", "1e3", "0x1f", "12:30", ".inf", ".nan", "-3", "a: b",
     "- a", "#x", "Eagle3", "org/model-v1.2", "Modell-ä", "a#b", "{a}", "*a", "e5"],
)  # fmt: skip
def test_yaml_reads_every_name_as_that_text(name: str) -> None:
    text = configuration("trtllm", 2, "1.3", method=name, draft_model=name)
    written = {key: value for key, _, value in (line.strip().partition(": ") for line in text.splitlines())}
    assert yaml_scalar(written["decoding_type"]) == name
    assert yaml_scalar(written["speculative_model"]) == name
    assert yaml_scalar("no") is False  # the twin does not read everything as text


def test_trtllm_without_a_version_names_both_keys_of_a_draft_model() -> None:
    text = configuration("trtllm", 2, method="Eagle3", draft_model="/m")
    assert text.splitlines()[0] == (
        "# speculative_model is the key after version 1.2; up to 1.2 it is speculative_model_dir: name yours with "
        "--engine-version"
    )
    assert "speculative_model_dir" not in configuration("trtllm", 2, method="Eagle3")


VERSIONS = {
    "vllm": ("0.33.1", "0.34", "checked with vLLM 0.33"),
    "sglang": ("0.5.9", "0.6.0", "checked with SGLang 0.5.23"),
    "trtllm": ("1.4.0rc1", "1.1", "checked with TensorRT-LLM 1.2 and after"),
    "llamacpp": (None, "b9999", "checked with llama.cpp of autumn 2026"),
    "transformers": ("v5.24.0", "5.3", "checked with transformers 5.24"),
    "mlx": (None, "0.28.1", "checked with mlx-lm of autumn 2026"),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_looks_at_the_version(engine: str) -> None:
    same, other, checked = VERSIONS[engine]
    if same is not None:
        assert f"# {checked}\n" in configuration(engine, 3, same)
    assert f"# {checked}; see that {other} knows these options\n" in configuration(engine, 3, other)
    for setting in (3, "off"):
        for garbage in ("newest", "", "1.3\nmax_draft_len: 9", "1", "1.2 rc\x1b[31m"):
            if engine == "llamacpp" and garbage == "1":
                continue
            assert "--engine-version: version " in refused(engine, setting, garbage)
            assert "cannot be read; give it like " in refused(engine, setting, garbage)
    assert "checked" not in configuration(engine, 3)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", ["eagle\x1b[31m", "a\nb", "\udce4", "a\u2028b", "", " "])
def test_control_characters_reach_no_configuration(engine: str, text: str) -> None:
    for option, field in (("--method", "method"), ("--draft-model", "draft_model")):
        said = refused(engine, 3, **{field: text})
        assert said.startswith(f"{option} is ")
        assert said.endswith("; it is a text without control characters, and not empty")
        assert said.isprintable()


def test_options_that_change_nothing_are_named() -> None:
    both = configuration("transformers", 2, method="assisted", draft_model="m")
    assert both.startswith("# --method and --draft-model have no place here: name the draft model where it is loaded\n")
    assert "# --method has no place here" in configuration("mlx", 2, method="x", draft_model="m")
    one = configuration("vllm", 2, method="mtp", max_batch_size=8)
    assert one.startswith("# one K for all batch sizes: --max-batch-size changes nothing\n")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_a_largest_batch_size_below_the_last_step(engine: str) -> None:
    assert refused(engine, BY_LOAD, "1.3" if engine == "trtllm" else None, max_batch_size=16) == (
        "--max-batch-size is 16, and K = 0 starts at batch size 65 only; raise it to at least 65, or leave larger "
        "batch sizes out"
    )
