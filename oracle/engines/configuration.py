"""The one door to all engines: a draft length or a schedule in, text to paste out.

The rules were checked with vLLM 0.33, SGLang 0.5.23, TensorRT-LLM 1.2 and after, llama.cpp of autumn 2026,
transformers 5.24 and mlx-lm. A request that an engine cannot carry out is refused, never bent.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from oracle.engines import batched, single
from oracle.engines.request import Request
from oracle.engines.schedule import Ranges, Schedule, schedule_of
from oracle.errors import InputError, printable

_WRITERS: Mapping[str, Callable[[Request], str]] = {
    "vllm": batched.vllm,
    "sglang": batched.sglang,
    "trtllm": batched.trtllm,
    "llamacpp": single.llamacpp,
    "transformers": single.transformers,
    "mlx": single.mlx,
}
ENGINES = tuple(_WRITERS)


def configuration(
    engine: str,
    setting: "int | Literal['off'] | Ranges | Schedule",
    version: str | None = None,
    *,
    method: str | None = None,
    draft_model: str | None = None,
    data_parallel: int = 1,
    most_draft_tokens: int | None = None,
    max_batch_size: int | None = None,
) -> str:
    """Write a draft length, or a schedule by batch size, as an engine's configuration.

    Parameters
    ----------
    engine
        One of `ENGINES`.
    setting
        A draft length K, ``off`` (the same as 0), or a list of ((first, last), K); see `schedule_of`.
    version
        Of the engine, like ``1.2.0``. TensorRT-LLM needs it for a schedule, whose meaning changed after 1.2.
    method
        How drafts are made, in the engine's own word; a word in capitals stands in its place if it is not given.
    draft_model
        Path or name of the draft model; left out if not given.
    data_parallel
        Replicas that one engine keeps in step.
    most_draft_tokens
        The engine's own maximum (vLLM ``num_speculative_tokens``); the largest K of the schedule if not given.
    max_batch_size
        Where a schedule without an end stops, for engines that need an end.

    Returns
    -------
    Text to paste, ending in a line break; lines that start with ``#`` are remarks.

    Raises
    ------
    InputError
        An unknown engine, a request it cannot carry out, or a version that cannot be read.
    """
    if engine not in _WRITERS:
        raise InputError(f"{printable(engine)!r} is not a known engine; known: {', '.join(ENGINES)}")
    request = Request(
        schedule_of(setting), version, method, draft_model, data_parallel, most_draft_tokens, max_batch_size
    )
    return _WRITERS[engine](request)
