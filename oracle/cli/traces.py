"""``draft-oracle solve`` and ``score``, and what commands on traces and a latency model share."""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.engine import worked_on
from oracle.cli.options import ENGINE, MEMORY, MODEL, READING, SHARDS, SHOWING, THREADS, TRACES, output_file
from oracle.cli.output import emit, progress, read_model, write_tables
from oracle.cli.shards import check_shards, end, leaving_out, sharded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from oracle.files import File, PathLike
    from oracle.footers import LeftOut
    from oracle.latency.model import LatencyModel
    from oracle.shards import ShardFolder
    from oracle.study import Question, Study
    from oracle.traces import TraceFiles
    from oracle.traces.budget import Budget

# Columns a solve needs; texts, ids and further columns stay on disk.
NEEDED = ("match_prob", "match_probs", "experts", "new_experts", "unique_experts", "cluster", "category")


def trace_files(
    traces: "Sequence[PathLike]",
    match_is: str | None,
    budget: "Budget | None" = None,
    left_out: "LeftOut | None" = None,
) -> "TraceFiles":
    """Find the trace files among paths, folders and globs; columns that a solve does not need stay on disk.

    Parameters
    ----------
    budget
        Of memory.
    left_out
        Give it to leave out files that cannot be read: it takes them and the reasons.
    """
    from oracle.kinds import files_of_kind  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415

    files = TraceFiles(files_of_kind(list(traces), "traces", left_out), columns=NEEDED, match_is=match_is)
    return files if budget is None else files.within(budget)


def budget(
    model: "LatencyModel",
    memory: int | None,
    threads: int,
    k_max: int | None = None,
    policies: int | None = None,
    draws: int = 0,
) -> "Budget":
    """Share `--memory` out among the threads' batches; Arrow gets no more threads than are asked for."""
    import pyarrow as pa  # noqa: PLC0415

    from oracle.traces.budget import budget_of  # noqa: PLC0415

    pa.set_cpu_count(threads)
    longest = max(model.m) - 1
    return budget_of(memory, threads, longest if k_max is None else min(k_max, longest), policies, draws)


def studied(
    command: str,
    files: "TraceFiles",
    model: "LatencyModel",
    question: "Mapping[str, Any]",
    inputs: "Sequence[File]",
    options: "Mapping[str, Any] | None" = None,
    run: "ShardFolder | None" = None,
) -> "tuple[Study, dict[str, Any]]":
    """Run a study for a command, with progress; give it with its provenance.

    Parameters
    ----------
    question
        Fields of `Question`, and `engine` and `ray_address` where the command has them.
    inputs
        Files read besides the traces.
    options
        What provenance says besides the range of lengths and what is read.
    run
        The folder of a run over shards: the files that the question names are written there, shard by shard.
    """
    from oracle.digests import Digests  # noqa: PLC0415
    from oracle.outputs import refuse_output_over_input  # noqa: PLC0415
    from oracle.provenance import as_metadata, provenance  # noqa: PLC0415
    from oracle.study import Question, study  # noqa: PLC0415

    for output in (question.get("decisions"), question.get("shifts")):
        refuse_output_over_input(output, [*files.paths, *inputs])
    said = {key: question.get(key) for key in ("k_min", "k_max", "unique_experts")} | {"match_is": files.match_is}
    said |= options or {}
    asked = dict(question)
    engine, address = asked.pop("engine", None), asked.pop("ray_address", None)
    if run is not None:
        with worked_on(files, engine, address, asked.get("threads", 1)) as batches:
            return _studied_in_shards(command, batches, model, Question(**asked), inputs, said, run)
    with (
        Digests([*files.paths, *inputs]) as digests,
        worked_on(files, engine, address, asked.get("threads", 1)) as batches,
        progress(command, files.generations) as advance,
    ):
        origin = partial(provenance, command, said, [*files.paths, *inputs], digests)
        found = study(
            batches, model, Question(**asked), provenance=lambda: as_metadata(origin(), model), on_batch=advance
        )
        return found, origin()


