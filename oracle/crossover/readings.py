"""The same crossover with other times to read the context of further requests, which no single batch size tells."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from oracle.crossover.answer import Crossover, crossover
from oracle.crossover.context_growth import context_growth
from oracle.crossover.costs import FIRST_REQUEST
from oracle.latency.model import LatencyModel

Price = float | Literal["first request"]


def readings(
    answer: Crossover, model: LatencyModel, more: Sequence[tuple[str, float]] = ()
) -> list[tuple[str, Crossover]]:
    """Answer again with other times to read a token of context of a further request; none where all is measured.

    Parameters
    ----------
    model
        The one that the answer rests on.
    more
        Further times in milliseconds, and what to call them.

    Returns
    -------
    list
        What it takes, in words, and the answer with it: nothing, both ends of what several measured batch sizes tell,
        `more`, and as much as for the first request.
    """
    if not answer.extrapolated.any():
        return []
    lengths = answer.lengths[1:]
    asked: list[tuple[str, Price]] = [("0 ms", 0.0), *_told(answer, model), *more]
    asked.append(("as much as for the first request", FIRST_REQUEST))
    return [
        (
            name,
            crossover(
                answer.traffic,
                model,
                lengths,
                scaling=replace(answer.scaling, kv_read_ms=price),
                kv_tokens=answer.kv_tokens,
                noise=answer.noise,
            ),
        )
        for name, price in asked
    ]


def _told(answer: Crossover, model: LatencyModel) -> list[tuple[str, Price]]:
    """Give both ends of the interval of what several measured batch sizes tell, where it is one for all K."""
    told = {context_growth(model, k) for k in answer.lengths}
    one = told.pop()
    if told or one is None or one.interval is None or answer.scaling.kv_read_ms is not None:
        return []
    low, high = max(0.0, one.interval.low), max(0.0, one.interval.high)
    ends = [("lower", low)] if low > 0 else []
    return [
        (f"{ms:.3g} ms, the {end} end of what the measured batch sizes tell", ms)
        for end, ms in [*ends, ("upper", high)]
    ]
