"""Options that several commands share."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

MOST_THREADS = 1_024

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _all(*decorators: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    def decorate(function: _Command) -> _Command:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def cores() -> int:
    """Cores given to this process."""
    return len(os.sched_getaffinity(0))


class Threads(click.IntRange):
    """A number of threads; far more than any machine has cores is a slip of the keyboard."""

    def __init__(self) -> None:
        super().__init__(1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the number."""
        number = super().convert(value, param, ctx)
        if number > MOST_THREADS:
            self.fail(
                f"{number:,} is more than {MOST_THREADS:,}; each takes memory of its own, and those beyond the cores "
                f"({cores()} here) only wait.",
                param,
                ctx,
            )
        return number


class Finite(click.FloatRange):
    """A number within a range; nan lies in none, though no comparison says so, and inf is no measured value."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return number


def _one_form(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> bool:
    """Refuse two forms of output at once: only one would be printed."""
    other = {"as_json": "as_markdown", "as_markdown": "as_json"}[str(parameter.name)]
    if wanted and ctx.params.get(other):
        raise click.UsageError("--json and --markdown are two forms of the same tables; leave one of them out", ctx)
    return wanted


def model_here(_ctx: click.Context, _parameter: click.Parameter, model: str | None) -> str | None:
    """Read a ``file://`` URI as the path it names; refuse other file systems, from which no model is read."""
    if model is None or "://" not in model:
        return model
    from oracle.errors import InputError, printable  # noqa: PLC0415
    from oracle.locations import is_uri, path_here, without_secrets  # noqa: PLC0415

    path = path_here(model)
    if is_uri(path):
        raise InputError(
            f"--model {printable(without_secrets(path))}: a model is read from this machine, only traces and rounds "
            "from other file systems; copy it here, or pipe it to stdin (-)"
        )
    return path


TRACES = click.argument("traces", nargs=-1, required=True)

MODEL = click.option(
    "--model",
    "-m",
    required=True,
    metavar="FILE",
    callback=model_here,
    help="Latency model (JSON), as `fit` writes it; - reads stdin.",
)

READING = _all(
    click.option("--batch-size", type=click.IntRange(1), help="Which batch size of a model fitted over several."),
    click.option("--k-min", type=click.IntRange(0), help="Shortest draft length [0 if the model has m = 1, else 1]."),
    click.option("--k-max", type=click.IntRange(0), help="Longest draft length [what model and traces cover]."),
    click.option(
        "--unique-experts",
        type=click.Choice(["recorded", "routing"]),
        help="Which expert column to use [recorded where the traces have it].",
    ),
    click.option(
        "--match-is",
        type=click.Choice(["conditional", "survival"]),
        help="What the column match_probs holds [conditional; a warning if it looks like survival].",
    ),
)

THREADS = click.option(
    "--threads",
    type=Threads(),
    default=cores(),
    show_default="all cores given to the process",
    help="Threads to work on; one more reads ahead, and results are written beside. Results do not depend on it.",
)

MEMORY = click.option(
    "--memory",
    type=click.IntRange(1),
    metavar="MB",
    help="Megabytes the process may take: batches are cut to fit [380, and 45 for each of threads + 2].",
)

SHARDS = _all(
    click.option(
        "--shards",
        "--resume",
        "shards",
        is_flag=True,
        help="Make the output a folder with one file a shard of the traces; the same command goes on where it stopped.",
    ),
    click.option(
        "--keep-going",
        is_flag=True,
        help="With --shards: leave out files and row groups that cannot be read, say which, and exit with 3.",
    ),
)

ENGINE = _all(
    click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="Who reads and works: this process, or Ray Data (extra `ray`); results are the same.",
    ),
    click.option(
        "--ray-address",
        metavar="ADDRESS",
        help="HOST:PORT, or auto, of a running Ray cluster of which this machine is a node; ray:// addresses are not "
        "supported [start Ray on this machine].",
    ),
)

SHOWING = _all(
    click.option("--json", "as_json", is_flag=True, callback=_one_form, help="Print the tables as JSON, in full."),
    click.option("--markdown", "as_markdown", is_flag=True, callback=_one_form, help="Print the tables as Markdown."),
)


def output_file(what: str, *, or_shards: bool = False) -> Callable[[_Command], _Command]:
    """Give the option -o for a file that appears whole or not at all, or for a folder of shards."""
    return click.option("--output", "-o", type=click.Path(dir_okay=or_shards, path_type=Path), help=what)