def _studied_in_shards(
    command: str,
    files: "TraceFiles",
    model: "LatencyModel",
    question: "Question",
    inputs: "Sequence[File]",
    said: "Mapping[str, Any]",
    run: "ShardFolder",
) -> "tuple[Study, dict[str, Any]]":
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.shards import STUDY  # noqa: PLC0415
    from oracle.study import study  # noqa: PLC0415

    written = {"flat": question.flat or None, "every_length": question.every_length is not None or None}
    origin = provenance(command, {**said, **written}, ())
    del origin["inputs"]
    run.begin(files, origin, inputs, model)
    with progress(command, files.generations) as advance:
        found = study(files, model, question, on_batch=advance, walker=run.walk(STUDY))
    notes = tuple(f"left out: {why}" for why in run.left_out)
    return replace(found, notes=(*found.notes, *notes)), run.origin()


def _opened(stack: ExitStack, output: Path | None, inputs: "Sequence[str | Path]") -> Path | None:
    """Open an output before the work begins: what cannot be written is said at once."""
    from oracle.outputs import atomic_output, refuse_output_over_input  # noqa: PLC0415

    refuse_output_over_input(output, inputs)
    return None if output is None else stack.enter_context(atomic_output(output))


def model_inputs(model: str) -> "list[Path]":
    """Name the model file that can be digested: none for stdin."""
    return [] if model == "-" else [Path(model)]


@click.command()
@TRACES
@MODEL
@output_file("Write the decisions here (Parquet, one row a generation).", or_shards=True)
@click.option("--flat", is_flag=True, help="Write one row a position instead, with a column position.")
@READING
@THREADS
@MEMORY
@ENGINE
@SHARDS
@SHOWING
def solve(
    traces: tuple[str, ...],
    model: str,
    output: Path | None,
    flat: bool,
    match_is: str | None,
    batch_size: int | None,
    memory: int | None,
    shards: bool,
    keep_going: bool,
    as_json: bool,
    as_markdown: bool,
    **reading: Any,
) -> None:
    """Find the cost-optimal draft length at every position.

    TRACES are Parquet files, folders, globs or URIs.
    """
    from oracle.summaries.study import study_tables  # noqa: PLC0415

    check_shards(shards, keep_going, output)
    latency, inputs = read_model(model, batch_size), model_inputs(model)
    left_out = leaving_out(keep_going)
    files = trace_files(traces, match_is, budget(latency, memory, reading["threads"], reading["k_max"]), left_out)
    with sharded(output, shards, [*traces, *files.paths, *inputs], left_out) as run:
        question = {**reading, "decisions": output, "flat": flat}
        result, origin = studied("solve", files, latency, question, inputs, run=run)
        tables = study_tables(result)
        if run is not None:
            write_tables(run.results, tables, origin)
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})
    end(run)


@click.command()
@TRACES
@MODEL
@output_file("Write the scores here (Parquet, one row a policy).", or_shards=True)
@READING
@THREADS
@MEMORY
@ENGINE
@SHARDS
@SHOWING
def score(
    traces: tuple[str, ...],
    model: str,
    output: Path | None,
    match_is: str | None,
    batch_size: int | None,
    memory: int | None,
    shards: bool,
    keep_going: bool,
    as_json: bool,
    as_markdown: bool,
    **reading: Any,
) -> None:
    """Score static draft lengths and the policy blind to experts against the oracle.

    TRACES are Parquet files, folders, globs or URIs. Scores are expected ones, on the same traces.
    """
    from oracle.provenance import as_metadata  # noqa: PLC0415
    from oracle.summaries.study import study_tables, write_scores  # noqa: PLC0415

    check_shards(shards, keep_going, output)
    left_out = leaving_out(keep_going)
    with ExitStack() as stack:
        inputs = model_inputs(model)
        partial = None if shards else _opened(stack, output, [*traces, *inputs])
        latency = read_model(model, batch_size)
        files = trace_files(traces, match_is, budget(latency, memory, reading["threads"], reading["k_max"]), left_out)
        run = stack.enter_context(sharded(output, shards, [*traces, *files.paths, *inputs], left_out))
        result, origin = studied("score", files, latency, {**reading, "score": True}, inputs, run=run)
        tables = study_tables(result)
        if run is not None:
            write_tables(run.results, tables, origin)
            partial = run.results / "scores.parquet"
        if partial is not None:
            write_scores(partial, result.scores, as_metadata(origin, result.model))
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})
    end(run)
