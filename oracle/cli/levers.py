"""``draft-oracle levers``: which precision, speculation on or off, prefix cache on or off, and until when."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.options import SHOWING, Finite
from oracle.cli.output import emit, stdin_text

if TYPE_CHECKING:
    from oracle.levers.answer import Answer, Fitted, Planned
    from oracle.levers.deployment import Deployment
    from oracle.levers.deployment_file import DeploymentFile
    from oracle.levers.traffic_file import Traffic
    from oracle.tables import Table

OUTPUTS = frozenset(
    {
        "tables.md",
        "tables.json",
        "repetitiveness.svg",
        "prefix-share.svg",
        "precision.svg",
        "decisions.svg",
        "regret.svg",
        "matches.svg",
        "schedule.svg",
    }
)


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
    help="Acceptance and step times by precision, CSV or JSON: eta and overhead are fitted from them.",
)
@click.option(
    "--earlier",
    metavar="FILE",
    help="The deployment as it was when its levers were set, with its traffic and, in [running], how they are "
    "set [as was right there]: which of them are now wrong.",
)
@click.option(
    "--band",
    type=Finite(0, 50),
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
    from oracle.errors import InputError  # noqa: PLC0415
    from oracle.levers.deployment_file import deployment_from_text  # noqa: PLC0415
    from oracle.levers.fitted import with_fitted  # noqa: PLC0415
    from oracle.outputs import refuse_output_over_input  # noqa: PLC0415
    from oracle.provenance import provenance  # noqa: PLC0415

    paths = [path for path in (deployment, traffic, measured, earlier) if path is not None]
    if paths.count("-") > 1:
        raise InputError("stdin (-) can be read once only; give a file for the others")
    inputs = [Path(path) for path in paths if path != "-"]
    refuse_output_over_input(output, inputs)
    stated = deployment_from_text(*_read(deployment))
    fitted = _fitted(stated.deployment, measured)
    used = stated.deployment if fitted is None else with_fitted(stated.deployment, fitted.etas, fitted.overhead)
    found = _traffic(stated, traffic, deployment)
    before = None if earlier is None else deployment_from_text(*_read(earlier))
    tables, answers, plans = _tables(used, found, fitted, band / 100)
    if before is not None:
        tables += _changes(before, earlier or "", answers, stated)
    origin = provenance("levers", {"band": band}, inputs)
    if output is not None:
        _write(output, overwrite, tables, answers, plans, origin)
    emit(tables, as_json=as_json, as_markdown=as_markdown, extra={"provenance": origin})


def _read(path: str) -> tuple[str, str]:
    """Give text and what to call it; - reads stdin."""
    from oracle.files import read_text, shown  # noqa: PLC0415

    return (stdin_text(), "standard input") if path == "-" else (read_text(path), shown(path))


def _fitted(deployment: "Deployment", path: str | None) -> "Fitted | None":
    """Fit what the measurements tell."""
    from oracle.levers.answer import Fitted  # noqa: PLC0415
    from oracle.levers.fitted import fit_autocorrelation, fit_eta, fit_overhead  # noqa: PLC0415
    from oracle.levers.measured_file import measured_from_text  # noqa: PLC0415

    if path is None:
        return None
    rows = measured_from_text(*_read(path))
    return Fitted(fit_eta(deployment, rows), fit_overhead(deployment, rows), fit_autocorrelation(rows))


def _traffic(stated: "DeploymentFile", path: str | None, deployment: str) -> "tuple[Traffic, ...]":
    """Take the traffic file, completed by the deployment's own; or the latter alone."""
    from oracle.errors import InputError  # noqa: PLC0415
    from oracle.files import shown  # noqa: PLC0415
    from oracle.levers.traffic_file import plain_traffic, traffic_from_text  # noqa: PLC0415

    if path is not None:
        return traffic_from_text(*_read(path), stated.traffic, stated.deployment.speculation.reading)
    if not stated.traffic:
        raise InputError(f"{shown(deployment)}: states no traffic; add [traffic], or give --traffic FILE")
    return (plain_traffic(stated.traffic, f"{shown(deployment)}: traffic"),)


