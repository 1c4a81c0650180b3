"""Measurements by precision, typed as CSV or JSON: acceptance, and steps with and without speculation."""

from collections.abc import Sequence
from typing import Any

from oracle.acceptance.rows import Row, csv_rows, json_rows, number_of, text_of
from oracle.errors import Faults, printable
from oracle.levers.fitted import Measured

_BREAK_EVEN = ("break_even", "break_even_low", "break_even_high")
COLUMNS = (
    "precision",
    "batch_size",
    "draft_length",
    "step_off_ms",
    "step_on_ms",
    "acceptance",
    "rounds",
    *_BREAK_EVEN,
)
JSON_KEYS = (*COLUMNS, "survival")


def measured_from_text(text: str, source: str, precisions: Sequence[str] | None = None) -> tuple[Measured, ...]:
    """Read one row a measurement; `survival`, a list by position, in JSON only.

    Parameters
    ----------
    precisions
        Names that a row may give; None: any.

    Raises
    ------
    InputError
        All faults at once: unknown columns, a row without precision or of an unknown one, without anything
        measured, a step time without its partner or its batch size, an acceptance above 1.
    """
    faults = Faults()
    is_json = text.lstrip()[:1] in ("[", "{")
    rows = json_rows(text, source, "measured", JSON_KEYS) if is_json else csv_rows(text, source, COLUMNS, faults)
    found = [_measured(row, place, precisions, faults) for place, row in rows]
    faults.raise_if_any()
    return tuple(found)


def _measured(row: Row, place: str, precisions: Sequence[str] | None, faults: Faults) -> Measured:
    name = text_of(row, "precision", place, faults)
    if name is None:
        faults.add(f"{place}: precision is missing; name one of the deployment's")
    elif precisions is not None and name not in precisions:
        known = ", ".join(map(printable, precisions))
        faults.add(f"{place}: {printable(name)!r} is not a precision of this deployment; it has {known}")
    values: dict[str, Any] = {key: number_of(row, key, place, faults, least=1.0) for key in ("batch_size",)}
    for key in ("draft_length", "rounds"):
        value = number_of(row, key, place, faults, whole=True, least=1.0)
        values[key] = None if value is None else int(value)
    for key in ("step_off_ms", "step_on_ms", "acceptance"):
        values[key] = number_of(row, key, place, faults, least=0.0)
    if values["acceptance"] is not None and values["acceptance"] > 1:
        faults.add(f"{place}: acceptance is {values['acceptance']:g}; a share lies in [0, 1]")
    timed = [key for key in ("step_off_ms", "step_on_ms") if row.get(key) is not None]
    if len(timed) == 1:
        faults.add(
            f"{place}: {timed[0]} is there without the other; a step with and one without speculation go together"
        )
    off, on = values["step_off_ms"], values["step_on_ms"]
    for key in timed:
        if values[key] == 0:
            faults.add(f"{place}: {key} is 0; no step takes no time")
    if off and on and on <= off:
        faults.add(
            f"{place}: step_on_ms is {on:g}, no more than step_off_ms, {off:g}; a round verifies more positions than a "
            "step has: measure whole rounds, and both over enough steps to tell them apart"
        )
    if timed and row.get("batch_size") is None:
        faults.add(f"{place}: batch_size is missing; step times need it")
    if not timed and all(row.get(key) is None for key in ("acceptance", "survival", "break_even")):
        faults.add(f"{place}: nothing was measured; give acceptance, or step_off_ms and step_on_ms, or break_even")
    curve, ends = _survival(row, place, faults), _break_even(row, place, faults)
    return Measured(name or "", **values, survival=curve, break_even=ends)


def _break_even(row: Row, place: str, faults: Faults) -> tuple[float, float] | None:
    """Read the repetitiveness at which speculation breaks even, with its ends; without them it is exact."""
    value, low, high = (number_of(row, key, place, faults, least=0.0, most=1.0) for key in _BREAK_EVEN)
    given = [key for key in _BREAK_EVEN if row.get(key) is not None]
    if not given:
        return None
    if row.get("batch_size") is None:
        faults.add(f"{place}: batch_size is missing; a break-even needs it")
    if given not in ([_BREAK_EVEN[0]], list(_BREAK_EVEN)):
        faults.add(f"{place}: {', '.join(given)} without the others; give break_even, alone or with both ends")
        return None
    if value is None or (len(given) > 1 and (low is None or high is None)):
        return None
    ends = (value if low is None else low, value if high is None else high)
    if not ends[0] <= value <= ends[1]:
        faults.add(f"{place}: break_even is {value:g} in [{ends[0]:g}, {ends[1]:g}]; an interval holds the value")
    return ends


def _survival(row: Row, place: str, faults: Faults) -> tuple[float, ...] | None:
    rates = row.get("survival")
    if rates is None:
        return None
    if not isinstance(rates, list) or not rates or not all(type(rate) in (int, float) for rate in rates):
        faults.add(f"{place}: survival is a list of numbers, one for each position of the draft")
        return None
    for j, rate in enumerate(rates, 1):
        if not 0 <= rate <= 1:
            faults.add(f"{place}, position {j}: survival is {rate:g}; a share lies in [0, 1]")
        elif j > 1 and rate > rates[j - 2]:
            faults.add(
                f"{place}, position {j}: survival rises from {rates[j - 2]:g} to {rate:g} and never can; if these are "
                "conditional rates, multiply them up to each position"
            )
    return tuple(float(rate) for rate in rates)
