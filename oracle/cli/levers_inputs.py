"""What ``draft-oracle levers`` and ``report`` read of a deployment and its traffic, and what they answer."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from oracle.cli.output import stdin_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oracle.levers.answer import Answer, Fitted, Planned
    from oracle.levers.deployment import Deployment
    from oracle.levers.deployment_file import DeploymentFile
    from oracle.levers.shared import Shared
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
    from oracle.levers.fitted import with_fitted  # noqa: PLC0415

    faults = Faults()
    stated = faults.made(lambda: deployment_of(deployment))
    found = faults.made(lambda: _traffic(stated, traffic, deployment))
    fitted = None if measured is None else faults.made(lambda: _fitted(stated, measured))
    faults.raise_if_any()
    assert stated is not None
    assert found is not None
    used = stated.deployment if fitted is None else with_fitted(stated.deployment, fitted.etas, fitted.overhead)
    return Asked(stated, used, found, fitted)


def deployment_of(path: str) -> "DeploymentFile":
    """Read a deployment; - reads stdin."""
    from oracle.levers.deployment_file import deployment_from_text, read_deployment  # noqa: PLC0415

    return deployment_from_text(stdin_text(), "standard input") if path == "-" else read_deployment(path)


def text_of(path: str) -> tuple[str, str]:
    """Give text and what to call it; - reads stdin."""
    from oracle.files import read_text, shown  # noqa: PLC0415

    return (stdin_text(), "standard input") if path == "-" else (read_text(path), shown(path))


def _fitted(stated: "DeploymentFile | None", path: str) -> "Fitted | None":
    """Fit what the measurements tell; only read them where the deployment is faulty."""
    from oracle.levers.answer import Fitted  # noqa: PLC0415
    from oracle.levers.fitted import fit_autocorrelation, fit_eta, fit_overhead, missing  # noqa: PLC0415
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
        missing(rows),
    )


def _traffic(stated: "DeploymentFile | None", path: str | None, deployment: str) -> "tuple[Traffic, ...]":
    """Take the traffic file, completed by the deployment's own; or the latter alone.

    Where the deployment is faulty, the file is only checked for what it states itself.
    """
    from oracle.errors import InputError, InputWarning  # noqa: PLC0415
    from oracle.files import shown  # noqa: PLC0415
    from oracle.levers.traffic_file import ANY, plain_traffic, traffic_from_text  # noqa: PLC0415

    if stated is None:
        with warnings.catch_warnings():  # what completes the traffic here is no traffic
            warnings.simplefilter("ignore", InputWarning)
            return () if path is None else traffic_from_text(*text_of(path), ANY)
    if path is not None:
        return traffic_from_text(*text_of(path), stated.traffic, stated.deployment.speculation)
    if not stated.traffic:
        raise InputError(f"{shown(deployment)}: states no traffic; add [traffic], or give --traffic FILE")
    return (plain_traffic(stated.traffic, f"{shown(deployment)}: traffic", stated.deployment.speculation),)


def answered(asked: Asked, band: float) -> "tuple[list[Table], list[Answer], list[Planned]]":
    """Answer for every regime and plan every series; `band` is a share of the critical batch size."""
    from oracle.errors import printable  # noqa: PLC0415
    from oracle.levers.answer import answer, plan  # noqa: PLC0415
    from oracle.levers.schedule import schedule  # noqa: PLC0415
    from oracle.levers.traffic_matches import as_read, chains, in_traffic  # noqa: PLC0415
    from oracle.summaries.levers_model import answer_tables, fitted_tables, stated_table  # noqa: PLC0415
    from oracle.summaries.levers_running import running_table  # noqa: PLC0415
    from oracle.summaries.levers_schedule import regimes_table, schedule_tables  # noqa: PLC0415
    from oracle.summaries.levers_shared import shared_tables  # noqa: PLC0415

    deployment, fitted, running = asked.deployment, asked.fitted, asked.stated.running
    placed = [in_traffic(deployment, each) for each in asked.traffic]
    series = [each for each in asked.traffic if each.is_series]
    single = [each for each in asked.traffic if not each.is_series]
    plans = [plan(d, t, schedule(d, t.regime, t.tokens, band)) for d, t in placed if t.is_series]
    answers = [answer(d, t.regime.at(0), t.low.at(0), t.high.at(0)) for d, t in placed if not t.is_series]
    _warn_of_untold(asked)
    names = [printable(each.tenant or each.slots[0]) for each in single]
    named = list(zip(names, answers, strict=True))
    runs = [] if running is None else [running_table(running, plans, named)]
    if len(asked.traffic) == 1 and answers:
        page, *others = answer_tables(answers[0], fitted, page_notes(answers[0], asked, single[0]))
        return [page, *runs, *others], answers, plans
    tables: list[Table] = []
    for i, planned in enumerate(plans, 1):
        page, *others = schedule_tables(planned, f"_{i}" if len(plans) > 1 else "")
        tables += [_with_notes(page, deployment, [series[i - 1]]), *others]
    if answers:
        tables.append(_with_notes(regimes_table(named), deployment, single))
    together, read = shared_of(asked), as_read(deployment, asked.traffic[0])
    tables += [] if together is None else shared_tables(together, named)
    return (
        [*tables, *runs, *fitted_tables(fitted, deployment), stated_table(read, chains(asked.traffic))],
        answers,
        plans,
    )


def shared_of(asked: Asked) -> "Shared | None":
    """Decide for all tenants on one deployment; None unless there are several, of one regime each."""
    from oracle.levers.shared import shared_by  # noqa: PLC0415
    from oracle.levers.traffic_matches import as_read  # noqa: PLC0415

    several = len(asked.traffic) > 1 and not any(each.is_series for each in asked.traffic)
    return shared_by(as_read(asked.deployment, asked.traffic[0]), asked.traffic) if several else None


def _warn_of_untold(asked: Asked) -> None:
    """Warn where matches count as independent though they were measured as a chain."""
    from oracle.errors import InputWarning  # noqa: PLC0415
    from oracle.levers.traffic_matches import untold  # noqa: PLC0415

    said = untold(asked.deployment, asked.traffic)
    if said is not None:
        warnings.warn(said, InputWarning, stacklevel=2)


def _with_notes(page: "Table", deployment: "Deployment", traffic: "Sequence[Traffic]") -> "Table":
    """Add how matches follow one another, what the model leaves out in these regimes, and slots that are left out."""
    import numpy as np  # noqa: PLC0415

    from oracle.summaries.levers_experts import experts_notes  # noqa: PLC0415
    from oracle.summaries.levers_matches import matches_notes  # noqa: PLC0415

    batch = np.concatenate([each.regime.concurrency for each in traffic])
    idle = idle_notes([slot for each in traffic for slot in each.idle])
    matches = matches_notes(deployment, traffic)
    return replace(page, notes=(*page.notes, *matches, *experts_notes(deployment, batch), *idle))


def idle_notes(idle: "Sequence[str]") -> tuple[str, ...]:
    """Name the slots in which nothing was in flight."""
    from oracle.errors import printable  # noqa: PLC0415

    if not idle:
        return ()
    named = ", ".join(printable(slot) for slot in idle[:6]) + (" …" if len(idle) > 6 else "")
    return (f"nothing in flight, so nothing to decide: {named}",)


def page_notes(found: "Answer", asked: Asked, traffic: "Traffic") -> tuple[str, ...]:
    """Say what the page of one regime rests on, and what its model leaves out there."""
    from oracle.levers.advised import set_in  # noqa: PLC0415
    from oracle.summaries.levers_experts import experts_notes  # noqa: PLC0415
    from oracle.summaries.levers_matches import matches_notes  # noqa: PLC0415

    matches = matches_notes(asked.deployment, [traffic])
    experts = experts_notes(found.deployment, set_in(found)[0].batch)
    return (*origin_notes(asked.fitted), *matches, *experts, *idle_notes(traffic.idle))


def origin_notes(fitted: "Fitted | None") -> tuple[str, ...]:
    """Say what is measured, what is only stated, and what the model cannot hold."""
    from oracle.errors import printable  # noqa: PLC0415

    outside = [] if fitted is None else [each for each in fitted.etas if each.is_outside and not each.is_reference]
    clipped = tuple(
        f"eta of {printable(each.precision)} was measured at {each.eta:.4f}, above 1, where this model ends: it counts "
        "as 1, so nothing that rests on it is certain; measure again, over the same prompts at both precisions"
        for each in outside
    )
    missing = () if fitted is None else tuple(f"not fitted, so as stated below: {each}" for each in fitted.missing)
    known = [] if fitted is None else [name for name in ("etas", "overhead") if getattr(fitted, name)]
    if not known:
        said = "a closed-form model with the parameters stated below; none of them was fitted from measurements"
        return (said, *missing)
    named = " and ".join({"etas": "eta", "overhead": "overhead of a round"}[name] for name in known)
    return (
        f"a closed-form model; fitted from measurements: {named}; the other parameters are as stated below",
        *clipped,
        *missing,
        *_doubts(fitted),
    )


def _doubts(fitted: "Fitted | None") -> list[str]:
    """Say where the line through the measured steps is not to be relied on."""
    found = None if fitted is None else fitted.overhead
    if found is None:
        return []
    said = []
    if found.is_held:
        said.append(
            "the measured steps ask for negative host work, so it is held at 0 and verification alone is fitted: they "
            "contradict the model, or each other; see Overhead from measured steps"
        )
    if found.is_loose:
        said.append(
            f"the overhead fits the measured steps badly: {found.residual_ms:.3g} ms are left over where speculation "
            f"adds {found.added_ms:.3g} ms on average; measure again, over more steps, before relying on what follows"
        )
    return said
