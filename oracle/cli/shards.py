"""Runs over shards on the command line: an output folder that the same command goes on with."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oracle.cli.signals import Stopped

if TYPE_CHECKING:
    from oracle.files import PathLike
    from oracle.footers import LeftOut
    from oracle.shards import ShardFolder

LEFT_OUT = 3  # exit code


def check_shards(shards: bool, keep_going: bool, output: Path | None) -> None:
    """Refuse options that say nothing together."""
    if keep_going and not shards:
        raise click.UsageError("--keep-going leaves out what a run over shards cannot read; give --shards too")
    if shards and output is None:
        raise click.UsageError("--shards writes a folder; give --output FOLDER")


def leaving_out(keep_going: bool) -> "LeftOut | None":
    """Give what takes files that cannot be read; None where there may be none."""
    from oracle.footers import LeftOut  # noqa: PLC0415

    return LeftOut() if keep_going else None


@contextmanager
def sharded(
    output: Path | None, shards: bool, inputs: "Sequence[PathLike]", left_out: "LeftOut | None"
) -> "Iterator[ShardFolder | None]":
    """Open the folder of a run over shards; None if none is asked for.

    Parameters
    ----------
    inputs
        What must not lie in the folder.
    left_out
        Files that were left out already; None: nothing may be.
    """
    if not shards or output is None:
        yield None
        return
    from oracle.outputs import refuse_output_over_input  # noqa: PLC0415
    from oracle.shards import ShardFolder  # noqa: PLC0415

    refuse_output_over_input(output, inputs)
    with ShardFolder(output, keep_going=left_out is not None, left_out=left_out) as run:
        try:
            yield run
        except Stopped as stopped:
            stopped.goes_on = True
            raise


def end(run: "ShardFolder | None") -> None:
    """Say what was left out, and end with an exit code that says so too."""
    left_out = () if run is None else run.left_out
    for why in left_out:
        click.echo(f"left out: {why}", err=True)
    if left_out:
        click.get_current_context().exit(LEFT_OUT)
