"""Printing tables, and progress on a terminal."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from oracle.latency.model import LatencyModel
    from oracle.tables import Table


def emit(
    tables: "Sequence[Table]",
    *,
    as_json: bool,
    as_markdown: bool = False,
    extra: Mapping[str, Any] | None = None,
    err: bool = False,
) -> None:
    """Print tables for people, or as one JSON object with the tables under their names.

    Parameters
    ----------
    tables
        What to print.
    extra
        Further keys of the JSON object (provenance).
    err
        Print on stderr, since stdout carries a result.
    """
    from oracle.tables import as_json_text, render  # noqa: PLC0415

    if as_json:
        click.echo(as_json_text(tables, extra), err=err)
        return
    click.echo(render(tables, "markdown" if as_markdown else "text"), err=err, nl=False)


def write_tables(folder: Path, tables: "Sequence[Table]", origin: Mapping[str, Any]) -> None:
    """Write tables into a folder, for people and at full precision."""
    from oracle.tables import as_json_text, render  # noqa: PLC0415

    (folder / "tables.md").write_text(render(tables, "markdown"), "utf-8")
    (folder / "tables.json").write_text(as_json_text(tables, {"provenance": origin}), "utf-8")


def stdin_text() -> str:
    """Read stdin whole, as far as a file of its kind would be read."""
    from oracle.errors import InputError  # noqa: PLC0415
    from oracle.files import MOST_TEXT_BYTES, decoded  # noqa: PLC0415

    if sys.stdin is None:
        raise InputError("standard input: is closed, so that nothing can be read from it; name a file instead of -")
    given = sys.stdin.buffer.read(MOST_TEXT_BYTES + 1)
    if len(given) > MOST_TEXT_BYTES:
        raise InputError(f"standard input: holds more than {MOST_TEXT_BYTES:,} bytes, the most that is read")
    return decoded(given, "standard input")


def read_model(path: str, batch_size: int | None = None) -> "LatencyModel":
    """Read the latency model of one batch size from a file, or from stdin for ``-``."""
    from oracle.latency.model import LatencyModel  # noqa: PLC0415

    model = LatencyModel.from_json(stdin_text(), "standard input") if path == "-" else LatencyModel.load(path)
    return model.at_batch_size(batch_size)


@contextmanager
def steps(what: str) -> Iterator[Callable[[str], None]]:
    """Name the step under way on a terminal's stderr; stay quiet in a pipe."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console  # noqa: PLC0415

    with Console(stderr=True).status(what) as status:
        yield lambda step: status.update(f"{what}: {step} …")


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal's stderr; stay quiet in a pipe.

    Yields
    ------
    Takes the number of steps done since the last call.
    """
    if not sys.stderr.isatty():
        yield lambda steps: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(task, steps)