def _tables(
    deployment: "Deployment", traffic: "Sequence[Traffic]", fitted: "Fitted | None", band: float
) -> "tuple[list[Table], list[Answer], list[Planned]]":
    """Answer for every regime and plan every series."""
    from oracle.errors import printable  # noqa: PLC0415
    from oracle.levers.answer import answer, plan  # noqa: PLC0415
    from oracle.levers.schedule import schedule  # noqa: PLC0415
    from oracle.summaries.levers_model import answer_tables, fitted_tables, stated_table  # noqa: PLC0415
    from oracle.summaries.levers_schedule import regimes_table, schedule_tables  # noqa: PLC0415

    series = [each for each in traffic if each.is_series]
    single = [each for each in traffic if not each.is_series]
    plans = [plan(deployment, t, schedule(deployment, t.regime, t.tokens, band)) for t in series]
    answers = [answer(deployment, t.regime.at(0), t.low.at(0), t.high.at(0)) for t in single]
    if len(traffic) == 1 and answers:
        return answer_tables(answers[0], fitted, _notes(fitted)), answers, plans
    tables: list[Table] = []
    for i, planned in enumerate(plans, 1):
        tables += schedule_tables(planned, f"_{i}" if len(plans) > 1 else "")
    if answers:
        names = [printable(each.tenant or each.slots[0]) for each in single]
        tables.append(regimes_table(list(zip(names, answers, strict=True))))
    return [*tables, *fitted_tables(fitted), stated_table(deployment)], answers, plans


def _notes(fitted: "Fitted | None") -> tuple[str, ...]:
    """Say what is measured, what is only stated, and what the model cannot hold."""
    from oracle.errors import printable  # noqa: PLC0415

    outside = [] if fitted is None else [each for each in fitted.etas if each.is_outside and not each.is_reference]
    clipped = tuple(
        f"eta of {printable(each.precision)} was measured at {each.eta:.4f}, above 1, where this model ends: it counts "
        "as 1, so nothing that rests on it is certain; measure again, over the same prompts at both precisions"
        for each in outside
    )
    known = [] if fitted is None else [name for name in ("etas", "overhead") if getattr(fitted, name)]
    if not known:
        return ("a closed-form model with the parameters stated below; none of them was fitted from measurements",)
    named = " and ".join({"etas": "eta", "overhead": "overhead of a round"}[name] for name in known)
    return (
        f"a closed-form model; fitted from measurements: {named}; the other parameters are as stated below",
        *clipped,
    )


def _changes(
    before: "DeploymentFile", path: str, answers: "Sequence[Answer]", stated: "DeploymentFile"
) -> "list[Table]":
    """Check the levers as they ran in the earlier deployment, or were right there, against what holds now."""
    from oracle.errors import InputError  # noqa: PLC0415
    from oracle.files import shown  # noqa: PLC0415
    from oracle.levers.answer import answer  # noqa: PLC0415
    from oracle.levers.toggles import Setting, check_change  # noqa: PLC0415
    from oracle.levers.traffic_file import completed, plain_traffic  # noqa: PLC0415
    from oracle.summaries.levers_admission import configured  # noqa: PLC0415
    from oracle.summaries.levers_model import change_table  # noqa: PLC0415

    if len(answers) != 1:
        raise InputError("--earlier compares with one regime now; give traffic as values, not as a series")
    now = answers[0]
    own = completed(before.traffic, stated.traffic)
    was = answer(before.deployment, plain_traffic(own or now.regime.values(), shown(path)).regime.at(0))
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
    answers: "list[Answer]",
    plans: "list[Planned]",
    origin: dict[str, Any],
) -> None:
    """Write tables and figures; pictures of one regime only where there is one, of a series for the first tenant."""
    from oracle.figures import levers as figures  # noqa: PLC0415
    from oracle.figures import levers_maps as maps  # noqa: PLC0415
    from oracle.outputs import atomic_folder  # noqa: PLC0415
    from oracle.tables import as_json_text, render  # noqa: PLC0415

    with atomic_folder(output, overwrite, ours=OUTPUTS.__contains__, marker="tables.json") as folder:
        (folder / "tables.md").write_text(render(tables, "markdown"), "utf-8")
        (folder / "tables.json").write_text(as_json_text(tables, {"provenance": origin}), "utf-8")
        if len(answers) == 1:
            found = answers[0]
            figures.repetitiveness_by_concurrency(found, folder / "repetitiveness.svg")
            figures.prefix_share_by_batch(found, folder / "prefix-share.svg")
            figures.precision_by_concurrency(found, folder / "precision.svg")
            figures.round_length_by_match(found, folder / "matches.svg")
            maps.decision_map(found, folder / "decisions.svg")
            maps.regret_map(found, folder / "regret.svg")
        if plans:
            figures.schedule_over_slots(plans[0], folder / "schedule.svg")
