"""``draft-oracle policies``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.options import MODEL, READING, SHOWING, TRACES
from oracle.cli.output import emit, read_model, steps
from oracle.cli.traces import NEEDED

if TYPE_CHECKING:
    from oracle.condition.costs import Condition
    from oracle.costs import LengthRange
    from oracle.latency.model import LatencyModel
    from oracle.policies import Inputs
    from oracle.realised.problem import Realised
    from oracle.tables import Table
    from oracle.tuning import HeldOut

_REALISED = ("token_id", "draft_token_id")
_MORE = ("category", "decoding", "draft_prob", "logged_draft_length", "logged_advance", *_REALISED)
NEAR = 1.5  # times the fastest policy that an engine can run: what the Pareto picture shows
OUTPUTS = frozenset(
    {
        "tables.md",
        "tables.json",
        "scores-by-generation.parquet",
        "pareto.svg",
        "calibration.svg",
        "condition-ratios.svg",
        "condition-extensions.svg",
    }
)


@click.command()
@TRACES
@MODEL
@click.option(
    "--policy",
    "texts",
    multiple=True,
    metavar="POLICY",
    help="Such as static:3, confidence:0.6@max=6, or a family to tune: confidence, survival@keep, goodput, slope, "
    "budget [all families that the traces have the columns for].",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write tables, scores by generation and pictures here: a folder.",
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier output folder.")
@READING
@SHOWING
def policies(
    traces: tuple[str, ...],
    model: str,
    texts: tuple[str, ...],
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    as_markdown: bool,
    batch_size: int | None,
    **reading: Any,
) -> None:
    """Compare policies that an engine can run with the bound: tuned held-out, realised, and why one price suffices.

    TRACES are Parquet files, folders or globs; all are held in memory. Confidence and survival need the column
    draft_prob, realised scores need token_id and draft_token_id.
    """
    from oracle.kinds import files_of_kind  # noqa: PLC0415
    from oracle.outputs import atomic_folder, refuse_output_over_input  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415

    latency = read_model(model, batch_size)
    inputs = [Path(model)] if model != "-" else []
    files = files_of_kind(list(traces), "traces")
    refuse_output_over_input(output, [*traces, *files, *inputs])
    origin = provenance("policies", {"policies": list(texts) or None, **reading}, [*files, *inputs])
    if output is None:
        found = _found(files, latency, texts, reading)
    else:
        with atomic_folder(output, overwrite, ours=OUTPUTS.__contains__, marker="tables.json") as folder:
            found = _found(files, latency, texts, reading)
            _write(folder, found, origin, latency)
    emit(found.tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})


@dataclass(frozen=True)
class _Found:
    """The answers: as tables, and what files and pictures are made of."""

    tables: "list[Table]"
    held: "HeldOut"
    realised: "Realised | None"
    condition: "Condition"


def _found(paths: Sequence[Path], model: "LatencyModel", texts: Sequence[str], reading: dict[str, Any]) -> _Found:
    """Read the traces, tune, realise, examine the condition."""
    from oracle.condition.costs import examine  # noqa: PLC0415
    from oracle.realised.problem import realised_problem  # noqa: PLC0415
    from oracle.summaries.condition import condition_tables  # noqa: PLC0415
    from oracle.summaries.realised import realised_tables  # noqa: PLC0415
    from oracle.tuning import hold_out  # noqa: PLC0415

    with steps("policies") as step:
        step("reading")
        batches, span, names = _laid_out(paths, model, reading)
        actual = None
        if names.issuperset(_REALISED):
            actual = [realised_problem(b.traces, b.costs.k_max, like=b.problem) for b in batches]
        step("tuning")
        held = hold_out(batches, texts or _families(names), realised=actual)
        tables = _held_out_tables(held, span.notes)
        realised = None
        if actual is not None:
            step("realised scores")
            realised = _realised(batches, [str(family.chosen_on_all) for family in held.families])
            tables += realised_tables(realised)
        step("slope condition")
        condition = examine([batch.traces for batch in batches], batches[0].costs, reading["unique_experts"])
    return _Found([*tables, *condition_tables(condition)], held, realised, condition)


def _laid_out(
    paths: Sequence[Path], model: "LatencyModel", reading: dict[str, Any]
) -> "tuple[list[Inputs], LengthRange, set[str]]":
    """All batches with positions, the range of draft lengths, and the names of the traces' columns."""
    from oracle.costs import choose_range, length_costs  # noqa: PLC0415
    from oracle.policies import inputs_of  # noqa: PLC0415
    from oracle.traces import TraceFiles  # noqa: PLC0415

    files = TraceFiles(paths, match_is=reading["match_is"])
    names = set(files.schema.names)
    files = TraceFiles(
        files.paths,
        columns=[*NEEDED, *(name for name in _MORE if name in names)],
        match_is=reading["match_is"],
    )
    batches = [batch for batch in files if batch.positions]
    carried = batches[0].max_draft_length if batches else None
    span = choose_range(model, carried, k_min=reading["k_min"], k_max=reading["k_max"], source=str(files.paths[0]))
    costs = length_costs(model, span.k_min, span.k_max)
    return [inputs_of(batch, costs, reading["unique_experts"]) for batch in batches], span, names


