"""``draft-oracle recommend``: one page that says which draft length to set, and the configuration to paste."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.options import MEMORY, SHOWING, THREADS, Finite, model_here
from oracle.cli.output import emit, progress, read_model
from oracle.cli.recommend_inputs import (
    acceptance,
    check_engine,
    check_with_traces,
    check_without_traces,
    step_times,
    tenant_weights,
)
from oracle.errors import Faults, InputError, printable

if TYPE_CHECKING:
    from oracle.recommendation.answers import Recommendation
    from oracle.recommendation.tenants import Mixing
    from oracle.tables import Table

    _Answered = tuple[list[Table], list[Recommendation], dict[str, Any]]

_ENGINES = ("vllm", "sglang", "trtllm", "llamacpp", "transformers", "mlx")  # oracle.engines.ENGINES, not imported here
_WHOLE = click.IntRange(1)
_ACCEPTANCE = (
    click.option(
        "--acceptance",
        multiple=True,
        metavar="[TENANT=]FILE",
        help="Acceptance: a CSV or JSON table, log lines (vLLM, llama.cpp, SGLang), vLLM's Prometheus text, or "
        "responses with per-request metrics; - reads stdin. Several files: several draft lengths, or tenants.",
    ),
    click.option(
        "--acceptance-is",
        type=click.Choice(["survival", "conditional"]),
        help="What a typed table holds (needed there); what engines count is survival.",
    ),
    click.option(
        "--acceptance-at",
        type=_WHOLE,
        metavar="K",
        help="Draft length of files that hold totals and do not tell it (llama.cpp, SGLang's log).",
    ),
    click.option(
        "--acceptance-mixed",
        multiple=True,
        metavar="[TENANT=]FILE",
        help="Acceptance measured while the tenants of --acceptance shared batches, whole or by tenant: set "
        "beside the mix calculated from them, and taken for the answer.",
    ),
    click.option(
        "--assume",
        type=click.Choice(["constant-match"]),
        help="Give totals a curve by position: one match probability everywhere. An assumption, and named so.",
    ),
)
_COSTS = (
    click.option(
        "--step-times",
        metavar="FILE",
        help="CSV or JSON: draft_length (or m = K + 1) and step_ms or tokens_per_second; batch_size, setting.",
    ),
    click.option("--traces", multiple=True, metavar="PATH", help="Recorded traces instead, with --model."),
    click.option(
        "--model", "-m", metavar="FILE", callback=model_here, help="Latency model (JSON) instead of step times."
    ),
    click.option(
        "--unique-experts",
        metavar="U",
        help="With a model, mean unique experts by m, as 1:8,2:13.1,4:22, or one number; with traces, recorded "
        "or routing.",
    ),
    click.option("--context-len", type=Finite(0), help="With a model: tokens in context."),
    click.option("--batch-size", type=_WHOLE, help="Which batch size of a model fitted over several."),
)
_ANSWER = (
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
        type=Finite(0, 99),
        default=2.0,
        show_default=True,
        help="Percent below which two rates are a tie.",
    ),
)
_CONFIGURATION = (
    click.option("--engine", type=click.Choice(_ENGINES), help="Print the configuration of this engine."),
    click.option(
        "--engine-version",
        metavar="V",
        help="Its version; TensorRT-LLM's keys depend on it.",
    ),
    click.option("--method", help="How it drafts, in its own word (eagle3, EAGLE3, draft-mtp …)."),
    click.option("--draft-model", metavar="PATH", help="Its draft model."),
    click.option("--data-parallel", type=_WHOLE, help="Replicas one engine keeps in step [1]."),
    click.option("--most-draft-tokens", type=_WHOLE, help="Its maximum [the largest K recommended]."),
    click.option("--max-batch-size", type=_WHOLE, help="Where a schedule by batch size ends."),
)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the options in the order of the help page."""
    for decorator in reversed((*_ACCEPTANCE, *_COSTS, *_ANSWER, *_CONFIGURATION, THREADS, MEMORY, SHOWING)):
        command = decorator(command)
    return command


@click.command()
@_options
def recommend(
    noise: float,
    engine: str | None,
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
    faults = Faults()
    faults.made(lambda: check_engine(engine, given))
    faults.made(lambda: (check_with_traces if given["traces"] else check_without_traces)(given))
    faults.raise_if_any()
    tables, answers, origin = (_from_traces if given["traces"] else _without_traces)(given, noise / 100)
    texts = {}
    if engine is not None:
        texts = _configurations(answers, engine, given)
    extra = {"provenance": origin} | ({"configuration": texts} if texts else {})
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra=extra)
    if not as_json:
        for where, text in texts.items():
            title = f"Configuration for {engine}{where and f', {printable(where)}'}"
            fenced = f"```\n{text}```\n" if as_markdown else text
            click.echo(f"\n{'## ' if as_markdown else ''}{title}\n\n{fenced}", nl=False)


