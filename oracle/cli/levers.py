"""``draft-oracle levers``: which precision, speculation on or off, prefix cache on or off, and until when."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.levers_inputs import answered, deployment_of, given_files, read_asked, shared_of
from oracle.cli.options import SHOWING
from oracle.cli.output import emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from oracle.cli.levers_inputs import Asked
    from oracle.levers.answer import Answer
    from oracle.levers.deployment_file import DeploymentFile
    from oracle.levers.regime import Regime
    from oracle.tables import Table

TABLES = frozenset({"tables.md", "tables.json"})

MOST_BAND = 50  # percent


@click.command()
@click.argument("deployment")
@click.option(
    "--traffic",
    metavar="FILE",
    help="Traffic: values as TOML or JSON, or a series of slots or tenants as CSV or JSON; - reads stdin. "
    "[the deployment's own]",
)
@click.option(
    "--measured",
    metavar="FILE",
    help="Acceptance, step times and break-evens by precision, CSV or JSON: eta and overhead are fitted from them, and "
    "what the break-evens tell is set beside them.",
)
@click.option(
    "--earlier",
    metavar="FILE",
    help="The deployment as it was when its levers were set, with its traffic and, in [running], how they are "
    "set [as was right there]: which of them are now wrong.",
)
@click.option(
    "--band",
    type=click.FLOAT,
    default=10.0,
    show_default=True,
    help="Hysteresis of a schedule: percent of the critical batch size.",
)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path, file_okay=False), help="Folder for the tables and figures."
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier output folder.")
@SHOWING
def levers(
    deployment: str,
    traffic: str | None,
    measured: str | None,
    earlier: str | None,
    band: float,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    as_markdown: bool,
) -> None:
    """Say which precision to serve, speculation on or off, prefix cache on or off, and at what each flips.

    DEPLOYMENT is TOML or JSON; - reads stdin. The costs are a closed-form model's; what was not measured is stated
    there, and shown.

    \b
    draft-oracle levers cases/levers/deployment.toml --traffic cases/levers/coding-agent.toml
    draft-oracle levers cases/levers/deployment.toml --traffic cases/levers/day.csv -o out
    """
    from oracle.errors import Faults  # noqa: PLC0415
    from oracle.outputs import refuse_output_over_input  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415

    inputs = given_files(deployment, traffic, measured, earlier)
    faults = Faults()
    if not 0 <= band <= MOST_BAND:
        faults.add(f"--band is {band:g}; it is percent of the critical batch size, from 0 to {MOST_BAND}")
    faults.made(lambda: refuse_output_over_input(output, inputs))
    asked = faults.made(lambda: read_asked(deployment, traffic, measured))
    before = None if earlier is None else faults.made(lambda: _earlier(earlier, asked))
    faults.raise_if_any()
    assert asked is not None
    tables, answers, plans = answered(asked, band / 100)
    if before is not None:
        tables += _changes(*before, answers[0])
    origin = provenance("levers", {"band": band}, inputs)
    if output is not None:
        from oracle.figures.levers_folder import write_figures  # noqa: PLC0415

        draw = partial(write_figures, answers=answers, plans=plans, shared=shared_of(asked))
        _write(output, overwrite, tables, draw, origin)
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})


def _earlier(path: str, asked: "Asked | None") -> "tuple[DeploymentFile, Regime]":
    """Read the earlier deployment with its traffic; what it leaves open, or states nothing of, is as it is now."""
    from oracle.errors import Faults  # noqa: PLC0415
    from oracle.files import shown  # noqa: PLC0415
    from oracle.levers.traffic_checks import completed  # noqa: PLC0415
    from oracle.levers.traffic_file import ANY, plain_traffic  # noqa: PLC0415
    from oracle.levers.traffic_matches import in_traffic  # noqa: PLC0415

    faults = Faults()
    before = faults.made(lambda: deployment_of(path))
    single = [] if asked is None else [each for each in asked.traffic if not each.is_series]
    if asked is not None and len(single) != 1:
        faults.add("--earlier compares with one regime now; give traffic as values, not as a series")
    if before is None or not single:
        faults.raise_if_any()
    assert before is not None
    own = completed(before.traffic, asked.stated.traffic) if asked is not None else ANY
    how = before.deployment.speculation
    was = faults.made(lambda: plain_traffic(own, shown(path), how)) if own or not single else single[0]
    faults.raise_if_any()
    assert was is not None
    there, traffic = in_traffic(before.deployment, was)
    return replace(before, deployment=there), traffic.regime.at(0)


def _changes(before: "DeploymentFile", then: "Regime", now: "Answer") -> "list[Table]":
    """Check the levers as they ran in the earlier deployment, or were right there, against what holds now."""
    from oracle.levers.answer import answer  # noqa: PLC0415
    from oracle.levers.toggles import Setting, check_change  # noqa: PLC0415
    from oracle.summaries.levers_admission import configured  # noqa: PLC0415
    from oracle.summaries.levers_model import change_table  # noqa: PLC0415

    was = answer(before.deployment, then)
    set_then, set_now = before.running or was.joint.configuration(), now.joint.configuration()
    old, new = (
        Setting(each.deployment, each.deployment.precisions[at.precision], each.regime)
        for each, at in ((was, set_then), (now, set_now))
    )
    levers = check_change(old, new, set_then.toggles)
    names = [configured(was.deployment, set_then), configured(now.deployment, set_now)]
    return [change_table(levers, *names, stated=before.running is not None)]


def _write(
    output: Path,
    overwrite: bool,
    tables: "list[Table]",
    draw: "Callable[[Path], None]",
    origin: dict[str, Any],
) -> None:
    """Write tables and figures."""
    from oracle.figures.levers_folder import is_figure  # noqa: PLC0415
    from oracle.outputs import atomic_folder  # noqa: PLC0415
    from oracle.tables import as_json_text, render  # noqa: PLC0415

    def ours(name: str) -> bool:
        return name in TABLES or is_figure(name)

    with atomic_folder(output, overwrite, ours=ours, marker="tables.json") as folder:
        (folder / "tables.md").write_text(render(tables, "markdown"), "utf-8")
        (folder / "tables.json").write_text(as_json_text(tables, {"provenance": origin}), "utf-8")
        draw(folder)
