"""``draft-oracle crossover``: at which batch sizes speculation pays, how long a draft there, and when no longer."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.crossover_inputs import (
    check,
    formula_traffic,
    further_readings,
    mean_lengths,
    question_of,
    scaling_of,
)
from oracle.cli.options import SHOWING, THREADS, Finite, model_here
from oracle.cli.output import emit, progress, stdin_text
from oracle.cli.traces import model_inputs

if TYPE_CHECKING:
    from oracle.crossover.answer import Crossover
    from oracle.crossover.readings import Reading
    from oracle.crossover.study import Studied
    from oracle.files import File
    from oracle.latency.model import LatencyModel
    from oracle.tables import Table

OUTPUTS = frozenset(
    {
        "tables.md",
        "tables.json",
        "speed-up.svg",
        "acceptance-needed.svg",
        "unique-experts.svg",
        "tenants-mixed.svg",
        "configuration.txt",
    }
)
_ENGINES = ("vllm", "sglang", "trtllm", "llamacpp", "transformers", "mlx")  # oracle.engines.ENGINES, not imported here
_WHOLE, _MS, _SHARE = click.IntRange(1), Finite(0), Finite(0, 1)
_TRAFFIC = (
    click.argument("traces", nargs=-1),
    click.option(
        "--model", "-m", required=True, metavar="FILE", callback=model_here, help="Latency model; - reads stdin."
    ),
    click.option("--max-batch-size", type=_WHOLE, default=256, show_default=True, help="The largest batch looked at."),
    click.option("--k-max", type=_WHOLE, help="Longest draft length [what model and traces cover]."),
    click.option("--tenants", type=_WHOLE, help="Tenants in a batch, in equal parts [whoever comes]."),
    click.option("--match-prob", type=_SHARE, help="One match probability in place of the traces'."),
    click.option("--acceptance", metavar="FILE", help="Acceptance as `recommend` reads it, in its place."),
    click.option("--acceptance-is", type=click.Choice(["survival", "conditional"]), help="What a typed table holds."),
    click.option("--context-len", type=_MS, help="Tokens in context [mean of the traces]."),
    click.option("--num-experts", type=click.IntRange(0), help="Without traces: experts a layer; 0 is dense."),
    click.option("--top-k", type=click.IntRange(0), help="Without traces: experts a token."),
    click.option("--overlap", type=_SHARE, help="Without traces: rows of a request that add no experts [0]."),
)
_PRICES = (
    click.option(
        "--scale-by",
        type=click.Choice(["tokens", "length"]),
        default="tokens",
        show_default=True,
        help="What base and expert time go by where a batch size was not measured.",
    ),
    click.option("--token-ms", type=_MS, help="Price of a further token besides its experts [what beta0 tells]."),
    click.option("--floor-ms", type=_MS, default=0.0, help="Compute floor of a token: hides behind its experts [0]."),
    click.option(
        "--kv-read-ms",
        type=_MS,
        help="Reading a token of context of a further request [what several measured batch sizes tell, else 0].",
    ),
    click.option("--kv-bytes", type=Finite(1), help="In its place: KV of a token, over the bandwidth."),
    click.option("--bandwidth-gb", type=Finite(1e-3), help="That bandwidth: 10^9 bytes a second."),
    click.option(
        "--draft-request-ms",
        type=_MS,
        help="Drafting a token for one more request [what several measured batch sizes tell, else 0].",
    ),
    click.option("--off-ms", type=_MS, help="Base time of a K = 0 round where the model has no m = 1."),
    click.option("--kv-tokens", type=_WHOLE, help="Tokens the KV cache holds: ends the batch sizes."),
)
_ANSWER = (
    click.option("--paths", type=_WHOLE, default=256, show_default=True, help="Random orders of requests drawn."),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of those orders."),
    click.option(
        "--noise",
        type=Finite(0, 99),
        default=2.0,
        show_default=True,
        help="Percent of the rate that counts as nothing in the schedule.",
    ),
    click.option("--match-is", type=click.Choice(["conditional", "survival"]), help="What match_probs holds."),
)
_OUTPUT = (
    click.option("--engine", type=click.Choice(_ENGINES), multiple=True, help="Print its configuration too."),
    click.option("--engine-version", metavar="V", help="Its version; a TensorRT-LLM schedule needs it."),
    click.option("--method", help="How it drafts, in its own word."),
    click.option("--draft-model", metavar="PATH", help="Its draft model."),
    click.option("--data-parallel", type=_WHOLE, default=1, help="Replicas one engine keeps in step."),
    click.option("--most-draft-tokens", type=_WHOLE, help="Its maximum [the largest K of the schedule]."),
    click.option(
        "--output",
        "-o",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write tables, pictures: a folder.",
    ),
    click.option("--overwrite", is_flag=True, help="Replace an earlier output folder."),
)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the options in the order of the help page."""
    for decorator in reversed((*_TRAFFIC, *_PRICES, *_ANSWER, *_OUTPUT, THREADS, SHOWING)):
        command = decorator(command)
    return command


