"""What observed break-evens tell of the parameters of a deployment, beside what it states."""

from collections.abc import Iterator
from typing import Any

from oracle.errors import printable
from oracle.levers.deployment import Deployment
from oracle.levers.identified import Identified, Range
from oracle.tables import Column, Row, Table, interval_cells, number, show, words

_UNITS = 1e-6  # of the value: nearer to an end is rounding


def identified_table(deployment: Deployment, identified: tuple[Identified, ...]) -> Table:
    """Show every parameter that break-evens tell, the interval of all its solutions and the value in use."""
    rows = [row for each in identified for row in _rows(deployment, each)]
    columns = (
        words("break-evens of", "pair"),
        words("parameter", "parameter"),
        Column("all solutions", _told),
        number("in use", "stated", ".4g"),
        words("", "verdict"),
    )
    notes = [_said(deployment, each) for each in identified]
    notes.append(
        "never told: the scale of eta (the wider precision keeps its own), and costs of prefill and prefix cache; "
        "draft length, kappa, base_match and the reading of matches are taken as stated"
    )
    return Table("levers_identified", "What observed break-evens tell of the parameters", columns, rows, notes)


def _rows(deployment: Deployment, each: Identified) -> Iterator[dict[str, Any]]:
    how = deployment.speculation
    pair = f"{printable(each.reference)}, {printable(each.precision)}"
    if each.eta is None:
        yield _row(pair, "all of them", None, None) | {"verdict": "no solution"}
        return
    yield _row(pair, f"eta of {printable(each.precision)}", each.eta, deployment.named(each.precision).eta)
    yield _row(pair, "round_host_ms", each.round_host_ms, how.round_host_ms)
    for at in each.verification:
        yield _row(pair, f"verify_batch, from batch size {at.batch_size:g}", at.verify_batch, how.verify_batch)
    if each.growth is not None:
        sizes = each.batch_sizes
        name = f"verification at {sizes[-1]:g} over that at {sizes[0]:g}"
        yield _row(pair, name, each.growth, sizes[-1] / sizes[0])


def _row(pair: str, parameter: str, told: Range | None, stated: float | None) -> dict[str, Any]:
    inside = told is None or stated is None or told.low - _near(told.low) <= stated <= told.high + _near(told.high)
    return {
        "pair": pair,
        "parameter": parameter,
        **interval_cells("told", None, told),
        "stated": stated,
        "verdict": None if inside else "OUTSIDE",
    }


def _near(value: float) -> float:
    return _UNITS * abs(value) if value < float("inf") else 0.0


def _told(row: Row) -> str:
    low, high = row["told_low"], row["told_high"]
    if low is None:
        return "none"
    if low == float("inf"):
        return "no verification"
    return f"{show(low, '.4g')} – {'any' if high == float('inf') else show(high, '.4g')}"


def _said(deployment: Deployment, each: Identified) -> str:
    """Say whether the parameters are told, and which simpler readings are excluded."""
    pair = f"{printable(each.reference)} and {printable(each.precision)}"
    if each.eta is None or each.round_host_ms is None:
        how = deployment.speculation
        return (
            f"{pair}: no eta up to 1 and no host work give these break-evens with base_match {how.base_match:g} and "
            "the kappa stated: one of the assumptions is wrong, or the observations are"
        )
    if not each.is_point:
        return (
            f"{pair}: observed together at one batch size only, which leaves a curve of solutions whatever the "
            "precision of the observations; observe a second batch size"
        )
    excluded = [
        what for what, out in (("eta of 1", each.eta.high < 1), ("no host work", each.round_host_ms.low > 0)) if out
    ]
    said = f"excluded: {', '.join(excluded)}" if excluded else "neither an eta of 1 nor no host work is excluded"
    return f"{pair}: told up to the width of the observations; {said}"
