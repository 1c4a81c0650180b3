"""The series that ``draft-oracle levers --traffic`` reads."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from oracle.errors import InputError, printable
from oracle.intervals import Interval
from oracle.levers.matches import Reading
from oracle.observe.regimes import ObservedRegime

_SHARES = ("prefix_share", "repetitiveness")


def fit_for_levers(regimes: Sequence[ObservedRegime]) -> list[ObservedRegime]:
    """Take the regimes that the levers can take; a share that is known in others only is no reason to guess one."""
    known = [name for name in _SHARES if any(getattr(each, name) is not None for each in regimes)]
    return [r for r in regimes if r.fault is None and all(getattr(r, name) is not None for name in known)]


def as_csv(regimes: Sequence[ObservedRegime], reading: Reading, whole: ObservedRegime) -> str:
    """Write one row a regime, at full precision; shares that no log tells are left to the deployment's own.

    Parameters
    ----------
    reading
        What repetitiveness is the share of, and autocorrelation is of.
    whole
        All requests. Rows that tell no autocorrelation get the mean of the others', weighted by what each rests on,
        from 0 to the upper end of that of all: nobody measured it there.

    Raises
    ------
    InputError
        No regime is fit.
    """
    elsewhere = _elsewhere(regimes, reading, whole)
    rows = [_row(each, reading, elsewhere) for each in fit_for_levers(regimes)]
    if not rows:
        raise InputError("no slot holds all that the levers take; give longer slots with --slot-minutes")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _row(regime: ObservedRegime, reading: Reading, elsewhere: Mapping[str, float]) -> dict[str, Any]:
    row: dict[str, Any] = {"slot": regime.slot}
    if regime.tenant is not None:
        row["tenant"] = printable(regime.tenant, len(regime.tenant))
    row |= {"tokens": regime.tokens, "concurrency": regime.concurrency}
    for name in _SHARES:
        value, interval = getattr(regime, name), getattr(regime, f"{name}_interval")
        if value is not None:
            row[name] = value
        if isinstance(interval, Interval):
            row |= {f"{name}_low": interval.low, f"{name}_high": interval.high}
    if "repetitiveness" in row:
        row |= {"reading": reading, **(_chain(regime, reading) or elsewhere)}
    for name in ("prompt_tokens", "output_tokens", "context_tokens"):
        row[name] = getattr(regime, name)
    return row


def _elsewhere(regimes: Sequence[ObservedRegime], reading: Reading, whole: ObservedRegime) -> dict[str, float]:
    """Give x of rows that tell none; 0 where nothing or everything matches in all, so that x has no meaning."""
    if reading == "independent":
        return {}
    if whole.autocorrelation is None:
        return {"autocorrelation": 0.0} if whole.repetitiveness in (0.0, 1.0) else {}
    told = [(each.autocorrelation, each.tried) for each in regimes if each.autocorrelation is not None]
    x = whole.autocorrelation
    if told:
        x = sum(own * tried for own, tried in told) / sum(tried for _, tried in told)
    high = max(x, whole.autocorrelation, getattr(whole.autocorrelation_interval, "high", 0.0))
    return {"autocorrelation": x, "autocorrelation_low": 0.0, "autocorrelation_high": high}


def _chain(regime: ObservedRegime, reading: Reading) -> dict[str, float]:
    """Give x with its interval; nothing where it is not known."""
    x, interval = regime.autocorrelation, regime.autocorrelation_interval
    if reading == "independent" or x is None:
        return {}
    found = {"autocorrelation": x}
    if interval is not None:
        found |= {"autocorrelation_low": interval.low, "autocorrelation_high": interval.high}
    return found