def _held_out_tables(held: "HeldOut", notes: Sequence[str]) -> "list[Table]":
    """Tuned policies over all generations and, where there are several, by category."""
    from oracle.summaries.tuning import category_table, tuning_table  # noqa: PLC0415
    from oracle.tuning import scored, scored_by_category  # noqa: PLC0415

    tables = [tuning_table(scored(held), notes)]
    by_category = scored_by_category(held)
    return [*tables, category_table(by_category)] if len(by_category) > 1 else tables


def _families(names: set[str]) -> list[str]:
    """The families that the traces have the columns for."""
    from oracle.tuning import FAMILIES  # noqa: PLC0415

    needs = {"budget": ("category",)} | dict.fromkeys(
        ("confidence", "confidence@keep", "survival", "survival@keep", "goodput", "slope"), ("draft_prob",)
    )
    return [family for family in FAMILIES if names.issuperset(needs.get(family, ()))]


def _realised(batches: "Sequence[Inputs]", chosen: Sequence[str]) -> "Realised":
    """Realised scores of the bound, every static length and the policies that tuning chose on all generations."""
    from oracle.policies import lengths_of, static  # noqa: PLC0415
    from oracle.realised.problem import join, realise  # noqa: PLC0415
    from oracle.tuning import learn  # noqa: PLC0415

    training, costs = learn(batches), batches[0].costs
    wanted = list(dict.fromkeys(["oracle", *map(static, costs.lengths), *chosen]))
    parts = []
    for batch in batches:
        known = replace(batch, training=training, oracle=batch.optimum)
        parts.append(realise(batch.traces, batch.problem, costs, lengths_of(wanted, known)))
    return join(parts)


def _write(folder: Path, found: _Found, origin: dict[str, Any], model: "LatencyModel") -> None:
    """Write tables, scores by generation and pictures."""
    from oracle.provenance import as_metadata  # noqa: PLC0415
    from oracle.summaries.generations import write_generation_scores  # noqa: PLC0415
    from oracle.tables import as_json_text, render  # noqa: PLC0415

    (folder / "tables.md").write_text(render(found.tables, "markdown"), "utf-8")
    (folder / "tables.json").write_text(as_json_text(found.tables, {"provenance": origin}), "utf-8")
    write_generation_scores(folder / "scores-by-generation.parquet", found.held, as_metadata(origin, model))
    with steps("policies") as step:
        step("pictures")
        _draw(folder, found.realised, found.condition)


def _draw(folder: Path, realised: "Realised | None", condition: "Condition") -> None:
    from oracle.figures import policies as figures  # noqa: PLC0415
    from oracle.realised.calibration import calibrate  # noqa: PLC0415
    from oracle.realised.scores import realised_scores  # noqa: PLC0415

    figures.ratio_distributions(condition, folder / "condition-ratios.svg")
    figures.extension_density(condition, folder / "condition-extensions.svg")
    if realised is not None:
        scores = realised_scores(realised.totals)
        fastest = min(s.ms_per_token for s in scores if s.undominated)
        near = [s for s in scores if s.ms_per_token <= NEAR * fastest]  # the rest would only squeeze these together
        figures.pareto_view(near, folder / "pareto.svg")
        figures.calibration_curve(calibrate(realised.calibration), folder / "calibration.svg")
