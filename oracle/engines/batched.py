"""Engines whose draft length can follow the batch size: vLLM, SGLang, TensorRT-LLM."""

import json
import re
import shlex
from typing import Any

from oracle.engines.request import Request
from oracle.errors import InputError, printable

_LAST_WITH_LOWER_BOUNDS = (1, 2)  # TensorRT-LLM: keys of draft_len_schedule became upper bounds afterwards
_YAML_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})  # YAML 1.1 reads no text in them
_SGLANG_ADAPTIVE = ("EAGLE", "EAGLE3", "NEXTN")
SGLANG_PADDED_GRAPHS = (
    "under CUDA graphs SGLang pads a batch to the next captured size, and padded rows can be routed to experts of "
    "their own (sgl-project/sglang#25852): step times, and experts counted on the device, are those of the padded size"
)


def vllm(request: Request) -> str:
    """``--speculative-config``: inclusive ranges, contiguous from 1 on; the tail carries the last K."""
    schedule = request.schedule
    most = request.ceiling("vLLM", "num_speculative_tokens")
    if schedule.longest == 0:
        return "# off: start vLLM without --speculative-config\n"
    remarks = [] if request.method else ["METHOD: how drafts are made, such as eagle3, mtp, draft_model or ngram"]
    spec: dict[str, Any] = {"method": request.method or "METHOD"}
    if request.draft_model is not None:
        spec["model"] = request.draft_model
    if len(schedule.steps) == 1:
        spec["num_speculative_tokens"] = schedule.longest
        return _remarked(remarks, f"--speculative-config {shlex.quote(json.dumps(spec))}")
    if request.data_parallel > 1:
        raise InputError(
            f"vLLM: draft lengths by batch size do not work with data parallelism (--data-parallel "
            f"{request.data_parallel}); pick one K, or run independent servers behind a router"
        )
    last = schedule.steps[-1]
    tail = last.last or max(last.first, request.max_batch_size or 0)
    ends = [step.last for step in schedule.steps[:-1]] + [tail]
    spec["num_speculative_tokens"] = most
    spec["num_speculative_tokens_per_batch_size"] = [
        [step.first, end, step.draft_length] for step, end in zip(schedule.steps, ends, strict=True)
    ]
    remarks.append(f"ranges of batch sizes include both ends; above {tail}, K = {last.draft_length} goes on")
    return _remarked(remarks, f"--speculative-config {shlex.quote(json.dumps(spec))}")


def sglang(request: Request) -> str:
    """Fixed flags with topk 1 and S + 1 draft tokens, or the adaptive file with one candidate a batch size."""
    schedule = request.schedule
    longest = schedule.longest
    request.ceiling("SGLang", "the maximum of draft steps")
    if longest == 0:
        return "# off: start SGLang without --speculative-algorithm and the other --speculative-… flags\n"
    remarks = [SGLANG_PADDED_GRAPHS]
    if request.method is None:
        remarks.append("ALGORITHM: how drafts are made, such as EAGLE3 or EAGLE")
    model = "" if request.draft_model is None else f" --speculative-draft-model-path {shlex.quote(request.draft_model)}"
    flags = (
        f"--speculative-algorithm {shlex.quote(request.method or 'ALGORITHM')}{model} "
        f"--speculative-num-steps {longest} --speculative-eagle-topk 1 --speculative-num-draft-tokens {longest + 1}"
    )
    if len(schedule.steps) == 1:
        return _remarked(remarks, flags)
    if request.method is not None and request.method.upper() not in _SGLANG_ADAPTIVE:
        raise InputError(
            f"SGLang: draft lengths by batch size need --speculative-algorithm EAGLE or EAGLE3, not {request.method}; "
            "name one with --method, or pick one K"
        )
    remarks.append("keys are lower bounds of the batch size; one candidate pins K, 0 is off; not with attention DP")
    slots = {str(step.first): {"candidate_steps": [step.draft_length]} for step in schedule.steps}
    file = f"cat > draft-lengths.json <<'END'\n{json.dumps(slots)}\nEND\n"
    return _remarked(remarks, f"{file}{flags} --speculative-adaptive --speculative-adaptive-config draft-lengths.json")


