"""Where the work is done: in this process, or by the workers of a Ray cluster."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from oracle.cli.signals import answer

if TYPE_CHECKING:
    from oracle.rounds import RoundFiles
    from oracle.traces import TraceFiles

_Files = TypeVar("_Files", "TraceFiles", "RoundFiles")


@contextmanager
def worked_on(files: _Files, engine: str | None, ray_address: str | None, cpus: int) -> Iterator[_Files]:
    """Give files whose batches the engine asked for works on; a Ray that is started for it ends with the context.

    Parameters
    ----------
    files
        What is read.
    engine, ray_address
        The options' values.
    cpus
        Cores of a Ray that is started here.
    """
    if engine != "ray":
        if ray_address is not None:
            raise click.UsageError("--ray-address is for --engine ray; give both or neither")
        yield files
        return
    from oracle.cluster.ray_engine import RayEngine  # noqa: PLC0415
    from oracle.cluster.spreading import SpreadRounds, SpreadTraces  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415

    if sys.stderr.isatty():
        doing = "starting Ray on this machine" if ray_address is None else "connecting to Ray"
        click.echo(f"{doing}; that can take a minute …", err=True)
    with RayEngine(ray_address, cpus, held=answer) as running:
        spread: Any = SpreadTraces if isinstance(files, TraceFiles) else SpreadRounds
        yield spread(files, running)
