"""The prices that a crossover rests on where they were not measured, in words.

Two of them are easily mixed up. The *price of a further token* adds to every token of a pass, besides its experts. The
*compute floor* of a token hides behind the reading of experts until all tokens' compute takes longer than that.
"""

from collections.abc import Sequence

from oracle.crossover.answer import Crossover
from oracle.crossover.context_growth import context_growth
from oracle.crossover.costs import ASSUMED, BETWEEN, EXTRAPOLATED, Scaling, draft_request, token_slope
from oracle.latency.model import LatencyModel


def assumptions(answer: Crossover, model: LatencyModel) -> list[str]:
    """Say on what prices rest that were not measured."""
    basis = answer.costs.basis[:, list(answer.lengths)]
    said = []
    if (basis == ASSUMED).any():
        said.append(f"assumed: a K = 0 round has a base time of {answer.scaling.off_ms:g} ms (--off-ms); measure it")
    if (basis == BETWEEN).any():
        said.append("between two measured batch sizes coefficients lie on a straight line, which cost need not follow")
    if not (basis == EXTRAPOLATED).any():
        return said
    blocks = model.blocks
    measured = ", ".join(str(block.batch_size or 1) for block in blocks)
    by = "number of tokens in the pass" if answer.scaling.by == "tokens" and len(blocks) == 1 else "draft length"
    said.append(
        f"extrapolated: batch size {measured} was timed; beyond it beta0 and alpha go by the {by}; "
        f"{prices(answer, model)}"
    )
    said.append(
        "this shows where to measure, not what would be measured: time rounds at such batch sizes and fit again"
    )
    return said


def prices(answer: Crossover, model: LatencyModel) -> str:
    """Say the four prices of what was not timed: further tokens, compute, context, drafting."""
    scaling, blocks = answer.scaling, model.blocks
    slope = token_slope(blocks[-1]) if scaling.token_ms is None else scaling.token_ms
    origin = "slope of beta0 in the model" if scaling.token_ms is None else "--token-ms"
    if scaling.token_ms is None and len(blocks) > 1:
        origin = "slope of beta0 within the largest batch size; between the two largest where both have the m"
    floor = f"{scaling.floor_ms:g} ms, behind its experts" if scaling.floor_ms else "none"
    return (
        f"price of a further token: {slope:.4g} ms besides its experts ({origin}); compute floor of a token: {floor} "
        f"(--floor-ms); a token of context of a further request takes {_context(model, scaling, answer.lengths)}; "
        f"drafting takes {_drafting(model, scaling, answer.lengths)}"
    )


def _context(model: LatencyModel, scaling: Scaling, lengths: Sequence[int]) -> str:
    """Say what reading a token of context of a further request takes, and where that is from."""
    if scaling.kv_read_ms is not None:
        return f"{scaling.kv_read_ms:g} ms"
    told = [each for k in lengths if (each := context_growth(model, k)) is not None]
    if not told:
        return "nothing (--kv-read-ms)"
    least, most = min(told, key=lambda each: each.ms), max(told, key=lambda each: each.ms)
    sizes = ", ".join(map(str, most.batch_sizes))
    takes = f"{most.ms:.3g} ms" if least.ms == most.ms else f"{least.ms:.3g} to {most.ms:.3g} ms by K"
    if most.slope_ms < 0:
        return f"nothing: c falls over the batch sizes measured ({sizes}), and reading takes no negative time"
    if least.ms == most.ms and most.interval is not None:
        takes += f" [{max(0.0, most.interval.low):.3g}; {most.interval.high:.3g}]"
    unknown = "" if most.interval is not None else ", no interval: the model file keeps no errors"
    return f"{takes}, the slope of c over the batch sizes measured ({sizes}){unknown}"


def _drafting(model: LatencyModel, scaling: Scaling, lengths: Sequence[int]) -> str:
    """Say what drafting for a further request takes, and where that is from."""
    each = [draft_request(model, k, scaling) for k in lengths if k]
    if not max(each, default=0.0):
        told = "as far as was measured" if len(model.blocks) > 1 and scaling.draft_request_ms is None else ""
        return f"no longer for more requests{told and f', {told}'} (--draft-request-ms)"
    takes = f"{min(each):.3g}" + ("" if min(each) == max(each) else f" to {max(each):.3g}")
    origin = "the two largest batch sizes measured" if scaling.draft_request_ms is None else "--draft-request-ms"
    return f"{takes} ms a token for each further request ({origin}) more"
