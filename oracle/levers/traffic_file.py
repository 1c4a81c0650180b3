"""Traffic as values or as a series: what a file or a table states, completed, checked and laid out.

Values are a table of the keys of `Regime`, with `repetitiveness_low`, `repetitiveness_high`, `prefix_share_low` and
`prefix_share_high` where they are intervals. A series is CSV or a JSON list with the same columns and, where wanted,
`slot` (its name), `tenant` (each has its own schedule), `tokens` (emitted in the slot: its weight) and `reading` (under
which repetitiveness was measured). A slot with a concurrency of 0 is idle. Columns that a series lacks are taken from
the deployment's [traffic].
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from oracle.acceptance.rows import Row, csv_rows, json_rows, number_of, text_of
from oracle.errors import Faults, printable
from oracle.latency.model_checks import check_keys, check_number
from oracle.levers.handwritten import tree_from_text
from oracle.levers.matches import Reading
from oracle.levers.regime import MOST_TOKENS, NAMES, SHARES, Numbers, Regime, check_regimes, make_regime
from oracle.levers.suspicions import warn_of_traffic

INTERVALS = tuple(f"{name}_{end}" for name in SHARES for end in ("low", "high"))
COLUMNS = ("slot", "tenant", "tokens", *NAMES, *INTERVALS, "reading")
_SHARE_OF = {  # readings under which repetitiveness is the same quantity
    **dict.fromkeys(("independent", "stationary"), "of first draft tokens, those accepted"),
    **dict.fromkeys(("gated", "renewal"), "of all tokens, those that match"),
}
PlainTraffic = Mapping[str, float]
# Completes what a file states where the deployment that would complete it is not known.
ANY: PlainTraffic = {name: MOST_TOKENS if name == "context_tokens" else 1.0 for name in NAMES}
_LETTERS = dict(zip(("C", "rho", "r", "L_in", "L_out", "L_ctx"), NAMES, strict=True))  # of the equations


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
        Arrays of shape (T,): as observed, and with r and rho at the ends of their intervals.
    tokens : (T,) float64
        Weights.
    idle
        Slots in which nothing was in flight, left out of all the others: nothing is to be decided there.
    """

    tenant: str | None
    slots: tuple[str, ...]
    regime: Regime
    low: Regime
    high: Regime
    tokens: Numbers
    idle: tuple[str, ...] = ()

    @property
    def is_series(self) -> bool:
        """Whether there are slots to make a schedule of."""
        return len(self.slots) > 1


def check_plain(table: Mapping[str, Any], place: str, faults: Faults) -> PlainTraffic:
    """Check the keys and kinds of a table of values; what is missing may still come from elsewhere."""
    for key in (key for key in table if key in _LETTERS):
        faults.add(f"{place}{key} is not a key of traffic; it is written {_LETTERS[key]}")
    table = {_LETTERS.get(key, key): value for key, value in table.items()}
    check_keys(table, place, (), (*NAMES, *INTERVALS), faults, "traffic")
    return {
        key: float(value)
        for key, value in table.items()
        if key in (*NAMES, *INTERVALS) and check_number(value, f"{place}{key}", faults)
    }


def plain_traffic(values: PlainTraffic, source: str) -> Traffic:
    """Lay out one regime.

    Raises
    ------
    InputError
        A value is missing or out of range, or lies outside its interval.
    """
    faults = Faults()
    _check_row(source, values, faults)
    faults.raise_if_any()
    return _plain(values, source)


def _plain(values: PlainTraffic, source: str) -> Traffic:
    return _laid_out(None, ("",), [(source, dict(values))], source, np.ones(1))


def traffic_from_text(
    text: str, source: str, otherwise: PlainTraffic, reading: Reading | None = None
) -> tuple[Traffic, ...]:
    """Read a traffic file of any form: values as TOML or a JSON object, a series as CSV or a JSON list.

    Parameters
    ----------
    otherwise
        Values for what the file does not state.
    reading
        Of the deployment; None: whatever the series was measured under will do.

    Raises
    ------
    InputError
        All faults at once.
    """
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if first.startswith("[") or ("=" not in first and not first.startswith("{")):
        return series_from_text(text, source, otherwise, reading)
    tree = tree_from_text(text, source)
    if set(tree) == {"traffic"} and isinstance(tree["traffic"], list):
        return series_from_text(text, source, otherwise, reading)
    faults = Faults()
    values = check_plain(tree, f"{source}: ", faults)
    whole = completed(values, otherwise)
    _check_row(source, whole, faults, wrong=tree.keys() - values.keys())
    faults.raise_if_any()
    return (_plain(whole, source),)


def completed(values: PlainTraffic, otherwise: PlainTraffic) -> dict[str, float]:
    """Fill in what is not given; a value that is given makes an interval stated elsewhere another regime's."""
    kept = {k: v for k, v in otherwise.items() if k not in INTERVALS or k.rpartition("_")[0] not in values}
    return {**kept, **values}


