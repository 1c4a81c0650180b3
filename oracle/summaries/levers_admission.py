"""How a setting is named, in words and as typed fields, and what is said of a cap on admission."""

import math
from collections.abc import Sequence
from typing import Any

from oracle.levers.advised import NOISE, Stretch, saved_by_cap, set_in
from oracle.levers.answer import Answer, Run
from oracle.levers.deployment import Deployment
from oracle.levers.procedure import Configuration, Decisions
from oracle.summaries.shares import percent, several

PER_MILLION = 1 / 3.6  # a price an hour times milliseconds a token, as a price a million tokens


def configured(deployment: Deployment, each: Configuration) -> str:
    """Name a configuration in words."""
    states = {True: "on", False: "off"}
    name = deployment.precisions[each.precision].name
    return f"{name}, speculation {states[each.speculation_on]}, prefix cache {states[each.cache_on]}"


def typed(deployment: Deployment, each: Configuration) -> dict[str, Any]:
    """Give a configuration as fields of a row, beside its words."""
    return {
        "precision": deployment.precisions[each.precision].name,
        "speculation_on": each.speculation_on,
        "cache_on": each.cache_on,
    }


def typed_setting(found: Answer) -> dict[str, Any]:
    """Give what is advised as fields; a cap or draft length that is not set is None."""
    decided, cap = set_in(found)
    each = decided.configuration()
    drafted = found.deployment.speculation.draft_length if each.speculation_on else None
    return {**typed(found.deployment, each), "cap": cap, "draft_length": drafted, "cost_ms": float(decided.cost_ms)}


def typed_ranges(deployment: Deployment, runs: Sequence[Run | Stretch]) -> list[dict[str, Any]]:
    """Give ranges as fields; without an upper end `high` is None."""
    found = []
    for run in runs:
        low, high = run.caps or (None, None) if isinstance(run, Stretch) else (None, None)
        ends = {"low": run.low, "high": None if math.isinf(run.high) else run.high}
        found.append({**ends, **typed(deployment, run.configuration), "cap_low": low, "cap_high": high})
    return found


def setting(found: Answer) -> str:
    """Say what to set, the cap first where one is advised."""
    decided, cap = set_in(found)
    if cap is None:
        return _priced(found, decided)
    dearer = percent(float(found.joint.cost_ms / decided.cost_ms) - 1)
    return f"admit at most {cap:g}: {_priced(found, decided)}; without a cap: {_priced(found, found.joint)}, " + (
        f"{dearer} dearer"
    )


def _priced(found: Answer, each: Decisions) -> str:
    cost, price = float(each.cost_ms), found.deployment.price_per_hour
    drafts = f" ({several(found.deployment.speculation.draft_length, 'draft token')})" if each.speculation_on else ""
    money = "" if price is None else f", {paid(cost, price)}"
    return f"{configured(found.deployment, each.configuration())}{drafts}: {cost:.5f} ms a token{money}"


def paid(cost_ms: float, price: float) -> str:
    """Say what a million tokens cost; the file states the price of an hour and not its currency."""
    return f"{cost_ms * price * PER_MILLION:.3g} a million tokens (price units of the file)"


def admission(found: Answer) -> str:
    """Say what a cap does, and what it does not count."""
    saved, most = saved_by_cap(found), float(found.capped.batch)
    if not saved:
        return "as many requests as there are and fit: a cap would not lower the cost"
    if saved < NOISE:
        named = configured(found.deployment, found.capped.configuration())
        return (
            f"not capped; to consider: at most {most:g} ({named}) would cost {percent(saved)} less a token, under the "
            f"{100 * NOISE:g} % that stated coefficients can carry; the others would wait"
        )
    return (
        f"a cap of {several(most, 'request')} costs {percent(saved)} less a token; the others wait, which this cost "
        "does not count: where they may not, what holds without a cap is to be set"
    )


def caps(each: Stretch) -> str:
    """Say what is admitted within a range; nothing where that is not capped."""
    if each.caps is None:
        return ""
    low, high = each.caps
    return f", at most {low:g} admitted" if low == high else f", at most {low:g} – {high:g} admitted"