@click.command()
@_options
def crossover(model: str, output: Path | None, overwrite: bool, as_json: bool, as_markdown: bool, **given: Any) -> None:
    """Find every batch size at which speculation pays, and the draft length for each.

    \b
    draft-oracle crossover cases/tiny-moe -m model.json --max-batch-size 64 -o out
    draft-oracle crossover -m model.json --match-prob 0.7 --context-len 1000 \\
        --num-experts 128 --top-k 8 --off-ms 5.7

    With TRACES the experts of a batch are measured: batches are drawn from the recorded routing. Prices at batch sizes
    that the latency model does not hold are extrapolated by a stated model, and every row says so.
    """
    from oracle.errors import Faults  # noqa: PLC0415
    from oracle.outputs import atomic_folder, refuse_output_over_input  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.tables import as_json_text, render  # noqa: PLC0415

    faults = Faults()
    faults.made(lambda: check(given))
    latency = faults.made(lambda: _model(model))
    inputs = [*given["traces"], *model_inputs(model), *([given["acceptance"]] if given["acceptance"] else [])]
    faults.made(lambda: refuse_output_over_input(output, inputs))
    faults.raise_if_any()
    assert latency is not None
    with ExitStack() as stack:
        folder = None
        if output is not None:
            ours = atomic_folder(output, overwrite, ours=OUTPUTS.__contains__, marker="tables.json")
            folder = stack.enter_context(ours)
        tables, answer, again, files = _tables(given, latency, folder)
        texts = _configurations(answer, again, given)
        options = {key: value for key, value in given.items() if key not in ("traces", "threads")}
        origin = provenance("crossover", options, [*files, *map(Path, inputs[len(given["traces"]) :])])
        extra = {"provenance": origin} | ({"configuration": texts} if texts else {})
        if folder is not None:
            (folder / "tables.md").write_text(render(tables, "markdown"), "utf-8")
            (folder / "tables.json").write_text(as_json_text(tables, extra), "utf-8")
            if texts:
                (folder / "configuration.txt").write_text(
                    "\n".join(f"# {name}\n{text}" for name, text in texts.items()), "utf-8"
                )
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra=extra)
    for name, text in {} if as_json else texts.items():
        fenced = f"```\n{text}```\n" if as_markdown else text
        click.echo(f"\n{'## ' if as_markdown else ''}Configuration for {name}\n\n{fenced}", nl=False)


def _model(path: str) -> "LatencyModel":
    """Read a latency model with all its batch sizes."""
    from oracle.latency.model import LatencyModel  # noqa: PLC0415

    if path == "-":
        return LatencyModel.from_json(stdin_text(), source="standard input")
    return LatencyModel.load(path)


