"""A request with its rows, rounds and tokens on the positions of a trace."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.acceptance.requests import STEPS
from oracle.errors import MOST_DRAFT_TOKENS, InputError
from oracle.recorded_by.alignment import INFER, context_start_of, emitting_rows, positions_of, whole_rounds
from oracle.recorded_by.request import Request

REQUEST = "request"
EMPIRICAL = "empirical"


@dataclass(frozen=True)
class Wanted:
    """What the caller says of the target and wants of the trace.

    Attributes
    ----------
    num_experts, top_k, layers
        Of the target; None where not told. Layers are all hidden ones, dense ones among them.
    dense_layers
        Layers that route nothing; None: those that read so throughout.
    dense_target
        Whether the target has no experts at all.
    routing_start
        Input token of the first row of routing; None for 0 or what the record says, `INFER` from the number of rows.
    prompt_tokens
        Tokens of a prompt where the record does not say.
    by
        What match probabilities are told apart by: `category`, `tenant`, `request`.
    match
        `empirical`, or one of `scored_text.KINDS`.
    """

    num_experts: int | None = None
    top_k: int | None = None
    dense_layers: tuple[int, ...] | None = None
    dense_target: bool = False
    routing_start: int | None = None
    prompt_tokens: int | None = None
    by: tuple[str, ...] = ()
    match: str = EMPIRICAL
    layers: int | None = None


@dataclass(frozen=True, eq=False)
class Aligned:
    """One generation.

    Attributes
    ----------
    name
        Its id, made up from its number where the engine gave none.
    positions, context_start
        N, and tokens in context at position 0.
    rows : (N, layers, slots) or None
        Expert ids of the passes that emit each position, dense layers still in.
    accepted, drafted : (R,) int64 or None
        The engine's steps; None where it does not tell them.
    whole
        Whether the steps make up the text, so that they can be laid out as logged rounds.
    """

    request: Request
    name: str
    positions: int
    context_start: int
    rows: NDArray[Any] | None
    accepted: NDArray[np.int64] | None
    drafted: NDArray[np.int64] | None
    whole: bool

    @property
    def prompt_tokens(self) -> int:
        """P."""
        return self.context_start - 1

    @property
    def cluster(self) -> str:
        """The unit of resampling."""
        return self.request.labels.get("cluster", self.name)

    def context(self, by: tuple[str, ...]) -> tuple[str, ...]:
        """What its match probabilities are told apart by."""
        labels = self.request.labels
        return tuple(self.name if name == REQUEST else labels.get(name, "–") for name in by)


def aligned(request: Request, number: int, wanted: Wanted) -> Aligned:
    """Put a request on positions.

    Parameters
    ----------
    number
        Of the request among all, from 1 on.

    Raises
    ------
    InputError
        It does not say how long prompt or text are, or its parts contradict one another.
    """
    prompt = wanted.prompt_tokens if request.prompt_tokens is None else request.prompt_tokens
    emitted = request.emitted
    if prompt is None:
        raise InputError(f"{request.place}: does not say how many tokens the prompt had; say it with --prompt-tokens")
    if emitted is None:
        raise InputError(
            f"{request.place}: does not say how many tokens were emitted; record usage.completion_tokens or the token "
            "ids"
        )
    positions = positions_of(emitted)
    steps = _steps(request.metrics)
    whole = steps is not None and whole_rounds(steps[0], positions, request.place)
    return Aligned(
        request=request,
        name=request.name or f"request-{number}",
        positions=positions,
        context_start=context_start_of(prompt),
        rows=_rows(request, prompt, emitted, wanted),
        accepted=None if steps is None else steps[0],
        drafted=None if steps is None else steps[1],
        whole=whole,
    )


def _steps(metrics: Mapping[str, Any] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Steps, where both lists are there and hold numbers of draft tokens; wrong ones are noted with the counts."""
    lists = [metrics.get(name) for name in STEPS] if metrics is not None else []
    if len(lists) < 2 or not all(isinstance(each, list) for each in lists):
        return None
    if not all(type(count) is int and 0 <= count <= MOST_DRAFT_TOKENS for each in lists for count in each or ()):
        return None
    accepted, drafted = (np.array(each, dtype=np.int64) for each in lists)
    return (accepted, drafted) if accepted.shape == drafted.shape else None


def _rows(request: Request, prompt: int, emitted: int, wanted: Wanted) -> NDArray[Any] | None:
    if request.routing is None:
        return None
    values, place = request.routing.values, f"{request.place}.routed_experts"
    start = request.routing.start if wanted.routing_start is None else wanted.routing_start
    if values.ndim == 1:
        passes = prompt + emitted - 1 - (start or 0)
        if start == INFER or wanted.top_k is None:
            raise InputError(
                f"{place}: a flat array does not say its shape; say --top-k, and --routing-start as a number if the "
                "server left prompt rows out"
            )
        layers, rest = divmod(values.size, max(passes, 1) * wanted.top_k)
        if rest or (passes > 0) != (layers > 0):
            raise InputError(
                f"{place}: {values.size} ids are no whole number of layers for {passes} rows (one fewer than the "
                f"{prompt + emitted} tokens, from token {start or 0} on) of top-{wanted.top_k}; is --top-k right, or "
                "a row missing?"
            )
        values = values.reshape(max(passes, 0), layers, wanted.top_k)
    if wanted.top_k is not None and values.shape[2] != wanted.top_k:
        raise InputError(f"{place}: has {values.shape[2]} experts a token; --top-k says {wanted.top_k}")
    if wanted.layers is not None and values.shape[1] != wanted.layers:
        raise InputError(
            f"{place}: has {values.shape[1]} layers; --layers says {wanted.layers} (all hidden layers, dense ones "
            "among them): is one of the two wrong, or --top-k?"
        )
    return emitting_rows(values, prompt, emitted, start, place)
