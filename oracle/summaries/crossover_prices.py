"""The prices that a crossover rests on where they were not measured, in words.

Two of them are easily mixed up. The *price of a further token* adds to every token of a pass, besides its experts. The
*compute floor* of a token hides behind the reading of experts until all tokens' compute takes longer than that.
"""

from collections.abc import Sequence

from oracle.crossover.answer import Crossover
from oracle.crossover.context_growth import context_growth
from oracle.crossover.costs import ASSUMED, BETWEEN, EXTRAPOLATED, Scaling, draft_request
from oracle.crossover.token_price import token_price
from oracle.latency.model import LatencyModel


def assumptions(answer: Crossover, model: LatencyModel) -> list[str]:
    """Say on what prices rest that were not measured."""
    basis = answer.costs.basis[:, list(answer.lengths)]
    said = doubts(model)
    if (basis == ASSUMED).any():
        said.append(f"assumed: a K = 0 round has a base time of {answer.scaling.off_ms:g} ms (--off-ms); measure it")
    if (basis == BETWEEN).any():
        said.append("between two measured batch sizes coefficients lie on a straight line, which cost need not follow")
    if not (basis == EXTRAPOLATED).any():
        return said
    blocks = model.blocks
    measured = ", ".join(str(block.batch_size or 1) for block in blocks)
    one = len(blocks) == 1 and (blocks[0].batch_size or 1) == 1
    by = "number of tokens in the pass" if answer.scaling.by == "tokens" and one else "draft length"
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
    scaling = answer.scaling
    floor = f"{scaling.floor_ms:g} ms, behind its experts" if scaling.floor_ms else "none"
    return (
        f"price of a further token: {_token(model, scaling, answer.lengths)}; compute floor of a token: {floor} "
        f"(--floor-ms); a token of context of a further request takes {_context(model, scaling, answer.lengths)}; "
        f"drafting takes {_drafting(model, scaling, answer.lengths)}"
    )


def doubts(model: LatencyModel) -> list[str]:
    """Say which coefficients cannot be the time of anything."""
    said = []
    for block in model.blocks:
        at = f"batch size {block.batch_size}, " if len(model.blocks) > 1 else ""
        none = [(m, base) for m, base in zip(block.m, block.beta0_ms, strict=True) if base <= 0]
        if none:
            said.append(
                f"{at}beta0 is 0 or less at m = {', '.join(str(m) for m, _ in none)} (down to "
                f"{min(base for _, base in none):.3g} ms): no pass has such a base time, and rounds of short contexts "
                "may be priced at no time or less; only the mean context was looked at here"
            )
        below = [(m, alpha) for m, alpha in zip(block.m, block.alpha_ms_per_expert, strict=True) if alpha < 0]
        if below:
            said.append(
                f"{at}alpha is negative at m = {', '.join(str(m) for m, _ in below)} (down to "
                f"{min(alpha for _, alpha in below):.3g} ms per expert): more experts cannot take less time, and "
                "larger batches, which touch more, look the faster for it"
            )
    return said


def _token(model: LatencyModel, scaling: Scaling, lengths: Sequence[int]) -> str:
    """Say what a further token takes besides its experts, where that is from, and how sure it is."""
    if scaling.token_ms is not None and not isinstance(scaling.token_ms, str):
        return f"{scaling.token_ms:.4g} ms besides its experts (--token-ms)"
    each = [token_price(model, k) for k in lengths]
    why = sorted({price.untold for price in each if not price.told})
    lost = f"cannot be told ({'; '.join(why)}): what rests on it is unknown until it is stated (--token-ms)"
    told = [price for price in each if price.told]
    if not told:
        return lost
    least, most = min(told, key=lambda price: price.ms), max(told, key=lambda price: price.ms)
    takes = f"{most.ms:.4g}" if least.ms == most.ms else f"{least.ms:.4g} to {most.ms:.4g}"
    ends = [price.interval for price in told if price.interval is not None]
    sure = f" [{min(end.low for end in ends):.3g}; {max(end.high for end in ends):.3g}]" if ends else ", no interval"
    origin = "; ".join(dict.fromkeys(price.origin for price in told))
    some = f"; for K = {', '.join(str(k) for k, price in zip(lengths, each, strict=True) if not price.told)} it {lost}"
    return f"{takes} ms{sure} besides its experts ({origin}){some if why else ''}"


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
    least, most = f"{min(each):.3g}", f"{max(each):.3g}"
    takes = least if least == most else f"{least} to {most}"
    origin = "the two largest batch sizes measured" if scaling.draft_request_ms is None else "--draft-request-ms"
    return f"{takes} ms a token for each further request ({origin}) more"
