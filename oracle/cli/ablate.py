"""``draft-oracle ablate``."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.ablate_walks import DRAWS, along_alpha, draws_of, under_draws
from oracle.cli.engine import worked_on
from oracle.cli.options import ENGINE, MEMORY, MODEL, READING, SHARDS, SHOWING, THREADS, TRACES, Finite
from oracle.cli.output import emit, progress, read_model, write_tables
from oracle.cli.shards import check_shards, end, leaving_out, sharded
from oracle.cli.traces import budget, model_inputs, studied, trace_files

if TYPE_CHECKING:
    from oracle.changes import Change
    from oracle.costs import LengthRange
    from oracle.latency.model import LatencyModel
    from oracle.shards import ShardFolder
    from oracle.tables import Table
    from oracle.traces import TraceFiles

FEWEST_DRAWS = 40  # 2.5 % of fewer is less than one draw
OUTPUTS = frozenset({"tables.md", "tables.json", "shifts.parquet", "lengths.parquet"}) | {
    f"{name}.{kind}" for name in ("alpha-path", "stability") for kind in ("parquet", "svg")
}


@click.command()
@TRACES
@MODEL
@click.option(
    "--change",
    "changes",
    multiple=True,
    default=("experts=0",),
    show_default=True,
    metavar="CHANGE",
    help="Solve again with changed costs (repeatable): experts=0.5, draft=1.2ms, 'alpha[2-4]*0.5', regime=flat, "
    "model=FILE; several joined by commas apply in order.",
)
@click.option(
    "--s-max",
    type=Finite(0),
    default=2.0,
    show_default=True,
    help="End of the exact path of scales on all alpha; 0: no path.",
)
@click.option(
    "--draws",
    type=click.IntRange(0),
    help=f"Models drawn within the errors of the fit, for the stability of decisions; 0: none [{DRAWS} if the model "
    "tells its errors].",
)
@click.option("--rounds", metavar="FILE", help="Draw by resampling the rounds that the model was fitted to instead.")
@click.option(
    "--cases", type=click.IntRange(0), default=0, help="Show so many decisions that move, picked by stated rules."
)
@click.option(
    "--gallery", is_flag=True, help="Show twelve decisions, stratified; needs texts and recorded draft tokens."
)
@click.option("--every-length", is_flag=True, help="Write every length of every decision, term by term, too.")
@click.option(
    "--output", "-o", type=click.Path(file_okay=False, path_type=Path), help="Write shifts, paths, pictures: a folder."
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier output folder.")
@READING
@THREADS
@MEMORY
@ENGINE
@SHARDS
@SHOWING
def ablate(
    traces: tuple[str, ...],
    model: str,
    changes: tuple[str, ...],
    rounds: str | None,
    output: Path | None,
    overwrite: bool,
    batch_size: int | None,
    as_json: bool,
    as_markdown: bool,
    **asked: Any,
) -> None:
    """Take cost terms out or change them, solve again, and say which decisions move, why, and at what price.

    TRACES are Parquet files, folders, globs or URIs. Besides the named changes: the exact path of a scale on the expert
    cost, and how stable decisions are within the errors of the fit.
    """
    from oracle.digests import Stamps  # noqa: PLC0415
    from oracle.outputs import atomic_folder, refuse_output_over_input  # noqa: PLC0415

    shards, keep_going, memory = asked.pop("shards"), asked.pop("keep_going"), asked.pop("memory")
    check_shards(shards, keep_going, output)
    left_out = leaving_out(keep_going)
    latency = read_model(model, batch_size)
    parsed = _parsed(changes, latency, batch_size)
    inputs = [*model_inputs(model), *([Path(rounds)] if rounds else []), *_other_models(parsed)]
    drawn = DRAWS if asked["draws"] is None else asked["draws"]
    share = budget(latency, memory, asked["threads"], asked["k_max"], draws=drawn)
    files = trace_files(traces, asked.pop("match_is"), share, left_out)
    stamps = Stamps([*files.paths, *inputs])
    refuse_output_over_input(output, [*traces, *files.paths, *inputs])
    _check_asked(asked, rounds)
    if asked["every_length"] and output is None:
        raise click.UsageError("--every-length writes a file; give --output FOLDER")
    engine, ray_address = asked.pop("engine"), asked.pop("ray_address")
    with ExitStack() as stack:
        run = stack.enter_context(sharded(output, shards, [], left_out))
        folder = None if run is None else run.results
        if output is not None and run is None:
            folder = stack.enter_context(atomic_folder(output, overwrite, ours=_is_ours, marker="tables.json"))
        batches = stack.enter_context(worked_on(files, engine, ray_address, asked["threads"]))
        tables, origin = _tables(batches, latency, parsed, rounds, inputs, folder, asked, run)
        stamps.check()
        if folder is not None:
            write_tables(folder, tables, origin)
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})
    end(run)


def _check_asked(asked: dict[str, Any], rounds: str | None) -> None:
    """Refuse what would only be noticed after a walk over the traces, or never."""
    from oracle.alpha_path.path import check_s_max  # noqa: PLC0415

    if asked["s_max"] != 0:
        check_s_max(asked["s_max"])
    draws = asked["draws"]
    if draws is not None and 0 < draws < FEWEST_DRAWS:
        raise click.UsageError(
            f"--draws {draws}: a 95 % interval and the word stable need at least {FEWEST_DRAWS} draws; 0 for none"
        )
    if draws == 0 and rounds is not None:
        raise click.UsageError("--rounds gives the draws, and --draws 0 wants none; leave one of them out")


def _is_ours(name: str) -> bool:
    from oracle.figures.illustrations import is_picture  # noqa: PLC0415

    return name in OUTPUTS or is_picture(name)


def _parsed(texts: tuple[str, ...], model: "LatencyModel", batch_size: int | None) -> "tuple[Change, ...]":
    """Read all changes; all faults at once."""
    from oracle.changes import parse_change  # noqa: PLC0415
    from oracle.errors import Faults, InputError  # noqa: PLC0415

    faults, parsed = Faults(), []
    for text in texts:
        try:
            parsed.append(parse_change(text, model=model, batch_size=batch_size))
        except InputError as error:
            for fault in error.faults:
                faults.add(fault)
    faults.raise_if_any()
    return tuple(parsed)


def _other_models(changes: "tuple[Change, ...]") -> list[Path]:
    from oracle.changes import OtherModel  # noqa: PLC0415

    return [Path(term.path) for change in changes for term in change.terms if isinstance(term, OtherModel)]


def _tables(
    files: "TraceFiles",
    model: "LatencyModel",
    changes: "tuple[Change, ...]",
    rounds: str | None,
    inputs: list[Path],
    folder: Path | None,
    asked: dict[str, Any],
    run: "ShardFolder | None",
) -> "tuple[list[Table], dict[str, Any]]":
    """Walk over the traces once for the changes, once for the path, once for the draws."""
    from oracle.costs import LengthRange  # noqa: PLC0415
    from oracle.provenance import as_metadata  # noqa: PLC0415
    from oracle.summaries.study import study_tables  # noqa: PLC0415

    threads, s_max = asked["threads"], asked["s_max"]
    draws = draws_of(model, rounds, asked["draws"])
    written = {} if folder is None else {"shifts": folder / "shifts.parquet"}
    if asked["every_length"] and folder is not None:
        written["every_length"] = folder / "lengths.parquet"
    reading = {key: asked[key] for key in ("k_min", "k_max", "unique_experts")}
    question = {**reading, "threads": threads, "score": True, "ablate": True, "changes": changes, **written}
    said = {"changes": [str(change) for change in changes], "s_max": s_max, "draws": 0 if draws is None else draws.said}
    found, origin = studied("ablate", files, model, question, inputs, said, run)
    files = files if run is None else run.readable(files)
    tables = study_tables(found)
    span = LengthRange(found.lengths.k_min, found.lengths.k_max)
    more = {
        "unique_experts": reading["unique_experts"],
        "threads": threads,
        "provenance": lambda: as_metadata(origin, model),
    }
    if s_max > 0:
        tables += along_alpha(files, model, span, s_max, folder, more, run)
    if draws is not None:
        tables += under_draws(files, model, span, draws, folder, more, run)
    elif asked["draws"] is None:
        click.echo(
            "note: the model file does not tell the errors of its coefficients: no stability (--rounds)", err=True
        )
    if asked["cases"] or asked["gallery"]:
        tables += _illustrations(files, model, changes[0], span, folder, asked, run)
    return tables, origin


def _illustrations(
    files: "TraceFiles",
    model: "LatencyModel",
    change: "Change",
    span: "LengthRange",
    folder: Path | None,
    asked: dict[str, Any],
    run: "ShardFolder | None",
) -> "list[Table]":
    """Pick decisions by rule and read their texts; pictures go into the folder."""
    from oracle.figures.illustrations import write_pictures  # noqa: PLC0415
    from oracle.illustrations import COLUMNS, Search, choose_cases, choose_gallery  # noqa: PLC0415
    from oracle.summaries.illustrations import illustration_tables  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415

    names = [name for name in COLUMNS if name in files.schema.names]
    with_texts = TraceFiles(files.paths, columns=names, match_is=files.match_is)
    with_texts = with_texts if run is None else run.readable(with_texts)
    search = Search(
        with_texts,
        model,
        span.k_min,
        span.k_max,
        change=change,
        unique_experts=asked["unique_experts"],
        match_is=files.match_is,
        threads=asked["threads"],
    )
    with progress("illustrations", files.generations * (bool(asked["cases"]) + asked["gallery"])) as advance:
        cases = choose_cases(search, asked["cases"], on_batch=advance) if asked["cases"] else None
        gallery = choose_gallery(search, besides=cases, on_batch=advance) if asked["gallery"] else None
    if folder is not None:
        write_pictures(folder, cases=cases, gallery=gallery)
    return illustration_tables(cases=cases, gallery=gallery)
