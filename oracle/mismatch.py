"""Where the traces and the latency model do not fit together, in words."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oracle.analysis import BatchResult
from oracle.changes.record import recorded
from oracle.costs import LengthCosts
from oracle.latency.model import LatencyModel

FEW_CLUSTERS = 10
_APART = 0.02  # relative difference of U at m = 1 that rounding does not explain


def notes_on(
    model: LatencyModel,
    costs: LengthCosts,
    results: Sequence[BatchResult],
    *,
    experts_from: str,
    clusters: int,
) -> Iterator[str]:
    """Say what a reader of a study must know, one sentence each.

    Parameters
    ----------
    model, costs
        The latency model and the costs solved for.
    results
        What came out of the batches.
    experts_from
        Where U comes from.
    clusters
        Clusters that intervals were resampled from; 0 if nothing was resampled.
    """
    fit: Mapping[str, Any] = model.fit or {}
    if experts_from == "none" and costs.alpha_ms.any():
        yield (
            "the traces hold no expert columns, so experts cost nothing here, although the latency model prices them: "
            "right for a dense target only"
        )
    longest = max(result.longest_context for result in results)
    counts = fit.get("counts")
    measured = counts.get("longest_context") if isinstance(counts, Mapping) else None
    if isinstance(measured, int | float) and longest > measured:
        yield (
            f"the traces reach a context of {longest:,.0f} tokens, the model was fitted up to {measured:,.0f}: "
            "the cost of context is extrapolated beyond"
        )
    yield from _on_first_experts(model, results)
    if 2 <= clusters < FEW_CLUSTERS:
        yield f"{clusters} clusters only: bootstrap intervals from so few are too narrow to be trusted"


def _on_first_experts(model: LatencyModel, results: Sequence[BatchResult]) -> Iterator[str]:
    """Compare U at m = 1, which is top_k in every round of one target, with what the model was fitted on."""
    fitted = float(recorded(model, "mean_unique_experts", 0)[0])
    positions = sum(result.positions for result in results)
    if math.isnan(fitted) or not positions:
        return
    here = sum(result.first_unique_sum for result in results) / positions
    if here > 0 and abs(here - fitted) > _APART * fitted:
        yield (
            f"one position touches {here:.3g} experts a layer in the traces and {fitted:.3g} in the rounds the "
            "model was fitted on: are they of one target?"
        )
