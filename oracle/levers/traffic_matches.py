"""How matches follow one another in traffic, put in the place of what the deployment states of it.

Traffic that states its reading, and an autocorrelation x under it, is decided for with these; the deployment's own are
the default. One regime's x goes into the deployment, so that whatever is asked of it rests on that x; the slots of a
series keep theirs, each its own.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from oracle.levers.cost import round_length
from oracle.levers.deployment import Deployment
from oracle.levers.procedure import decide_joint
from oracle.levers.regime import Numbers
from oracle.levers.traffic_file import Traffic

WHAT_IF = 0.8  # x of texts that repeat in long runs


def in_traffic(deployment: Deployment, traffic: Traffic) -> tuple[Deployment, Traffic]:
    """Give a deployment as it stands in traffic, and the traffic without what went into the deployment."""
    deployment = as_read(deployment, traffic)
    x = traffic.regime.autocorrelation
    if x is None or (x != x[0]).any():
        return deployment, traffic
    deployment = replace(deployment, speculation=replace(deployment.speculation, autocorrelation=float(x[0])))
    if has_interval(traffic):
        return deployment, replace(traffic, regime=replace(traffic.regime, autocorrelation=None))
    parts = {name: replace(getattr(traffic, name), autocorrelation=None) for name in ("regime", "low", "high")}
    return deployment, replace(traffic, **parts)


def as_read(deployment: Deployment, traffic: Traffic) -> Deployment:
    """Give a deployment with the reading that traffic states, which is the same for all tenants."""
    own = deployment.speculation
    reading = own.reading if traffic.reading is None or is_untold(deployment, traffic) else traffic.reading
    return replace(deployment, speculation=replace(own, reading=reading))


def slot_of(traffic: Traffic, index: int) -> Traffic:
    """Give one slot of a series."""
    parts = {name: getattr(traffic, name).at([index]) for name in ("regime", "low", "high")}
    tokens = None if traffic.tokens is None else traffic.tokens[[index]]
    return replace(traffic, slots=(traffic.slots[index],), **parts, tokens=tokens)


def has_interval(traffic: Traffic) -> bool:
    """Whether x was stated with an interval."""
    low, high = traffic.low.autocorrelation, traffic.high.autocorrelation
    return low is not None and high is not None and bool((low != high).any())


def chains(traffic: Sequence[Traffic]) -> Numbers | None:
    """Every x that is stated, in order; None where none is."""
    stated = [each.regime.autocorrelation for each in traffic if each.regime.autocorrelation is not None]
    return np.concatenate(stated) if stated else None


def rows_are_tenants(traffic: Sequence[Traffic]) -> bool:
    """Whether each of several tenants has one regime, so that what stands side by side are no slots."""
    return len(traffic) > 1 and not any(each.is_series for each in traffic)


def is_untold(deployment: Deployment, traffic: Traffic) -> bool:
    """Whether traffic was measured as a chain whose x nobody states, so that it is taken as 0."""
    stated = traffic.regime.autocorrelation is not None
    return not stated and traffic.reading == "stationary" and deployment.speculation.reading == "independent"


def untold(deployment: Deployment, traffic: Sequence[Traffic]) -> str | None:
    """Say that x is taken as 0 though nobody measured it so, and what another would change; None where one is known."""
    there = [each for each in traffic if is_untold(deployment, each)]
    if not there:
        return None
    chained = replace(deployment.speculation, reading="stationary", autocorrelation=WHAT_IF)
    other = replace(deployment, speculation=chained)
    same = np.concatenate(
        [decide_joint(deployment, each.regime).same_as(decide_joint(other, each.regime)) for each in there]
    )
    at = there[0].regime.at(int(there[0].regime.concurrency.argmax()))
    widest = deployment.precisions[deployment.admissible[0]]
    now, then = (float(round_length(each, widest, at)) for each in (deployment, other))
    row = "tenants" if rows_are_tenants(traffic) else "slots"
    where = f"{int((~same).sum()):,} of {len(same):,} {row}" if len(same) > 1 else "this traffic"
    moves = f"sets other levers in {where}" if not same.all() else f"sets the same levers in {where}"
    return (
        "repetitiveness was measured under the reading stationary and no autocorrelation is stated, so matches count "
        f"as independent, as the deployment has it (x = 0): at x = {WHAT_IF:g} a round would emit {then:.3f} tokens "
        f"instead of {now:.3f} (r = {float(at.repetitiveness):.3g}), which {moves}; add autocorrelation, which "
        "draft-oracle observe writes"
    )
