"""TensorRT-LLM: per-request statistics of speculative decoding in OpenAI-compatible responses.

Can give
    Accepted tokens of each request, as survival by position: ``choices[].speculative_decoding`` {acceptance_rate,
    total_accepted_draft_tokens, total_draft_tokens, acceptance_histogram, num_spec_steps, num_spec_tokens}. With
    ``usage``, the number of positions.
Cannot give
    Routing: a trace of a mixture-of-experts target cannot be made of it (of a dense target it can: --dense), and
    neither can steps, rounds, times, match probabilities of single tokens, or token ids.
Layout
    As the adapters of https://docs.nvidia.com/aiperf/reference/per-request-speculative-decoding-acceptance read it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from oracle.errors import Faults
from oracle.recorded_by.request import Request, choices_of, count_of, labels_of, name_in, refuse_chunk

_KEY = "speculative_decoding"


def is_response(tree: Mapping[str, Any]) -> bool:
    """Whether a record looks like TensorRT-LLM's."""
    return any(isinstance(choice.get(_KEY), Mapping) for _, choice in choices_of(tree))


def requests_in(tree: Mapping[str, Any], place: str, faults: Faults) -> Iterator[Request]:
    """Read one response, of one request for each choice; `usage` counts the tokens of a response with one."""
    if refuse_chunk(tree, place, faults):
        return
    choices = list(choices_of(tree))
    usage = tree.get("usage")
    for i, choice in choices:
        metrics = choice.get(_KEY)
        told = count_of(usage, "completion_tokens", f"{place}.usage", faults) if len(choices) == 1 else None
        yield Request(
            place=f"{place}.choices[{i}]",
            name=name_in(tree, i, len(choices)),
            prompt_tokens=count_of(usage, "prompt_tokens", f"{place}.usage", faults),
            emitted=told,
            labels=labels_of(tree, choice),
            metrics=metrics if isinstance(metrics, Mapping) else None,
        )