def trtllm(request: Request) -> str:
    """YAML ``speculative_config``; the keys of a schedule mean different things by version, which is named."""
    schedule = request.schedule
    release = request.release("TensorRT-LLM")
    if schedule.longest == 0:
        return "# off: leave speculative_config out\n"
    remarks = [] if request.method else ["TYPE: how drafts are made, such as Eagle3 or MTP"]
    old = release is not None and release <= _LAST_WITH_LOWER_BOUNDS
    lines = ["speculative_config:", f"  decoding_type: {_yaml(request.method or 'TYPE')}"]
    if request.draft_model is not None:
        lines.append(f"  speculative_model{'_dir' if old else ''}: {_yaml(request.draft_model)}")
        if release is None:
            remarks.append(
                "speculative_model is the key after version 1.2; up to 1.2 it is speculative_model_dir: name yours "
                "with --engine-version"
            )
    lines.append(f"  max_draft_len: {request.ceiling('TensorRT-LLM', 'max_draft_len')}")
    if schedule.fixed is not None:
        return _remarked(remarks, "\n".join(lines))
    if release is None:
        raise InputError(
            "TensorRT-LLM: the keys of draft_len_schedule are lower bounds of the batch size up to version 1.2 and "
            "upper bounds after it; name yours with --engine-version"
        )
    if schedule.steps[0].draft_length != request.ceiling("TensorRT-LLM", "max_draft_len"):
        raise InputError(
            f"TensorRT-LLM: the smallest batch sizes must draft max_draft_len, and the schedule has K = "
            f"{schedule.steps[0].draft_length} there and up to {schedule.longest} elsewhere (max_draft_len = "
            f"{request.ceiling('TensorRT-LLM', 'max_draft_len')}); raise the first K, lower --most-draft-tokens, or "
            "pick one K"
        )
    keys, remark = _lower_bounds(request) if old else _upper_bounds(request)
    remarks.append(f"TensorRT-LLM {printable(request.version or '')}: {remark}")
    lines.append("  draft_len_schedule: {" + ", ".join(f"{size}: {k}" for size, k in keys) + "}")
    return _remarked(remarks, "\n".join(lines))


def _lower_bounds(request: Request) -> tuple[list[tuple[int, int]], str]:
    """Keys up to version 1.2: each K holds from its batch size on, the last without end."""
    last = request.schedule.steps[-1]
    keys = [(step.first, step.draft_length) for step in request.schedule.steps]
    return keys, f"keys are lower bounds (up to version 1.2); from {last.first} on, K = {last.draft_length} without end"


def _upper_bounds(request: Request) -> tuple[list[tuple[int, int]], str]:
    """Keys after version 1.2: each K holds up to its batch size; beyond the last key drafting is off."""
    steps = list(request.schedule.steps)
    if steps[-1].draft_length == 0:
        steps.pop()  # off is what the engine does beyond the last key
    keys = []
    for step in steps:
        end = step.last
        if end is None:
            end = request.max_batch_size
            if end is None or end < step.first:
                raise InputError(
                    f"TensorRT-LLM {printable(request.version or '')}: above the last key of draft_len_schedule "
                    f"drafting is off, and K = {step.draft_length} from batch size {step.first} on has no end; give "
                    f"--max-batch-size, at least {step.first}"
                )
        keys.append((end, step.draft_length))
    return keys, f"keys are upper bounds (after version 1.2); above batch size {keys[-1][0]} drafting is off"


def _remarked(remarks: list[str], text: str) -> str:
    return "".join(f"# {remark}\n" for remark in remarks) + text + "\n"


def _yaml(text: str) -> str:
    """Write text so that YAML reads it as text: JSON's quotes are YAML's too."""
    plain = re.fullmatch(r"[A-Za-z][\w.-]*", text, re.ASCII) and text.lower() not in _YAML_WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)
