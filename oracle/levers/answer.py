"""Everything that is said about one regime of a deployment, and the schedule of a series."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle.levers.cost import Parts, batch_size, capacity, cost_parts
from oracle.levers.deployment import Deployment
from oracle.levers.experts import experts_counted
from oracle.levers.fitted import FittedChain, FittedEta, FittedOverhead
from oracle.levers.identified import Identified
from oracle.levers.procedure import (
    Configuration,
    Decisions,
    configurations,
    decide_joint,
    decide_ordered,
    dropped,
)
from oracle.levers.regime import CHAIN, SHARES, Numbers, Regime
from oracle.levers.schedule import Schedule, schedule
from oracle.levers.traffic_file import Traffic
from oracle.levers.uncertainty import Verdict, agreed, possible_configurations, toggle_verdicts

MOST_CONCURRENCY = 1 << 17  # scanned one by one
LONGEST_DRAFT = 16
_ROUNDING = 1e-12
_FINE = 1001  # grid over r and rho: steps of 0.001


@dataclass(frozen=True)
class Run:
    """A range of a traffic quantity over which one configuration is the cheapest, both ends included.

    Attributes
    ----------
    low, high
        Ends; the last range over concurrency has no upper one (inf).
    configuration
        The joint minimum there.
    """

    low: float
    high: float
    configuration: Configuration


@dataclass(frozen=True)
class Priced:
    """A configuration with the parts of its cost per token."""

    configuration: Configuration
    parts: Parts


@dataclass(frozen=True)
class Answer:
    """What to set in one regime, why, and until when.

    Attributes
    ----------
    deployment, regime, low, high
        What was asked; each regime is one, of shape (); `low` and `high` hold the ends of the intervals.
    joint, literal, aware, capped
        The cheapest configuration; those of the source's order, literal and speculation-aware; the cheapest with
        admission capped.
    priced
        Every configuration, the cheapest first.
    dropped
        Precisions that cannot be used, with the reason.
    speculation, prefix
        Whether each lever is certain at the chosen precision, given the intervals.
    possible
        Configurations that the intervals leave.
    has_intervals
        Whether there are any.
    by_length
        Draft length and the joint minimum there.
    by_assumption
        What the model leaves out or could see otherwise, and the joint minimum then.
    by_concurrency, by_repetitiveness, by_prefix_share
        Where the joint minimum changes when one quantity moves and the others stay.
    by_concurrency_capped
        The same over concurrency with admission capped.
    cap_pays
        Ranges of concurrency, both ends included, at which a cap lowers the cost; the last may have no end (inf).
    scanned
        The largest concurrency that was looked at.
    counted
        The same with the experts counted that a pass goes to, where the batch, capped or not, calls for it; else None.
    """

    deployment: Deployment
    regime: Regime
    low: Regime
    high: Regime
    joint: Decisions
    literal: Decisions
    aware: Decisions
    capped: Decisions
    priced: tuple[Priced, ...]
    dropped: dict[str, str]
    speculation: Verdict
    prefix: Verdict
    possible: tuple[Configuration, ...]
    has_intervals: bool
    by_length: tuple[tuple[int, Decisions], ...]
    by_assumption: tuple[tuple[str, Decisions], ...]
    by_concurrency: tuple[Run, ...]
    by_repetitiveness: tuple[Run, ...]
    by_prefix_share: tuple[Run, ...]
    by_concurrency_capped: tuple[Run, ...]
    cap_pays: tuple[tuple[float, float], ...]
    scanned: int
    counted: "Answer | None" = None

    @property
    def cap_saves(self) -> bool:
        """Whether capping admission lowers the cost here."""
        return bool(self.capped.cost_ms < self.joint.cost_ms * (1 - _ROUNDING))


@dataclass(frozen=True)
class Fitted:
    """What was fitted from measurements and put into the deployment; empty where it was not measured.

    `missing` says of each quantity that was not fitted what it takes.
    """

    etas: tuple[FittedEta, ...] = ()
    overhead: FittedOverhead | None = None
    chains: tuple[FittedChain, ...] = ()
    identified: tuple[Identified, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Planned:
    """The schedule of one tenant's series, with what the levers of each slot rest on.

    `counted` is the schedule with the experts counted that a pass goes to, where some slot calls for it; else None.
    """

    deployment: Deployment
    traffic: Traffic
    schedule: Schedule
    speculation: tuple[Verdict, ...]
    prefix: tuple[Verdict, ...]
    counted: Schedule | None = None


def answer(deployment: Deployment, regime: Regime, low: Regime | None = None, high: Regime | None = None) -> Answer:
    """Answer for one regime.

    Parameters
    ----------
    low, high
        The regime with r, rho and x at the ends of their intervals; without them they are taken as exact.

    Raises
    ------
    InputError
        No precision can be used; the message says why for each.
    """
    joint = decide_joint(deployment, regime)
    chosen = joint.configuration()
    precision = deployment.precisions[chosen.precision]
    ends = (low or regime, high or regime)
    wide = any(getattr(ends[0], n) != getattr(ends[1], n) for n in (*SHARES, CHAIN))
    speculation, prefix = toggle_verdicts(deployment, precision, *ends, cache_on=chosen.cache_on)
    longest = max(LONGEST_DRAFT, deployment.speculation.draft_length)
    concurrencies = _concurrencies(deployment, regime)
    at = regime.having(concurrency=concurrencies)
    free, capped = decide_joint(deployment, at), decide_joint(deployment, at, cap=True)
    here = decide_joint(deployment, regime, cap=True)
    counted = experts_counted(deployment, np.minimum(joint.batch, here.batch))
    return Answer(
        deployment,
        regime,
        *ends,
        joint,
        decide_ordered(deployment, regime),
        decide_ordered(deployment, regime, speculation_aware=True),
        here,
        _priced(deployment, regime),
        dropped(deployment, regime),
        speculation,
        prefix,
        possible_configurations(deployment, *ends),
        wide or any(p.eta_interval is not None for p in deployment.precisions),
        tuple((g, decide_joint(deployment.drafting(g), regime)) for g in range(1, longest + 1)),
        tuple((name, decide_joint(other, regime)) for name, other in _other_assumptions(deployment)),
        _over_concurrency(concurrencies, free),
        _over_share(deployment, lambda values: regime.having(repetitiveness=values)),
        _over_share(deployment, lambda values: regime.having(prefix_share=values)),
        _over_concurrency(concurrencies, capped),
        _where_cheaper(concurrencies, free, capped),
        int(concurrencies[-1]),
        None if counted is None else answer(counted, regime, *ends),
    )


def plan(deployment: Deployment, traffic: Traffic, made: Schedule) -> Planned:
    """Say for every slot whether the intervals and both readings of the experts leave its levers certain."""
    precision = deployment.precisions[made.precision]
    verdicts = []
    for low, high in zip(traffic.low, traffic.high, strict=True):
        said = toggle_verdicts(deployment, precision, low, high)
        grown = experts_counted(deployment, batch_size(deployment, precision, low))
        verdicts.append(said if grown is None else agreed(said, toggle_verdicts(grown, precision, low, high)))
    grown = experts_counted(deployment, batch_size(deployment, precision, traffic.regime))
    counted = None if grown is None else schedule(grown, traffic.regime, traffic.tokens, made.band)
    speculation, prefix = (tuple(said[i] for said in verdicts) for i in (0, 1))
    return Planned(deployment, traffic, made, speculation, prefix, counted)


def _other_assumptions(deployment: Deployment) -> list[tuple[str, Deployment]]:
    """Give the deployment under other readings of what it leaves open, by name."""
    how = deployment.speculation
    others = [
        ("KV reads of half the context", replace(deployment, kv_read_share=0.5)),
        ("KV reads of the whole context", replace(deployment, kv_read_share=1.0)),
        ("cached prefixes shared in memory", replace(deployment, kv_shared_on_hit=True)),
        ("prefill faster with fewer bytes", replace(deployment, prefill_by_precision=True)),
    ]
    if deployment.reads_grow:
        others.append(("every pass reads all experts", replace(deployment, reads_grow=False)))
    elif deployment.experts is not None:
        others.append(("experts read grow with the pass", replace(deployment, reads_grow=True)))
    for reading in ("stationary", "renewal"):
        chained = replace(how, reading=reading, autocorrelation=0.4)
        others.append((f"matches a chain, {reading}, x = 0.4", replace(deployment, speculation=chained)))
    return [(name, other) for name, other in others if other != deployment]


def _priced(deployment: Deployment, regime: Regime) -> tuple[Priced, ...]:
    found = [
        Priced(each, cost_parts(deployment, deployment.precisions[each.precision], regime, each.toggles))
        for each in configurations(deployment)
    ]
    return tuple(sorted(found, key=lambda priced: float(priced.parts.total_ms)))


def _concurrencies(deployment: Deployment, regime: Regime) -> Numbers:
    """Give every whole concurrency up to where all KV caches are full; beyond, nothing changes."""
    knees = [capacity(deployment, deployment.precisions[i], regime, True) for i in deployment.admissible]
    full = max(float(knee) for knee in knees)
    last = int(min(max(full, float(regime.concurrency)) + 1, MOST_CONCURRENCY))
    return np.arange(1, last + 1, dtype=np.float64)


def _where_cheaper(values: Numbers, free: Decisions, capped: Decisions) -> tuple[tuple[float, float], ...]:
    """Give the ranges of concurrency at which a cap lowers the cost."""
    saves = np.concatenate([[False], capped.cost_ms < free.cost_ms * (1 - _ROUNDING), [False]])
    edges = np.flatnonzero(saves[1:] != saves[:-1])
    return tuple(
        (float(values[a]), math.inf if b == len(values) else float(values[b - 1]))
        for a, b in zip(edges[::2], edges[1::2], strict=True)
    )


def _over_concurrency(values: Numbers, decided: Decisions) -> tuple[Run, ...]:
    """Scan one by one: a lever may come back, so no bisection."""
    runs = _runs(values, decided)
    return (*runs[:-1], Run(runs[-1].low, np.inf, runs[-1].configuration))


def _over_share(deployment: Deployment, at: Callable[[Numbers], Regime]) -> tuple[Run, ...]:
    values = np.linspace(0.0, 1.0, _FINE)
    return tuple(_runs(values, decide_joint(deployment, at(values))))


def _runs(values: Numbers, decided: Decisions) -> Sequence[Run]:
    keys = np.stack([decided.precision, decided.speculation_on, decided.cache_on])
    new: NDArray[np.intp] = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
    starts, ends = [0, *new], [*(new - 1), len(values) - 1]
    return [
        Run(float(values[i]), float(values[j]), decided.configuration((int(i),)))
        for i, j in zip(starts, ends, strict=True)
    ]
