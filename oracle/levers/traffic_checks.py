"""Rules for what is stated of traffic: keys, ranges, intervals, and how matches follow one another there.

Repetitiveness is measured under a reading of matches, and the autocorrelation x is that of the same reading. Traffic
that states them has its own; where it states neither, the deployment's hold. Half of the pair is refused, unless the
deployment has the other half, or r is the same quantity under the deployment's reading, which has no x.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from oracle.errors import Faults, printable
from oracle.latency.model_checks import check_keys, check_number, kind_of
from oracle.levers.deployment import Speculation
from oracle.levers.matches import READINGS
from oracle.levers.regime import CHAIN, NAMES, SHARES, check_regimes

READING = "reading"
INTERVALS = tuple(f"{name}_{end}" for name in (*SHARES, CHAIN) for end in ("low", "high"))
NUMBERS = (*NAMES, CHAIN, *INTERVALS)
PlainTraffic = Mapping[str, Any]  # a number each, and a text under `READING`
_LETTERS = dict(zip(("C", "rho", "r", "L_in", "L_out", "L_ctx"), NAMES, strict=True)) | {"x": CHAIN}  # of the equations
_SHARES_OF = {
    **dict.fromkeys(("independent", "stationary"), "of first draft tokens, those accepted"),
    **dict.fromkeys(("gated", "renewal"), "of all tokens, those that match"),
}


def check_plain(table: Mapping[str, Any], place: str, faults: Faults) -> PlainTraffic:
    """Check the keys and kinds of a table of values; what is missing may still come from elsewhere."""
    for key in (key for key in table if key in _LETTERS):
        faults.add(f"{place}{key} is not a key of traffic; it is written {_LETTERS[key]}")
    table = {_LETTERS.get(key, key): value for key, value in table.items()}
    check_keys(table, place, (), (*NUMBERS, READING), faults, "traffic")
    found: dict[str, Any] = {
        key: float(value)
        for key, value in table.items()
        if key in NUMBERS and check_number(value, f"{place}{key}", faults)
    }
    reading = table.get(READING)
    if isinstance(reading, str):
        found[READING] = reading
    elif reading is not None:
        faults.add(f"{place}{READING} is {kind_of(reading)}; it is a text")
    return found


def completed(values: PlainTraffic, otherwise: PlainTraffic) -> dict[str, Any]:
    """Fill in what is not given; a value that is given makes an interval stated elsewhere another regime's."""
    kept = {k: v for k, v in otherwise.items() if k not in INTERVALS or k.rpartition("_")[0] not in values}
    if values.get(READING, otherwise.get(READING)) != otherwise.get(READING):  # another reading has another x
        kept = {k: v for k, v in kept.items() if not k.startswith(CHAIN)}
    return {**kept, **values}


def check_row(
    place: str, values: PlainTraffic, faults: Faults, how: Speculation | None, wrong: Collection[str] = ()
) -> None:
    """Note everything that is wrong with one row; what is `wrong` has been said and counts as given."""
    for name in NAMES:
        if name not in values and name not in wrong:
            faults.add(f"{place}: {name} is missing; add it there, or under [traffic] of the deployment")
    check_values(place, {k: v for k, v in values.items() if k not in wrong}, faults, wrong)
    if not {READING, CHAIN} & set(wrong):
        _check_matches(place, values, faults, how)


def check_values(place: str, values: PlainTraffic, faults: Faults, wrong: Collection[str] = ()) -> None:
    """Note what is out of range or contradicts, the intervals included; what is missing may come from elsewhere."""
    check_regimes({name: np.array(values[name]) for name in (*NAMES, CHAIN) if name in values}, place, faults)
    for name in (*SHARES, CHAIN):
        if {name, f"{name}_low", f"{name}_high"} & set(wrong):
            continue
        low, high = values.get(f"{name}_low"), values.get(f"{name}_high")
        value, most = values.get(name, -1.0), np.nextafter(1.0, 0.0) if name == CHAIN else 1.0
        if (low is None) != (high is None):
            faults.add(f"{place}: {name}_low and {name}_high go together; give both or none")
        elif low is None or high is None or not 0 <= value <= most:
            continue  # no interval, or the value itself is missing or wrong, which has been said
        elif not 0 <= low <= value <= high <= most:
            lies = "[0, 1)" if name == CHAIN else "[0, 1]"
            faults.add(
                f"{place}: {name} is {value:g} in [{low:g}, {high:g}]; an interval holds the value and lies in {lies}"
            )


def _check_matches(place: str, values: PlainTraffic, faults: Faults, how: Speculation | None) -> None:
    """Note a reading that is not known, or one half of reading and autocorrelation without the other.

    Parameters
    ----------
    how
        Of the deployment; None where it is not known.
    """
    reading, x = values.get(READING), values.get(CHAIN)
    own = how.reading if how is not None else None
    if x is None and f"{CHAIN}_low" in values:
        faults.add(f"{place}: {CHAIN}_low and {CHAIN}_high without {CHAIN}; add it")
    if reading is None:
        if x and own == "independent":
            faults.add(
                f"{place}: {CHAIN} is {x:g} without a reading, and the deployment's is independent, which has none; "
                f"add reading: {', '.join(READINGS[1:])}"
            )
    elif reading not in READINGS:
        faults.add(f"{place}: {READING} is {printable(repr(reading), 40)}; known: {', '.join(READINGS)}")
    elif reading == "independent":
        if x:
            faults.add(
                f"{place}: {CHAIN} is {x:g} under the reading independent, which has none; give the reading that it "
                "was measured under"
            )
    elif x is None and own not in (None, reading) and (reading, own) != ("stationary", "independent"):
        faults.add(
            f"{place}: repetitiveness was measured under the reading {reading} ({_SHARES_OF[reading]}), whose "
            f"{CHAIN} is missing, and the deployment reads it as {own} ({_SHARES_OF[own]}); add {CHAIN}, which "
            f"draft-oracle observe writes, or observe with --reading {own}"
        )
