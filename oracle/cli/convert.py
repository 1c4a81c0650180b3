"""``draft-oracle convert``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.options import SHOWING
from oracle.cli.output import emit, progress

if TYPE_CHECKING:
    from oracle.recorded_by.source import Source
    from oracle.recorded_by.timings import Told
    from oracle.tables import Table

_ENGINES = ("vllm", "sglang", "trtllm", "llamacpp", "aiperf")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("inputs", nargs=-1, type=click.Path(path_type=Path))
@click.option("--output", "-o", type=_FILE, help="The trace, rounds (Parquet) or acceptance table (CSV) to write.")
@click.option("--from", "engine", type=click.Choice(["auto", *_ENGINES]), default="auto", show_default=True)
@click.option("--to", type=click.Choice(["trace", "rounds", "acceptance"]), help="What to make [what the inputs hold].")
@click.option(
    "--explain", type=click.Choice(_ENGINES), help="Say what can be read of an engine, and what it cannot give."
)
@click.option("--num-experts", type=click.IntRange(1, 1 << 16), help="Experts in each MoE layer; no engine sends it.")
@click.option("--top-k", type=click.IntRange(1), help="Experts a token; needed for SGLang's routing.")
@click.option("--layers", type=click.IntRange(1), help="Hidden layers of the target, to check what was recorded.")
@click.option(
    "--dense-layers", metavar="LIST", help="Layers without experts, as 0,1,2 [those that read so throughout]."
)
@click.option("--dense", is_flag=True, help="The target is dense: no routing is needed.")
@click.option("--routing-start", metavar="N", help="First token that has a row of routing, or infer [0].")
@click.option("--prompt-tokens", type=click.IntRange(0), help="Tokens of a prompt, where records do not say.")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(["category", "tenant", "request", "nothing"]),
    default=["request"],
    show_default=True,
    help="Tell averages of accepted tokens apart by these.",
)
@click.option(
    "--match",
    type=click.Choice(["empirical", "reference", "greedy", "overlap_lower", "overlap_upper"]),
    default="empirical",
    show_default=True,
    help="What match probabilities to take: averages of accepted tokens, or a draft's scores of the text.",
)
@click.option("--acceptance", metavar="FILE", help="Take the averages from here: counters, log lines, a table.")
@click.option("--acceptance-is", type=click.Choice(["survival", "conditional"]), help="What the rates of a table are.")
@click.option("--draft-logprobs", type=_FILE, help="The texts as the draft scored them (JSON lines).")
@click.option("--target-logprobs", type=_FILE, help="The texts as the target scored them; for bounds of the overlap.")
@click.option("--unique-experts", metavar="M:U,…", help="For rounds: U by verified positions, or one number.")
@click.option("--draft-ms", metavar="K:MS,…", help="For rounds: time of a draft by its length.")
@click.option(
    "--batched-is", type=click.Choice(["batch", "verified"]), help="What sequences of batched-bench stand for."
)
@click.option("--target", "target_name", help="Name of the target, for the record.")
@click.option("--draft", "draft_name", help="Name of the draft, for the record.")
@click.option("--engine-version", help="Version of the engine, for the record.")
@click.option("--device", help="What it ran on, for the record.")
@SHOWING
def convert(
    inputs: tuple[Path, ...],
    output: Path | None,
    engine: str,
    to: str | None,
    explain: str | None,
    as_json: bool,
    as_markdown: bool,
    **given: Any,
) -> None:
    """Make traces or rounds of what an engine recorded.

    INPUTS are files of one engine: JSON lines of responses, .npz or .npy of routing, timed passes, counters.
    """
    if explain is not None:
        from oracle.recorded_by.engines import explanation  # noqa: PLC0415

        click.echo(explanation(explain))
        return
    if not inputs or output is None:
        raise click.UsageError("give files to convert and -o FILE to write (or --explain ENGINE)")
    from oracle.outputs import refuse_output_over_input  # noqa: PLC0415
    from oracle.recorded_by.source import open_source  # noqa: PLC0415

    beside = [given[name] for name in ("acceptance", "draft_logprobs", "target_logprobs") if given[name] is not None]
    refuse_output_over_input(output, [*inputs, *beside])
    source = open_source(inputs, None if engine == "auto" else engine, given["prompt_tokens"])
    make = {"trace": _trace, "rounds": _rounds, "acceptance": _acceptance}[to or source.holds]
    tables = make(source, output, given)
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": _origin(source, given, beside)})


def _origin(source: "Source", given: dict[str, Any], beside: list[Any]) -> dict[str, Any]:
    from oracle.provenance import provenance  # noqa: PLC0415

    options = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items() if value}
    options = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
    return provenance("convert", {"reader": source.engine, **options}, [*source.paths, *map(Path, beside)])


def _metadata(source: "Source", given: dict[str, Any]) -> dict[str, str]:
    """What the output says of its making."""
    version = given["engine_version"]
    said = {
        "target": given["target_name"],
        "draft": given["draft_name"],
        "engine": source.engine if version is None else f"{source.engine} {version}",
        "device": given["device"],
    }
    return {key: value for key, value in said.items() if value is not None}


def _trace(source: "Source", output: Path, given: dict[str, Any]) -> "list[Table]":
    from oracle.acceptance import read_acceptance  # noqa: PLC0415
    from oracle.errors import InputError  # noqa: PLC0415
    from oracle.files import shown  # noqa: PLC0415
    from oracle.recorded_by.aligned import Wanted  # noqa: PLC0415
    from oracle.recorded_by.conversion import convert_trace  # noqa: PLC0415
    from oracle.recorded_by.scored_text import ScoredTexts  # noqa: PLC0415
    from oracle.recorded_by.source import TRACE  # noqa: PLC0415
    from oracle.summaries.conversion import conversion_tables  # noqa: PLC0415

    if source.holds == "acceptance" or (source.holds != TRACE and given["acceptance"] is None):
        raise InputError(
            f"{shown(source.paths[0])}: holds {source.holds} and no requests, so no trace can be made of it; counters "
            "go beside requests, with --acceptance"
        )
    wanted = Wanted(
        num_experts=given["num_experts"],
        top_k=given["top_k"],
        dense_layers=_layers(given["dense_layers"]),
        dense_target=given["dense"],
        routing_start=_start(given["routing_start"]),
        prompt_tokens=given["prompt_tokens"],
        by=tuple(name for name in dict.fromkeys(given["by"]) if name != "nothing"),
        match=given["match"],
        layers=given["layers"],
    )
    scores = [
        None if given[name] is None else ScoredTexts(given[name]) for name in ("draft_logprobs", "target_logprobs")
    ]
    beside = given["acceptance"]
    with progress("converting", 2 * source.bytes) as advance:
        found = convert_trace(
            source,
            output,
            wanted,
            acceptance=None if beside is None else read_acceptance(beside, given["acceptance_is"]),
            draft=scores[0],
            target=scores[1],
            metadata=_metadata(source, given),
            on_bytes=advance,
        )
    return conversion_tables(found, source.engine, output.name)


def _layers(text: str | None) -> tuple[int, ...] | None:
    from oracle.errors import InputError, printable  # noqa: PLC0415

    if text is None:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() and len(part) < 6 for part in parts):
        raise InputError(
            f"--dense-layers is {printable(text)!r}; write layer numbers from 0 on, as 0,1,2 (or '' for none)"
        )
    return tuple(sorted({int(part) for part in parts}))


def _start(text: str | None) -> int | None:
    from oracle.errors import InputError, printable  # noqa: PLC0415
    from oracle.recorded_by.alignment import INFER  # noqa: PLC0415

    if text is None:
        return None
    if text == "infer":
        return INFER
    if not (text.isdecimal() and len(text) < 10):
        raise InputError(f"--routing-start is {printable(text)!r}; give a token number from 0 on, or infer")
    return int(text)


def _told(given: dict[str, Any]) -> "Told":
    from oracle.cli.recommend_inputs import unique_experts_in  # noqa: PLC0415
    from oracle.errors import InputError, printable  # noqa: PLC0415
    from oracle.recorded_by.timings import Told  # noqa: PLC0415

    unique, draft = given["unique_experts"], given["draft_ms"]
    by_length = None
    if draft is not None:
        try:
            by_length = {int(k): float(ms) for k, ms in (pair.split(":") for pair in draft.split(","))}
            if not all(0 <= ms < float("inf") for ms in by_length.values()):
                raise ValueError
        except ValueError:
            raise InputError(f"--draft-ms is {printable(draft)!r}; give pairs k:milliseconds, as 1:1.4,2:2.5") from None
    return Told(None if unique is None else unique_experts_in(unique), by_length, given["batched_is"])


def _rounds(source: "Source", output: Path, given: dict[str, Any]) -> "list[Table]":
    from oracle.errors import Faults  # noqa: PLC0415
    from oracle.recorded_by.timings import rounds_of, rows_in  # noqa: PLC0415
    from oracle.rounds import write_rounds  # noqa: PLC0415
    from oracle.summaries.conversion import rounds_table  # noqa: PLC0415

    faults = Faults()
    with progress("converting", source.bytes) as advance:
        trees = ((place, tree) for _, place, tree in source.trees(advance))
        parts = []

        def counted() -> Any:
            for part in rounds_of(rows_in(trees, _told(given), faults), source.paths[0].name, faults):
                parts.append((len(part), set(part.draft_length.tolist())))
                yield part

        said = {f"draft_oracle.{key}": value for key, value in _metadata(source, given).items()}
        write_rounds(output, counted(), said)
    return [rounds_table(output.name, source.engine, parts)]


def _acceptance(source: "Source", output: Path, given: dict[str, Any]) -> "list[Table]":
    from oracle.acceptance import joined, read_acceptance  # noqa: PLC0415
    from oracle.outputs import atomic_output  # noqa: PLC0415
    from oracle.recorded_by.acceptance_table import as_csv  # noqa: PLC0415
    from oracle.summaries.conversion import acceptance_table  # noqa: PLC0415

    found = joined([(None, read_acceptance(path, given["acceptance_is"])) for path in source.paths])
    with atomic_output(output) as partial:
        partial.write_text(as_csv(found), "utf-8")
    return [acceptance_table(output.name, found)]
