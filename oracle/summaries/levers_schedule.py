"""Tables of a schedule over time slots, and of several regimes side by side."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import printable
from oracle.levers.advised import NOISE, Advice, Advised, advice, advised_in_slots, set_in
from oracle.levers.answer import Answer, Planned
from oracle.levers.cost import batch_size
from oracle.levers.experts import batch_hitting
from oracle.levers.schedule import Schedule
from oracle.summaries.levers_admission import configured, paid, typed, typed_ranges
from oracle.summaries.levers_experts import COUNTS_THEM
from oracle.summaries.levers_sentences import otherwise
from oracle.summaries.shares import amount, amounts, counted, part, percent, several
from oracle.tables import NOT_AVAILABLE, Column, Row, Table, number, words


def schedule_tables(found: Planned, suffix: str = "") -> list[Table]:
    """Give the page of a schedule and its slots; `suffix` tells several tenants' tables apart."""
    return [_page(found, suffix), _slots(found, suffix)]


def _page(found: Planned, suffix: str) -> Table:
    deployment, made, traffic = found.deployment, found.schedule, found.traffic
    saved = 1 - made.mean_ms / made.static_ms
    price = deployment.price_per_hour
    money = "" if price is None else f", {paid(made.mean_ms, price)}"
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
    if slots_otherwise(found).any():
        rows.insert(0, {"fact": "not settled", "value": _not_settled(found)})
    tenant = "" if traffic.tenant is None else f" of tenant {printable(traffic.tenant)}"
    alone = ", on a deployment of its own" if tenant else ""
    title = f"Serving levers over {len(traffic.slots)} slots{tenant}{alone}"
    return Table(f"levers_schedule{suffix}", title, (words("", "fact"), words("", "value", most=400)), rows)


def slots_otherwise(found: Planned) -> NDArray[np.bool_]:
    """Say in which slots counting the experts that a step goes to sets other levers, where it leaves many out."""
    made, other = found.schedule, found.counted
    if other is None:
        return np.zeros(len(found.traffic.slots), dtype=np.bool_)
    batch = batch_size(found.deployment, found.deployment.precisions[made.precision], found.traffic.regime)
    few = batch < (batch_hitting(found.deployment) or 0)
    same = (made.speculation_on == other.speculation_on) & (made.cache_on == other.cache_on)
    return np.asarray(few & ~(same & (made.precision == other.precision)))


def both_readings(counted: Answer | Schedule | None) -> str:
    """Say that what is certain is so by both readings of the experts, where there are two."""
    return "" if counted is None else " and by both readings of the experts"


def _not_settled(found: Planned) -> str:
    """Say where the levers rest on how many experts a pass reads."""
    apart = slots_otherwise(found)
    named = [printable(slot) for slot, other in zip(found.traffic.slots, apart, strict=True) if other]
    listed = ", ".join(named[:6]) + (" …" if len(named) > 6 else "")
    return (
        f"in {counted(len(named), len(apart))} slots ({listed}) a step leaves many experts out, and counting those it "
        f"goes to sets other levers; {COUNTS_THEM}"
    )


def slots_advised(found: Planned) -> Advised:
    """Advise in every slot at the schedule's precision, with a cap where that saves more than noise."""
    return advised_in_slots(found.deployment, found.schedule.precision, found.traffic.regime)


def _damped(found: Planned) -> str:
    made = found.schedule
    more = made.mean_ms / made.undamped_ms - 1
    return f"costs {percent(more)} over levers that follow their break-evens at once"


def _capped(found: Planned, advised: Advised) -> str:
    """Say that the schedule caps nothing, and what is cheaper where requests may wait."""
    made = found.schedule
    if not advised.capped.any():
        return f"not capped: no cap would save {100 * NOISE:g} % or more in any slot"
    caps = advised.decided.batch[advised.capped]
    ms = float(np.sum(found.traffic.weights * np.where(advised.capped, advised.decided.cost_ms, made.cost_ms)))
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
        f"{several(float(regime.concurrency[each.slot]), 'request')} in flight"
        for each in found.schedule.switches
    ]


