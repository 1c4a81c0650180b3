"""What ``draft-oracle levers`` and ``report`` read of a deployment and its traffic, and what they answer."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oracle.cli.output import stdin_text

if TYPE_CHECKING:
    from oracle.levers.answer import Answer, Fitted, Planned
    from oracle.levers.deployment import Deployment
    from oracle.levers.deployment_file import DeploymentFile
    from oracle.levers.traffic_file import Traffic
    from oracle.tables import Table


@dataclass(frozen=True)
class Asked:
    """A deployment, its traffic and what was fitted for it, as files give them.

    Attributes
    ----------
    stated
        The deployment's file.
    deployment
        The same with what was fitted from measurements in the place of what was stated.
    traffic
        One regime or series a tenant.
    fitted
        None where nothing was measured.
    """

    stated: "DeploymentFile"
    deployment: "Deployment"
    traffic: "tuple[Traffic, ...]"
    fitted: "Fitted | None"


def given_files(*paths: str | None) -> list[Path]:
    """Name the files among arguments, stdin left out.

    Raises
    ------
    InputError
        stdin would be read more than once.
    """
    from oracle.errors import InputError  # noqa: PLC0415

    there = [path for path in paths if path is not None]
    if there.count("-") > 1:
        raise InputError("stdin (-) can be read once only; give a file for the others")
    return [Path(path) for path in there if path != "-"]


def read_asked(deployment: str, traffic: str | None, measured: str | None) -> Asked:
    """Read a deployment, its traffic and its measurements; - reads stdin.

    Raises
    ------
    InputError
        All faults of all three at once, or there is no traffic.
    """
    from oracle.errors import Faults  # noqa: PLC0415
    from oracle.levers.deployment_file import deployment_from_text  # noqa: PLC0415
    from oracle.levers.fitted import with_fitted  # noqa: PLC0415

    faults = Faults()
    stated = faults.made(lambda: deployment_from_text(*text_of(deployment)))
    found = faults.made(lambda: _traffic(stated, traffic, deployment))
    fitted = None if measured is None else faults.made(lambda: _fitted(stated, measured))
    faults.raise_if_any()
    assert stated is not None
    assert found is not None
    used = stated.deployment if fitted is None else with_fitted(stated.deployment, fitted.etas, fitted.overhead)
    return Asked(stated, used, found, fitted)


def text_of(path: str) -> tuple[str, str]:
    """Give text and what to call it; - reads stdin."""
    from oracle.files import read_text, shown  # noqa: PLC0415

    return (stdin_text(), "standard input") if path == "-" else (read_text(path), shown(path))


def _fitted(stated: "DeploymentFile | None", path: str) -> "Fitted | None":
    """Fit what the measurements tell; only read them where the deployment is faulty."""
    from oracle.levers.answer import Fitted  # noqa: PLC0415
    from oracle.levers.fitted import fit_autocorrelation, fit_eta, fit_overhead  # noqa: PLC0415
    from oracle.levers.identified import identify  # noqa: PLC0415
    from oracle.levers.measured_file import measured_from_text  # noqa: PLC0415

    known = None if stated is None else [each.name for each in stated.deployment.precisions]
    rows = measured_from_text(*text_of(path), known)
    if stated is None:
        return None
    deployment = stated.deployment
    return Fitted(
        fit_eta(deployment, rows),
        fit_overhead(deployment, rows),
        fit_autocorrelation(rows),
        identify(deployment, rows),
    )


def _traffic(stated: "DeploymentFile | None", path: str | None, deployment: str) -> "tuple[Traffic, ...]":
    """Take the traffic file, completed by the deployment's own; or the latter alone.

    Where the deployment is faulty, the file is only checked for what it states itself.
    """
    from oracle.errors import InputError  # noqa: PLC0415
    from oracle.files import shown  # noqa: PLC0415
    from oracle.levers.traffic_file import ANY, plain_traffic, traffic_from_text  # noqa: PLC0415

    if stated is None:
        return () if path is None else traffic_from_text(*text_of(path), ANY)
    if path is not None:
        return traffic_from_text(*text_of(path), stated.traffic, stated.deployment.speculation.reading)
    if not stated.traffic:
        raise InputError(f"{shown(deployment)}: states no traffic; add [traffic], or give --traffic FILE")
    return (plain_traffic(stated.traffic, f"{shown(deployment)}: traffic"),)


def answered(asked: Asked, band: float) -> "tuple[list[Table], list[Answer], list[Planned]]":
    """Answer for every regime and plan every series; `band` is a share of the critical batch size."""
    from oracle.errors import printable  # noqa: PLC0415
    from oracle.levers.answer import answer, plan  # noqa: PLC0415
    from oracle.levers.schedule import schedule  # noqa: PLC0415
    from oracle.summaries.levers_model import answer_tables, fitted_tables, stated_table  # noqa: PLC0415
    from oracle.summaries.levers_schedule import regimes_table, schedule_tables  # noqa: PLC0415

    deployment, fitted = asked.deployment, asked.fitted
    series = [each for each in asked.traffic if each.is_series]
    single = [each for each in asked.traffic if not each.is_series]
    plans = [plan(deployment, t, schedule(deployment, t.regime, t.tokens, band)) for t in series]
    answers = [answer(deployment, t.regime.at(0), t.low.at(0), t.high.at(0)) for t in single]
    if len(asked.traffic) == 1 and answers:
        return answer_tables(answers[0], fitted, origin_notes(fitted)), answers, plans
    tables: list[Table] = []
    for i, planned in enumerate(plans, 1):
        tables += schedule_tables(planned, f"_{i}" if len(plans) > 1 else "")
    if answers:
        names = [printable(each.tenant or each.slots[0]) for each in single]
        tables.append(regimes_table(list(zip(names, answers, strict=True))))
    return [*tables, *fitted_tables(fitted, deployment), stated_table(deployment)], answers, plans


def origin_notes(fitted: "Fitted | None") -> tuple[str, ...]:
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
