"""Tables of a schedule over time slots, and of several regimes side by side."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oracle.errors import printable
from oracle.levers.advised import NOISE, Advice, Advised, advice, advised_in_slots
from oracle.levers.answer import Answer, Planned
from oracle.summaries.levers_admission import PER_MILLION, configured, typed, typed_ranges
from oracle.summaries.shares import counted, part, percent
from oracle.tables import NOT_AVAILABLE, Column, Row, Table, number, show, words


def schedule_tables(found: Planned, suffix: str = "") -> list[Table]:
    """Give the page of a schedule and its slots; `suffix` tells several tenants' tables apart."""
    return [_page(found, suffix), _slots(found, suffix)]


def _page(found: Planned, suffix: str) -> Table:
    deployment, made, traffic = found.deployment, found.schedule, found.traffic
    saved = 1 - made.mean_ms / made.static_ms
    price = deployment.price_per_hour
    money = "" if price is None else f", {made.mean_ms * price * PER_MILLION:.3g} a million tokens"
    static = configured(deployment, made.static)
    facts = [
        ("precision", f"{printable(deployment.precisions[made.precision].name)} in all slots"),
        ("cost", f"{made.mean_ms:.5f} ms a token on average{money}"),
        ("against", f"{made.static_ms:.5f} for the best that is never touched ({static}): {percent(saved)} less"),
        ("hysteresis", _damped(found)),
        ("admission", _capped(found, slots_advised(found))),
        ("bound", f"{made.free_ms:.5f} if the precision too could change in every slot"),
        *(("switch", text) for text in _switches(found)),
        ("undecided", _undecided(found)),
    ]
    if not made.switches:
        facts.append(("switch", "never"))
    rows: list[dict[str, Any]] = [{"fact": fact, "value": value} for fact, value in facts]
    rows[0]["setting"] = {"precision": deployment.precisions[made.precision].name}
    rows[2]["setting"] = typed(deployment, made.static)
    tenant = "" if traffic.tenant is None else f" of tenant {printable(traffic.tenant)}"
    alone = ", on a deployment of its own" if tenant else ""
    title = f"Serving levers over {len(traffic.slots)} slots{tenant}{alone}"
    return Table(f"levers_schedule{suffix}", title, (words("", "fact"), words("", "value", most=400)), rows)


def slots_advised(found: Planned) -> Advised:
    """Advise in every slot at the schedule's precision, with a cap where that saves more than noise."""
    return advised_in_slots(found.deployment, found.schedule.precision, found.traffic.regime)


def _damped(found: Planned) -> str:
    made = found.schedule
    more = made.mean_ms / made.undamped_ms - 1
    return f"costs {percent(more)} over levers that follow their break-evens at once"


def _capped(found: Planned, advised: Advised) -> str:
    """Say that the schedule caps nothing, and what is cheaper where requests may wait."""
    made, weights = found.schedule, found.traffic.tokens
    if not advised.capped.any():
        return f"not capped: no cap would save {100 * NOISE:g} % or more in any slot"
    caps = advised.decided.batch[advised.capped]
    ms = float(np.sum(weights * np.where(advised.capped, advised.decided.cost_ms, made.cost_ms)) / weights.sum())
    between = f"{caps.min():g}" if caps.min() == caps.max() else f"{caps.min():g} – {caps.max():g}"
    return (
        f"not capped; where requests may wait, caps of {between} in "
        f"{counted(int(advised.capped.sum()), len(advised.capped))} slots, with the levers named there, cost "
        f"{ms:.5f} a token, {percent(1 - ms / made.mean_ms)} less"
    )


def _switches(found: Planned) -> list[str]:
    regime = found.traffic.regime
    return [
        f"{each.lever} {'on' if each.on else 'off'} at {printable(found.traffic.slots[each.slot])}, "
        f"{float(regime.concurrency[each.slot]):g} requests in flight"
        for each in found.schedule.switches
    ]


def _undecided(found: Planned) -> str:
    slots = found.traffic.slots
    said = []
    for name, verdicts in (("speculation", found.speculation), ("prefix cache", found.prefix)):
        some = [printable(slot) for slot, verdict in zip(slots, verdicts, strict=True) if verdict == "undecided"]
        if some:
            listed = ", ".join(some[:6]) + (" …" if len(some) > 6 else "")
            said.append(f"{name} in {len(some)} slots ({listed})")
    return "; ".join(said) or "no slot: the intervals given, if any, leave every lever certain"


