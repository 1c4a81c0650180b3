"""The numbers that figures of serving levers draw: a row for each point, knee, mark or run of a map."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from oracle.figures.levers_curves import (
    Curve,
    Observed,
    admitted_now,
    observed,
    precision_curves,
    prefix_share_curves,
    repetitiveness_curves,
    round_length_curves,
    round_length_here,
)
from oracle.figures.levers_maps import NOTHING, decision_cells, regret_cells
from oracle.figures.levers_schedule import critical_lines
from oracle.figures.levers_shared import shared_curves
from oracle.levers.advised import set_in
from oracle.levers.answer import Answer, Planned
from oracle.levers.procedure import configurations
from oracle.levers.shared import Shared
from oracle.summaries.levers_admission import configured
from oracle.summaries.levers_schedule import slots_advised
from oracle.tables import Column, Row, Table, number, plain, with_interval, words

_NEVER = "no value: it never pays there"


def repetitiveness_drawn(found: Answer) -> Table:
    """Points of r*(C), knees, and the observed repetitiveness."""
    here = observed(found, "repetitiveness", admitted_now(found))
    rows = [*_rows(repetitiveness_curves(found), "concurrency", "r"), _point(here, "concurrency", "r")]
    return Table("levers_r", "r* by concurrency: the points drawn", _columns("concurrency", "r"), rows, (_NEVER,))


def prefix_share_drawn(found: Answer) -> Table:
    """Points of rho*(B), knees, and the observed prefix share."""
    here = observed(found, "prefix_share", float(set_in(found)[0].batch))
    rows = [*_rows(prefix_share_curves(found), "batch", "rho"), _point(here, "batch", "rho")]
    return Table("levers_rho", "rho* by batch: the points drawn", _columns("batch", "rho"), rows, ("above 1: never",))


def precision_drawn(found: Answer) -> Table:
    """Points of the precision ratio, and its knees."""
    rows = list(_rows(precision_curves(found), "concurrency", "ratio"))
    return Table("levers_ratio", "Decode cost by concurrency: the points drawn", _columns("concurrency", "ratio"), rows)


def round_length_drawn(found: Answer) -> Table:
    """Points of tokens a round, where the deployment is, and where speculation begins to pay."""
    accept, length, needed = round_length_here(found)
    names = ("acceptance", "tokens")
    rows = [
        *_rows(round_length_curves(found), *names),
        _point(Observed(accept, length, length, length), *names),
        {**_point(Observed(accept, needed, needed, needed), *names), "series": "pays above", "acceptance": None},
    ]
    return Table("levers_rounds", "Tokens a round by acceptance: the points drawn", _columns(*names), rows)


def _rows(curves: Sequence[Curve], x: str, y: str) -> Iterator[Row]:
    for curve in curves:
        low, high = (np.full(curve.y.shape, np.nan) if end is None else end for end in (curve.low, curve.high))
        for point in np.column_stack([curve.x, curve.y, low, high]).tolist():
            at, value, below, above = map(plain, point)
            yield {"series": curve.name, "mark": "line", x: at, y: value, f"{y}_low": below, f"{y}_high": above}
        if curve.knee is not None:
            full = {"series": curve.name, "mark": "KV cache full"}
            yield {**full, x: curve.knee, y: None, f"{y}_low": None, f"{y}_high": None}


def _point(at: Observed, x: str, y: str) -> dict[str, Any]:
    ends = (at.low, at.high) if at.has_interval else (None, None)
    return {"series": "here", "mark": "point", x: at.x, y: at.y, f"{y}_low": ends[0], f"{y}_high": ends[1]}


def _columns(x: str, y: str) -> tuple[Column, ...]:
    return (words("series", "series"), words("", "mark"), number(x, x, ",.6g"), with_interval(y, y, ".4f"))


def decisions_drawn(found: Answer) -> Table:
    """Each row of the decision map as runs of concurrency with one configuration, both ends included."""
    cells = decision_cells(found)
    names = [configured(found.deployment, each) for each in configurations(found.deployment)]
    rows: list[Row] = []
    capped = np.zeros(cells.values.shape, np.bool_) if cells.capped is None else cells.capped
    for r, line, caps in zip(cells.repetitiveness.tolist(), cells.values, capped, strict=True):
        changes = (np.diff(line) != 0) | (caps[1:] != caps[:-1])
        starts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(line)]
        rows += [
            {
                "repetitiveness": r,
                "concurrency_low": float(cells.concurrency[a]),
                "concurrency_high": float(cells.concurrency[b - 1]),
                "configuration": names[line[a]],
                "capped": bool(caps[a]),
            }
            for a, b in pairwise(starts)
        ]
    columns = (
        number("r", "repetitiveness", ".2f"),
        number("C from", "concurrency_low", ",.0f"),
        number("to", "concurrency_high", ",.0f"),
        words("configuration", "configuration"),
        words("capped", "capped"),
    )
    return Table("levers_map", "The decision map: runs of concurrency", columns, rows)


def regret_drawn(found: Answer) -> Table:
    """Cells of the map of regret where something is lost."""
    cells = regret_cells(found)
    lost = np.argwhere(cells.values > NOTHING)
    rows: list[Row] = [
        {
            "repetitiveness": float(cells.repetitiveness[i]),
            "concurrency": float(cells.concurrency[j]),
            "regret": float(cells.values[i, j]),
        }
        for i, j in lost.tolist()
    ]
    columns = (
        number("r", "repetitiveness", ".2f"),
        number("C", "concurrency", ",.0f"),
        number("% dearer", "regret", ".2f", 100),
    )
    grid = (
        f"{len(lost):,} of {cells.values.size:,} cells, {len(cells.repetitiveness)} values of r by "
        f"{len(cells.concurrency)} of C up to {cells.concurrency[-1]:,.0f}: those where the literal order is dearer"
    )
    return Table("levers_regret", "Regret of the source's order: cells that are dearer", columns, rows, (grid,))


def schedule_drawn(found: Planned, number_of: str = "") -> Table:
    """Concurrency of each slot, both levers with what the intervals leave of them, and the cap that would pay."""
    made, traffic = found.schedule, found.traffic
    advised = slots_advised(found)
    (_, spec, _), (_, prefix, _) = critical_lines(found)
    rows: list[Row] = [
        {
            "slot": slot,
            "concurrency": float(traffic.regime.concurrency[t]),
            "cap": float(advised.decided.batch[t]) if advised.capped[t] else None,
            "speculation_critical": plain(spec[t]),
            "cache_critical": plain(prefix[t]),
            "speculation_on": bool(made.speculation_on[t]),
            "speculation_pays": found.speculation[t],
            "cache_on": bool(made.cache_on[t]),
            "cache_pays": found.prefix[t],
            "cost_ms": float(made.cost_ms[t]),
        }
        for t, slot in enumerate(traffic.slots)
    ]
    columns = (
        words("slot", "slot"),
        number("C", "concurrency", ",.6g"),
        number("cap that\nwould pay", "cap", ",.6g"),
        number("speculation\nbelow C", "speculation_critical", ",.0f"),
        number("prefix cache\nbelow C", "cache_critical", ",.0f"),
        words("speculation", "speculation_on"),
        words("pays", "speculation_pays"),
        words("prefix cache", "cache_on"),
        words("pays", "cache_pays"),
        number("ms/token", "cost_ms", ".5f"),
    )
    return Table(f"levers_slots_drawn{number_of}", "The schedule: the slots drawn", columns, rows)


def shared_drawn(found: Shared) -> Table:
    """Points of the cost by requests in flight of all tenants, knees, and what is advised."""
    at = float(found.mixed.concurrency) if found.cap is None else found.cap
    names = ("requests", "ms_per_token")
    rows = [
        *_rows(shared_curves(found), *names),
        _point(Observed(at, found.cost_ms, found.cost_ms, found.cost_ms), *names),
    ]
    return Table("levers_shared_drawn", "Cost of a shared deployment: the points drawn", _columns(*names), rows)
