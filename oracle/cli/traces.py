"""``draft-oracle solve`` and ``score``, and what commands on traces and a latency model share."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.options import MODEL, READING, SHOWING, THREADS, TRACES, output_file
from oracle.cli.output import emit, progress, read_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from oracle.latency.model import LatencyModel
    from oracle.study import Study
    from oracle.traces import TraceFiles

# Columns a solve needs; texts, ids and further columns stay on disk.
NEEDED = ("match_prob", "match_probs", "experts", "new_experts", "unique_experts", "cluster", "category")


def trace_files(traces: "Sequence[str | Path]", match_is: str | None) -> "TraceFiles":
    """Find the trace files among paths, folders and globs; columns that a solve does not need stay on disk."""
    from oracle.kinds import files_of_kind  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415

    return TraceFiles(files_of_kind(list(traces), "traces"), columns=NEEDED, match_is=match_is)


def studied(
    command: str,
    files: "TraceFiles",
    model: "LatencyModel",
    question: "Mapping[str, Any]",
    inputs: "Sequence[Path]",
    options: "Mapping[str, Any] | None" = None,
) -> "tuple[Study, dict[str, Any]]":
    """Run a study for a command, with progress; give it with its provenance.

    Parameters
    ----------
    question
        Fields of `Question`.
    inputs
        Files read besides the traces.
    options
        What provenance says besides the range of lengths and what is read.
    """
    from oracle.outputs import refuse_output_over_input  # noqa: PLC0415
    from oracle.provenance import as_metadata, provenance  # noqa: PLC0415
    from oracle.study import Question, study  # noqa: PLC0415

    for output in (question.get("decisions"), question.get("shifts")):
        refuse_output_over_input(output, [*files.paths, *inputs])
    said = {key: question.get(key) for key in ("k_min", "k_max", "unique_experts")} | {"match_is": files.match_is}
    said |= options or {}
    with ThreadPoolExecutor(max_workers=1) as pool, progress(command, files.generations) as advance:
        digested = pool.submit(provenance, command, said, [*files.paths, *inputs])
        found = study(
            files,
            model,
            Question(**question),
            provenance=lambda: as_metadata(digested.result(), model),
            on_batch=advance,
        )
    return found, digested.result()


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
@output_file("Write the decisions here (Parquet, one row a generation).")
@click.option("--flat", is_flag=True, help="Write one row a position instead, with a column position.")
@READING
@THREADS
@SHOWING
def solve(
    traces: tuple[str, ...],
    model: str,
    output: Path | None,
    flat: bool,
    match_is: str | None,
    batch_size: int | None,
    as_json: bool,
    as_markdown: bool,
    **reading: Any,
) -> None:
    """Find the cost-optimal draft length at every position.

    TRACES are Parquet files, folders or globs.
    """
    from oracle.summaries.study import study_tables  # noqa: PLC0415

    result, origin = studied(
        "solve",
        trace_files(traces, match_is),
        read_model(model, batch_size),
        {**reading, "decisions": output, "flat": flat},
        model_inputs(model),
    )
    emit(study_tables(result), as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})


@click.command()
@TRACES
@MODEL
@output_file("Write the scores here (Parquet, one row a policy).")
@READING
@THREADS
@SHOWING
def score(
    traces: tuple[str, ...],
    model: str,
    output: Path | None,
    match_is: str | None,
    batch_size: int | None,
    as_json: bool,
    as_markdown: bool,
    **reading: Any,
) -> None:
    """Score static draft lengths and the policy blind to experts against the oracle.

    TRACES are Parquet files, folders or globs. Scores are expected ones, on the same traces.
    """
    from oracle.provenance import as_metadata  # noqa: PLC0415
    from oracle.summaries.study import study_tables, write_scores  # noqa: PLC0415

    with ExitStack() as stack:
        partial = _opened(stack, output, [*traces, *model_inputs(model)])
        latency, files = read_model(model, batch_size), trace_files(traces, match_is)
        result, origin = studied("score", files, latency, {**reading, "score": True}, model_inputs(model))
        if partial is not None:
            write_scores(partial, result.scores, as_metadata(origin, result.model))
    emit(study_tables(result), as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})
