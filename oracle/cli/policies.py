"""``draft-oracle policies``."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.options import MEMORY, MODEL, READING, SHOWING, THREADS, TRACES
from oracle.cli.output import emit, read_model, steps
from oracle.cli.policies_compared import Compared, compare

if TYPE_CHECKING:
    from oracle.files import File

OUTPUTS = frozenset(
    {
        "tables.md",
        "tables.json",
        "scores-by-generation.parquet",
        "pareto.svg",
        "pareto-realised.svg",
        "calibration.svg",
        "condition-ratios.svg",
        "condition-extensions.svg",
    }
)


@click.command()
@TRACES
@MODEL
@click.option(
    "--policy",
    "texts",
    multiple=True,
    metavar="POLICY",
    help="Such as static:3, confidence:0.6@max=6, or a family to tune: confidence, survival@keep, goodput, slope, "
    "budget [all families that the traces have the columns for].",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write tables, scores by generation and pictures here: a folder.",
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier output folder.")
@READING
@THREADS
@MEMORY
@SHOWING
def policies(
    traces: tuple[str, ...],
    model: str,
    texts: tuple[str, ...],
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    as_markdown: bool,
    batch_size: int | None,
    threads: int,
    memory: int | None,
    **reading: Any,
) -> None:
    """Say which policy to deploy, of those that look at nothing an engine does not know: held out, realised, and why.

    The answer says which engines take that policy, and the static length for those that do not. TRACES are Parquet
    files, folders or globs, walked over several times. Confidence and survival need the column draft_prob, realised
    scores need token_id and draft_token_id.
    """
    from oracle.digests import Stamps  # noqa: PLC0415
    from oracle.kinds import files_of_kind  # noqa: PLC0415
    from oracle.outputs import atomic_folder, refuse_output_over_input  # noqa: PLC0415
    from oracle.provenance import as_metadata, provenance  # noqa: PLC0415
    from oracle.summaries.generations import GenerationScores  # noqa: PLC0415

    latency = read_model(model, batch_size)
    inputs: list[File] = [Path(model)] if model != "-" else []
    files = files_of_kind(list(traces), "traces")
    refuse_output_over_input(output, [*traces, *files, *inputs])
    stamps = Stamps([*files, *inputs])
    origin = provenance("policies", {"policies": list(texts) or None, **reading}, [*files, *inputs])
    reading |= {"threads": threads, "memory": memory}
    if output is None:
        found = compare(files, latency, texts, reading)
        stamps.check()
    else:
        with atomic_folder(output, overwrite, ours=OUTPUTS.__contains__, marker="tables.json") as folder:
            with ExitStack() as stack:
                rows = GenerationScores(stack, folder / "scores-by-generation.parquet", as_metadata(origin, latency))
                found = compare(files, latency, texts, reading, rows.add)
                stamps.check()
            _write(folder, found, origin)
    emit(found.tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})


def _write(folder: Path, found: Compared, origin: dict[str, Any]) -> None:
    """Write tables and pictures."""
    from oracle.tables import as_json_text, render  # noqa: PLC0415

    (folder / "tables.md").write_text(render(found.tables, "markdown"), "utf-8")
    (folder / "tables.json").write_text(as_json_text(found.tables, {"provenance": origin}), "utf-8")
    with steps("policies") as step:
        step("pictures")
        _draw(folder, found)


def _draw(folder: Path, found: Compared) -> None:
    from oracle.figures import policies as figures  # noqa: PLC0415
    from oracle.figures.pareto import pareto_by, pareto_view  # noqa: PLC0415
    from oracle.realised.calibration import calibrate  # noqa: PLC0415
    from oracle.realised.scores import realised_scores  # noqa: PLC0415
    from oracle.scores import beside  # noqa: PLC0415
    from oracle.summaries.realised import by_decoding  # noqa: PLC0415

    figures.ratio_distributions(found.condition, folder / "condition-ratios.svg")
    figures.extension_density(found.condition, folder / "condition-extensions.svg")
    expected = found.fixed if found.held is None else beside(found.held.expected, found.fixed)
    how = "expected, in-sample" if found.held is None else "expected, held out"
    pareto_view(realised_scores(expected), folder / "pareto.svg", title=how)
    if found.realised is not None:
        scores = {f"realised, {name}": realised_scores(part) for name, part in by_decoding(found.realised).items()}
        pareto_by(scores, folder / "pareto-realised.svg")
        figures.calibration_curve(calibrate(found.realised.calibration), folder / "calibration.svg")
