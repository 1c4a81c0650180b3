"""``draft-oracle pool``: what fits into memory, and what a speed-up costs in tenants."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from oracle.cli.options import SHOWING
from oracle.cli.output import emit, stdin_text

if TYPE_CHECKING:
    from oracle.pool.answer import PoolAnswer

OUTPUTS = frozenset({"tables.md", "tables.json", "memory.svg", "draft-size.svg", "early-exit.svg"})


@click.command()
@click.argument("plan")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path, file_okay=False), help="Folder for the tables and figures."
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier output folder.")
@SHOWING
def pool(plan: str, output: Path | None, overwrite: bool, as_json: bool, as_markdown: bool) -> None:
    """Say what fits into HBM, how many tenants that leaves, and whether a speed-up is worth those it displaces.

    PLAN is TOML or JSON; - reads stdin. Only the memory has to be stated; what is left open is said. gib in a name is
    2^30 bytes, gb is 10^9.

    \b
    draft-oracle pool cases/pool/post.toml
    draft-oracle pool cases/pool/a100.toml -o out
    """
    from oracle.errors import Faults  # noqa: PLC0415
    from oracle.figures import pool as figures  # noqa: PLC0415
    from oracle.outputs import atomic_folder, refuse_output_over_input  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.summaries.pool import pool_tables  # noqa: PLC0415
    from oracle.tables import as_json_text, render  # noqa: PLC0415

    inputs = [] if plan == "-" else [Path(plan)]
    faults = Faults()
    faults.made(lambda: refuse_output_over_input(output, inputs))
    found = faults.made(lambda: answered_plan(plan))
    faults.raise_if_any()
    assert found is not None
    tables = pool_tables(found)
    origin = provenance("pool", {}, inputs)
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


def answered_plan(path: str) -> "PoolAnswer":
    """Read a plan and answer for it; - reads stdin.

    Raises
    ------
    InputError
        The plan is faulty, or holds more tenants than can be looked at.
    """
    from oracle.files import read_text, shown  # noqa: PLC0415
    from oracle.pool.answer import answer  # noqa: PLC0415
    from oracle.pool.plan_file import plan_from_text  # noqa: PLC0415

    text, source = (stdin_text(), "standard input") if path == "-" else (read_text(path), shown(path))
    return answer(plan_from_text(text, source))
