"""Traffic as values or as a series: what a file or a table states, completed, checked and laid out.

Values are a table of the keys of `Regime`, with `repetitiveness_low`, `repetitiveness_high` and so on where they are
intervals, and `reading`, under which repetitiveness and autocorrelation were measured. A series is CSV or a JSON list
with the same columns and, where wanted, `slot` (its name), `tenant` (each has its own schedule) and `tokens` (emitted
in the slot: its weight). A slot with a concurrency of 0 is idle. Columns that a series lacks are taken from the
deployment's [traffic], how matches follow one another from its [speculation].
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from oracle.acceptance.rows import Row, csv_rows, json_rows, number_of, text_of
from oracle.errors import Faults, printable
from oracle.levers.deployment import Speculation
from oracle.levers.handwritten import tree_from_text
from oracle.levers.matches import Reading
from oracle.levers.regime import CHAIN, MOST_TOKENS, NAMES, SHARES, Numbers, Regime, make_regime
from oracle.levers.suspicions import warn_of_traffic
from oracle.levers.traffic_checks import NUMBERS, READING, PlainTraffic, check_plain, check_row, completed

COLUMNS = ("slot", "tenant", "tokens", *NUMBERS, READING)
_MOST_WEIGHT = 1e300  # so that the weights of all slots that are read add up to a float
# Completes what a file states where the deployment that would complete it is not known.
ANY: PlainTraffic = {name: MOST_TOKENS if name == "context_tokens" else 1.0 for name in NAMES}


@dataclass(frozen=True)
class Traffic:
    """One regime, or the slots of one tenant in order.

    Attributes
    ----------
    tenant
        Whose it is; None where tenants are not told apart.
    slots
        Names, one a regime.
    regime, low, high
        Arrays of shape (T,): as observed, and with r, rho and x at the ends of their intervals, x at the end that
        makes a round shorter in `low` and longer in `high`. Without x where no row states one.
    tokens : (T,) float64 or None
        Emitted in each slot, in any unit: its weight; None where no tokens were given.
    idle
        Slots in which nothing was in flight, left out of all the others: nothing is to be decided there.
    reading
        Under which r and x were measured; None: not stated, so the deployment's.
    borrowed
        Slots that state no x where others do, and take the deployment's.
    """

    tenant: str | None
    slots: tuple[str, ...]
    regime: Regime
    low: Regime
    high: Regime
    tokens: Numbers | None
    idle: tuple[str, ...] = ()
    reading: Reading | None = None
    borrowed: frozenset[str] = frozenset()

    @property
    def is_series(self) -> bool:
        """Whether there are slots to make a schedule of."""
        return len(self.slots) > 1

    @property
    def weights(self) -> Numbers:
        """The share of each slot: of the tokens, or the same for all where none were given."""
        given = np.ones(len(self.slots)) if self.tokens is None else self.tokens
        return np.asarray(given / given.sum())


def plain_traffic(values: PlainTraffic, source: str, how: Speculation | None = None) -> Traffic:
    """Lay out one regime.

    Parameters
    ----------
    how
        As in `traffic_from_text`.

    Raises
    ------
    InputError
        A value is missing or out of range, lies outside its interval, or goes with another that is not there.
    """
    faults = Faults()
    check_row(source, values, faults, how)
    faults.raise_if_any()
    return _plain(values, source, how)


def _plain(values: PlainTraffic, source: str, how: Speculation | None) -> Traffic:
    return _laid_out(None, ("",), [(source, values)], source, None, how)


def traffic_from_text(
    text: str, source: str, otherwise: PlainTraffic, how: Speculation | None = None
) -> tuple[Traffic, ...]:
    """Read a traffic file of any form: values as TOML or a JSON object, a series as CSV or a JSON list.

    Parameters
    ----------
    otherwise
        Values for what the file does not state.
    how
        Speculation of the deployment, which gives reading and autocorrelation where the file states none; None: not
        known, and whatever the file states will do.

    Raises
    ------
    InputError
        All faults at once.
    """
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if first.startswith("[") or ("=" not in first and not first.startswith("{")):
        return series_from_text(text, source, otherwise, how)
    tree = tree_from_text(text, source)
    if set(tree) == {"traffic"} and isinstance(tree["traffic"], list):
        return series_from_text(text, source, otherwise, how)
    faults = Faults()
    values = check_plain(tree, f"{source}: ", faults)
    whole = completed(values, otherwise)
    check_row(source, whole, faults, how, wrong=tree.keys() - values.keys())
    faults.raise_if_any()
    return (_plain(whole, source, how),)


def series_from_text(
    text: str, source: str, otherwise: PlainTraffic, how: Speculation | None = None
) -> tuple[Traffic, ...]:
    """Read a series as CSV or JSON, one `Traffic` a tenant in order of appearance.

    Parameters
    ----------
    otherwise
        Values for columns that the series lacks.
    how
        As in `traffic_from_text`.

    Raises
    ------
    InputError
        Faults of the rows, all at once.
    """
    faults = Faults()
    is_json = text.lstrip()[:1] in ("[", "{")
    rows = json_rows(text, source, "traffic", COLUMNS) if is_json else csv_rows(text, source, COLUMNS, faults)
    by_tenant: dict[str | None, list[_Slot]] = {}
    for place, row in rows:
        values = _numbers(row, place, faults)
        slot, tenant = (text_of(_as_text(row, name), name, place, faults) for name in ("slot", "tenant"))
        if (reading := text_of(row, READING, place, faults)) is not None:
            values[READING] = reading
        whole = completed(values, otherwise)
        is_idle = values.get("concurrency") == 0
        if not is_idle:
            check_row(place, whole, faults, how, wrong=row.keys() - values.keys())
        slots = by_tenant.setdefault(tenant, [])
        slots.append(_Slot(slot or str(len(slots) + 1), place, whole, is_idle))
    rows_in_use = [slot for slots in by_tenant.values() for slot in slots if not slot.is_idle]
    busy = [slot.values for slot in rows_in_use]
    _check_one_reading({each.get(READING) for each in busy}, source, faults, how)
    borrowing = _state_chain(rows_in_use, faults, how)
    found = [_series(tenant, slots, source, faults, how, borrowing) for tenant, slots in by_tenant.items()]
    weighed = {"tokens" in each for each in busy}
    if not faults and len(weighed) > 1:
        faults.add(f"{source}: tokens are given for some tenants only; give them for all or for none")
    faults.raise_if_any()
    return tuple(each for each in found if each is not None)


class _Slot(NamedTuple):
    """A row of a series."""

    name: str
    place: str
    values: dict[str, Any]
    is_idle: bool


def _check_one_reading(stated: set[Any], source: str, faults: Faults, how: Speculation | None) -> None:
    """Refuse rows of several readings: under each, repetitiveness is the share of something else."""
    there = {how.reading if each is None and how is not None else each for each in stated}
    if not faults and len(there) > 1:
        named = ", ".join(sorted("none stated" if each is None else each for each in there))
        faults.add(f"{source}: rows have different readings ({named}); give all of them the same")


def _state_chain(rows: Sequence[_Slot], faults: Faults, how: Speculation | None) -> set[str]:
    """Write the deployment's x into rows that state none where others do, and give their places.

    A deployment of another reading has no x to give, and none is guessed.
    """
    without = [row for row in rows if CHAIN not in row.values]
    if faults or not without or len(without) == len(rows):
        return set()
    reading = without[0].values.get(READING)
    if how is not None and reading not in (None, "independent", how.reading):
        faults.add(
            f"{without[0].place}: {CHAIN} is missing, and other rows state it; the deployment, which reads matches as "
            f"{how.reading}, has none for the reading {reading}; state it in every row, or reading and {CHAIN} under "
            "[speculation] of the deployment"
        )
        return set()
    for row in without:
        row.values[CHAIN] = 0.0 if how is None else how.autocorrelation
    return {row.place for row in without}


def _series(
    tenant: str | None,
    slots: Sequence[_Slot],
    source: str,
    faults: Faults,
    how: Speculation | None,
    borrowing: Collection[str],
) -> Traffic | None:
    """Lay out the slots of one tenant, those at the places `borrowing` with the deployment's x; None after faults."""
    whose = "" if tenant is None else f" of tenant {printable(tenant)}"
    for name, times in Counter(slot.name for slot in slots).items():
        if times > 1:
            faults.add(f"{source}: slot {printable(name)}{whose} is there {times} times; names are unique")
    busy = [slot for slot in slots if not slot.is_idle]
    weights = [slot.values["tokens"] for slot in busy if "tokens" in slot.values]
    if not busy:
        faults.add(f"{source}: concurrency{whose} is 0 in every slot; nothing is in flight, so nothing is decided")
    elif weights and len(weights) < len(busy):
        faults.add(f"{source}: tokens are given in some slots only; give them in all of a tenant's or in none")
    elif weights and not any(weights):
        faults.add(f"{source}: tokens{whose} are 0 in every slot; give what was emitted, or leave tokens out")
    if faults:
        return None
    tokens = np.array(weights) if weights else None
    rows = [(slot.place, slot.values) for slot in busy]
    laid = _laid_out(tenant, tuple(slot.name for slot in busy), rows, source, tokens, how)
    idle = tuple(slot.name for slot in slots if slot.is_idle)
    return replace(laid, idle=idle, borrowed=frozenset(slot.name for slot in busy if slot.place in borrowing))