def series_from_text(
    text: str, source: str, otherwise: PlainTraffic, reading: Reading | None = None
) -> tuple[Traffic, ...]:
    """Read a series as CSV or JSON, one `Traffic` a tenant in order of appearance.

    Parameters
    ----------
    otherwise
        Values for columns that the series lacks.
    reading
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
        _check_reading(text_of(row, "reading", place, faults), reading, place, faults)
        whole = completed(values, otherwise)
        is_idle = values.get("concurrency") == 0
        if not is_idle:
            _check_row(place, whole, faults, wrong=row.keys() - values.keys())
        slots = by_tenant.setdefault(tenant, [])
        slots.append(_Slot(slot or str(len(slots) + 1), place, whole, is_idle))
    found = [_series(tenant, slots, source, faults) for tenant, slots in by_tenant.items()]
    weighed = {"tokens" in slot.values for slots in by_tenant.values() for slot in slots if not slot.is_idle}
    if not faults and len(weighed) > 1:
        faults.add(f"{source}: tokens are given for some tenants only; give them for all or for none")
    faults.raise_if_any()
    return tuple(each for each in found if each is not None)


class _Slot(NamedTuple):
    """A row of a series."""

    name: str
    place: str
    values: dict[str, float]
    is_idle: bool


def _series(tenant: str | None, slots: Sequence[_Slot], source: str, faults: Faults) -> Traffic | None:
    """Lay out the slots of one tenant; None where there were faults."""
    whose = "" if tenant is None else f" of tenant {printable(tenant)}"
    for name, times in Counter(slot.name for slot in slots).items():
        if times > 1:
            faults.add(f"{source}: slot {printable(name)}{whose} is there {times} times; names are unique")
    busy = [slot for slot in slots if not slot.is_idle]
    weights = [slot.values.get("tokens") for slot in busy]
    if not busy:
        faults.add(f"{source}: concurrency{whose} is 0 in every slot; nothing is in flight, so nothing is decided")
    elif None in weights and any(weight is not None for weight in weights):
        faults.add(f"{source}: tokens are given in some slots only; give them in all of a tenant's or in none")
    elif not any(weight is None or weight > 0 for weight in weights):
        faults.add(f"{source}: tokens{whose} are 0 in every slot; give what was emitted, or leave tokens out")
    if faults:
        return None
    tokens = np.array([1.0 if weight is None else weight for weight in weights])
    rows = [(slot.place, slot.values) for slot in busy]
    laid = _laid_out(tenant, tuple(slot.name for slot in busy), rows, source, tokens)
    return replace(laid, idle=tuple(slot.name for slot in slots if slot.is_idle))


def _check_reading(measured: str | None, wanted: Reading | None, place: str, faults: Faults) -> None:
    """Refuse repetitiveness that is the share of something else than the deployment takes it for."""
    if measured is None:
        return
    if measured not in _SHARE_OF:
        faults.add(f"{place}: reading is {printable(repr(measured), 40)}; known: {', '.join(_SHARE_OF)}")
    elif wanted is not None and _SHARE_OF[measured] != _SHARE_OF[wanted]:
        faults.add(
            f"{place}: repetitiveness was measured under the reading {measured} ({_SHARE_OF[measured]}), the "
            f"deployment takes it under {wanted} ({_SHARE_OF[wanted]}); set [speculation] reading = '{measured}', or "
            f"observe with --reading {wanted}"
        )


def _as_text(row: Row, name: str) -> Row:
    """Take a slot that is a number (an hour) as its name."""
    value = row.get(name)
    return {name: str(value)} if isinstance(value, int | float) and not isinstance(value, bool) else row


def _numbers(row: Row, place: str, faults: Faults) -> dict[str, float]:
    found = {}
    for name in ("tokens", *NAMES, *INTERVALS):
        # ranges of the others are checked with what completes the row
        value = number_of(row, name, place, faults, least=0.0 if name == "tokens" else -math.inf)
        if value is not None:
            found[name] = value
    return found


def _laid_out(
    tenant: str | None,
    names: tuple[str, ...],
    rows: Sequence[tuple[str, Mapping[str, float]]],
    source: str,
    tokens: Numbers,
) -> Traffic:
    arrays = {name: np.array([values[name] for _, values in rows]) for name in NAMES}
    warn_of_traffic(source, arrays)
    ends = {}
    for end in ("low", "high"):
        held = {name: np.array([v.get(f"{name}_{end}", v[name]) for _, v in rows]) for name in SHARES}
        ends[end] = make_regime(source, **(arrays | held))
    return Traffic(tenant, names, make_regime(source, **arrays), ends["low"], ends["high"], tokens)


def _check_row(place: str, values: Mapping[str, Any], faults: Faults, wrong: Collection[str] = ()) -> None:
    """Note everything that is wrong with one row; what is `wrong` has been said and counts as given."""
    for name in NAMES:
        if name not in values and name not in wrong:
            faults.add(f"{place}: {name} is missing; add it there, or under [traffic] of the deployment")
    check_values(place, {k: v for k, v in values.items() if k not in wrong}, faults, wrong)


def check_values(place: str, values: Mapping[str, Any], faults: Faults, wrong: Collection[str] = ()) -> None:
    """Note what is out of range or contradicts, the intervals included; what is missing may come from elsewhere."""
    check_regimes({name: np.array(values[name]) for name in NAMES if name in values}, place, faults)
    for name in SHARES:
        if {name, f"{name}_low", f"{name}_high"} & set(wrong):
            continue
        low, high = values.get(f"{name}_low"), values.get(f"{name}_high")
        if (low is None) != (high is None):
            faults.add(f"{place}: {name}_low and {name}_high go together; give both or none")
        elif low is None or high is None or not 0 <= values.get(name, -1.0) <= 1:
            continue  # no interval, or the value itself is missing or wrong, which has been said
        elif not 0 <= low <= values[name] <= high <= 1:
            faults.add(
                f"{place}: {name} is {values[name]:g} in [{low:g}, {high:g}]; an interval holds the value and lies in "
                "[0, 1]"
            )
