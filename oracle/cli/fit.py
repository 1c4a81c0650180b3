"""``draft-oracle fit``."""

import sys
import warnings
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.engine import worked_on
from oracle.cli.options import ENGINE, SHOWING, cores
from oracle.cli.output import emit, steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oracle.files import PathLike
    from oracle.latency.tables import FitResult
    from oracle.tables import Table


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
@click.option(
    "--report", type=click.Path(file_okay=False, path_type=Path), help="Write all diagnostics here: a folder."
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier report.")
@click.option("--factor", "factors", multiple=True, metavar="COLUMN", help="A further column to try as a factor.")
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="Folds for held-out errors.")
@ENGINE
@SHOWING
def fit(
    rounds: tuple[str, ...],
    output: str | None,
    kind: str,
    draft: str,
    report: Path | None,
    overwrite: bool,
    factors: tuple[str, ...],
    folds: int,
    engine: str,
    ray_address: str | None,
    as_json: bool,
    as_markdown: bool,
) -> None:
    """Fit a latency model to recorded verification rounds.

    ROUNDS are Parquet files, folders, globs or URIs. Errors are clustered by the column cluster, else by generation.
    With --report, everything that speaks for and against the fit is written as a page with figures.
    """
    from oracle.outputs import atomic_output, refuse_output_over_input  # noqa: PLC0415
    from oracle.summaries.fit import fit_tables  # noqa: PLC0415

    if factors and report is None:
        raise click.UsageError("--factor names columns for the report; give --report DIR too")
    with ExitStack() as stack:
        partial = None
        if output not in (None, "-"):
            refuse_output_over_input(output, rounds)
            partial = stack.enter_context(atomic_output(str(output)))
        folder = None if report is None else stack.enter_context(_report_folder(report, overwrite, rounds))
        result = fitted(list(rounds), {"kind": kind, "draft": draft, "folds": folds}, engine, ray_address)
        provenance = dict((result.model.fit or {}).get("provenance") or {})
        if factors:
            provenance["options"] = {**provenance["options"], "factors": list(dict.fromkeys(factors))}
        tables = fit_tables(result)
        if folder is not None:
            tables = _reported(list(rounds), result, folder, folds, factors, provenance)
        if partial is not None:
            partial.write_text(result.model.to_json(), "utf-8")
    if output == "-":
        sys.stdout.write(result.model.to_json())
    extra = {"provenance": provenance}
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra=extra, err=output == "-")


def _report_folder(report: Path, overwrite: bool, rounds: "Sequence[str | Path]") -> "AbstractContextManager[Path]":
    """Open the folder of a report before the work begins."""
    from oracle.outputs import atomic_folder, refuse_output_over_input  # noqa: PLC0415
    from oracle.reports.latency import VALUES, is_report_name  # noqa: PLC0415

    refuse_output_over_input(report, rounds)
    return atomic_folder(report, overwrite, ours=is_report_name, marker=VALUES)


def _reported(
    rounds: "Sequence[str | Path]",
    result: "FitResult",
    folder: Path,
    folds: int,
    factors: tuple[str, ...],
    provenance: dict[str, Any],
) -> "list[Table]":
    """Carry out all diagnostics, write the report, give its tables."""
    from oracle.kinds import files_of_kind  # noqa: PLC0415
    from oracle.latency.diagnostics.diagnose import diagnose  # noqa: PLC0415
    from oracle.latency.evidence import gather_evidence  # noqa: PLC0415
    from oracle.reports.latency import write_report  # noqa: PLC0415
    from oracle.rounds import RoundFiles  # noqa: PLC0415

    files = RoundFiles(files_of_kind(list(rounds), "rounds"))
    pairs = []
    with steps("diagnostics") as step:
        for each in result.each:
            evidence = gather_evidence(files, folds=folds, further=factors, batch_size=each.batch_size)
            pairs.append((each, diagnose(evidence, step)))
        step("figures")
        return write_report(folder, pairs, provenance)


def fitted(
    rounds: "Sequence[PathLike]", options: dict[str, Any], engine: str | None = None, ray_address: str | None = None
) -> "FitResult":
    """Fit a latency model to files; its record holds where it comes from."""
    from oracle.digests import Stamps  # noqa: PLC0415
    from oracle.errors import InputWarning  # noqa: PLC0415
    from oracle.kinds import files_of_kind  # noqa: PLC0415
    from oracle.latency.fit import fit_latency, unit_remark  # noqa: PLC0415
    from oracle.latency.passes import at_batch_size  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.rounds import RoundFiles  # noqa: PLC0415

    files = RoundFiles(files_of_kind(list(rounds), "rounds"))
    stamps = Stamps(files.paths)
    if len(files.paths) > 1:
        named = ", ".join(path.name for path in files.paths)
        click.echo(f"pooling {len(files.paths)} files as rounds of one machine and backend: {named}", err=True)
    with worked_on(files, engine, ray_address, cores()) as batches, warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # the tables' notes say the same
        result = fit_latency(batches, **options, provenance=provenance("fit", options, files.paths))
        stamps.check()
    for each in result.each:
        remark = unit_remark(each.verify_moments, each.draft_moments, each.joint)
        if remark is not None:  # every number that follows is wrong if this is right
            warnings.warn(at_batch_size(each.batch_size, remark), InputWarning, stacklevel=2)
    return result
