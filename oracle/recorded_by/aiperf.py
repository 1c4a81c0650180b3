"""AIPerf: engine-neutral records of speculative decoding, one a request (SpecDecodeAcceptanceRecord).

Can give
    Accepted tokens of each request: ``acceptance_histogram`` (sparse, as survival), and each step where the engine
    reports it (``per_step_accepted``, ``per_step_drafted``: vLLM's detailed metrics). ``completion_tokens``. The record
    may stand alone or under ``spec_decode_acceptance``; ``metadata`` beside it may name the request.
Cannot give
    Routing, token ids, times of rounds, match probabilities of single tokens. It makes a trace of a dense target only
    (--dense). The length of the prompt is not in the record itself: it is read from ``metrics.input_sequence_length``
    where that stands beside it; else --prompt-tokens says it.
Layout
    https://docs.nvidia.com/aiperf/reference/per-request-speculative-decoding-acceptance ; that the record stands under
    that name in exported JSON lines is an assumption (the parsed record holds it so).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from oracle.errors import Faults
from oracle.recorded_by.request import Request, count_of, labels_of

_KEY = "spec_decode_acceptance"
_NAMES = ("x_request_id", "request_id", "id")


def is_response(tree: Mapping[str, Any]) -> bool:
    """Whether a record looks like AIPerf's."""
    return _KEY in tree or ("engine" in tree and "num_spec_steps" in tree)


def requests_in(tree: Mapping[str, Any], place: str, faults: Faults) -> Iterator[Request]:
    """Read one record."""
    record = tree.get(_KEY, tree)
    if not isinstance(record, Mapping):
        return  # null: the request was answered without speculation
    metadata = tree.get("metadata")
    about: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else tree
    name = next((about[key] for key in _NAMES if isinstance(about.get(key), str)), None)
    metrics = tree.get("metrics")
    prompt = metrics.get("input_sequence_length") if isinstance(metrics, Mapping) else None
    value = prompt.get("value") if isinstance(prompt, Mapping) else prompt
    yield Request(
        place=place,
        name=name,
        prompt_tokens=count_of({"input_sequence_length": value}, "input_sequence_length", place, faults),
        emitted=count_of(record, "completion_tokens", place, faults),
        labels=labels_of(tree, about),
        metrics=record,
    )
