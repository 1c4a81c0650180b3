"""``draft-oracle report``."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.levers_inputs import given_files
from oracle.cli.options import MEMORY, MODEL, READING, THREADS, TRACES, output_file
from oracle.cli.output import read_model, steps
from oracle.cli.report_material import gather
from oracle.cli.report_stated import Stated
from oracle.cli.traces import trace_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oracle.latency.model import LatencyModel
    from oracle.pages import Page
    from oracle.traces.budget import Budget

_MARKER = "figures.txt"
_FORMS = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}


@click.command()
@TRACES
@MODEL
@output_file("The report: one file that needs nothing else.")
@click.option("--format", "form", type=click.Choice(["html", "md", "json"]), help="[by the file's ending, else html]")
@click.option("--rounds", metavar="FILE", help="The rounds that the model was fitted to: shows the points of the fit.")
@click.option("--deployment", metavar="FILE", help="Serving levers too: a deployment as `levers` takes it; - is stdin.")
@click.option("--traffic", metavar="FILE", help="Traffic of the deployment: values or a series. [the deployment's own]")
@click.option("--measured", metavar="FILE", help="Acceptance and step times of the deployment by precision, fitted.")
@click.option("--pool", metavar="FILE", help="The memory pool too: a plan as `pool` takes it; - is stdin.")
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write every figure as SVG and PNG here too: a folder.",
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier folder of figures.")
@click.option("--title", default="Draft lengths: what these traces say", show_default=True, help="Heading of the page.")
@READING
@THREADS
@MEMORY
def report(
    traces: tuple[str, ...],
    model: str,
    output: Path | None,
    form: str | None,
    rounds: str | None,
    deployment: str | None,
    traffic: str | None,
    measured: str | None,
    pool: str | None,
    figures: Path | None,
    overwrite: bool,
    title: str,
    batch_size: int | None,
    match_is: str | None,
    **reading: Any,
) -> None:
    """Write one page about traces and a latency model: what to set, how far from the bound, and why.

    TRACES are Parquet files, folders or globs, walked over several times. The page is a single file without scripts
    that opens from disk; figures carry their data. Serving levers and the memory pool are a model's output for what a
    file states; the traces tell nothing of them.
    """
    from oracle.errors import printable  # noqa: PLC0415
    from oracle.outputs import atomic_folder, atomic_output, refuse_output_over_input  # noqa: PLC0415
    from oracle.pages import compose  # noqa: PLC0415

    to_stdout = output is None or str(output) == "-"
    form = form or _form_of(None if to_stdout else output)
    if to_stdout and form == "html":
        raise click.UsageError("the page is a file; give --output FILE, such as report.html, or --format md or json")
    made, stated = _today(), Stated(deployment, traffic, measured, pool)
    inputs = [*given_files(model, *stated.paths), *([Path(rounds)] if rounds else [])]
    latency = read_model(model, batch_size)
    files = trace_files(traces, match_is, _budget(latency, reading))
    for path in (None if to_stdout else output, figures):
        refuse_output_over_input(path, [*traces, *files.paths, *inputs])
    with ExitStack() as stack, steps("report") as step:
        partial = None if to_stdout or output is None else stack.enter_context(atomic_output(output))
        folder = None
        if figures is not None:
            folder = stack.enter_context(atomic_folder(figures, overwrite, ours=_is_figure, marker=_MARKER))
        page = compose(gather(files, latency, rounds, inputs, reading, step, stated), printable(title, 200), made)
        step("writing")
        beside = Path() if output is None else output.parent
        text = _written(page, form, beside, figures)
        if partial is None:
            click.echo(text, nl=False)
        else:
            partial.write_text(text, "utf-8")
        if folder is not None:
            _draw(page, folder, step)


def _budget(model: "LatencyModel", reading: "Mapping[str, Any]") -> "Budget":
    """Share `--memory` out: what is kept of a batch at most is what a family of policies and language contexts need."""
    from oracle.cli.traces import budget  # noqa: PLC0415
    from oracle.policies.candidates import POINTS  # noqa: PLC0415

    return budget(model, reading["memory"], reading["threads"], reading["k_max"], POINTS)


def _form_of(output: Path | None) -> str:
    """Give the form that the ending of a file's name stands for; HTML without one."""
    ending = "" if output is None else output.suffix.lower()
    if ending and ending not in _FORMS:
        raise click.UsageError(
            f"{output}: a report is not written as '{ending}'; name the file .html, .md or .json, or give --format"
        )
    return _FORMS.get(ending, "html")


def _today() -> str:
    """The day in UTC; SOURCE_DATE_EPOCH, seconds since 1970, stands in for the clock so that a page can be made again.

    Raises
    ------
    InputError
        SOURCE_DATE_EPOCH is no such number.
    """
    import os  # noqa: PLC0415
    from datetime import UTC, datetime  # noqa: PLC0415

    from oracle.errors import InputError, printable  # noqa: PLC0415

    said = os.environ.get("SOURCE_DATE_EPOCH")
    if said is None:
        return datetime.now(UTC).date().isoformat()
    try:
        return datetime.fromtimestamp(int(said), UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise InputError(
            f"SOURCE_DATE_EPOCH is '{printable(said)}'; it must be whole seconds since 1970, or not be set"
        ) from None


def _written(page: "Page", form: str, beside: Path, figures: Path | None) -> str:
    import os  # noqa: PLC0415

    from oracle.pages.html import html_text  # noqa: PLC0415
    from oracle.pages.text import json_report, markdown_text  # noqa: PLC0415

    if form == "html":
        return html_text(page)
    if form == "json":
        return json_report(page)
    return markdown_text(page, None if figures is None else os.path.relpath(figures, beside))


def _draw(page: "Page", folder: Path, step: "Callable[[str], None]") -> None:
    """Write every figure as SVG and PNG, and a list of them with their captions."""
    for figure in page.figures:
        step(figure.name)
        for ending in ("svg", "png"):
            figure.draw(folder / f"{figure.name}.{ending}")
    lines = [f"{figure.name}: {figure.caption}" for figure in page.figures]
    said = f"{page.provenance['program']}\n\n" + "\n\n".join(lines) + "\n"
    (folder / _MARKER).write_text(said, "utf-8")


def _is_figure(name: str) -> bool:
    """Whether a folder of figures may hold a file of that name."""
    return name == _MARKER or name.endswith((".svg", ".png"))
