"""``draft-oracle pool``: what fits into memory, and what a speed-up costs in tenants."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oracle.cli.options import SHOWING, THREADS
from oracle.cli.output import emit, progress, stdin_text

if TYPE_CHECKING:
    from oracle.files import File
    from oracle.pool.answer import PoolAnswer
    from oracle.pool.measured_experts import MeasuredExperts
    from oracle.pool.plan import Plan

OUTPUTS = frozenset({"tables.md", "tables.json", "memory.svg", "draft-size.svg", "early-exit.svg"})


@click.command()
@click.argument("plan")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path, file_okay=False), help="Folder for the tables and figures."
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier output folder.")
@click.option(
    "--traces",
    "-t",
    multiple=True,
    metavar="PATH",
    help="Measure unique experts in these traces of the same model, in place of [[unique_experts]].",
)
@THREADS
@SHOWING
def pool(
    plan: str,
    output: Path | None,
    overwrite: bool,
    traces: tuple[str, ...],
    threads: int,
    as_json: bool,
    as_markdown: bool,
) -> None:
    """Say what fits into HBM, how many tenants that leaves, and whether a speed-up is worth those it displaces.

    PLAN is TOML or JSON; - reads stdin. The memory has to be stated, and the model unless it is the pool that is
    stated; what else is left open is said. gib in a name is 2^30 bytes, gb is 10^9.

    \b
    draft-oracle pool cases/pool/post.toml
    draft-oracle pool cases/pool/a100.toml -o out
    draft-oracle pool cases/pool/tiny-moe.toml --traces cases/tiny-moe/traces.parquet
    """
    from oracle.errors import Faults  # noqa: PLC0415
    from oracle.figures import pool as figures  # noqa: PLC0415
    from oracle.outputs import atomic_folder, refuse_output_over_input  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.summaries.pool import pool_tables  # noqa: PLC0415
    from oracle.tables import as_json_text, render  # noqa: PLC0415

    inputs: list[File] = [] if plan == "-" else [Path(plan)]
    faults = Faults()
    faults.made(lambda: refuse_output_over_input(output, [*inputs, *traces]))
    found = faults.made(lambda: answered_plan(plan, traces, threads))
    faults.raise_if_any()
    assert found is not None
    inputs += trace_paths(traces)
    tables = pool_tables(found)
    origin = provenance("pool", {"traces": len(traces)} if traces else {}, inputs)
    if output is not None:
        with atomic_folder(output, overwrite, ours=OUTPUTS.__contains__, marker="tables.json") as folder:
            (folder / "tables.md").write_text(render(tables, "markdown"), "utf-8")
            (folder / "tables.json").write_text(as_json_text(tables, {"provenance": origin}), "utf-8")
            figures.memory_bars(found, folder / "memory.svg")
            if figures.has_tenants(found):
                figures.tenants_by_draft_size(found, folder / "draft-size.svg")
            if found.early_exit is not None:
                figures.early_exit_by_batch(found, folder / "early-exit.svg")
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})


def trace_paths(traces: Sequence[str]) -> "list[File]":
    """Find the files of traces."""
    from oracle.kinds import files_of_kind  # noqa: PLC0415

    return list(files_of_kind(list(traces), "traces")) if traces else []


def answered_plan(path: str, traces: Sequence[str] = (), threads: int = 1) -> "PoolAnswer":
    """Read a plan and answer for it, with unique experts from traces if there are any; - reads stdin.

    Raises
    ------
    InputError
        The plan is faulty, holds more tenants than can be looked at, or the traces are not of its model.
    """
    from oracle.pool.answer import answer  # noqa: PLC0415
    from oracle.pool.plan_file import plan_from_text, read_plan  # noqa: PLC0415

    plan = plan_from_text(stdin_text(), "standard input") if path == "-" else read_plan(path)
    return answer(*_measured(plan, traces, threads)) if traces else answer(plan)


def _measured(plan: "Plan", traces: Sequence[str], threads: int) -> "tuple[Plan, MeasuredExperts]":
    """Measure unique experts for a plan."""
    from oracle.crossover.windows import COLUMNS, read_windows  # noqa: PLC0415
    from oracle.digests import Stamps  # noqa: PLC0415
    from oracle.pool.measured_experts import check_wanted, lengths_of, measured_experts, with_experts  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415

    check_wanted(plan)
    files = TraceFiles(trace_paths(traces), columns=COLUMNS)
    stamps = Stamps(files.paths)
    with progress("pool", files.generations) as advance:
        windows = read_windows(files, max(lengths_of(plan)), on_batch=advance)
    stamps.check()
    found = measured_experts(plan, windows, threads=threads)
    return with_experts(plan, found), found
