"""vLLM: OpenAI-compatible responses, arrays saved in-process, Prometheus text, log lines, ``vllm bench forward``.

Can give
    Routing of every kept token, with ``--enable-return-routed-experts``: ``choices[].routed_experts``, base64 of .npy
    bytes, or the array of ``CompletionOutput.routed_experts`` in a .npz or .npy file. Accepted tokens of each request,
    with ``--per-request-spec-decode-metrics summary`` (by position, as survival) or ``detailed`` (each step, so that
    not drafted is told from rejected, and the engine's rounds can be laid out). Token ids with ``return_token_ids``.
    Server-wide acceptance from ``/metrics`` and the log. Times of passes from ``vllm bench forward --output-json``.
Cannot give
    Draft probabilities or a match probability of any one token: they come out as averages (match_kind empirical), or
    from the draft served alone (--draft-logprobs). Experts of rejected tokens: rows follow the kept text. The number
    of experts a layer (--num-experts). Metrics of requests with n > 1. Served times of single rounds: ``bench forward``
    times isolated passes, which underprice served rounds, and neither drafts nor counts unique experts.
Layout
    Routing: https://docs.vllm.ai/en/latest/training/routed_experts/ ; metrics: vLLM's page "Per-Request Acceptance
    Metrics". Rows are by input token, one fewer than tokens, all hidden layers, dense ones 0. Version 0.21 sent prompt
    rows apart (``prompt_routed_experts``, as many rows as tokens): refused. What is not documented there and taken from
    practice: the layout of ``bench forward``.
A .npz file holds one request: ``routed_experts``, ``prompt_token_ids`` and ``token_ids`` as vLLM gives them, and where
known ``per_step_accepted`` and ``per_step_drafted``. A .npy file holds the routing alone (--prompt-tokens says where
the prompt ends).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from oracle.errors import Faults, InputError
from oracle.files import shown
from oracle.recorded_by.arrays import arrays_in_npz, npy_in_base64, read_npy
from oracle.recorded_by.request import (
    MOST_TOKENS,
    Request,
    Routing,
    choices_of,
    count_of,
    emitted_of,
    ids_of,
    labels_of,
    name_in,
    refuse_chunk,
    stem_of,
    texts_of,
    texts_that_fit,
)

_IN_NPZ = ("routed_experts", "prompt_token_ids", "token_ids", "per_step_accepted", "per_step_drafted")


def is_response(tree: Mapping[str, Any]) -> bool:
    """Whether a record looks like vLLM's."""
    metrics = tree.get("metrics")
    return (isinstance(metrics, Mapping) and "speculative_decoding" in metrics) or any(
        "routed_experts" in choice for _, choice in choices_of(tree)
    )


def requests_in(tree: Mapping[str, Any], place: str, faults: Faults) -> Iterator[Request]:
    """Read one response, of one request for each choice."""
    if refuse_chunk(tree, place, faults):
        return
    choices = list(choices_of(tree))
    if not choices:
        faults.add(f"{place}: holds no choices; give responses of vLLM's OpenAI-compatible server")
    if "prompt_routed_experts" in tree or any("prompt_routed_experts" in choice for _, choice in choices):
        faults.add(
            f"{place}: prompt_routed_experts is vLLM 0.21's layout, which has a row for the last token too, though "
            "that was never an input; record with a version that sends routed_experts alone (0.22 on)"
        )
        return
    usage = tree.get("usage")
    metrics = tree.get("metrics")
    speculative = metrics.get("speculative_decoding") if isinstance(metrics, Mapping) else None
    prompt_ids = ids_of(tree.get("prompt_token_ids"), "prompt_token_ids", place, faults)
    for i, choice in choices:
        at = f"{place}.choices[{i}]"
        prompt = ids_of(choice.get("prompt_token_ids"), "prompt_token_ids", at, faults) or prompt_ids
        ids = ids_of(choice.get("token_ids"), "token_ids", at, faults)
        alone = len(choices) == 1
        told = count_of(usage, "completion_tokens", f"{place}.usage", faults) if alone else None
        emitted = emitted_of(told, ids, at, faults)
        yield Request(
            place=at,
            name=name_in(tree, i, len(choices)),
            prompt_tokens=emitted_of(count_of(usage, "prompt_tokens", f"{place}.usage", faults), prompt, at, faults),
            emitted=emitted,
            labels=labels_of(tree, choice),
            token_id=ids,
            token_text=texts_that_fit(_texts(choice.get("logprobs")), emitted),
            routing=_routing(choice.get("routed_experts"), tree, f"{at}.routed_experts", faults),
            metrics=speculative if alone and isinstance(speculative, Mapping) else None,
        )


def _texts(logprobs: Any) -> list[str] | None:
    """Texts of the tokens of a chat (content) or a completion (tokens)."""
    if not isinstance(logprobs, Mapping):
        return None
    return texts_of(logprobs.get("content", logprobs.get("tokens")))


def _routing(value: Any, tree: Mapping[str, Any], place: str, faults: Faults) -> Routing | None:
    if value is None:
        return None
    if not isinstance(value, str):
        faults.add(f"{place}: is no text; vLLM sends base64 of .npy bytes")
        return None
    try:
        array = npy_in_base64(value, place)
    except InputError as error:
        faults.add(str(error))
        return None
    if array.ndim != 3:
        faults.add(f"{place}: has the shape {array.shape}; routing is (tokens - 1, layers, top_k)")
        return None
    return Routing(array, count_of(tree, "routed_experts_prompt_start", place, faults))


def request_in_file(path: Path, prompt_tokens: int | None, faults: Faults) -> Request | None:
    """Read a .npz file of one request, or a .npy file of its routing; None if a fault was noted."""
    place = shown(path)
    try:
        arrays = arrays_in_npz(path) if path.suffix == ".npz" else {"routed_experts": read_npy(path)}
    except InputError as error:
        faults.add(str(error))
        return None
    for name in arrays.keys() - set(_IN_NPZ):
        faults.add(f"{place}: {name} is none of {', '.join(_IN_NPZ)}; leave it out, or rename it")
    values = arrays.get("routed_experts")
    if values is None or values.ndim != 3:
        faults.add(f"{place}: needs routed_experts of the shape (tokens - 1, layers, top_k)")
        return None
    for name in (name for name in _IN_NPZ[1:] if name in arrays and arrays[name].size > MOST_TOKENS):
        faults.add(f"{place}: {name} holds {arrays[name].size} numbers; a request has at most {MOST_TOKENS} tokens")
        return None
    ids = {name: ids_of(arrays[name].tolist(), name, place, faults) for name in _IN_NPZ[1:] if name in arrays}
    prompt = ids.get("prompt_token_ids")
    length = len(prompt) if prompt is not None else prompt_tokens
    if length is None:
        faults.add(
            f"{place}: does not say where the prompt ends; save prompt_token_ids and token_ids beside routed_experts "
            "(np.savez), or say --prompt-tokens"
        )
        return None
    if length > len(values):
        faults.add(
            f"{place}: a prompt of {length} tokens, but {len(values)} rows of routing; there is a row for every token "
            "but the last: is --prompt-tokens right?"
        )
        return None
    tokens = ids.get("token_ids")
    steps = {name: ids[name] for name in _IN_NPZ[3:] if ids.get(name) is not None}
    return Request(
        place=place,
        name=stem_of(path),
        prompt_tokens=length,
        emitted=len(tokens) if tokens is not None else len(values) + 1 - length,
        token_id=tokens,
        routing=Routing(values),
        metrics=steps or None,
    )
