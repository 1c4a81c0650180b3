"""``draft-oracle explain``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.options import MODEL, READING, SHOWING, TRACES
from oracle.cli.output import emit, read_model
from oracle.cli.traces import NEEDED

if TYPE_CHECKING:
    from oracle.explanation import Explained
    from oracle.tables import Table
    from oracle.traces import TraceFiles

OUTPUTS = frozenset({"tables.md", "tables.json", "decision.svg"})


@click.command()
@TRACES
@MODEL
@click.option("--generation", "-g", required=True, metavar="ID", help="The generation, by its id in the traces.")
@click.option("--position", "-t", required=True, type=int, help="The position where the round starts, from 0.")
@click.option(
    "--change",
    default="experts=0",
    show_default=True,
    metavar="CHANGE",
    help="Compare with the optimum under this changed cost, such as experts=0, draft=0.5, alpha[5]*0.5 or "
    "model=FILE; all else is kept.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="Draw the decision: a file that ends in .svg, or a folder for the picture and the tables.",
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier output folder.")
@READING
@SHOWING
def explain(
    traces: tuple[str, ...],
    model: str,
    generation: str,
    position: int,
    change: str,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    as_markdown: bool,
    batch_size: int | None,
    **reading: Any,
) -> None:
    """Explain one decision in words and a picture: what every draft length would cost here, and what moves the cut.

    TRACES are Parquet files, folders or globs; only the named generation is read.
    """
    from oracle.changes import parse_change  # noqa: PLC0415
    from oracle.digests import Stamps  # noqa: PLC0415
    from oracle.explanation import explain_decision  # noqa: PLC0415
    from oracle.kinds import files_of_kind  # noqa: PLC0415
    from oracle.outputs import refuse_output_over_input  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.summaries.explanation import explanation_tables  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415
    from oracle.traces.lookup import read_generation  # noqa: PLC0415

    latency = read_model(model, batch_size)
    inputs = [Path(model)] if model != "-" else []
    match_is = reading.pop("match_is")
    files = TraceFiles(files_of_kind(list(traces), "traces"), match_is=match_is)
    files = TraceFiles(files.paths, columns=_columns(files), match_is=match_is)
    refuse_output_over_input(output, [*files.paths, *inputs])
    stamps = Stamps([*files.paths, *inputs])
    asked = parse_change(change, model=latency, batch_size=batch_size)
    found = explain_decision(read_generation(files, generation, match_is), latency, position, asked, **reading)
    said = {"generation": generation, "position": position, "change": str(asked), **reading, "match_is": match_is}
    origin = provenance("explain", said, [*files.paths, *inputs])
    stamps.check()
    tables = explanation_tables(found)
    if output is not None:
        _write(output, overwrite, found, tables, origin)
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})


def _columns(files: "TraceFiles") -> list[str]:
    """Columns of a solve, and those of the texts that there are."""
    from oracle.panels import COLUMNS  # noqa: PLC0415

    return [*NEEDED, *(name for name in ("category", *COLUMNS) if name in files.schema.names)]


def _write(output: Path, overwrite: bool, found: "Explained", tables: "list[Table]", origin: dict[str, Any]) -> None:
    """Draw into a file that ends in .svg; else write a folder with picture and tables."""
    from oracle.errors import InputError  # noqa: PLC0415
    from oracle.figures.decision import decision_figure  # noqa: PLC0415
    from oracle.files import shown  # noqa: PLC0415
    from oracle.outputs import atomic_folder, atomic_output  # noqa: PLC0415
    from oracle.tables import as_json_text, render  # noqa: PLC0415

    if output.suffix == ".svg":
        with atomic_output(output) as partial:
            decision_figure(found, partial)
        return
    if output.suffix and not output.is_dir():
        raise InputError(f"{shown(output)}: the picture is SVG; give a name that ends in .svg, or a folder")
    with atomic_folder(output, overwrite, ours=OUTPUTS.__contains__, marker="tables.json") as folder:
        decision_figure(found, folder / "decision.svg")
        (folder / "tables.md").write_text(render(tables, "markdown"), "utf-8")
        (folder / "tables.json").write_text(as_json_text(tables, {"provenance": origin}), "utf-8")
