"""How the levers of a deployment run now, beside what the model would set."""

import math
from typing import Any

import numpy as np

from oracle.errors import printable
from oracle.levers.answer import Answer, Planned
from oracle.levers.cost import cost_parts
from oracle.levers.deployment import Deployment
from oracle.levers.procedure import Configuration
from oracle.levers.regime import Numbers, Regime
from oracle.summaries.levers_admission import configured
from oracle.summaries.shares import part
from oracle.tables import Column, Row, Table, number, show, words


def running_table(running: Configuration, plans: list[Planned], answers: list[tuple[str, Answer]]) -> Table:
    """Price the levers as they run in every series and regime, and say what to change."""
    rows = [_series(running, each) for each in plans] + [_regime(running, *each) for each in answers]
    columns = (
        *((words("traffic", "name"),) if any(row["name"] for row in rows) else ()),
        words("runs as", "running"),
        Column("ms/token", lambda row: _cost(row["running_ms"])),
        words("best", "best"),
        number("ms/token", "best_ms", ".5f"),
        part("% dearer\nas it runs", "over_best", ".2f", 100),
        Column("change", _change, text=True),
    )
    notes = ("as [running] states it; neither has a cap on admission",)
    return Table("levers_running", "How the levers run now", columns, rows, notes)


def _regime(running: Configuration, name: str, found: Answer) -> dict[str, Any]:
    deployment, best = found.deployment, found.joint.configuration()
    row = _row(deployment, name, running, float(_cost_ms(deployment, running, found.regime)))
    changes = []
    if best.precision != running.precision:
        changes.append(f"precision {deployment.precisions[best.precision].name}")
    for lever, new, old in (
        ("speculation", best.speculation_on, running.speculation_on),
        ("prefix cache", best.cache_on, running.cache_on),
    ):
        if new != old:
            changes.append(f"{lever} {'on' if new else 'off'}")
    return _against(row, configured(deployment, best), float(found.joint.cost_ms), changes)


def _series(running: Configuration, found: Planned) -> dict[str, Any]:
    deployment, made = found.deployment, found.schedule
    cost = float(np.sum(found.traffic.weights * _cost_ms(deployment, running, found.traffic.regime)))
    row = _row(deployment, found.traffic.tenant or "", running, cost)
    name = deployment.precisions[made.precision].name
    changes = [f"precision {name}"] if made.precision != running.precision else []
    for lever, states, old in (
        ("speculation", made.speculation_on, running.speculation_on),
        ("prefix cache", made.cache_on, running.cache_on),
    ):
        wrong = int((states != old).sum())
        if wrong:
            changes.append(f"{lever} {'off' if old else 'on'} in {wrong} of {len(states)} slots")
    return _against(row, f"{name}, both levers by slot", made.mean_ms, changes)


def _cost_ms(deployment: Deployment, running: Configuration, regime: Regime) -> Numbers:
    return cost_parts(deployment, deployment.precisions[running.precision], regime, running.toggles).total_ms


def _row(deployment: Deployment, name: str, running: Configuration, cost: float) -> dict[str, Any]:
    return {
        "name": printable(name),
        "running": configured(deployment, running),
        "running_precision": deployment.precisions[running.precision].name,
        "running_speculation_on": running.speculation_on,
        "running_cache_on": running.cache_on,
        "running_ms": cost if math.isfinite(cost) else None,
    }


def _against(row: dict[str, Any], best: str, cost: float, changes: list[str]) -> dict[str, Any]:
    fits = row["running_ms"] is not None
    return row | {
        "best": best,
        "best_ms": cost,
        "over_best": row["running_ms"] / cost - 1 if fits else None,
        "changes": changes,
    }


def _cost(value: float | None) -> str:
    return "does not fit" if value is None else show(value, ".5f")


def _change(row: Row) -> str:
    return printable("; ".join(row["changes"]), 200) or "nothing"
