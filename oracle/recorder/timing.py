"""Timing verification rounds: every draft length at every anchor, in random order, several times.

A pass here is the library's own at batch size 1: no server, no scheduler. Times of served rounds are longer. On a GPU
times come from CUDA events; no GPU has run that path yet, so check it against a profiler before relying on it.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from oracle.errors import InputError, InputWarning
from oracle.recorder import lookup
from oracle.recorder.chances import Choice
from oracle.recorder.loading import Models
from oracle.recorder.passes import cache_name
from oracle.recorder.settings import Settings
from oracle.recorder.unique import touched

Tokens = NDArray[np.int64]
_ROWS = 512
_MEASURED = ("target_ms", "draft_ms")


@dataclass(frozen=True, eq=False)
class Anchor:
    """Where rounds start.

    Attributes
    ----------
    context : (L,) int64
        Tokens in context, the pass's own input token last.
    chain : (K,) int64
        What is proposed there.
    """

    context: Tokens
    chain: Tokens


class Served:
    """A model that goes on from a fixed context again and again, by the library's own passes."""

    def __init__(self, model: Any, context: torch.Tensor) -> None:
        self._model = model
        self._named: dict[str, Any] = {cache_name(model): DynamicCache(config=model.config)}
        (self._cache,) = self._named.values()
        with torch.inference_mode():
            for begin in range(0, len(context), _ROWS):
                model.base_model(context[None, begin : begin + _ROWS], use_cache=True, **self._named)
        if hasattr(self._cache, "activate_past_recording"):
            self._cache.activate_past_recording()  # sliding layers forget nothing that is taken back

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Add rows; gives their logits, (n, vocabulary)."""
        with torch.inference_mode():
            logits: torch.Tensor = self._model(tokens[None, :], use_cache=True, **self._named).logits[0]
        return logits

    def take_back(self, rows: int) -> None:
        """Drop the last rows."""
        if rows:
            self._cache.crop(-rows)


class Sweep:
    """Times rounds at anchors.

    Parameters
    ----------
    models, settings
        What is timed, and how tokens are chosen.

    Attributes
    ----------
    k_max
        Longest draft, K.
    """

    def __init__(self, models: Models, settings: Settings) -> None:
        self._models = models
        self.k_max = settings.k_max
        self._settings = settings
        self._device = models.target.device
        random = torch.Generator(device=self._device)
        random.manual_seed(settings.seed)
        self._choice = Choice(settings.temperature, settings.decoding == "greedy", random)
        self._proposes = Choice(settings.temperature, settings.draft_is_greedy, random)

    def block(self, anchors: Sequence[Anchor], order: Sequence[tuple[int, int]]) -> Iterator[dict[str, float]]:
        """Time the rounds of one block.

        Parameters
        ----------
        anchors
            Whose caches are held at the same time.
        order
            (anchor, draft length) of each round, in the order of timing.

        Yields
        ------
        One round each: `target_ms`, `draft_ms`, `unique_experts`, `max_unique_experts`.
        """
        rounds = [_Rounds(self._models, self._settings, self._device, anchor) for anchor in anchors]
        counts = [each.unique() for each in rounds]
        for each in rounds:  # warm up, every length once at least
            for k in range(self.k_max + 1):
                self._measured(each, k)
        for at, k in order:
            target_ms, draft_ms = self._measured(rounds[at], k)
            layers = counts[at][k]
            yield {
                "target_ms": target_ms,
                "draft_ms": draft_ms,
                "unique_experts": float(layers.mean()) if len(layers) else 0.0,
                "max_unique_experts": float(layers.max()) if len(layers) else 0.0,
            }

    def _measured(self, rounds: "_Rounds", k: int) -> tuple[float, float]:
        draft_ms = 0.0 if k == 0 else _milliseconds(lambda: rounds.draft(k, self._proposes), self._device)
        rounds.undo_draft(k)
        target_ms = _milliseconds(lambda: rounds.verify(k, self._choice), self._device)
        rounds.target.take_back(k + 1)
        return target_ms, draft_ms


class _Rounds:
    """The rounds that start at one anchor."""

    def __init__(self, models: Models, settings: Settings, device: torch.device, anchor: Anchor) -> None:
        self._models = models
        self._settings = settings
        self._context = anchor.context
        context = torch.as_tensor(anchor.context, device=device)
        self._inputs = torch.cat([context[-1:], torch.as_tensor(anchor.chain, device=device)])
        self.target = Served(models.target, context[:-1])
        self._draft = Served(models.draft, context[:-1]) if models.draft is not None else None

    def unique(self) -> NDArray[np.int64]:
        """(M, layers) experts that the first m rows touch; no layers for a dense target."""
        routing = self._models.routing
        with routing:
            self.target.forward(self._inputs)
            ids = routing.take()
        self.target.take_back(len(self._inputs))
        if not routing.layers:
            return np.zeros((len(self._inputs), 0), np.int64)
        return touched(ids, routing.num_experts)

    def draft(self, k: int, choice: Choice) -> None:
        """Propose k tokens; every step has as input what the recorded chain holds."""
        if self._draft is None:
            lookup.proposals(self._context, k, self._settings.ngram or 1)
            return
        for step in range(k):
            logits = self._draft.forward(self._inputs[step : step + 1])
            choice.of(choice.unchecked(logits, self._models.vocabulary))

    def undo_draft(self, k: int) -> None:
        """Take the draft's rows back."""
        if self._draft is not None:
            self._draft.take_back(k)

    def verify(self, k: int, choice: Choice) -> None:
        """Let the target verify k proposed tokens in one pass, and choose its own."""
        logits = self.target.forward(self._inputs[: k + 1])
        choice.of(choice.unchecked(logits, self._models.vocabulary))