def _tables(
    given: Mapping[str, Any], model: "LatencyModel", folder: Path | None
) -> "tuple[list[Table], Crossover, list[Reading], list[File]]":
    """Answer, and draw where a folder is wanted."""
    from oracle.crossover.answer import crossover as answered  # noqa: PLC0415
    from oracle.crossover.readings import readings  # noqa: PLC0415
    from oracle.crossover.study import shown_sizes  # noqa: PLC0415
    from oracle.summaries.crossover import crossover_tables  # noqa: PLC0415
    from oracle.summaries.crossover_prices import assumptions  # noqa: PLC0415

    if given["traces"]:
        return _from_traces(given, model, folder)
    traffic, lengths, notes = formula_traffic(given, model)
    options = {"scaling": scaling_of(given), "kv_tokens": given["kv_tokens"], "noise": given["noise"] / 100}
    answer = answered(traffic, model, lengths, **options)
    shown = shown_sizes(given["max_batch_size"], [*model.batch_sizes, answer.most])
    again = readings(answer, model, further_readings(given))
    _draw(answer, again, folder)
    return crossover_tables(answer, shown, assumptions(answer, model), notes, again), answer, again, []


def _from_traces(
    given: Mapping[str, Any], model: "LatencyModel", folder: Path | None
) -> "tuple[list[Table], Crossover, list[Reading], list[File]]":
    from oracle.cli.crossover_inputs import lengths_of  # noqa: PLC0415
    from oracle.crossover.readings import readings  # noqa: PLC0415
    from oracle.crossover.study import study_windows  # noqa: PLC0415
    from oracle.crossover.windows import COLUMNS, read_windows  # noqa: PLC0415
    from oracle.digests import Stamps  # noqa: PLC0415
    from oracle.kinds import files_of_kind  # noqa: PLC0415
    from oracle.study import carried_length  # noqa: PLC0415
    from oracle.summaries.batch_experts import traffic_tables  # noqa: PLC0415
    from oracle.summaries.crossover import crossover_tables  # noqa: PLC0415
    from oracle.summaries.crossover_prices import assumptions  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415

    files = TraceFiles(files_of_kind(list(given["traces"]), "traces"), columns=COLUMNS, match_is=given["match_is"])
    stamps = Stamps(files.paths)
    lengths, notes = lengths_of(model, given["k_max"], carried_length(files))
    with progress("crossover", files.generations) as advance:
        windows = read_windows(files, max(lengths), seed=given["seed"], on_batch=advance)
    stamps.check()
    mean_length, said = mean_lengths(given, max(lengths))
    question = question_of(given, mean_length)
    studied = study_windows(windows, model, lengths, question, threads=given["threads"])
    answer = studied.answer
    again = readings(answer, model, further_readings(given))
    notes = [*notes, *said, *studied.notes]
    tables = crossover_tables(answer, studied.shown, assumptions(answer, model), notes, again)
    tables += traffic_tables(studied)
    _draw(answer, again, folder)
    if folder is not None:
        _draw_traffic(studied, folder)
    return tables, answer, again, list(files.paths)


def _draw(answer: "Crossover", again: "list[Reading]", folder: Path | None) -> None:
    if folder is not None:
        from oracle.figures.crossover import acceptance_by_batch, speed_up_by_batch  # noqa: PLC0415

        speed_up_by_batch(answer, folder / "speed-up.svg", again)
        acceptance_by_batch(answer, folder / "acceptance-needed.svg")


def _draw_traffic(studied: "Studied", folder: Path) -> None:
    from oracle.figures.batch_experts import tenants_mixed, unique_experts_by_batch  # noqa: PLC0415

    unique_experts_by_batch(studied, folder / "unique-experts.svg")
    if studied.mixing:
        tenants_mixed(studied, folder / "tenants-mixed.svg")


def _configurations(answer: "Crossover", again: "list[Reading]", given: Mapping[str, Any]) -> dict[str, str]:
    """Write the schedule for every engine that was asked for, below what it rests on."""
    from oracle.engines import configuration  # noqa: PLC0415
    from oracle.summaries.crossover_headline import engine_remarks  # noqa: PLC0415

    names = ("method", "draft_model", "data_parallel", "most_draft_tokens", "max_batch_size")
    options = {name: given[name] for name in names}
    remarks = engine_remarks(answer, again)
    return {
        engine: remarks + configuration(engine, answer.ends(), given["engine_version"], **options)
        for engine in given["engine"]
    }
