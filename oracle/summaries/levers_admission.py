"""What is said of a cap on admission: whether it comes first, and from which concurrency on it pays."""

import math

from oracle.levers.answer import Answer
from oracle.levers.deployment import Deployment
from oracle.levers.procedure import Configuration, Decisions
from oracle.summaries.shares import percent

PER_MILLION = 1 / 3.6  # a price an hour times milliseconds a token, as a price a million tokens


def configured(deployment: Deployment, each: Configuration) -> str:
    """Name a configuration in words."""
    states = {True: "on", False: "off"}
    name = deployment.precisions[each.precision].name
    return f"{name}, speculation {states[each.speculation_on]}, prefix cache {states[each.cache_on]}"


def setting(found: Answer) -> str:
    """Say what to set, the cap first where it lowers the cost."""
    if not found.cap_saves:
        return _priced(found, found.joint)
    dearer = percent(float(found.joint.cost_ms / found.capped.cost_ms) - 1)
    return (
        f"admit at most {float(found.capped.batch):g}: {_priced(found, found.capped)}; without a cap: "
        f"{_priced(found, found.joint)}, {dearer} dearer"
    )


def _priced(found: Answer, each: Decisions) -> str:
    cost, price = float(each.cost_ms), found.deployment.price_per_hour
    drafts = f" ({found.deployment.speculation.draft_length} draft tokens)" if each.speculation_on else ""
    money = "" if price is None else f", {cost * price * PER_MILLION:.3g} a million tokens"
    return f"{configured(found.deployment, each.configuration())}{drafts}: {cost:.5f} ms a token{money}"


def admission(found: Answer) -> str:
    """Say what a cap does, and what it does not count."""
    if not found.cap_saves:
        return "as many requests as there are and fit: a cap would not lower the cost"
    saved = percent(1 - float(found.capped.cost_ms / found.joint.cost_ms))
    return (
        f"a cap of {float(found.capped.batch):g} requests costs {saved} less a token; the others wait, which this cost "
        "does not count: where they may not, what holds without a cap is to be set"
    )


def cap_begins(found: Answer) -> str | None:
    """Say at which concurrencies a cap lowers the cost; None: at none."""
    if not found.cap_pays:
        return None
    ranges = [
        f"from {low:,.0f} on" if math.isinf(high) else f"{low:,.0f} – {high:,.0f}" for low, high in found.cap_pays
    ]
    return f"a cap on admission pays at concurrency {', '.join(ranges)}"
