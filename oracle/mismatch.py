"""Where the traces and the latency model do not fit together, in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oracle.analysis import BatchResult
from oracle.costs import LengthCosts, fitted_mean_unique
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
    sources = fit.get("alpha_source")
    if 0 in costs.lengths and isinstance(sources, list) and sources and str(sources[0]).startswith("borrowed"):
        yield (
            f"alpha at m = 1 is {sources[0]}: only beta0 + alpha · U was measured there, so what taking the "
            "experts out does at the boundary 0 → 1 rests on that loan"
        )
    ablated = any(result.shifts is not None for result in results)
    if ablated and costs.alpha_ms.any() and fitted_mean_unique(model, costs.k_max, costs.lengths) is None:
        yield "the model file does not tell the mean U of its rounds: no ablation with beta0 refitted"
    if 2 <= clusters < FEW_CLUSTERS:
        yield f"{clusters} clusters only: bootstrap intervals from so few are too narrow to be trusted"


def _on_first_experts(model: LatencyModel, results: Sequence[BatchResult]) -> Iterator[str]:
    """Compare U at m = 1, which is top_k in every round of one target, with what the model was fitted on."""
    fitted = fitted_mean_unique(model, 0, (0,))
    positions = sum(result.positions for result in results)
    if fitted is None or not positions:
        return
    here = sum(result.first_unique_sum for result in results) / positions
    if here > 0 and abs(here - fitted[0]) > _APART * fitted[0]:
        yield (
            f"one position touches {here:.3g} experts a layer in the traces and {fitted[0]:.3g} in the rounds the "
            "model was fitted on: are they of one target?"
        )