def _from_traces(given: Mapping[str, Any], noise: float) -> "_Answered":
    """Answer from static draft lengths scored on traces, in one walk."""
    from oracle.cli.traces import NEEDED, budget  # noqa: PLC0415
    from oracle.kinds import files_of_kind  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.recommendation.from_traces import by_tenant_of_traces, recommend_from_walk, walk_static  # noqa: PLC0415
    from oracle.summaries.recommendation import recommendation_tables  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415

    model = read_model(given["model"], given["batch_size"])
    columns = (*NEEDED, "tenant")
    files = TraceFiles(files_of_kind(list(given["traces"]), "traces"), columns=columns, match_is=given["match_is"])
    files = files.within(budget(model, given["memory"], given["threads"], given["k_max"]))
    asked = {name: given[name] for name in ("k_min", "k_max", "unique_experts")}
    paths = [*files.paths, *([] if given["model"] == "-" else [Path(given["model"])])]
    said = asked | {name: given[name] for name in ("batch_size", "match_is")} | {"noise": noise}
    with ThreadPoolExecutor(max_workers=1) as pool, progress("recommend", files.generations) as advance:
        digested = pool.submit(provenance, "recommend", said, paths)
        walked = walk_static(files, model, **asked, threads=given["threads"], on_batch=advance)
    size = model.batch_size or 1
    answer = recommend_from_walk(walked, noise=noise, batch_size=size)
    tenants = by_tenant_of_traces(walked, noise=noise, batch_size=size)
    return recommendation_tables([answer], [tenants] if tenants else []), [answer], digested.result()


def _without_traces(given: Mapping[str, Any], noise: float) -> "_Answered":
    """Answer from acceptance and step times; from step times alone where there is no acceptance."""
    from oracle.acceptance import mixed  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415
    from oracle.recommendation import arithmetic, tenants  # noqa: PLC0415
    from oracle.summaries.recommendation import recommendation_tables  # noqa: PLC0415

    faults = Faults()
    read = faults.made(lambda: [t.within(given["k_min"], given["k_max"]) for t in step_times(given)])
    files, apart = faults.made(lambda: acceptance(given, "acceptance")) or ([], None)
    mixed_files, together = faults.made(lambda: acceptance(given, "acceptance_mixed")) or ([], None)
    weights = faults.made(lambda: tenant_weights(given["tenant_weights"]))
    faults.raise_if_any()
    steps = read or []
    mix = None if apart is None else mixed(apart, weights)
    found: list[Mixing] = []
    if apart is not None and together is not None:
        found, mix = tenants.mixings(apart, together, weights, noise=noise)
    answers = [arithmetic.recommend(mix, table, noise=noise) for table in steps]
    if found:
        said = tenants.notes_on_mixing(found)
        answers = [replace(answer, notes=(*answer.notes, *said)) for answer in answers]
    each = []
    if apart is not None and len(apart.tenants) > 1:
        each = [tenants.by_tenant(apart, answer, noise=noise, measured_mix=bool(found)) for answer in answers]
    paths = [Path(p) for p in (*files, *mixed_files, given["step_times"], given["model"]) if p not in (None, "-")]
    names = ("acceptance_is", "acceptance_at", "assume", "unique_experts", "context_len", "batch_size")
    origin = provenance("recommend", {name: given[name] for name in names} | {"noise": noise}, paths)
    return recommendation_tables(answers, each, found), answers, origin


def _configurations(answers: "Sequence[Recommendation]", engine: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Write the configuration of each setting; several batch sizes of one setting make a schedule."""
    from oracle.engines import configuration  # noqa: PLC0415
    from oracle.recommendation.by_batch_size import ranges_of, remarks_on  # noqa: PLC0415

    if any(answer.recommended is None for answer in answers):
        raise InputError("--engine writes the recommended draft length, and without --acceptance there is none; add it")
    settings: dict[str, list[Recommendation]] = {}
    for answer in answers:
        settings.setdefault(answer.setting or "", []).append(answer)
    texts = {}
    for setting, each in settings.items():
        text = configuration(
            engine,
            ranges_of(each),
            given["engine_version"],
            method=given["method"],
            draft_model=given["draft_model"],
            data_parallel=given["data_parallel"] or 1,
            most_draft_tokens=given["most_draft_tokens"],
            max_batch_size=given["max_batch_size"],
        )
        texts[setting] = "".join(f"# {remark}\n" for remark in remarks_on(each)) + text
    return texts
