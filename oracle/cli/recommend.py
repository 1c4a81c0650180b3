"""``draft-oracle recommend``: one page that says which draft length to set, and the configuration to paste."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from oracle.cli.options import SHOWING, THREADS
from oracle.cli.output import emit, read_model
from oracle.errors import Faults, InputError, printable

if TYPE_CHECKING:
    from oracle.acceptance import Acceptance, StepTimes
    from oracle.recommendation.arithmetic import Recommendation
    from oracle.tables import Table

_ENGINES = ("vllm", "sglang", "trtllm", "llamacpp", "transformers", "mlx")  # oracle.engines.ENGINES, not imported here
_WHOLE = click.IntRange(1)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the options in the order of the help page."""
    for decorator in reversed(
        (
            click.option(
                "--acceptance",
                multiple=True,
                metavar="[TENANT=]FILE",
                help="Acceptance by position: a CSV or JSON table, vLLM log lines, Prometheus text or per-request "
                "metrics; - reads stdin. Several files: several draft lengths, or tenants.",
            ),
            click.option(
                "--acceptance-is",
                type=click.Choice(["survival", "conditional"]),
                help="What a typed table holds (needed there); what engines count is survival.",
            ),
            click.option(
                "--step-times",
                metavar="FILE",
                help="CSV or JSON: draft_length (or m = K + 1) and step_ms or tokens_per_second; batch_size, setting.",
            ),
            click.option("--traces", multiple=True, metavar="PATH", help="Recorded traces instead, with --model."),
            click.option("--model", "-m", metavar="FILE", help="Latency model (JSON) instead of step times."),
            click.option(
                "--unique-experts",
                metavar="U",
                help="With a model, mean unique experts by m, as 1:8,2:13.1,4:22, or one number; with traces, recorded "
                "or routing.",
            ),
            click.option("--context-len", type=click.FloatRange(0), help="With a model: tokens in context."),
            click.option("--batch-size", type=_WHOLE, help="Which batch size of a model fitted over several."),
            click.option("--tenant-weights", metavar="A=W,B=W", help="Share of the requests in flight [equal]."),
            click.option("--k-min", type=click.IntRange(0), help="Shortest draft length."),
            click.option("--k-max", type=click.IntRange(0), help="Longest draft length."),
            click.option(
                "--match-is",
                type=click.Choice(["conditional", "survival"]),
                help="With traces: what the column match_probs holds.",
            ),
            click.option(
                "--noise",
                type=click.FloatRange(0, 99),
                default=2.0,
                show_default=True,
                help="Percent below which two rates are a tie.",
            ),
            click.option("--engine", type=click.Choice(_ENGINES), help="Print the configuration of this engine."),
            click.option("--engine-version", metavar="V", help="Its version; a TensorRT-LLM schedule needs it."),
            click.option("--method", help="How it drafts, in its own word (eagle3, EAGLE3, draft-mtp …)."),
            click.option("--draft-model", metavar="PATH", help="Its draft model."),
            click.option("--data-parallel", type=_WHOLE, default=1, help="Replicas one engine keeps in step."),
            click.option("--most-draft-tokens", type=_WHOLE, help="Its maximum [the largest K recommended]."),
            click.option("--max-batch-size", type=_WHOLE, help="Where a schedule by batch size ends."),
            THREADS,
            SHOWING,
        )
    ):
        command = decorator(command)
    return command


@click.command()
@_options
def recommend(
    noise: float,
    engine: str | None,
    engine_version: str | None,
    method: str | None,
    draft_model: str | None,
    data_parallel: int,
    most_draft_tokens: int | None,
    max_batch_size: int | None,
    as_json: bool,
    as_markdown: bool,
    **given: Any,
) -> None:
    """Say on one page which draft length to set, off included, and what would change the answer.

    \b
    draft-oracle recommend --acceptance metrics.txt --step-times steps.csv --engine vllm
    draft-oracle recommend --acceptance rates.csv --acceptance-is survival \\
        --model model.json --unique-experts 1:8,2:13.1,3:17 --context-len 4000
    draft-oracle recommend --traces traces.parquet --model model.json

    Without --acceptance the answer is the acceptance at which each draft length pays. Ties go to the shorter draft.
    """
    tables, answers, origin = (_from_traces if given["traces"] else _without_traces)(given, noise / 100)
    texts = {}
    if engine is not None:
        texts = _configurations(
            answers,
            engine,
            engine_version,
            method=method,
            draft_model=draft_model,
            data_parallel=data_parallel,
            most_draft_tokens=most_draft_tokens,
            max_batch_size=max_batch_size,
        )
    extra = {"provenance": origin} | ({"configuration": texts} if texts else {})
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra=extra)
    if not as_json:
        for where, text in texts.items():
            title = f"Configuration for {engine}{where and f', {printable(where)}'}"
            fenced = f"```\n{text}```\n" if as_markdown else text
            click.echo(f"\n{'## ' if as_markdown else ''}{title}\n\n{fenced}", nl=False)


