"""The one setting that is advised: the levers, and a cap on admission where it saves more than noise.

A cap is part of the setting, not an addition to it: with fewer requests decoding together another precision and other
levers may be the cheapest, they flip elsewhere, and are certain of something else. So once a cap is advised everything
is asked again with it. Below `NOISE` a cap's saving rests on coefficients that are not known that well; there the
setting without a cap is advised, and the cap is left to consider.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracle.levers.admission import admitted
from oracle.levers.answer import Answer, Priced
from oracle.levers.break_even import prefix_share_needed
from oracle.levers.cost import cost_parts, overhead, round_length
from oracle.levers.deployment import Deployment, Precision
from oracle.levers.experts import experts_counted
from oracle.levers.procedure import Configuration, Decisions, configurations, decide_joint
from oracle.levers.regime import Numbers, Regime
from oracle.levers.uncertainty import Verdict, agreed, favoured_boxes

NOISE = 0.02  # share of the cost: what stated coefficients can carry
_FINE = 1001  # grid over r and rho: steps of 0.001


@dataclass(frozen=True)
class Advised:
    """What is advised in every regime.

    Attributes
    ----------
    decided
        Levers, requests that decode together and cost; where capped, the batch is the cap.
    capped : (…,) bool
        Whether the advice is to cap admission.
    """

    decided: Decisions
    capped: NDArray[np.bool_]


@dataclass(frozen=True)
class Stretch:
    """A range of a traffic quantity with one advice, both ends included.

    Attributes
    ----------
    low, high
        Ends; the last range over concurrency has no upper one (inf).
    configuration
        The levers there.
    caps
        Least and largest cap within it; None where admission is not capped.
    """

    low: float
    high: float
    configuration: Configuration
    caps: tuple[float, float] | None


@dataclass(frozen=True)
class Advice:
    """Everything that is said of the advised setting of one regime.

    Attributes
    ----------
    configuration, cap, cost_ms
        What to set; no cap is None.
    saved
        Share of the cost that the best cap saves, advised or not; 0 where none does.
    priced
        Every configuration, admission capped where the advice is to cap, the cheapest first.
    by_length
        Draft length with what is advised there.
    by_concurrency, by_repetitiveness, by_prefix_share
        Where the advice changes when one quantity moves and the others stay.
    speculation, prefix
        Whether each lever is certain at the advised precision and cap, given the intervals and, where the batch calls
        for counting the experts that a pass goes to, by both readings.
    possible
        Configurations that these leave, each with whether admission is capped.
    """

    configuration: Configuration
    cap: float | None
    cost_ms: float
    saved: float
    priced: tuple[Priced, ...]
    by_length: tuple[tuple[int, Advised], ...]
    by_concurrency: tuple[Stretch, ...]
    by_repetitiveness: tuple[Stretch, ...]
    by_prefix_share: tuple[Stretch, ...]
    speculation: Verdict
    prefix: Verdict
    possible: tuple[tuple[Configuration, bool], ...]


def advise(deployment: Deployment, regime: Regime) -> Advised:
    """Advise in all regimes: the joint minimum, with admission capped where that saves `NOISE` or more."""
    free, cap = decide_joint(deployment, regime), decide_joint(deployment, regime, cap=True)
    take = cap.cost_ms <= free.cost_ms * (1 - NOISE)
    either = {name: np.where(take, getattr(cap, name), values) for name, values in vars(free).items()}
    return Advised(Decisions(**either), np.asarray(take))


def set_in(found: Answer) -> tuple[Decisions, float | None]:
    """Give what is advised in the regime of an answer, and the cap; None without one."""
    if saved_by_cap(found) < NOISE:
        return found.joint, None
    return found.capped, float(found.capped.batch)


def admitted_regime(found: Answer) -> Regime:
    """Give the regime of an answer with as many requests in flight as are admitted."""
    _, cap = set_in(found)
    return found.regime if cap is None else found.regime.having(concurrency=min(float(found.regime.concurrency), cap))


def saved_by_cap(found: Answer) -> float:
    """Share of the cost that the best cap on admission saves; 0 where none does."""
    return 1 - float(found.capped.cost_ms / found.joint.cost_ms) if found.cap_saves else 0.0


def counted(found: Answer) -> Answer | None:
    """Give the answer with the experts counted that a pass goes to, where the batch that is advised calls for it."""
    called_for = found.counted is not None and experts_counted(found.deployment, set_in(found)[0].batch) is not None
    return found.counted if called_for else None


def advice(found: Answer) -> Advice:
    """Ask everything again of the advised setting."""
    deployment, regime = found.deployment, found.regime
    decided, cap = set_in(found)
    chosen = decided.configuration()
    C = np.arange(1, found.scanned + 1, dtype=np.float64)
    shares = np.linspace(0.0, 1.0, _FINE)
    over_r, over_rho = (regime.having(**{name: shares}) for name in ("repetitiveness", "prefix_share"))
    *before, last = stretches(C, advise(deployment, regime.having(concurrency=C)))
    other = counted(found)
    readings = (found,) if other is None else (found, other)
    possible = set().union(*(_possible(each) for each in readings))
    return Advice(
        chosen,
        cap,
        float(decided.cost_ms),
        saved_by_cap(found),
        found.priced if cap is None else _priced_capped(deployment, regime),
        tuple((g, advise(deployment.drafting(g), regime)) for g, _ in found.by_length),
        (*before, replace(last, high=np.inf)),
        stretches(shares, advise(deployment, over_r)),
        stretches(shares, advise(deployment, over_rho)),
        *agreed(*(_verdicts(each) for each in readings)),
        tuple(sorted(possible, key=partial(_place, deployment))),
    )


def stretches(values: Numbers, advised: Advised) -> tuple[Stretch, ...]:
    """Join neighbouring values with the same levers that are all capped, or all not."""
    made = advised.decided
    keys = np.stack([made.precision, made.speculation_on, made.cache_on, advised.capped])
    new: NDArray[np.intp] = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
    found = []
    for i, j in zip([0, *new.tolist()], [*(new - 1).tolist(), len(values) - 1], strict=True):
        inside = made.batch[i : j + 1]
        caps = (float(inside.min()), float(inside.max())) if advised.capped[i] else None
        found.append(Stretch(float(values[i]), float(values[j]), made.configuration((i,)), caps))
    return tuple(found)


def advised_in_slots(deployment: Deployment, index: int, slots: Regime) -> Advised:
    """Advise in every slot of a series at one precision, each slot for itself."""
    return advise(replace(deployment, precisions=(deployment.precisions[index],)), slots)


def _priced_capped(deployment: Deployment, regime: Regime) -> tuple[Priced, ...]:
    found = []
    for each in configurations(deployment):
        precision = deployment.precisions[each.precision]
        B = admitted(deployment, precision, regime, each.toggles)
        found.append(Priced(each, cost_parts(deployment, precision, regime, each.toggles, B)))
    return tuple(sorted(found, key=lambda priced: float(priced.parts.total_ms)))


def _verdicts(found: Answer) -> tuple[Verdict, Verdict]:
    """Say whether each lever pays everywhere, nowhere, or here and there in the box, with the cap that is advised."""
    decided, cap = set_in(found)
    if cap is None:
        return found.speculation, found.prefix
    return _capped_verdicts(found, found.deployment.precisions[int(decided.precision)], cap)


def _capped_verdicts(found: Answer, precision: Precision, cap: float) -> tuple[Verdict, Verdict]:
    deployment, B = found.deployment, np.array(cap)
    ends = precision.eta_interval or (precision.eta, precision.eta)
    speculation, prefix = set(), set()
    for regime, eta in zip((found.low, found.high), ends, strict=True):
        p = replace(precision, eta=eta, eta_interval=None)
        speculation.add(bool(round_length(deployment, p, regime) > 1 + overhead(deployment, p, regime, B)))
        prefix.add(bool(regime.prefix_share > prefix_share_needed(deployment, p, regime, B)))
    return _verdict(speculation), _verdict(prefix)


def _verdict(pays: set[bool]) -> Verdict:
    return "undecided" if len(pays) > 1 else "on" if pays == {True} else "off"


def _possible(found: Answer) -> set[tuple[Configuration, bool]]:
    """Give every advice somewhere in the box."""
    seen: set[tuple[Configuration, bool]] = set()
    for favoured, box in favoured_boxes(found.deployment, found.low, found.high):
        made = advise(favoured, box)
        keys = np.stack([made.decided.precision, made.decided.speculation_on, made.decided.cache_on, made.capped])
        for p, s, k, capped in np.unique(keys.reshape(4, -1), axis=1).T:
            seen.add((Configuration(int(p), bool(s), bool(k)), bool(capped)))
    return seen


def _place(deployment: Deployment, one: tuple[Configuration, bool]) -> tuple[int, Configuration, bool]:
    """Give the order of ties: the widest precision first."""
    return deployment.admissible.index(one[0].precision), *one
