"""``draft-oracle bench``."""

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from oracle.cli.options import SHOWING
from oracle.cli.output import emit

if TYPE_CHECKING:
    from benchmarks.report import BenchReport
    from oracle.tables import Format, Table

FAILED = 1  # exit code


@click.command()
@click.option("--quick", "size", flag_value="quick", default=True, help="Two or three minutes [default].")
@click.option(
    "--full",
    "size",
    flag_value="full",
    help="Larger inputs; about ten minutes and, in the folder for temporary files, 4.3 GB.",
)
@click.option("--smallest", "size", flag_value="smallest", help="Only shows that everything runs; times mean nothing.")
@click.option(
    "--only",
    multiple=True,
    metavar="GROUP",
    help="Some only: survival, windows, solve, evaluation, search, serving, compile, path, memory, threads, cluster, "
    "fit.",
)
@SHOWING
def bench(size: str, only: tuple[str, ...], as_json: bool, as_markdown: bool) -> None:
    """Measure the kernels and the whole path on this machine, beside what one would use instead.

    Each table is printed as soon as it is measured, the checks at the end; --json prints all of it at the end. Exit
    code 1: something does not hold that must on any machine (see the table of checks).
    """
    from oracle.tables import render  # noqa: PLC0415

    benchmarks, shown = _benchmarks(), list["Table"]()

    def show(report: "BenchReport") -> None:
        """Go on with the page: print the tables that have not been printed yet."""
        form: Format = "markdown" if as_markdown else "text"
        page, names = render(shown, form) if shown else "", {table.name for table in shown}
        shown.extend(table for table in benchmarks.tables_of(report) if table.name not in names)
        click.echo(render(shown, form)[len(page) :], nl=False)

    report = benchmarks.measure(size, only or None, _teller(), None if as_json else show)
    if as_json:
        whole = report.to_dict()
        limits = [row for row in whole["rows"] if row["group"] == "bandwidth"]
        facts = {"size": whole["size"], "machine": whole["machine"], "limits": limits}
        emit(benchmarks.tables_of(report), as_json=True, extra=facts)
    else:
        show(report)
    if report.failed:
        click.get_current_context().exit(FAILED)


def _teller() -> Callable[[str], None]:
    """Say on a terminal what is measured, a line each: anything livelier would take time from what is measured."""
    start = time.monotonic()

    def tell(what: str) -> None:
        if sys.stderr.isatty():
            minutes, seconds = divmod(int(time.monotonic() - start), 60)
            click.echo(f"{minutes:3}:{seconds:02}  {what} …", err=True)

    return tell


def _benchmarks() -> ModuleType:
    """Find the benchmarks: inside an installed package, or beside it in a checkout."""
    if importlib.util.find_spec("oracle.benchmarks") is not None:
        return importlib.import_module("oracle.benchmarks.run")
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / "benchmarks" / "run.py").is_file():
        raise click.ClickException("the benchmarks are not part of this installation; install the package anew")
    sys.path.insert(0, str(checkout))
    return importlib.import_module("benchmarks.run")
