"""``draft-oracle run``: everything in one go on a folder with traces and rounds."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.options import MEMORY, READING, SHOWING, THREADS, model_here
from oracle.cli.output import emit, read_model, write_tables
from oracle.cli.traces import budget, studied, trace_files

if TYPE_CHECKING:
    from oracle.files import File
    from oracle.tables import Table


OUTPUTS = frozenset({"model.json", "decisions.parquet", "shifts.parquet", "scores.parquet", "tables.md", "tables.json"})


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--rounds", metavar="FILE", help="Rounds to fit [rounds.parquet in the folder, or its only rounds file].")
@click.option(
    "--model", "-m", metavar="FILE", callback=model_here, help="Use this latency model instead of fitting one."
)
@click.option(
    "--output", "-o", type=click.Path(file_okay=False, path_type=Path), help="Write models, decisions, scores … here."
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier output folder.")
@READING
@THREADS
@MEMORY
@SHOWING
def run(
    folder: Path,
    rounds: str | None,
    model: str | None,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    as_markdown: bool,
    **options: Any,
) -> None:
    """Fit, solve, score and ablate: one folder in, tables out.

    FOLDER holds trace files and rounds files (Parquet, told apart by their columns).
    """
    from oracle.outputs import atomic_folder, refuse_output_over_input  # noqa: PLC0415

    if rounds is not None and model is not None:
        raise click.UsageError("give --rounds to fit a model, or --model to use one, not both")
    if output is None:
        tables, origin = _everything(folder, rounds, model, None, options)
    else:
        refuse_output_over_input(output, [folder, *(path for path in (rounds, model) if path not in (None, "-"))])
        with atomic_folder(output, overwrite, ours=OUTPUTS.__contains__, marker="tables.json") as partial:
            tables, origin = _everything(folder, rounds, model, partial, options)
            write_tables(partial, tables, origin)
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})


def _everything(
    folder: Path, rounds: str | None, model: str | None, out: Path | None, options: dict[str, Any]
) -> "tuple[list[Table], dict[str, Any]]":
    """Fit unless a model is given, then solve, score and ablate; write the results into `out`."""
    from oracle.cli.fit import fitted  # noqa: PLC0415
    from oracle.digests import Stamps  # noqa: PLC0415
    from oracle.errors import InputError  # noqa: PLC0415
    from oracle.files import shown  # noqa: PLC0415
    from oracle.kinds import sorted_by_kind  # noqa: PLC0415
    from oracle.provenance import as_metadata  # noqa: PLC0415
    from oracle.summaries.fit import fit_tables  # noqa: PLC0415
    from oracle.summaries.study import study_tables, write_scores  # noqa: PLC0415

    batch_size = options.pop("batch_size")
    kinds = sorted_by_kind(folder)
    if not kinds["traces"]:
        raise InputError(f"{shown(folder)}: holds no traces (Parquet with a column match_prob or match_probs)")
    tables: list[Table] = []
    if model is not None:
        latency = read_model(model, batch_size)
        inputs: list[File] = [Path(model)] if model != "-" else []
        stamps = Stamps(inputs)
    else:
        inputs = [Path(rounds) if rounds is not None else _the_rounds(folder, kinds["rounds"])]
        stamps = Stamps(inputs)
        result = fitted(inputs, {})
        latency = result.model.at_batch_size(batch_size)
        tables += fit_tables(result)
        if out is not None:
            result.model.save(out / "model.json")
    match_is = options.pop("match_is")
    files = {"decisions": out / "decisions.parquet", "shifts": out / "shifts.parquet"} if out else {}
    share = budget(latency, options.pop("memory"), options["threads"], options["k_max"])
    question = {**options, "score": True, "ablate": True, **files}
    study, origin = studied("run", trace_files(kinds["traces"], match_is, share), latency, question, inputs)
    stamps.check()
    if out is not None:
        write_scores(out / "scores.parquet", study.scores, as_metadata(origin, latency))
    return tables + study_tables(study), origin


def _the_rounds(folder: Path, found: "list[File]") -> "File":
    """Choose the rounds to fit: the only file, or the one called rounds.parquet."""
    from oracle.errors import InputError  # noqa: PLC0415
    from oracle.files import shown  # noqa: PLC0415

    if not found:
        raise InputError(
            f"{shown(folder)}: holds no rounds (Parquet with a column target_ms); add them, or give --model FILE"
        )
    if len(found) == 1:
        return found[0]
    named = [path for path in found if path.name == "rounds.parquet"]
    names = ", ".join(shown(path) for path in found)
    if len(named) != 1:
        raise InputError(f"{shown(folder)}: holds several rounds files ({names}); say which one with --rounds FILE")
    click.echo(f"fitting {shown(named[0])}; the other rounds files need --rounds ({names})", err=True)
    return named[0]
