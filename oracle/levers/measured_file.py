"""Measurements by precision, typed as CSV or JSON: acceptance, and steps with and without speculation."""

from typing import Any

from oracle.acceptance.rows import Row, csv_rows, json_rows, number_of, text_of
from oracle.errors import Faults
from oracle.levers.fitted import Measured

COLUMNS = ("precision", "batch_size", "draft_length", "step_off_ms", "step_on_ms", "acceptance", "rounds")
JSON_KEYS = (*COLUMNS, "survival")


def measured_from_text(text: str, source: str) -> tuple[Measured, ...]:
    """Read one row a measurement; `survival`, a list by position, in JSON only.

    Raises
    ------
    InputError
        All faults at once: unknown columns, a row without precision or without anything measured, a step time without
        its partner or its batch size, an acceptance above 1.
    """
    is_json = text.lstrip()[:1] in ("[", "{")
    rows = json_rows(text, source, "measured", JSON_KEYS) if is_json else csv_rows(text, source, COLUMNS)
    faults = Faults()
    found = [_measured(row, place, faults) for place, row in rows]
    faults.raise_if_any()
    return tuple(found)


def _measured(row: Row, place: str, faults: Faults) -> Measured:
    name = text_of(row, "precision", place, faults)
    if name is None:
        faults.add(f"{place}: precision is missing; name one of the deployment's")
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
    if timed and row.get("batch_size") is None:
        faults.add(f"{place}: batch_size is missing; step times need it")
    if not timed and row.get("acceptance") is None and row.get("survival") is None:
        faults.add(f"{place}: nothing was measured; give acceptance, or step_off_ms and step_on_ms")
    return Measured(name or "", **values, survival=_survival(row, place, faults))


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
