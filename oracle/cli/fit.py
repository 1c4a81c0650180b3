"""``draft-oracle fit``."""

import sys
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.options import SHOWING
from oracle.cli.output import emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oracle.latency.tables import FitResult


@click.command()
@click.argument("rounds", nargs=-1, required=True)
@click.option("--output", "-o", metavar="FILE", help="Write the latency model (JSON) here; - writes it to stdout.")
@click.option(
    "--kind",
    type=click.Choice(["joint", "separate"]),
    default="joint",
    show_default=True,
    help="joint: one context coefficient for all m; separate: one least-squares fit for each m.",
)
@click.option(
    "--draft",
    type=click.Choice(["auto", "line", "table", "free"]),
    default="auto",
    show_default=True,
    help="Draft time: a line in k, a table of means, the better of both on held-out rounds, or free drafts.",
)
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="Folds for held-out errors.")
@SHOWING
def fit(
    rounds: tuple[str, ...], output: str | None, kind: str, draft: str, folds: int, as_json: bool, as_markdown: bool
) -> None:
    """Fit a latency model to recorded verification rounds.

    ROUNDS are Parquet files, folders or globs. Errors are clustered by the column cluster, else by generation.
    """
    from oracle.files import atomic_output, refuse_output_over_input  # noqa: PLC0415
    from oracle.summaries.fit import fit_tables  # noqa: PLC0415

    with ExitStack() as stack:
        partial = None
        if output not in (None, "-"):
            refuse_output_over_input(output, rounds)
            partial = stack.enter_context(atomic_output(str(output)))
        result = fitted(list(rounds), {"kind": kind, "draft": draft, "folds": folds})
        if partial is not None:
            partial.write_text(result.model.to_json(), "utf-8")
    if output == "-":
        sys.stdout.write(result.model.to_json())
    extra = {"provenance": (result.model.fit or {}).get("provenance")}
    emit(fit_tables(result), as_json=as_json, as_markdown=as_markdown, extra=extra, err=output == "-")


def fitted(rounds: "Sequence[str | Path]", options: dict[str, Any]) -> "FitResult":
    """Fit a latency model to files; its record holds where it comes from."""
    from oracle.errors import InputWarning  # noqa: PLC0415
    from oracle.kinds import files_of_kind  # noqa: PLC0415
    from oracle.latency.fit import fit_latency  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.rounds import RoundFiles  # noqa: PLC0415

    files = RoundFiles(files_of_kind(list(rounds), "rounds"))
    if len(files.paths) > 1:
        named = ", ".join(path.name for path in files.paths)
        click.echo(f"pooling {len(files.paths)} files as rounds of one machine and backend: {named}", err=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # the tables' notes say the same
        return fit_latency(files, **options, provenance=provenance("fit", options, files.paths))
