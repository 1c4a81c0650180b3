"""Which reader a record belongs to."""

from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from oracle.errors import Faults, InputError, printable
from oracle.recorded_by import aiperf, llama_cpp, sglang, tensorrt_llm, timings, vllm
from oracle.recorded_by.request import Request

READERS: Mapping[str, ModuleType] = {
    "vllm": vllm,
    "sglang": sglang,
    "trtllm": tensorrt_llm,
    "llamacpp": llama_cpp,
    "aiperf": aiperf,
}
# Most particular first: AIPerf's records and TensorRT-LLM's choices can also hold keys of the others.
_ORDER = ("aiperf", "llamacpp", "sglang", "trtllm", "vllm")
Reader = Callable[[Mapping[str, Any], str, Faults], Iterator[Request]]


def explanation(engine: str) -> str:
    """What a reader can and cannot give, and where the layout is documented."""
    return (READERS[engine].__doc__ or "").strip()


def engine_of(tree: Any, place: str) -> str:
    """Which engine's record it is.

    Raises
    ------
    InputError
        None that is known.
    """
    if isinstance(tree, Mapping):
        if timings.is_bench_forward(tree):
            return "vllm"
        for name in _ORDER:
            if READERS[name].is_response(tree):
                return name
        if isinstance(tree.get("choices"), list):
            return "vllm"  # a plain OpenAI-compatible response: tokens, and nothing of speculation
    keys = ", ".join(printable(key, 30) for key in list(tree)[:12]) if isinstance(tree, Mapping) else "no object"
    raise InputError(
        f"{place}: is no record of a known engine ({keys}); say which with --from ({', '.join(READERS)}), and see "
        "--explain ENGINE for what is read"
    )


def refuse_others(tree: Any, engine: str, place: str) -> None:
    """Refuse a record that is plainly another engine's than the one named.

    Raises
    ------
    InputError
        The named engine's reader does not know it, and another does.
    """
    if not isinstance(tree, Mapping) or READERS[engine].is_response(tree):
        return
    others = [name for name in _ORDER if READERS[name].is_response(tree)]
    if others:
        raise InputError(f"{place}: is a record of {others[0]}, but --from says {engine}; correct it, or leave it out")


def reader_of(engine: str) -> Reader:
    """The function that reads one record of an engine."""
    reader: Reader = READERS[engine].requests_in
    return reader