def _from_traces(given: Mapping[str, Any], noise: float) -> "tuple[list[Table], list[Recommendation], dict[str, Any]]":
    """Answer from a study of traces."""
    from oracle.cli.traces import studied  # noqa: PLC0415
    from oracle.recommendation.from_traces import recommend_from_scores  # noqa: PLC0415
    from oracle.summaries.recommendation import recommendation_tables  # noqa: PLC0415

    faults = Faults()
    for name in ("acceptance", "acceptance_is", "step_times", "context_len", "tenant_weights"):
        if given[name]:
            faults.add(f"--{name.replace('_', '-')} does not go with --traces, which hold it; leave one of them out")
    if given["model"] is None:
        faults.add("--traces need a latency model; give --model FILE")
    if given["unique_experts"] not in (None, "recorded", "routing"):
        faults.add(f"--unique-experts is {printable(given['unique_experts'])!r}; with --traces: recorded or routing")
    faults.raise_if_any()
    model = read_model(given["model"], given["batch_size"])
    question = {name: given[name] for name in ("k_min", "k_max", "unique_experts", "threads")} | {"score": True}
    inputs = [] if given["model"] == "-" else [Path(given["model"])]
    study, origin = studied("recommend", given["traces"], model, given["match_is"], question, inputs)
    traffic = f"{study.positions:,} positions of {study.generations:,} generations, {study.clusters:,} clusters"
    answer = recommend_from_scores(
        study.scores, noise=noise, batch_size=model.batch_size or 1, notes=[traffic, *study.notes]
    )
    return recommendation_tables([answer]), [answer], origin


def _without_traces(
    given: Mapping[str, Any], noise: float
) -> "tuple[list[Table], list[Recommendation], dict[str, Any]]":
    """Answer from acceptance by position and step times; from step times alone where there is no acceptance."""
    from oracle.acceptance import mixed  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.recommendation import arithmetic as recommendation  # noqa: PLC0415
    from oracle.summaries.recommendation import recommendation_tables  # noqa: PLC0415

    _check_inputs(given)
    steps = [table.within(given["k_min"], given["k_max"]) for table in _step_times(given)]
    files, acceptance = _acceptance(given["acceptance"], given["acceptance_is"])
    weights = _weights(given["tenant_weights"])
    if weights is not None and acceptance is None:
        raise InputError("--tenant-weights mixes the acceptance of tenants; give --acceptance")
    mix = None if acceptance is None else mixed(acceptance, weights)
    answers = [recommendation.recommend(mix, table, noise=noise) for table in steps]
    tenants = []
    if acceptance is not None and len(acceptance.tenants) > 1:
        tenants = [recommendation.by_tenant(acceptance, a, noise=noise) for a in answers]
    paths = [Path(p) for p in (*files, given["step_times"], given["model"]) if p not in (None, "-")]
    said = {name: given[name] for name in ("acceptance_is", "unique_experts", "context_len", "batch_size")}
    return recommendation_tables(answers, tenants), answers, provenance("recommend", said | {"noise": noise}, paths)


def _check_inputs(given: Mapping[str, Any]) -> None:
    """Refuse options that contradict one another or leave the question open."""
    faults = Faults()
    if (given["step_times"] is None) == (given["model"] is None):
        faults.add("give step times with --step-times FILE or a latency model with --model FILE, one of them")
    if given["model"] is not None:
        if given["unique_experts"] is None:
            faults.add("a latency model needs U: give --unique-experts by m, as 1:8,2:13.1 (0 for a dense target)")
        if given["context_len"] is None:
            faults.add("a latency model needs the tokens in context: give --context-len")
    elif given["step_times"] is not None:
        for name in ("unique_experts", "context_len", "batch_size"):
            if given[name] is not None:
                faults.add(f"--{name.replace('_', '-')} goes with --model; step times hold it already")
    if given["match_is"] is not None:
        faults.add("--match-is goes with --traces; for --acceptance say --acceptance-is")
    if [*given["acceptance"], given["step_times"], given["model"]].count("-") > 1:
        faults.add("stdin (-) can be read once only; give a file for the others")
    faults.raise_if_any()


