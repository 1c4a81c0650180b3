"""``draft-oracle observe``: concurrency, prefix sharing and repetitiveness of the traffic that request logs show."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.options import SHOWING, Finite
from oracle.cli.output import emit, progress

if TYPE_CHECKING:
    from oracle.observe.gathered import Gathered
    from oracle.observe.study import Observed, Wanted
    from oracle.tables import Table

OUTPUTS = frozenset(
    {"tables.md", "tables.json", "traffic.csv", "concurrency.svg", "prefix-sharing.svg", "acceptance.svg"}
)
_WHOLE = click.IntRange(1)


@click.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--tokens",
    type=click.Choice(["ids", "words", "bytes", "counts"]),
    default="ids",
    show_default=True,
    help="What tokens are: ids of the log; where it holds only text, its words or bytes; counts leave texts out.",
)
@click.option("--column", "columns", multiple=True, metavar="NAME=YOURS", help="What the log calls a column.")
@click.option(
    "--time-unit", type=click.Choice(["s", "ms", "us", "ns"]), default="s", show_default=True, help="Of numbers."
)
@click.option("--time-zone", metavar="ZONE", help="Of dates that name none, and of the names of slots [UTC].")
@click.option("--slot-minutes", type=Finite(0.01), default=60.0, show_default=True, help="Length of a slot.")
@click.option("--by-tenant", is_flag=True, help="Give each tenant slots of its own.")
@click.option("--block-size", type=_WHOLE, default=16, show_default=True, help="Tokens of a block of the prefix cache.")
@click.option("--cache-tokens", type=_WHOLE, help="Its capacity [nothing is ever evicted].")
@click.option("--isolate-tenants", is_flag=True, help="Tenants share no blocks (cache salts).")
@click.option("--k-max", type=click.IntRange(1, 128), default=8, show_default=True, help="Draft length of the lookup.")
@click.option("--ngram", type=click.IntRange(1, 64), default=3, show_default=True, help="Longest n-gram looked up.")
@click.option("--ngram-min", type=click.IntRange(1, 64), default=1, show_default=True, help="Shortest one.")
@click.option(
    "--reading",
    type=click.Choice(["independent", "stationary", "gated", "renewal"]),
    default="stationary",
    show_default=True,
    help="What repetitiveness is the share of, as [speculation] reading of the deployment.",
)
@click.option(
    "--interval-by",
    type=click.Choice(["cluster", "request", "tenant", "time"]),
    help="What is resampled for intervals [cluster where the log names it, else stretches of time].",
)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="Folder for everything, or FILE.csv for the series alone."
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier output folder.")
@SHOWING
def observe(
    logs: tuple[Path, ...], output: Path | None, overwrite: bool, as_json: bool, as_markdown: bool, **given: Any
) -> None:
    """Measure the traffic that the serving levers depend on, from request logs.

    LOGS are JSON lines or Parquet, one request a row: arrival, end (first_token), prompt_ids and output_ids or prompt
    and output as texts; request, tenant, cluster. The series written is what `levers --traffic` reads.

    \b
    draft-oracle observe requests.jsonl -o out
    draft-oracle levers deployment.toml --traffic out/traffic.csv
    """
    from oracle.observe.study import study  # noqa: PLC0415
    from oracle.outputs import refuse_output_over_input  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.summaries.observe import observed_tables  # noqa: PLC0415

    refuse_output_over_input(output, logs)
    wanted = _wanted(given)
    found = study(_gathered(logs, given), wanted)
    tables = observed_tables(found, given["tokens"])
    options = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}
    origin = provenance("observe", options, logs)
    if output is not None:
        _write(output, overwrite, found, tables, origin)
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})


def _wanted(given: dict[str, Any]) -> "Wanted":
    """Check options against one another."""
    from oracle.errors import Faults  # noqa: PLC0415
    from oracle.observe.study import Wanted  # noqa: PLC0415
    from oracle.observe.times import zone_of  # noqa: PLC0415

    faults = Faults()
    if given["ngram_min"] > given["ngram"]:
        faults.add(f"--ngram-min is {given['ngram_min']}, above --ngram {given['ngram']}; swap them, or lower it")
    if given["cache_tokens"] is not None and given["cache_tokens"] < given["block_size"]:
        faults.add(f"--cache-tokens is {given['cache_tokens']}, less than one block of {given['block_size']}; raise it")
    faults.raise_if_any()
    blocks = None if given["cache_tokens"] is None else given["cache_tokens"] // given["block_size"]
    return Wanted(
        60 * given["slot_minutes"],
        zone_of(given["time_zone"]),
        blocks,
        given["reading"],
        given["interval_by"],
        given["by_tenant"],
    )


def _renamed(columns: tuple[str, ...]) -> dict[str, str]:
    from oracle.errors import Faults, printable  # noqa: PLC0415
    from oracle.observe.request_log import COLUMNS  # noqa: PLC0415

    faults, found = Faults(), dict[str, str]()
    for each in columns:
        ours, _, theirs = each.partition("=")
        if ours not in COLUMNS or not theirs:
            faults.add(f"--column {printable(each)}: write NAME=YOURS with a name of {', '.join(COLUMNS)}")
        elif ours in found:
            faults.add(f"--column {ours} is given twice; keep one")
        found[ours] = theirs
    faults.raise_if_any()
    return found


def _gathered(logs: tuple[Path, ...], given: dict[str, Any]) -> "Gathered":
    """Read all logs."""
    from oracle.errors import Faults  # noqa: PLC0415
    from oracle.observe.gathered import Settings, gather  # noqa: PLC0415
    from oracle.observe.request_log import LogForm, requests_in  # noqa: PLC0415
    from oracle.observe.times import zone_of  # noqa: PLC0415

    form = LogForm(given["tokens"], given["time_unit"], zone_of(given["time_zone"]), _renamed(given["columns"]))
    settings = Settings(
        block_size=given["block_size"],
        isolate_tenants=given["isolate_tenants"],
        draft_length=given["k_max"],
        shortest=given["ngram_min"],
        longest=given["ngram"],
    )
    faults = Faults()
    with progress("observing", sum(path.stat().st_size for path in logs if path.is_file())) as advance:
        return gather(requests_in(logs, form, faults, advance), settings, faults)


def _write(output: Path, overwrite: bool, found: "Observed", tables: "list[Table]", origin: dict[str, Any]) -> None:
    """Write the series alone, or a folder of everything."""
    from oracle.figures import observe as figures  # noqa: PLC0415
    from oracle.observe.traffic_csv import as_csv  # noqa: PLC0415
    from oracle.outputs import atomic_folder, atomic_output  # noqa: PLC0415
    from oracle.summaries.observe_texts import depth_rows, sharing_rows  # noqa: PLC0415
    from oracle.tables import as_json_text, render  # noqa: PLC0415

    series = as_csv(found.by_slot, found.wanted.reading, found.whole)
    if output.suffix == ".csv":
        with atomic_output(output) as partial:
            partial.write_text(series, "utf-8")
        return
    with atomic_folder(output, overwrite, ours=OUTPUTS.__contains__, marker="tables.json") as folder:
        (folder / "traffic.csv").write_text(series, "utf-8")
        (folder / "tables.md").write_text(render(tables, "markdown"), "utf-8")
        (folder / "tables.json").write_text(as_json_text(tables, {"provenance": origin}), "utf-8")
        figures.concurrency_over_time(found, folder / "concurrency.svg")
        if found.sharing is not None:
            figures.sharing_by_capacity(sharing_rows(found), folder / "prefix-sharing.svg")
            figures.acceptance_by_depth(depth_rows(found), folder / "acceptance.svg")
