"""A report as tables: what must hold, kernels beside the machine's limits, their rivals, and the whole path."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from oracle.tables import Column, Table, number, show, words

from . import clustering, compilation, fitting, holding, path, scaling
from .report import BenchReport, Machine, Row

_APART = {compilation.GROUP, path.GROUP, holding.GROUP, scaling.GROUP, clustering.GROUP, fitting.GROUP, "bandwidth"}
_WIDTH = 120  # characters of a note before it goes on in the next line
_OF_RIVAL = " / "

Cells = Mapping[str, Any]


def _digits(value: float | None, digits: int = 4) -> str:
    """So many digits, without an exponent where thousands say more."""
    return show(None if value is None else float(f"{value:.{digits}g}"), ",.10g")


def _range(row: Cells) -> str:
    if row["least"] is None or row["least"] == row["most"]:
        return "–"
    return f"{_digits(row['least'])} … {_digits(row['most'])}"


def _value(head: str) -> Column:
    return Column(head, lambda row: _digits(row["value"]))


def _scaled(head: str, key: str, scale: float, digits: int = 3) -> Column:
    return Column(head, lambda row: show(None) if row[key] is None else _digits(row[key] * scale, digits))


def _with_unit(row: Cells) -> str:
    return show(None) if row["value"] is None else f"{_digits(row['value'])} {row['unit']}"


_RANGE = Column("min … max", _range)


def tables_of(report: BenchReport) -> list[Table]:
    """Lay a report out for people; the rows keep everything that was measured."""
    tables = [_machine(report.machine, report.rows)]
    if report.checks:
        tables.append(_checks(report))
    layouts: dict[str, Callable[[list[Row]], Table]] = {
        compilation.GROUP: _compiled,
        path.GROUP: _sizes,
        holding.GROUP: _held,
        scaling.GROUP: _threads,
        clustering.GROUP: _cluster,
        fitting.GROUP: _fit,
    }
    kernels = [row for row in report.rows if row.group not in _APART]
    if kernels:
        tables.append(_kernels([row for row in kernels if _OF_RIVAL not in row.name]))
    rivals = [row for row in report.rows if _OF_RIVAL in row.name and row.group != clustering.GROUP]
    if rivals:
        tables.append(_rivals(rivals, report))
    for group, layout in layouts.items():
        rows = [row for row in report.rows if row.group == group]
        if rows:
            tables.append(layout(rows if group == clustering.GROUP else [r for r in rows if _OF_RIVAL not in r.name]))
    return tables


def _machine(machine: Machine, rows: Sequence[Row]) -> Table:
    facts = [
        ("processor", f"{machine.cpu}, {machine.cores} cores"),
        ("one core reads", f"{machine.read_bandwidth_gb_per_s:.1f} GB/s"),
        *(("one core computes", _peak(row)) for row in rows if row.unit == "Gop/s"),
        (
            "Python, NumPy, Numba, pyarrow",
            f"{machine.python}, {machine.numpy}, {machine.numba}, {machine.pyarrow}",
        ),
    ]
    columns = words("", "fact"), words("", "value", most=200)
    return Table("machine", "Where this was measured", columns, [{"fact": f, "value": v} for f, v in facts])


def _peak(row: Row) -> str:
    return f"{show(row.value, '.1f')} Gop/s: {row.what.partition(', ')[2]}"


def _checks(report: BenchReport) -> Table:
    verdict = {True: "yes", False: "NO", None: "–"}
    rows = [
        {
            "check": check.name,
            "asked": check.asked,
            "found": check.found,
            "passed": check.passed,
            "fails_the_run": check.fails_the_run,
        }
        for check in report.checks
    ]
    columns = (
        words("", "check"),
        words("asked", "asked"),
        words("found", "found"),
        Column("holds", lambda row: verdict[row["passed"]], text=True),
    )
    return Table("checks", "What must hold", columns, rows)


def _kernels(rows: list[Row]) -> Table:
    columns = (
        words("", "name"),
        words("for one", "of"),
        _value("ns"),
        _RANGE,
        _scaled("million/s", "per_second", 1e-6),
        number("bytes", "bytes_per_position", ",.0f"),
        number("opera-\ntions", "operations_per_position", ",.0f"),
        number("GB/s", "gb_per_s", ".2f"),
        number("Gop/s", "gop_per_s", ".2f"),
        words("bound by", "bound_by"),
        _scaled("% of\nlimit", "limit_share", 100, 2),
    )
    notes = [
        "Bytes and operations: the least that one of them needs, by the formulas in benchmarks/needs.py.",
        "Limit: the longer of both times, bytes at what one core reads and operations at what it computes at best.",
        "Far below both a kernel waits: for the step before, for memory that is not read in order, or for branches.",
        *_notes(rows),
    ]
    return Table("kernels", "Kernels on one core, medians", columns, [row.to_dict() for row in rows], notes)


def _rivals(rows: list[Row], report: BenchReport) -> Table:
    def beside(row: Row) -> dict[str, Any]:
        name, _, rival = row.name.rpartition(_OF_RIVAL)
        return row.to_dict() | {"rival_of": name, "rival": rival, "over_ours": report.row(name).ratios.get(rival)}

    columns = (
        words("", "rival_of"),
        words("rival", "rival"),
        Column("its time", _with_unit),
        Column("× ours", lambda row: _digits(row["over_ours"], 3)),
        words("", "note", most=60),
    )
    title = "What one would use instead, on the same input in turns; × ours: above 1 ours is faster"
    return Table("rivals", title, columns, [beside(row) for row in rows])


def _compiled(rows: list[Row]) -> Table:
    columns = words("", "what"), number("s", "value", ".2f"), words("", "note")
    return Table(compilation.GROUP, "Compile time", columns, [row.to_dict() for row in rows])


def _sizes(rows: list[Row]) -> Table:
    columns = (
        words("", "name"),
        _figure("s", path.SECONDS, ".3g"),
        _value("ns/position"),
        _RANGE,
        _scaled("million/s", "per_second", 1e-6),
        _figure("peak\nmemory, MB", path.PEAK_MB, ",.0f"),
        _figure("of it after\nimports, MB", path.LOADED_MB, ",.0f"),
        _figure("traces on\ndisk, MB", path.DISK_MB, ",.0f"),
    )
    title = f"The whole path by size: {rows[0].what}"
    return Table(path.GROUP, title, columns, [row.to_dict() for row in rows], _notes(rows))


def _held(rows: list[Row]) -> Table:
    columns = (
        words("", "name"),
        _figure("s", path.SECONDS, ".3g"),
        _figure("peak\nmemory, MB", path.PEAK_MB, ",.0f"),
        _figure("of it after\nimports, MB", path.LOADED_MB, ",.0f"),
    )
    title = "Memory of score, and of ablate with path and draws, files written; once each"
    return Table(holding.GROUP, title, columns, [row.to_dict() for row in rows], _notes(rows))


def _threads(rows: list[Row]) -> Table:
    columns = (
        words("", "name"),
        _value("ns/position"),
        _RANGE,
        _scaled("million/s", "per_second", 1e-6),
        Column("times as fast\nas 1 thread", lambda row: show(row["ratios"].get(scaling.SPEED_UP), ".2f")),
        _figure("cores\nreally given", scaling.CORES_GIVEN, ".2f"),
    )
    title = f"Scaling over threads, {rows[0].positions:,} positions"
    return Table(scaling.GROUP, title, columns, [row.to_dict() for row in rows], _notes(rows))


def _cluster(rows: list[Row]) -> Table:
    columns = (
        words("", "name"),
        Column("median", _with_unit),
        _RANGE,
        Column("Ray's time\nover ours", lambda row: show(row["ratios"].get(clustering.RAY), ".2f")),
        words("", "note"),
    )
    return Table(clustering.GROUP, "Ray beside one process", columns, [row.to_dict() for row in rows])


def _fit(rows: list[Row]) -> Table:
    columns = (
        words("", "name"),
        number("s", "value", ",.3g"),
        _RANGE,
        _scaled("thousand\nrounds/s", "per_second", 1e-3),
    )
    what = rows[0].what.rpartition("; ")[2]
    title = f"The latency fit and its diagnostics: {what}"
    return Table(fitting.GROUP, title, columns, [row.to_dict() for row in rows], _notes(rows))


def _figure(head: str, name: str, spec: str) -> Column:
    return Column(head, lambda row: show(row["figures"].get(name), spec))


def _notes(rows: Sequence[Row]) -> list[str]:
    """The rows' notes, each part once with the names it belongs to, in lines of bounded length."""
    said: dict[str, list[str]] = {}
    for row in rows:
        for part in filter(None, row.note.split("; ")):
            said.setdefault(part, []).append(row.name)
    return [line for part, names in said.items() for line in _lines(part, names, len(rows))]


def _lines(part: str, names: Iterable[str], of: int) -> Iterator[str]:
    owners = list(names)
    text = part if len(owners) == of > 1 else f"{', '.join(owners)}: {part}"
    yield from textwrap.wrap(text, _WIDTH, subsequent_indent="  ")
