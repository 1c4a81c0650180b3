"""SGLang: native responses (``/generate``) and OpenAI-compatible ones.

Can give
    Routing of every kept token, with ``--enable-return-routed-experts`` and ``return_routed_experts``:
    ``meta_info.routed_experts`` (native) or ``choices[].sglext.routed_experts`` (``sgl_ext`` in some versions), base64
    of raw int32. Accepted tokens by position, as survival: ``spec_correct_drafts_histogram`` (formerly
    ``spec_accept_histogram``), with ``spec_num_proposed_drafts`` and ``spec_verify_ct``. Token ids: ``output_ids``.
Cannot give
    Steps of a request: not drafted cannot be told from rejected, and the engine's rounds cannot be laid out. Match
    probabilities of single tokens. Experts of rejected tokens. The shape of the routing: rows follow from the tokens,
    the experts a token must be told (--top-k), and the number of experts a layer too (--num-experts). Times of rounds.
Layout
    https://docs.sglang.io/docs/basic_usage/openai_api_completions.md (logical shape (seqlen - 1 - start, layers,
    top_k), ``routed_experts_start_len`` an absolute prefix length). Rows are by input position, as SGLang's own test of
    routing under speculation reads them. -1 pads layers that route nothing; -1 anywhere else is refused.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from oracle.errors import Faults, InputError
from oracle.recorded_by.arrays import int32_in_base64
from oracle.recorded_by.request import (
    Request,
    Routing,
    choices_of,
    count_of,
    emitted_of,
    ids_of,
    labels_of,
    name_in,
    refuse_chunk,
    texts_of,
    texts_that_fit,
)

_EXTENSIONS = ("sglext", "sgl_ext")


def is_response(tree: Mapping[str, Any]) -> bool:
    """Whether a record looks like SGLang's."""
    return "meta_info" in tree or any(
        name in choice for _, choice in choices_of(tree) for name in (*_EXTENSIONS, "meta_info")
    )


def requests_in(tree: Mapping[str, Any], place: str, faults: Faults) -> Iterator[Request]:
    """Read one response: native, or of one request for each choice."""
    if refuse_chunk(tree, place, faults):
        return
    if isinstance(tree.get("meta_info"), Mapping):
        yield _native(tree, place, faults)
        return
    choices = list(choices_of(tree))
    if not choices:
        faults.add(f"{place}: holds neither meta_info nor choices; give SGLang's responses")
    usage = tree.get("usage")
    for i, choice in choices:
        at = f"{place}.choices[{i}]"
        extension: Mapping[str, Any] = next(
            (choice[name] for name in _EXTENSIONS if isinstance(choice.get(name), Mapping)), {}
        )
        told = count_of(usage, "completion_tokens", f"{place}.usage", faults) if len(choices) == 1 else None
        ids = ids_of(choice.get("output_ids", choice.get("token_ids")), "output_ids", at, faults)
        meta = choice.get("meta_info")
        emitted = emitted_of(told, ids, at, faults)
        yield Request(
            place=at,
            name=name_in(tree, i, len(choices)),
            prompt_tokens=count_of(usage, "prompt_tokens", f"{place}.usage", faults),
            emitted=emitted,
            labels=labels_of(tree, choice),
            token_id=ids,
            routing=_routing(extension.get("routed_experts"), tree, at, faults),
            metrics=_metrics(meta if isinstance(meta, Mapping) else extension),
        )


def _native(tree: Mapping[str, Any], place: str, faults: Faults) -> Request:
    meta = tree["meta_info"]
    at = f"{place}.meta_info"
    ids = ids_of(tree.get("output_ids"), "output_ids", place, faults)
    emitted = emitted_of(count_of(meta, "completion_tokens", at, faults), ids, place, faults)
    logprobs = meta.get("output_token_logprobs")
    triples = (
        logprobs if isinstance(logprobs, list) and all(isinstance(x, list) and len(x) > 2 for x in logprobs) else []
    )
    name = meta.get("id")
    return Request(
        place=place,
        name=name if isinstance(name, str) and name else None,
        prompt_tokens=count_of(meta, "prompt_tokens", at, faults),
        emitted=emitted,
        labels=labels_of(tree, meta),
        token_id=ids,
        token_text=texts_that_fit(texts_of([triple[2] for triple in triples]), emitted),
        routing=_routing(meta.get("routed_experts"), tree, at, faults),
        metrics=_metrics(meta),
    )


def _metrics(meta: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return meta if any(name.startswith("spec_") for name in meta) else None


def _routing(value: Any, tree: Mapping[str, Any], place: str, faults: Faults) -> Routing | None:
    if value is None:
        return None
    at = f"{place}.routed_experts"
    if not isinstance(value, str):
        faults.add(f"{at}: is no text; SGLang sends base64 of raw int32")
        return None
    try:
        return Routing(int32_in_base64(value, at), count_of(tree, "routed_experts_start_len", place, faults))
    except InputError as error:
        faults.add(str(error))
        return None