def _step_times(given: Mapping[str, Any]) -> "Sequence[StepTimes]":
    from oracle.acceptance import read_step_times, step_times_from_model, step_times_from_text  # noqa: PLC0415

    if given["step_times"] == "-":
        return step_times_from_text(sys.stdin.read(), "standard input")
    if given["step_times"] is not None:
        return read_step_times(given["step_times"])
    model = read_model(given["model"], given["batch_size"])
    return [step_times_from_model(model, _unique(given["unique_experts"]), given["context_len"])]


def _unique(text: str) -> "float | dict[int, float]":
    """Read U: one number, or m:U pairs."""
    try:
        if ":" not in text:
            values: dict[int, float] = {1: float(text)}
        else:
            pairs = [pair.split(":") for pair in text.split(",")]
            values = {int(m): float(u) for m, u in pairs}
            if len(values) < len(pairs):
                raise ValueError
        if not all(0 <= u < float("inf") for u in values.values()):
            raise ValueError
    except ValueError:
        raise InputError(
            f"--unique-experts is {printable(text)!r}; give one number from 0 on, or pairs m:U, each m once, "
            "as 1:8,2:13.1,4:22"
        ) from None
    return values if ":" in text else values[1]


def _acceptance(
    given: Sequence[str], acceptance_is: 'Literal["survival", "conditional"] | None'
) -> "tuple[list[str], Acceptance | None]":
    """Read all files of acceptance; ``name=file`` makes one a tenant's."""
    from oracle.acceptance import acceptance_from_text, joined, read_acceptance  # noqa: PLC0415

    files, parts = [], []
    for each in given:
        tenant, path = None, each
        if "=" in each and not Path(each).exists():
            tenant, _, path = each.partition("=")
        files.append(path)
        if path == "-":
            parts.append((tenant, acceptance_from_text(sys.stdin.read(), "standard input", acceptance_is)))
        else:
            parts.append((tenant, read_acceptance(path, acceptance_is)))
    return files, joined(parts) if parts else None


def _weights(text: str | None) -> "dict[str | None, float] | None":
    if text is None:
        return None
    try:
        pairs = [pair.rpartition("=") for pair in text.split(",")]
        weights: dict[str | None, float] = {name.strip(): float(weight) for name, _, weight in pairs}
        if len(weights) < len(pairs) or not all(name for name in weights):
            raise ValueError
    except ValueError:
        raise InputError(
            f"--tenant-weights is {printable(text)!r}; write each tenant once, as chat=0.7,code=0.3"
        ) from None
    return weights


def _configurations(
    answers: "Sequence[Recommendation]", engine: str, version: str | None, **options: Any
) -> dict[str, str]:
    """Write the configuration of each setting; several batch sizes of one setting make a schedule."""
    from oracle.engines import configuration  # noqa: PLC0415

    if any(answer.recommended is None for answer in answers):
        raise InputError("--engine writes the recommended draft length, and without --acceptance there is none; add it")
    settings: dict[str, list[Recommendation]] = {}
    for answer in answers:
        settings.setdefault(answer.setting or "", []).append(answer)
    texts = {}
    for setting, each in settings.items():
        by_size = sorted(each, key=lambda answer: answer.batch_size)
        starts = [1, *(answer.batch_size for answer in by_size[1:])]
        ends = [*(start - 1 for start in starts[1:]), None]
        ranges = [
            ((start, end), answer.recommended or 0) for start, end, answer in zip(starts, ends, by_size, strict=True)
        ]
        text = configuration(engine, ranges, version, **options)
        if len(by_size) > 1:
            sizes = ", ".join(str(answer.batch_size) for answer in by_size)
            text = f"# measured at batch sizes {sizes}; between two of them the K of the smaller one holds\n{text}"
        texts[setting] = text
    return texts
