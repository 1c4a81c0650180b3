"""Tables of acceptance by position that people type, as CSV or JSON; they say whether it is survival or conditional."""

from collections.abc import Iterable, Sequence
from typing import Any

from oracle.acceptance.curves import Acceptance, AcceptanceIs, Curve, counted, survival_from
from oracle.acceptance.rows import csv_rows, json_rows, number_of, text_of
from oracle.errors import MOST_DRAFT_TOKENS, Faults, InputError, printable

_SHARED = ("draft_length", "tenant", "rounds", "mean_acceptance_length")
CSV_COLUMNS = ("position", "rate", *_SHARED)
JSON_KEYS = ("rates", *_SHARED)


def from_csv(text: str, source: str, acceptance_is: AcceptanceIs | None) -> Acceptance:
    """Read one row a position: ``position,rate`` and, where known, draft_length, tenant, rounds.

    Raises
    ------
    InputError
        Unknown columns, positions that do not count from 1, rates out of range, or not said what the rates are.
    """
    groups: dict[tuple[Any, Any], list[tuple[str, dict[str, Any]]]] = {}
    for place, row in csv_rows(text, source, CSV_COLUMNS):
        groups.setdefault((row.get("tenant"), row.get("draft_length")), []).append((place, row))
    faults = Faults()
    given = []
    for rows in groups.values():
        rates: list[float] = []
        for place, row in rows:
            position = number_of(row, "position", place, faults, whole=True, least=0)
            rate = number_of(row, "rate", place, faults, least=float("-inf"))
            if position is None or rate is None:
                faults.add(f"{place}: position and rate are both needed")
            elif position != len(rates) + 1:
                faults.add(
                    f"{place}: position {position:g} where {len(rates) + 1} is next; they count from 1 for each K"
                )
            else:
                rates.append(rate)
        whole = {name: value for _, row in reversed(rows) for name, value in row.items() if name in _SHARED}
        for name in ("rounds", "mean_acceptance_length"):
            if len({row[name] for _, row in rows if name in row}) > 1:
                faults.add(f"{rows[0][0]}: {name} differs between positions of one draft length; it is one number")
        given.append((rows[0][0], {**whole, "rates": rates}))
    faults.raise_if_any()
    return _acceptance(given, acceptance_is)


def from_json(text: str, source: str, acceptance_is: AcceptanceIs | None) -> Acceptance:
    """Read a list of objects, one a draft length: rates and, where known, draft_length, tenant, rounds.

    Raises
    ------
    InputError
        As `from_csv`.
    """
    return _acceptance(json_rows(text, source, "acceptance", JSON_KEYS), acceptance_is)


def _acceptance(rows: Iterable[tuple[str, dict[str, Any]]], acceptance_is: AcceptanceIs | None) -> Acceptance:
    faults = Faults()
    curves = []
    for place, row in rows:
        try:
            curve = _curve(place, row, acceptance_is, faults)
        except InputError as error:
            for fault in error.faults:
                faults.add(fault)
            continue
        if curve is not None:
            curves.append(curve)
    faults.raise_if_any()
    refuse_doubles(curves)
    return Acceptance(tuple(curves))


def _curve(place: str, row: dict[str, Any], acceptance_is: AcceptanceIs | None, faults: Faults) -> Curve | None:
    rates = row.get("rates")
    if not isinstance(rates, list) or not all(type(rate) in (int, float) for rate in rates):
        faults.add(f"{place}: rates are a list of numbers, one for each position of the draft")
        return None
    length = number_of(row, "draft_length", place, faults, whole=True, least=1, most=MOST_DRAFT_TOKENS)
    if "draft_length" in row and length is None:
        return None
    k = len(rates) if length is None else int(length)
    if len(rates) > min(k, MOST_DRAFT_TOKENS):
        named = f"a draft length of {k}" if len(rates) > k else f"a draft of at most {MOST_DRAFT_TOKENS} tokens"
        faults.add(f"{place}: {len(rates)} rates for {named}; a draft has one position a token")
        return None
    rounds = number_of(row, "rounds", place, faults, whole=True, least=1)
    mean_length = number_of(row, "mean_acceptance_length", place, faults, least=1)
    tenant = text_of(row, "tenant", place, faults)
    survival = survival_from(rates, acceptance_is, place, mean_length=mean_length)
    return counted(survival, k, tenant, rounds)


def refuse_doubles(curves: Sequence[Curve]) -> None:
    """Refuse two curves for one tenant and draft length.

    Raises
    ------
    InputError
        Names the first of them.
    """
    seen = set()
    for curve in curves:
        key = (curve.tenant, curve.draft_length)
        if key in seen:
            whose = "" if curve.tenant is None else f" of tenant {printable(curve.tenant)}"
            raise InputError(f"acceptance at K = {curve.draft_length}{whose} is given twice; keep one, or name tenants")
        seen.add(key)
