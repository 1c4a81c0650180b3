"""``draft-oracle record``."""

from pathlib import Path
from typing import Any

import click

from oracle.cli.options import SHOWING
from oracle.cli.output import emit, progress


@click.command()
@click.option("--target", required=True, metavar="MODEL", help="Folder or name of the target model.")
@click.option(
    "--draft",
    required=True,
    metavar="MODEL",
    help="Folder or name of a draft model with the same tokenizer; or ngram[:N], prompt lookup by up to N tokens [3].",
)
@click.option(
    "--prompts",
    required=True,
    metavar="FILE",
    help="JSON lines with prompt, messages or prompt_token_ids; optionally id, category, tenant, cluster.",
)
@click.option(
    "--reference", metavar="FILE", help="JSON lines with id and text or token_ids, in place of texts of the target's."
)
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), help="Folder to write.")
@click.option("--k-max", type=int, default=10, show_default=True, help="Longest draft, tokens.")
@click.option(
    "--decoding",
    type=click.Choice(["greedy", "sample"]),
    default="greedy",
    show_default=True,
    help="Whether tokens are the most probable ones, or sampled.",
)
@click.option("--temperature", type=float, default=1.0, show_default=True, help="Of all probabilities and of samples.")
@click.option(
    "--match",
    type=click.Choice(["overlap", "reference", "greedy"]),
    help="What match_prob holds: sum of min(p, q); the draft's probability of the token; whether it is its first "
    "[overlap when sampling, else greedy].",
)
@click.option(
    "--tails",
    type=click.Choice(["actual", "expected"]),
    help="Rejected tokens that unique_experts counts: those of the proposed chain, or expected over the first mismatch "
    "[expected when sampling from a draft model].",
)
@click.option("--max-new-tokens", type=int, default=257, show_default=True, help="Of a text, the prefill's included.")
@click.option(
    "--timing-rounds", type=click.IntRange(0), default=0, show_default=True, help="How many rounds to time, about."
)
@click.option("--timing-repeats", type=click.IntRange(1), default=3, show_default=True, help="Times each is timed.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of everything random.")
@click.option("--device", default="cpu", show_default=True, help="Such as cpu or cuda.")
@click.option(
    "--dtype",
    type=click.Choice(["auto", "bfloat16", "float16", "float32", "float64"]),
    default="auto",
    show_default=True,
    help="Of the weights; auto takes the files'.",
)
@click.option("--experts-kernel", metavar="NAME", help="Such as eager or grouped_mm [the library's choice].")
@click.option("--attention", metavar="NAME", help="Of timed rounds, such as sdpa [the library's choice].")
@click.option("--threads", type=click.IntRange(1), help="Of a CPU [torch's choice].")
@click.option("--hub", is_flag=True, help="Let transformers fetch what is not on this machine.")
@click.option("--resume", is_flag=True, help="Go on with a recording that was stopped.")
@SHOWING
def record(
    prompts: str,
    reference: str | None,
    output: Path,
    timing_rounds: int,
    timing_repeats: int,
    resume: bool,
    as_json: bool,
    as_markdown: bool,
    **options: Any,
) -> None:
    """Record traces and verification rounds from Hugging Face models.

    Needs the extra `record` (torch, transformers). Writes traces.parquet and, with --timing-rounds, rounds.parquet into
    the folder, which `draft-oracle run` takes as it is. Nothing is fetched from a hub unless --hub is given.
    """
    from oracle.outputs import refuse_output_over_input  # noqa: PLC0415
    from oracle.provenance import inputs_of  # noqa: PLC0415
    from oracle.recorder.prompts import read_prompts  # noqa: PLC0415
    from oracle.recorder.settings import Settings  # noqa: PLC0415

    settings = Settings(**options)
    settings.check()
    files = [Path(path) for path in (prompts, reference) if path is not None]
    models = [Path(name) for name in (settings.target, settings.draft) if Path(name).exists()]
    refuse_output_over_input(output, [*files, *models])
    read = read_prompts(prompts, reference)
    _need_the_extra()
    from oracle.recorder.recording import Request, make_recording  # noqa: PLC0415
    from oracle.recorder.rounds import Size  # noqa: PLC0415
    from oracle.summaries.recording import recording_tables  # noqa: PLC0415

    size = Size(-(-timing_rounds // (settings.k_max + 1)), timing_repeats)
    request = Request(output, settings, read, inputs_of(files), size, resume)
    try:
        make_recording(request, progress)
    except BaseException as error:
        if not isinstance(error, Exception) and output.is_dir():
            click.echo("what is finished stays; the same command with --resume goes on", err=True)
        raise
    emit(recording_tables(output), as_json=as_json, as_markdown=as_markdown)


def _need_the_extra() -> None:
    """Refuse to work without torch and transformers, and say how to get them."""
    from importlib import metadata, util  # noqa: PLC0415

    from oracle.errors import InputError  # noqa: PLC0415

    missing = [name for name in ("torch", "transformers") if util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} cannot be imported; recording needs the extra: pip install 'draft-oracle[record]'"
        )
    version = metadata.version("transformers")
    if int(version.split(".")[0]) < 5:
        raise InputError(f"transformers {version} is installed; recording needs 5: pip install -U transformers")