def _slots(found: Planned, suffix: str) -> Table:
    made, regime, names = found.schedule, found.traffic.regime, found.traffic.slots
    advised = slots_advised(found)
    rows = [
        {
            "slot": name,
            **regime.at(t).values(),
            "tokens": float(found.traffic.tokens[t]),
            "speculation_on": bool(made.speculation_on[t]),
            "speculation_pays": found.speculation[t],
            "cache_on": bool(made.cache_on[t]),
            "cache_pays": found.prefix[t],
            "cost_ms": float(made.cost_ms[t]),
            **_with_cap(advised, t),
        }
        for t, name in enumerate(names)
    ]
    columns = (
        words("slot", "slot"),
        number("C", "concurrency", ",.6g"),
        number("rho", "prefix_share", ".3f"),
        number("r", "repetitiveness", ".3f"),
        _state("speculation", "speculation_on"),
        words("pays", "speculation_pays"),
        _state("prefix\ncache", "cache_on"),
        words("pays", "cache_pays"),
        number("ms/token", "cost_ms", ".5f"),
        *(
            (Column("or, if requests\nmay wait", _instead, text=True), number("ms/token\nso", "capped_ms", ".5f"))
            if advised.capped.any()
            else ()
        ),
    )
    notes = [
        "pays: on or off for certain within the intervals of the slot, without a cap, else undecided; hysteresis may "
        "keep a lever"
    ]
    if advised.capped.any():
        notes.append(f"or: where a cap on admission saves {100 * NOISE:g} % or more, the cap and the levers with it")
    return Table(f"levers_slots{suffix}", "Slots", columns, rows, notes)


def _with_cap(advised: Advised, t: int) -> dict[str, Any]:
    if not advised.capped[t]:
        return dict.fromkeys(("cap", "capped_speculation_on", "capped_cache_on", "capped_ms"))
    made = advised.decided
    return {
        "cap": float(made.batch[t]),
        "capped_speculation_on": bool(made.speculation_on[t]),
        "capped_cache_on": bool(made.cache_on[t]),
        "capped_ms": float(made.cost_ms[t]),
    }


def _instead(row: Row) -> str:
    if row["cap"] is None:
        return NOT_AVAILABLE
    levers = (("speculation", "capped_speculation_on"), ("prefix cache", "capped_cache_on"))
    on = [name for name, key in levers if row[key]]
    return f"admit {row['cap']:g}, {' and '.join(on)} on"  # a cap pays with the prefix cache on only


def _state(head: str, key: str) -> Column:
    return Column(head, lambda row: "on" if row[key] else "off", text=True)


def regimes_table(answers: Sequence[tuple[str, Answer]]) -> Table:
    """Show what to set in each of several regimes, such as tenants, each on a deployment of its own."""
    rows = [_regime(name, found) for name, found in answers]
    columns = (
        words("traffic", "name"),
        number("C", "concurrency", ",.6g"),
        number("rho", "prefix_share", ".3f"),
        number("r", "repetitiveness", ".3f"),
        words("set", "configuration"),
        Column("admit\nat most", lambda row: "all" if row["cap"] is None else show(row["cap"], ",.6g")),
        number("ms/token", "cost_ms", ".5f"),
        words("speculation\npays", "speculation"),
        words("prefix cache\npays", "prefix"),
        words("until C", "until"),
        part("literal order:\n% dearer", "literal_regret", ".2f", 100),
    )
    notes = (
        "each row is alone on a deployment of its own: one that they share is decided for all of them together",
        "pays: for certain within the intervals given, at the setting advised; until C: where it changes next",
        "literal order: against the cheapest without a cap",
    )
    return Table("levers_regimes", "Serving levers by traffic, each on its own deployment", columns, rows, notes)


def _regime(name: str, found: Answer) -> dict[str, Any]:
    advised = advice(found)
    return {
        "name": name,
        **found.regime.values(),
        "configuration": configured(found.deployment, advised.configuration),
        **typed(found.deployment, advised.configuration),
        "cap": advised.cap,
        "cost_ms": advised.cost_ms,
        "speculation": advised.speculation,
        "prefix": advised.prefix,
        "until": _until(found, advised),
        "ranges": typed_ranges(found.deployment, advised.by_concurrency),
        "literal_regret": float(found.literal.cost_ms / found.joint.cost_ms) - 1,
    }


def _until(found: Answer, advised: Advice) -> str:
    """Give the ends of the range of concurrency in which the advice holds."""
    C = float(found.regime.concurrency)
    run = next((run for run in reversed(advised.by_concurrency) if run.low <= C), advised.by_concurrency[0])
    ends = [f"below {run.low:,.0f}"] if run.low > 1 else []
    ends += [f"above {run.high:,.0f}"] if math.isfinite(run.high) else []
    return " or ".join(ends) or "no change"
