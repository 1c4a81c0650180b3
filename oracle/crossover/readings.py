"""The same crossover at other prices that were not timed: of further tokens, and of reading further contexts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from oracle.crossover.answer import Crossover, crossover
from oracle.crossover.context_growth import context_growth
from oracle.crossover.costs import FIRST_REQUEST, LOWER_END, UPPER_END, Scaling
from oracle.crossover.token_price import token_price
from oracle.errors import InputError
from oracle.latency.model import LatencyModel

Price = float | Literal["first request"]


@dataclass(frozen=True)
class Reading:
    """An answer at another price.

    Attributes
    ----------
    price
        Which: of a further token, or of reading a token of context of a further request.
    takes
        What it is, in words.
    end
        Whether it is an end of what the price may be, as far as that is known.
    answer
        None where a round would take no time or less.
    """

    price: Literal["token", "context"]
    takes: str
    end: bool
    answer: Crossover | None


def readings(answer: Crossover, model: LatencyModel, more: Sequence[tuple[str, float]] = ()) -> list[Reading]:
    """Answer again at other prices; none where all is measured.

    Parameters
    ----------
    model
        The one that the answer rests on.
    more
        Further times in milliseconds to read a token of context of a further request, and what to call them.

    Returns
    -------
    list
        The price of a further token at both ends of its interval, where it is the model that tells it; the time to read
        context as nothing, at both ends of what several measured batch sizes tell, as `more`, and as much as for the
        first request.
    """
    if not answer.extrapolated.any():
        return []
    again = _again(answer, model)
    found = [
        Reading("token", takes, True, again(replace(answer.scaling, token_ms=end)))
        for takes, end in _token_ends(answer, model)
    ]
    told = _told(answer, model)
    open_ = answer.scaling.kv_read_ms is None and not told
    asked: list[tuple[str, Price, bool]] = [("0 ms", 0.0, open_), *((*each, True) for each in told)]
    asked += [*((*each, False) for each in more), ("as much as for the first request", FIRST_REQUEST, open_)]
    for takes, price, end in asked:
        found.append(Reading("context", takes, end, again(replace(answer.scaling, kv_read_ms=price))))
    return found


def _again(answer: Crossover, model: LatencyModel) -> Callable[[Scaling], Crossover | None]:
    """Give what answers the same question at other prices."""

    def at(scaling: Scaling) -> Crossover | None:
        more = {"scaling": scaling, "kv_tokens": answer.kv_tokens, "noise": answer.noise}
        try:
            return crossover(answer.traffic, model, answer.lengths[1:], **more)  # type: ignore[arg-type]
        except InputError:
            return None

    return at


def _token_ends(answer: Crossover, model: LatencyModel) -> list[tuple[str, Literal["lower end", "upper end"]]]:
    """Give both ends of the price of a further token, where the model tells it with an interval."""
    told = [each for k in answer.lengths if (each := token_price(model, k)).interval is not None]
    if answer.scaling.token_ms is not None or not told or not (answer.costs.further_tokens > 0).any():
        return []
    ends = [
        [each.interval.low for each in told if each.interval],
        [each.interval.high for each in told if each.interval],
    ]
    words = [f"{min(end):.3g}" + (f" to {max(end):.3g}" if min(end) < max(end) else "") for end in ends]
    return [
        (f"{words[0]} ms (lower end of its interval)", LOWER_END),
        (f"{words[1]} ms (upper end of its interval)", UPPER_END),
    ]


def _told(answer: Crossover, model: LatencyModel) -> list[tuple[str, Price]]:
    """Give both ends of the interval of what several measured batch sizes tell, where it is one for all K."""
    told = {context_growth(model, k) for k in answer.lengths}
    one = told.pop()
    if told or one is None or one.interval is None or answer.scaling.kv_read_ms is not None:
        return []
    low, high = max(0.0, one.interval.low), max(0.0, one.interval.high)
    return [
        (f"{ms:.3g} ms ({end} end of what the measured batch sizes tell)", ms)
        for end, ms in (("lower", low), ("upper", high))
    ]