def _undecided(found: Planned) -> str:
    slots = found.traffic.slots
    said = []
    for name, verdicts in (("speculation", found.speculation), ("prefix cache", found.prefix)):
        some = [printable(slot) for slot, verdict in zip(slots, verdicts, strict=True) if verdict == "undecided"]
        if some:
            listed = ", ".join(some[:6]) + (" …" if len(some) > 6 else "")
            said.append(f"{name} in {several(len(some), 'slot')} ({listed})")
    return "; ".join(said) or "no slot: neither intervals nor the count of experts leave a lever open"


def _slots(found: Planned, suffix: str) -> Table:
    made, regime, names = found.schedule, found.traffic.regime, found.traffic.slots
    tokens, x = found.traffic.tokens, regime.autocorrelation
    advised = slots_advised(found)
    rows = [
        {
            "slot": name,
            **regime.at(t).values(),
            "autocorrelation": None if x is None else float(x[t]),
            "tokens": None if tokens is None else float(tokens[t]),
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
        amounts("C", "concurrency"),
        number("rho", "prefix_share", ".3f"),
        number("r", "repetitiveness", ".3f"),
        *((number("x", "autocorrelation", ".3f"),) if x is not None else ()),
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
        f"pays: on or off for certain within the intervals of the slot{both_readings(found.counted)}, without a cap, "
        "else undecided; hysteresis may keep a lever"
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
        amounts("C", "concurrency"),
        number("rho", "prefix_share", ".3f"),
        number("r", "repetitiveness", ".3f"),
        *((number("x", "autocorrelation", ".3f"),) if any(row["autocorrelation"] for row in rows) else ()),
        words("set", "configuration"),
        Column("admit\nat most", lambda row: "all" if row["cap"] is None else amount(row["cap"])),
        number("ms/token", "cost_ms", ".5f"),
        words("speculation\npays", "speculation"),
        words("prefix cache\npays", "prefix"),
        words("until C", "until"),
        *((words("if experts\nare counted", "counted"),) if any(row["counted"] for row in rows) else ()),
        part("literal order:\n% dearer", "literal_regret", ".2f", 100),
    )
    any_counted = both_readings(next((counted for _, each in answers if (counted := each.counted)), None))
    notes = (
        "each row is alone on a deployment of its own: one that they share is decided for all of them together",
        f"pays: for certain within the intervals given{any_counted}, at the setting advised; until C: where it changes "
        "next",
        "literal order: against the cheapest without a cap",
    )
    return Table("levers_regimes", "Serving levers by traffic, each on its own deployment", columns, rows, notes)


def _regime(name: str, found: Answer) -> dict[str, Any]:
    advised = advice(found)
    return {
        "name": name,
        **found.regime.values(),
        "autocorrelation": found.deployment.speculation.autocorrelation,
        "configuration": configured(found.deployment, advised.configuration),
        **typed(found.deployment, advised.configuration),
        "cap": advised.cap,
        "cost_ms": advised.cost_ms,
        "speculation": advised.speculation,
        "prefix": advised.prefix,
        "until": _until(found, advised),
        "counted": _if_counted(found),
        "ranges": typed_ranges(found.deployment, advised.by_concurrency),
        "literal_regret": float(found.literal.cost_ms / found.joint.cost_ms) - 1,
    }


def _if_counted(found: Answer) -> str | None:
    """Name what counting the experts of a step would set, where that is another setting."""
    other = otherwise(found)
    if other is None:
        return None
    decided, cap = set_in(other)
    named = configured(other.deployment, decided.configuration())
    return named if cap is None else f"{named}, at most {amount(cap)} admitted"


def _until(found: Answer, advised: Advice) -> str:
    """Give the ends of the range of concurrency in which the advice holds."""
    C = float(found.regime.concurrency)
    run = next((run for run in reversed(advised.by_concurrency) if run.low <= C), advised.by_concurrency[0])
    ends = [f"below {run.low:,.0f}"] if run.low > 1 else []
    ends += [f"above {run.high:,.0f}"] if math.isfinite(run.high) else []
    return " or ".join(ends) or "no change"
