"""Times of a log as seconds: numbers since any origin, or dates with a time zone."""

import math
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from oracle.errors import Faults, InputError, printable

UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_LATEST = 2**35  # seconds; the year 3058
_DATED = 1e8  # seconds; logs whose clock began in 1970 are later than 1973, clocks that began with the process are not


def zone_of(name: str | None) -> tzinfo | None:
    """Give a time zone by its name.

    Raises
    ------
    InputError
        There is no such zone.
    """
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InputError(f"{printable(name)!r} is no time zone; name one as UTC or Europe/Berlin") from error


def seconds_of(value: Any, name: str, place: str, faults: Faults, unit: str, zone: tzinfo | None) -> float:
    """Read one time; NaN if a fault was noted.

    Parameters
    ----------
    value
        A number in `unit`, an ISO 8601 text, or a `datetime`.
    zone
        For dates that name none.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            faults.add(f"{place}: {name} is {printable(repr(value), 40)}; write 2026-01-31T12:00:00Z, or a number")
            return math.nan
    if isinstance(value, datetime):
        return _dated(value, name, place, faults, zone)
    if isinstance(value, bool) or not isinstance(value, int | float):
        faults.add(f"{place}: {name} is {printable(repr(value), 40)}; it is a date with a time zone, or a number")
        return math.nan
    seconds = value / UNITS[unit] if abs(value) < 1e300 else math.inf
    if not 0 <= seconds <= _LATEST:
        slip = next((u for u, per in UNITS.items() if _DATED < value / per * UNITS["s"] <= _LATEST), None)
        said = f"; if these are {slip}, give --time-unit {slip}" if slip not in (None, unit) and value > 0 else ""
        faults.add(f"{place}: {name} is {value:g} {unit}; it lies from 0 up to the year 3058{said}")
        return math.nan
    return float(seconds)


def _dated(value: datetime, name: str, place: str, faults: Faults, zone: tzinfo | None) -> float:
    if value.tzinfo is None:
        if zone is None:
            faults.add(
                f"{place}: {name} is {value.isoformat()} without a time zone; add Z or an offset, or give --time-zone"
            )
            return math.nan
        value = value.replace(tzinfo=zone)
        offsets = {value.replace(fold=fold).utcoffset() for fold in (0, 1)}
        if len(offsets) > 1:
            faults.add(
                f"{place}: {name} is {value.replace(tzinfo=None).isoformat()}, which the clocks of the time zone show "
                "twice or never that day; give an offset"
            )
            return math.nan
    try:
        seconds = value.timestamp()
    except OverflowError:
        seconds = -1.0
    if not 0 <= seconds <= _LATEST:
        faults.add(f"{place}: {name} is {value.isoformat()}; it lies from 1970 up to the year 3058")
        return math.nan
    return seconds


def is_dated(seconds: float) -> bool:
    """Whether a clock that shows this began in 1970, and not with the process."""
    return seconds > _DATED


def named(seconds: float, zone: tzinfo | None, dated: bool) -> str:
    """Name a moment: a date, or hours since the clock began."""
    if dated:
        moment = datetime.fromtimestamp(seconds, zone or UTC)
        return moment.strftime("%Y-%m-%d %H:%M:%S" if moment.second else "%Y-%m-%d %H:%M") + _offset(moment, zone)
    whole = round(seconds)
    text = f"{whole // 3600:02d}:{whole // 60 % 60:02d}"
    return f"{text}:{whole % 60:02d}" if whole % 60 else text


def _offset(moment: datetime, zone: tzinfo | None) -> str:
    """Give the offset where a zone was asked for: an hour that clocks show twice has two names."""
    return "" if zone is None else moment.strftime(" %z")


def shift(seconds: float, zone: tzinfo | None) -> float:
    """Seconds by which local clocks are ahead of UTC at a moment."""
    ahead = None if zone is None else datetime.fromtimestamp(seconds, zone).utcoffset()
    return (ahead or timedelta(0)).total_seconds()
