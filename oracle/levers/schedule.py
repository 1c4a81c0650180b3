"""A schedule over time slots: one precision for the whole time, both levers decided again in every slot.

A change of precision means loading the weights again, so it is chosen once, for the least mean cost of the schedule it
allows. A lever switches only if that would also be right at a batch `band` larger and smaller: with a critical batch
size B_c it goes off above (1 + band)·B_c and on again below (1 - band)·B_c, so that traffic near B_c does not make it
flutter. Where the KV cache is full the batch cannot grow, and the full batch decides.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracle.errors import InputError
from oracle.levers.admission import admitted
from oracle.levers.break_even import prefix_share_needed
from oracle.levers.cost import TOGGLES, batch_size, capacity, cost_parts, overhead, round_length
from oracle.levers.deployment import Deployment
from oracle.levers.procedure import Configuration, configurations, decide_joint, dropped
from oracle.levers.regime import Numbers, Regime
from oracle.levers.toggles import LEVERS

BAND = 0.10
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Switch:
    """A lever that changes between two slots; `slot` is the first with the new state."""

    slot: int
    lever: str
    on: bool


@dataclass(frozen=True)
class Schedule:
    """What to set in each slot.

    Attributes
    ----------
    precision
        Index into the deployment's precisions, for all slots.
    speculation_on, cache_on : (T,) bool
    cost_ms : (T,) float64
        Cost per token of each slot.
    switches
        Changes, in order.
    mean_ms
        Mean cost per token, slots weighted.
    static, static_ms
        The best configuration that is never touched, and its mean cost.
    undamped_ms
        Mean cost if both levers followed their break-evens at once, at the same precision.
    capped_ms
        The same, with admission capped in every slot where that lowers the cost.
    cap_slots : (T,) bool
        Where it does.
    free_ms
        Mean cost if the precision too were chosen anew in every slot: a bound.
    band
        Hysteresis it was made with.
    """

    precision: int
    speculation_on: NDArray[np.bool_]
    cache_on: NDArray[np.bool_]
    cost_ms: Numbers
    switches: tuple[Switch, ...]
    mean_ms: float
    static: Configuration
    static_ms: float
    undamped_ms: float
    capped_ms: float
    cap_slots: NDArray[np.bool_]
    free_ms: float
    band: float


def schedule(deployment: Deployment, slots: Regime, weights: ArrayLike | None = None, band: float = BAND) -> Schedule:
    """Make a schedule.

    Parameters
    ----------
    slots : regimes of shape (T,)
        In order of time.
    weights : (T,), optional
        Tokens emitted in each slot, in any unit; without it all slots count the same.
    band
        Hysteresis, as a share of the critical batch size, in [0, 1).

    Raises
    ------
    InputError
        Weights or band out of range, or no precision that is allowed fits in every slot.
    """
    share = _shares(slots, weights)
    if not 0 <= band < 1:
        raise InputError(f"the hysteresis band is {band}; it is a share of at least 0 and below 1")
    statics = {each: _mean(share, _cost(deployment, each, slots)) for each in configurations(deployment)}
    static = min(statics, key=lambda each: statics[each])  # the first of equals: the order of ties
    fitting = [
        index
        for index in deployment.admissible
        if (batch_size(deployment, deployment.precisions[index], slots) >= 1).all()
    ]
    if not fitting:
        raise _unfit(deployment, slots)
    made = {index: _states(deployment, index, slots, band) for index in fitting}
    costs = {index: _cost_of_states(deployment, index, slots, states) for index, states in made.items()}
    index = min(fitting, key=lambda each: _mean(share, costs[each]))
    undamped = np.min([_cost(deployment, Configuration(index, *toggles), slots) for toggles in TOGGLES], axis=0)
    capped = np.min([_capped_cost(deployment, Configuration(index, *toggles), slots) for toggles in TOGGLES], axis=0)
    return Schedule(
        index,
        *made[index],
        costs[index],
        _switches(made[index]),
        _mean(share, costs[index]),
        static,
        statics[static],
        _mean(share, undamped),
        _mean(share, capped),
        capped < undamped * (1 - _ROUNDING),
        _mean(share, decide_joint(deployment, slots).cost_ms),
        band,
    )


def _shares(slots: Regime, weights: ArrayLike | None) -> Numbers:
    if len(slots.shape) != 1:
        raise InputError(f"a schedule needs slots in one row; the regimes have the shape {slots.shape}")
    T = slots.shape[0]
    given = np.ones(T) if weights is None else np.asarray(weights, dtype=np.float64)
    if given.shape != (T,):
        raise InputError(f"{given.size} weights for {T} slots; give one for each")
    if not (np.isfinite(given).all() and (given >= 0).all() and given.sum() > 0):
        raise InputError("weights of slots are finite, not negative and not all 0")
    return np.asarray(given / given.sum())


def _mean(share: Numbers, cost: Numbers) -> float:
    return float(np.sum(share * cost))


def _cost(deployment: Deployment, each: Configuration, slots: Regime) -> Numbers:
    return cost_parts(deployment, deployment.precisions[each.precision], slots, each.toggles).total_ms


def _capped_cost(deployment: Deployment, each: Configuration, slots: Regime) -> Numbers:
    precision = deployment.precisions[each.precision]
    batch = admitted(deployment, precision, slots, each.toggles)
    return cost_parts(deployment, precision, slots, each.toggles, batch).total_ms


def _states(
    deployment: Deployment, index: int, slots: Regime, band: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Decide both levers slot by slot, each from the state it is in; the first slot has none."""
    precision = deployment.precisions[index]
    B, K = batch_size(deployment, precision, slots), capacity(deployment, precision, slots)
    full = K <= B
    length = round_length(deployment, precision, slots)
    pays = []
    for batch in (np.where(full, B, B / (1 + band)), B, np.minimum(B / (1 - band), K)):
        speculation = length > 1 + overhead(deployment, precision, slots, batch)
        pays.append((speculation, slots.prefix_share > prefix_share_needed(deployment, precision, slots, batch)))
    both = []
    for lever in (0, 1):
        smaller, here, larger = (each[lever] for each in pays)
        surely, surely_not = smaller & here & larger, ~(smaller | here | larger)
        states = here.copy()
        for t in range(1, len(states)):
            states[t] = surely[t] or (states[t - 1] and not surely_not[t])
        both.append(states)
    return both[0], both[1]


def _cost_of_states(
    deployment: Deployment, index: int, slots: Regime, states: tuple[NDArray[np.bool_], NDArray[np.bool_]]
) -> Numbers:
    cost = np.zeros(slots.shape)
    for toggles in TOGGLES:
        here = (states[0] == toggles.speculation_on) & (states[1] == toggles.cache_on)
        cost = np.where(here, _cost(deployment, Configuration(index, *toggles), slots), cost)
    return cost


def _switches(states: tuple[NDArray[np.bool_], NDArray[np.bool_]]) -> tuple[Switch, ...]:
    found = [
        Switch(int(t) + 1, name, bool(state[t + 1]))
        for name, state in zip(LEVERS, states, strict=True)
        for t in np.flatnonzero(state[1:] != state[:-1])
    ]
    return tuple(sorted(found, key=lambda switch: switch.slot))


def _unfit(deployment: Deployment, slots: Regime) -> InputError:
    """Give the reason for every precision: the first slot in which it does not fit."""
    reasons: dict[str, str] = {}
    for t, slot in enumerate(slots):
        for name, reason in dropped(deployment, slot).items():
            reasons.setdefault(name, f"slot {t + 1}: {reason}")
    return InputError(reasons.values())
