"""The one door to all engines: a draft length or a schedule in, text to paste out.

The rules were checked with vLLM 0.33, SGLang 0.5.23, TensorRT-LLM 1.2 and after, llama.cpp of autumn 2026,
transformers 5.24 and mlx-lm. A request that an engine cannot carry out is refused, never bent.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from oracle.engines import batched, single
from oracle.engines.request import VERSION, Request
from oracle.engines.schedule import Ranges, Schedule, schedule_of
from oracle.errors import Faults, InputError, printable


@dataclass(frozen=True)
class _Engine:
    """How an engine's configuration is written, and what it was checked with.

    Attributes
    ----------
    write
        Writes the configuration.
    checked
        What it was checked with, in words.
    release, later
        The same as major and minor number, None where it has none; and whether later ones are as well.
    version, example
        Form of its versions, and one.
    takes_no
        Options that have no place in its configuration.
    """

    write: Callable[[Request], str]
    checked: str
    release: tuple[int, int] | None
    example: str
    later: bool = False
    version: re.Pattern[str] = VERSION
    takes_no: tuple[str, ...] = ()


_BUILD = re.compile(r"b?\d+", re.ASCII)
_ENGINES: Mapping[str, _Engine] = {
    "vllm": _Engine(batched.vllm, "vLLM 0.33", (0, 33), "0.33.0"),
    "sglang": _Engine(batched.sglang, "SGLang 0.5.23", (0, 5), "0.5.23"),
    "trtllm": _Engine(batched.trtllm, "TensorRT-LLM 1.2 and after", (1, 2), "1.2.0", later=True),
    "llamacpp": _Engine(single.llamacpp, "llama.cpp of autumn 2026", None, "b9999", version=_BUILD),
    "transformers": _Engine(
        single.transformers, "transformers 5.24", (5, 24), "5.24.0", takes_no=("--method", "--draft-model")
    ),
    "mlx": _Engine(single.mlx, "mlx-lm of autumn 2026", None, "0.28.0", takes_no=("--method",)),
}
ENGINES = tuple(_ENGINES)


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
        An unknown engine, a request it cannot carry out, a version or a text that cannot be read.
    """
    if engine not in _ENGINES:
        raise InputError(f"{printable(engine)!r} is not a known engine; known: {', '.join(ENGINES)}")
    request = Request(
        schedule_of(setting), version, method, draft_model, data_parallel, most_draft_tokens, max_batch_size
    )
    known = _ENGINES[engine]
    _check(request, known)
    text = known.write(request)
    if request.schedule.longest == 0:
        return text
    return "".join(f"# {remark}\n" for remark in _remarks(request, known)) + text


def _check(request: Request, known: _Engine) -> None:
    """Refuse what no engine could be given."""
    faults = Faults()
    for option, text in (("--method", request.method), ("--draft-model", request.draft_model)):
        if text is not None and (not text.strip() or not text.isprintable()):
            faults.add(f"{option} is {printable(text)!r}; it is a text without control characters, and not empty")
    if request.version is not None and known.version.fullmatch(request.version) is None:
        faults.add(
            f"--engine-version: version {printable(request.version)!r} cannot be read; give it like {known.example}"
        )
    last = request.schedule.steps[-1]
    if request.max_batch_size is not None and len(request.schedule.steps) > 1 and request.max_batch_size < last.first:
        faults.add(
            f"--max-batch-size is {request.max_batch_size}, and K = {last.draft_length} starts at batch size "
            f"{last.first} only; raise it to at least {last.first}, or leave larger batch sizes out"
        )
    faults.raise_if_any()


def _remarks(request: Request, known: _Engine) -> Iterator[str]:
    """Say what the text was checked with, and which options changed nothing in it."""
    if request.version is not None:
        release = request.release(known.checked) if known.release is not None else None
        same = release == known.release or (known.later and (release or ()) > (known.release or ()))
        same = same and release is not None
        yield f"checked with {known.checked}" + ("" if same else f"; see that {request.version} knows these options")
    given = {"--method": request.method, "--draft-model": request.draft_model}
    unused = [option for option in known.takes_no if given[option] is not None]
    if unused:
        verb = "has" if len(unused) == 1 else "have"
        yield f"{' and '.join(unused)} {verb} no place here: name the draft model where it is loaded"
    if request.max_batch_size is not None and request.schedule.fixed is not None:
        yield "one K for all batch sizes: --max-batch-size changes nothing"
