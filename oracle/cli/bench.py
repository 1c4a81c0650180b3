"""``draft-oracle bench``."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.options import SHOWING
from oracle.cli.output import emit

if TYPE_CHECKING:
    from oracle.tables import Table


@click.command()
@click.option("--quick", "size", flag_value="quick", default=True, help="A minute or two [default].")
@click.option("--full", "size", flag_value="full", help="Larger inputs; several minutes.")
@click.option("--smallest", "size", flag_value="smallest", help="Only shows that everything runs; times mean nothing.")
@click.option(
    "--only",
    multiple=True,
    metavar="GROUP",
    help="Some only: survival, windows, solve, evaluation, search, compile, path, fit.",
)
@SHOWING
def bench(size: str, only: tuple[str, ...], as_json: bool, as_markdown: bool) -> None:
    """Measure the kernels and the whole path on this machine, beside what one would use instead."""
    report = _benchmarks().measure(size, only or None, _tell)
    emit(_tables(report), as_json=as_json, as_markdown=as_markdown, extra={"machine": report.to_dict()["machine"]})


def _tell(what: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"measuring: {what} …", err=True)


def _benchmarks() -> ModuleType:
    """Find the benchmarks: inside an installed package, or beside it in a checkout."""
    if importlib.util.find_spec("oracle.benchmarks") is not None:
        return importlib.import_module("oracle.benchmarks.run")
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / "benchmarks" / "run.py").is_file():
        raise click.ClickException("the benchmarks are not part of this installation; install the package anew")
    sys.path.insert(0, str(checkout))
    return importlib.import_module("benchmarks.run")


def _tables(report: Any) -> "list[Table]":
    from oracle.tables import Column, Table, number, show, words  # noqa: PLC0415

    machine = report.machine
    facts = [
        {"fact": "processor", "value": f"{machine.cpu}, {machine.cores} cores"},
        {"fact": "read bandwidth, one core", "value": f"{machine.read_bandwidth_gb_per_s:.1f} GB/s"},
        {
            "fact": "python, numpy, numba, pyarrow",
            "value": f"{machine.python}, {machine.numpy}, {machine.numba}, {machine.pyarrow}",
        },
    ]
    tables = [Table("machine", "Where this was measured", (words("", "fact"), words("", "value", most=200)), facts)]

    def rivals(row: Any) -> str:
        return ", ".join(f"{name} {ratio:,.3g}×" for name, ratio in row["ratios"].items())

    columns = (
        words("", "name", most=60),
        number("value", "value", ",.4g"),
        words("unit", "unit"),
        Column("min … max", lambda row: f"{show(row['least'], ',.4g')} … {show(row['most'], ',.4g')}"),
        number("runs", "runs"),
        number("million/s", "per_second", ",.1f", 1e-6),
        number("% of\nbandwidth", "bandwidth_share", ".1f", 100),
        Column("rival's time over ours", rivals, text=True),
        words("", "note", most=200),
    )
    groups = dict.fromkeys(row.group for row in report.rows)
    for group in groups:
        rows = [row.to_dict() for row in report.rows if row.group == group]
        tables.append(Table(group.replace(" ", "_"), f"{group}: medians, interleaved with the rivals", columns, rows))
    return tables
