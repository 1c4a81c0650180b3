"""Tables of a schedule over time slots, and of several regimes side by side."""

from collections.abc import Sequence
from typing import Any

from oracle.errors import printable
from oracle.levers.answer import Answer, Planned
from oracle.summaries.levers_admission import PER_MILLION, configured
from oracle.summaries.shares import counted, part, percent
from oracle.tables import Column, Table, number, words


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
        ("admission", _capped(found)),
        ("bound", f"{made.free_ms:.5f} if the precision too could change in every slot"),
        *(("switch", text) for text in _switches(found)),
        ("undecided", _undecided(found)),
    ]
    if not made.switches:
        facts.append(("switch", "never"))
    rows = [{"fact": fact, "value": value} for fact, value in facts]
    tenant = "" if traffic.tenant is None else f" of tenant {printable(traffic.tenant)}"
    title = f"Serving levers over {len(traffic.slots)} slots{tenant}"
    return Table(f"levers_schedule{suffix}", title, (words("", "fact"), words("", "value", most=400)), rows)


def _damped(found: Planned) -> str:
    made = found.schedule
    more = made.mean_ms / made.undamped_ms - 1
    return f"costs {percent(more)} over levers that follow their break-evens at once"


def _capped(found: Planned) -> str:
    """Say that the schedule caps nothing, and what a cap would save."""
    made = found.schedule
    saved = 1 - made.capped_ms / made.undamped_ms
    if not made.cap_slots.any():
        return "not capped: no cap would lower the cost in any slot"
    return (
        f"not capped; a cap would lower the cost in {counted(int(made.cap_slots.sum()), len(made.cap_slots))} slots, "
        f"{percent(saved)} on average, to {made.capped_ms:.5f}; requests beyond would wait"
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
    )
    note = "pays: on or off for certain within the intervals of the slot, else undecided; hysteresis may keep a lever"
    return Table(f"levers_slots{suffix}", "Slots", columns, rows, (note,))


def _state(head: str, key: str) -> Column:
    return Column(head, lambda row: "on" if row[key] else "off", text=True)


def regimes_table(answers: Sequence[tuple[str, Answer]]) -> Table:
    """Show what to set in each of several regimes, such as tenants."""
    rows = [_regime(name, found) for name, found in answers]
    columns = (
        words("traffic", "name"),
        number("C", "concurrency", ",.6g"),
        number("rho", "prefix_share", ".3f"),
        number("r", "repetitiveness", ".3f"),
        words("set", "configuration"),
        number("ms/token", "cost_ms", ".5f"),
        words("speculation\npays", "speculation"),
        words("prefix cache\npays", "prefix"),
        part("literal order:\n% dearer", "literal_regret", ".2f", 100),
    )
    return Table("levers_regimes", "Serving levers by traffic", columns, rows)


def _regime(name: str, found: Answer) -> dict[str, Any]:
    return {
        "name": name,
        **found.regime.values(),
        "configuration": configured(found.deployment, found.joint.configuration()),
        "cost_ms": float(found.joint.cost_ms),
        "speculation": found.speculation,
        "prefix": found.prefix,
        "literal_regret": float(found.literal.cost_ms / found.joint.cost_ms) - 1,
    }
