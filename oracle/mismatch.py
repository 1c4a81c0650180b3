"""Where the traces and the latency model do not fit together, in words."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from oracle.changes.record import recorded
from oracle.costs import LengthCosts
from oracle.intervals import FEW_CLUSTERS
from oracle.latency.model import LatencyModel
from oracle.resampling import NO_INTERVALS
from oracle.traces.schema import GREEDY_OVERLAP

_APART = 0.02  # relative difference of U at m = 1 that rounding does not explain


class Seen(Protocol):
    """What was seen of traces: a batch's result, or the sums of many."""

    @property
    def positions(self) -> int:
        """How many there were."""

    @property
    def match_kinds(self) -> frozenset[str]:
        """What the match probabilities are."""

    @property
    def longest_context(self) -> float:
        """Largest L(t), tokens."""

    @property
    def first_unique_sum(self) -> float:
        """Sum of U(t, 0) over the positions."""


def notes_on(
    model: LatencyModel,
    costs: LengthCosts,
    results: Sequence[Seen],
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
            "right for a dense target only; no beta0 is refitted, since the mean U of a mixture's rounds is not theirs"
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
    if experts_from != "none":
        yield from _on_whose_experts(model, costs)
        yield from _on_odd_experts(costs)
    yield from on_match_kinds(frozenset().union(*(result.match_kinds for result in results)))
    if 2 <= clusters < FEW_CLUSTERS:
        yield f"{clusters} clusters only: bootstrap intervals from so few are too narrow to be trusted"


def on_match_kinds(kinds: Collection[str]) -> Iterator[str]:
    """Say what match probabilities that are not those of each position bias, and in which direction.

    Averages: let a context be what the averages tell apart (depth; category, tenant, previous round). A static length
    spends N / E[A] rounds on N tokens, and the mean of measured survival *is* E[A], so at the measured length its cost
    is right. The optimum over averages is the best policy that knows the context alone; a policy that knows each
    position's probability can do whatever that one does, so its cost is at most as high: E[min_k Q] ≤ min_k E[Q].
    """
    if "empirical" in kinds:
        yield (
            "match probabilities are averages (match_kind empirical): a static length is priced right in the mean at "
            "the draft length they were measured at; the oracle sees only what the averages tell apart, so its cost "
            "is too high, and its gain, the regret of static lengths and what adaptive policies gain are lower "
            "bounds, but for sampling error; how match probability goes with unique experts is not in them, so shifts "
            "by alpha can be off either way"
        )
        yield NO_INTERVALS
    if GREEDY_OVERLAP in kinds:
        yield (
            "match probabilities of greedy texts are overlaps Σ min(p, q): what rejection sampling would accept; a "
            "greedy engine accepts by equality, so costs with a draft are those of sampling, and may be far off for it "
            "(record --match greedy; `policies` compares the two where tokens were recorded)"
        )
    if "overlap_lower" in kinds:
        yield "match probabilities are lower bounds (match_kind overlap_lower): costs with a draft come out too high"
    if "overlap_upper" in kinds:
        yield "match probabilities are upper bounds (match_kind overlap_upper): costs with a draft come out too low"
    if "reference" in kinds:
        yield (
            "match probabilities are the draft's probability of the emitted token (match_kind reference): right for a "
            "draft that samples and is verified by equality; rejection sampling accepts more often"
        )


def _on_first_experts(model: LatencyModel, results: Sequence[Seen]) -> Iterator[str]:
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


def _on_whose_experts(model: LatencyModel, costs: LengthCosts) -> Iterator[str]:
    """Say where nothing tells whether alpha prices the experts of one request or of a batch."""
    told = recorded(model, "mean_unique_experts", costs.k_max)
    if (model.batch_size or 1) > 1 and costs.alpha_ms.any() and not any(math.isfinite(u) for u in told):
        yield (
            f"the latency model is of batch size {model.batch_size} and does not tell whose experts its alpha prices: "
            "here those of one request; if it was fitted on those that a batch touches, ask `crossover`"
        )


def _on_odd_experts(costs: LengthCosts) -> Iterator[str]:
    """Say where experts save time, and where nothing would be left of a price without them: blind is then no policy."""
    falling = [k + 1 for k in costs.lengths if costs.alpha_ms[k] < 0]
    if falling:
        yield (
            f"alpha is negative at m = {', '.join(map(str, falling))}: more experts cannot take less time, so what is "
            "said of drafts there rests on rounds that are too few or too noisy"
        )
    free = [k for k in costs.lengths if costs.alpha_ms[k] and costs.base_ms[k] <= 0]
    if free:
        listed = ", ".join(map(str, free))
        yield (
            f"without its experts a round of k = {listed} would cost nothing or less in a short context: the fit is a "
            "line that holds near the experts it was measured with, and what is said of costs without them (blind, "
            "experts=0) means nothing there"
        )


def of_one_request(model: LatencyModel) -> Iterator[str]:
    """Say whose times are shown where rounds serve several requests."""
    if (model.batch_size or 1) > 1:
        yield (
            f"batch size {model.batch_size}: ms/token and tokens/s are of one request; the batch emits "
            f"{model.batch_size} times as many tokens/s"
        )