def _as_text(row: Row, name: str) -> Row:
    """Take a slot that is a number (an hour) as its name."""
    value = row.get(name)
    return {name: str(value)} if isinstance(value, int | float) and not isinstance(value, bool) else row


def _numbers(row: Row, place: str, faults: Faults) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("tokens", *NUMBERS):
        # ranges of the others are checked with what completes the row
        least, most = (0.0, _MOST_WEIGHT) if name == "tokens" else (-math.inf, math.inf)
        value = number_of(row, name, place, faults, least=least, most=most)
        if value is not None:
            found[name] = value
    return found


def _laid_out(
    tenant: str | None,
    names: tuple[str, ...],
    rows: Sequence[tuple[str, PlainTraffic]],
    source: str,
    tokens: Numbers | None,
    how: Speculation | None,
) -> Traffic:
    values = [each for _, each in rows]
    there = NAMES if CHAIN not in values[0] else (*NAMES, CHAIN)
    arrays = {name: np.array([each[name] for each in values]) for name in there}
    warn_of_traffic(source, arrays)
    reading = values[0].get(READING)
    # renewal: the more matches follow one another, the more rounds begin after a mismatch, and the shorter they are
    falls = (reading or (how and how.reading)) == "renewal"
    ends = []
    for shares_at, chain_at in (("low", "high" if falls else "low"), ("high", "low" if falls else "high")):
        at = {**dict.fromkeys(SHARES, shares_at), CHAIN: chain_at}
        held = {n: np.array([v.get(f"{n}_{at[n]}", v[n]) for v in values]) for n in at if n in there}
        ends.append(make_regime(source, **(arrays | held)))
    low, high = ends
    return Traffic(tenant, names, make_regime(source, **arrays), low, high, tokens, reading=reading)
