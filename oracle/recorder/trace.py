"""A recorded generation as one row of a trace."""

from typing import Any

import numpy as np
import pyarrow as pa

from oracle.recorder.loading import Models
from oracle.recorder.sequence import Generation
from oracle.recorder.settings import Settings
from oracle.traces import Traces
from oracle.traces.lists import bytes_array, list_array, rows_array


def trace_of(models: Models, settings: Settings, made: Generation, labels: tuple[str, ...]) -> Traces:
    """Lay a generation out as a trace of one row.

    Parameters
    ----------
    labels
        Which of category and tenant the trace has.
    """
    prompt, proposed = made.prompt, made.proposed
    count = len(made.emitted)
    columns: dict[str, Any] = {
        "generation": pa.array([prompt.id]),
        **{name: pa.array([getattr(prompt, name)], pa.string()) for name in labels},
        "cluster": pa.array([prompt.cluster or prompt.id]),
        "decoding": pa.array([settings.decoding]),
        "match_kind": pa.array([settings.match_kind]),
        "context_start": pa.array([len(made.context)], pa.int32()),
        "token_id": _one(count, pa.array(made.emitted, pa.int32())),
        "token_text": _one(count, pa.array([models.text_of(int(token)) for token in made.emitted], pa.string())),
    }
    if proposed.match.ndim == 1:
        columns["match_prob"] = _one(count, pa.array(proposed.match))
    else:
        columns["match_probs"] = _one(count, rows_array(proposed.match))
    if proposed.draft_prob is not None:
        columns["draft_prob"] = _one(count, pa.array(proposed.draft_prob))
    chains = [chain.tolist() for chain in proposed.chains]
    columns["draft_token_id"] = pa.array([chains], pa.list_(pa.list_(pa.int32())))
    texts = [[models.text_of(token) for token in chain] for chain in chains]
    columns["draft_text"] = pa.array([texts], pa.list_(pa.list_(pa.string())))
    if made.unique is not None:
        columns |= _of_experts(models, made)
    columns["context_token_id"] = _one(len(made.context), pa.array(made.context, pa.int32()))
    return Traces.from_arrow(pa.table(columns), f"generation '{prompt.id}'")


def _of_experts(models: Models, made: Generation) -> dict[str, pa.Array]:
    routing = models.routing
    count = len(made.emitted)
    sizes = {"layers": routing.layers, "top_k": routing.top_k, "num_experts": routing.num_experts}
    assert made.unique is not None
    return {
        **{name: pa.array([size], pa.int32()) for name, size in sizes.items()},
        "experts": _one(count, bytes_array(made.experts)),
        "unique_experts": _one(count, rows_array(made.unique)),
    }


def _one(count: int, items: pa.Array) -> pa.Array:
    """Make the items the only list of a column."""
    return list_array(np.array([0, count]), items)