def check_clock(device: torch.device) -> None:
    """Say what is to be known of times on a device.

    Raises
    ------
    InputError
        One whose passes cannot be timed.
    """
    if device.type == "cuda":
        warnings.warn(
            "times on a GPU come from CUDA events, which have not been tried on one yet: compare them with a profiler",
            InputWarning,
            stacklevel=2,
        )
    elif device.type != "cpu":
        raise InputError(
            f"rounds cannot be timed on the device {device}, only on cpu and cuda; leave --timing-rounds out there"
        )


def _milliseconds(work: Callable[[], None], device: torch.device) -> float:
    if device.type != "cuda":
        begin = time.perf_counter()
        work()
        return (time.perf_counter() - begin) * 1e3
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize(device)
    begun.record()
    work()
    ended.record()
    torch.cuda.synchronize(device)
    return float(begun.elapsed_time(ended))


def medians(passes: pa.Table) -> pa.Table:
    """Join the repeats of a round to their medians.

    Parameters
    ----------
    passes
        One row a timed pass: `anchor`, `draft_length`, `order` and what was measured.

    Returns
    -------
    One row a round, in recording order; `round_index` is the `order` of the pass whose target time is the median (the
    lower one of two).
    """
    of: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in passes.to_pylist():
        of.setdefault((row["anchor"], row["draft_length"]), []).append(row)
    rounds = []
    for repeats in of.values():
        middle = median_low(row["target_ms"] for row in repeats)
        chosen = next(row for row in repeats if row["target_ms"] == middle)
        times = {name: float(np.median([row[name] for row in repeats])) for name in _MEASURED}
        rounds.append({**chosen, **times, "round_index": chosen["order"], "repeats": len(repeats)})
    rounds.sort(key=lambda row: int(row["round_index"]))
    kept = [field for field in passes.schema if field.name not in ("order", "anchor")]
    schema = pa.schema([*kept, pa.field("round_index", pa.int64()), pa.field("repeats", pa.int32())])
    return pa.Table.from_pylist(rounds, schema=schema)
