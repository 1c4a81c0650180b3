"""What is shown of a latency model by its file alone: the coefficients, with the errors that the file keeps of them."""

from collections.abc import Mapping
from typing import Any

from scipy.special import stdtrit

from oracle.errors import InputError
from oracle.intervals import LEVEL, Interval
from oracle.latency.model import LatencyModel
from oracle.latency.recorded_errors import names_of, values_of, verify_spread
from oracle.tables import Table, interval_cells, number, with_interval, words

_KEYS = ("beta0_ms", "alpha_ms_per_expert", "context_ms_per_token")


def model_table(model: LatencyModel) -> Table:
    """The coefficients of a latency model by m, and the time of the draft that goes with it."""
    intervals, said = _intervals(model)
    sources = _sources(model)
    rows = []
    for i, m in enumerate(model.m):
        values = (model.beta0_ms[i], model.alpha_ms_per_expert[i], model.context_of(m))
        names = (f"beta0_ms[{m}]", f"alpha_ms_per_expert[{m}]", f"context_ms_per_token[{m}]")
        cells: dict[str, Any] = {"m": m}
        for key, name, value in zip(_KEYS, names, values, strict=True):
            cells |= interval_cells(key, value, intervals.get(name, intervals.get(key)))
        draft_ms = model.draft_ms(m - 1) if model.has(m - 1) else None
        rows.append({**cells, "alpha_source": sources[i], "draft_ms": draft_ms})
    columns = (
        number("m", "m"),
        with_interval("beta0 ms", "beta0_ms", ".3f"),
        with_interval("alpha ms/expert", "alpha_ms_per_expert", ".4f"),
        with_interval("c µs/token", "context_ms_per_token", ".2f", 1e3),
        words("alpha from", "alpha_source"),
        number("draft of\nm − 1, ms", "draft_ms"),
    )
    size = "" if model.batch_size is None else f"; batch size {model.batch_size}"
    notes = [
        f"T(m) = beta0(m) + alpha(m) · U + c · L{size}; rejection {model.reject_ms:g} ms a round that drafts",
        said,
    ]
    return Table("model", "Coefficients of the latency model, by verified positions m", columns, rows, notes)


def _intervals(model: LatencyModel) -> tuple[Mapping[str, Interval], str]:
    """95 % intervals by name of the coefficient, and in words where they come from."""
    try:
        spread = verify_spread(model)
        errors = spread.errors()
    except InputError as error:
        return {}, f"no intervals: {error}"
    half = float(stdtrit(spread.clusters - 1, (1 + LEVEL) / 2)) * errors
    values = values_of(model)
    found = {
        name: Interval(value - width, value + width)
        for name, value, width in zip(names_of(model), values.tolist(), half.tolist(), strict=True)
    }
    return found, f"95 % CR3 intervals, t with {spread.clusters - 1} degrees of freedom, as the model file keeps them"


def _sources(model: LatencyModel) -> list[str | None]:
    said = (model.fit or {}).get("alpha_source")
    if not isinstance(said, list) or len(said) != len(model.m):
        return [None] * len(model.m)
    return [str(one) for one in said]
