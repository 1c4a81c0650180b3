"""A latency model fitted on the experts of whole batches prices no single generation."""

import math

from oracle.changes.record import recorded
from oracle.costs import LengthCosts
from oracle.errors import InputError
from oracle.latency.model import LatencyModel
from oracle.traces import Traces

_ROUNDING = 0.02  # relative: what rounding of recorded means explains


def refuse_batch_unions(model: LatencyModel, traces: Traces, costs: LengthCosts) -> None:
    """Refuse a model whose rounds touched more experts than one request can.

    A request that verifies m positions touches at most m · top_k experts a layer. A batch touches the union of what
    its requests touch; priced at an alpha fitted on unions, the experts of one generation cost far too little, and
    drafts come out too cheap or too dear as the union grows with m more slowly.

    Parameters
    ----------
    model
        Of one batch size; what its fit does not record is not judged.
    traces
        A batch of generations, which tells top_k, or U(t, 0) of them.
    costs
        Of the draft lengths that are asked for; the others are not judged.

    Raises
    ------
    InputError
        Some m at which the rounds touched more.
    """
    top_k = _top_k(traces)
    if top_k is None:
        return
    told = recorded(model, "mean_unique_experts", costs.k_max)
    for m in (k + 1 for k in costs.lengths if costs.alpha_ms[k]):
        u, most = float(told[m - 1]), m * top_k
        if math.isfinite(u) and u > most * (1 + _ROUNDING):
            of = "" if model.batch_size is None else f" (batch size {model.batch_size})"
            raise InputError(
                f"{traces.source}: one request touches at most {most:.4g} experts a layer at m = {m} (top_k is "
                f"{top_k:.4g}), and the rounds behind the latency model{of} touched {u:.4g}: the union of a whole "
                "batch, or experts of another target. Its alpha does not price the experts of one generation. For a "
                "batch, ask `crossover`, which takes the union from the traces, or `recommend` with --acceptance and "
                "--step-times; for one request, fit rounds of this target at batch size 1"
            )


def _top_k(traces: Traces) -> float | None:
    """Experts that one position touches: as stated, or more as recorded; None for a dense target or no positions."""
    told = [] if traces.top_k is None else [float(traces.top_k)]
    if traces.unique_experts is not None and traces.positions:
        told.append(float(traces.unique_experts[:, 0].max()))
    return max(told, default=None)
