"""Deciding the three levers: in the source's order, and all at once.

The source's procedure fixes the precision first and decides the other two at the batch and acceptance it gives:

- *literal*: the precision that decodes cheapest without speculation;
- *speculation-aware*: the precision that decodes cheapest with the better of speculation on and off.

The *joint* minimum prices every configuration. Ties go to the wider precision, then to fewer levers, then to
speculation off.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError, printable
from oracle.levers.admission import admitted
from oracle.levers.break_even import prefix_share_needed
from oracle.levers.cost import (
    TOGGLES,
    Toggles,
    batch_size,
    capacity,
    cost_parts,
    overhead,
    round_length,
    step_ms,
)
from oracle.levers.deployment import Deployment
from oracle.levers.regime import Numbers, Regime


@dataclass(frozen=True, order=True)
class Configuration:
    """One setting of the three levers; `precision` is an index into the deployment's precisions."""

    precision: int
    speculation_on: bool
    cache_on: bool

    @property
    def toggles(self) -> Toggles:
        """The two levers without the precision."""
        return Toggles(self.speculation_on, self.cache_on)


@dataclass(frozen=True)
class Decisions:
    """The configuration chosen in every regime.

    Attributes
    ----------
    precision : (…,) int64
        Index into the deployment's precisions.
    speculation_on, cache_on : (…,) bool
    batch : (…,) float64
        Requests that decode together.
    cost_ms : (…,) float64
        Cost per token.
    runner_up_ms : (…,) float64
        Cost of the next best configuration; inf where there is none, NaN where it was not looked for.
    """

    precision: NDArray[np.int64]
    speculation_on: NDArray[np.bool_]
    cache_on: NDArray[np.bool_]
    batch: Numbers
    cost_ms: Numbers
    runner_up_ms: Numbers

    def configuration(self, index: tuple[int, ...] = ()) -> Configuration:
        """Give the configuration of one regime."""
        return Configuration(int(self.precision[index]), bool(self.speculation_on[index]), bool(self.cache_on[index]))

    def same_as(self, other: "Decisions") -> NDArray[np.bool_]:
        """Say where two sets of decisions agree in all three levers."""
        return np.asarray(
            (self.precision == other.precision)
            & (self.speculation_on == other.speculation_on)
            & (self.cache_on == other.cache_on)
        )


def configurations(deployment: Deployment) -> Iterator[Configuration]:
    """Give every configuration that passes the quality bar, in the order in which ties are broken."""
    for precision in deployment.admissible:
        for toggles in TOGGLES:
            yield Configuration(precision, *toggles)


def decide_joint(deployment: Deployment, regime: Regime, *, cap: bool = False) -> Decisions:
    """Find the cheapest configuration of every regime by pricing them all.

    Parameters
    ----------
    cap
        Whether admission may be capped below what there is and fits: see `oracle.levers.admission`.

    Raises
    ------
    InputError
        No precision passes the quality bar, or none fits in some regime.
    """
    shape = regime.shape
    best, second, batch = np.full(shape, np.inf), np.full(shape, np.inf), np.zeros(shape)
    chosen = np.zeros(shape, dtype=np.int64)
    every = list(configurations(deployment))
    for i, each in enumerate(every):
        precision = deployment.precisions[each.precision]
        B = admitted(deployment, precision, regime, each.toggles) if cap else None
        parts = cost_parts(deployment, precision, regime, each.toggles, B)
        cost = parts.total_ms
        better = cost < best
        second = np.where(better, best, np.minimum(second, cost))
        best, batch = np.where(better, cost, best), np.where(better, parts.batch, batch)
        chosen = np.where(better, i, chosen)
    _refuse_unfit(deployment, regime, best)
    precisions, spec, cache = (
        np.array(column)
        for column in zip(*[(each.precision, each.speculation_on, each.cache_on) for each in every], strict=True)
    )
    return Decisions(precisions[chosen], spec[chosen], cache[chosen], batch, best, second)


def decide_ordered(deployment: Deployment, regime: Regime, *, speculation_aware: bool = False) -> Decisions:
    """Decide the levers in the source's order: precision, then prefix cache, then speculation.

    Parameters
    ----------
    speculation_aware
        Whether the precision is chosen by its decode cost with the better of speculation on and off; else without.

    Raises
    ------
    InputError
        As `decide_joint`.
    """
    shape = regime.shape
    least = np.full(shape, np.inf)
    found: dict[str, NDArray[Any]] = {}
    for index in deployment.admissible:
        precision = deployment.precisions[index]
        B = batch_size(deployment, precision, regime)
        with np.errstate(divide="ignore"):
            decode = np.where(B >= 1, step_ms(deployment, precision, regime, B) / B, np.inf)
        length = round_length(deployment, precision, regime)
        if speculation_aware:
            decode = np.minimum(decode, decode * (1 + overhead(deployment, precision, regime, B)) / length)
        take = decode < least
        least = np.where(take, decode, least)
        for name, value in _toggles(deployment, index, regime, B, length).items():
            found[name] = np.where(take, value, found.get(name, value))
    _refuse_unfit(deployment, regime, least)
    return Decisions(**found, runner_up_ms=np.full(shape, np.nan))


def _toggles(
    deployment: Deployment, index: int, regime: Regime, batch: Numbers, length: Numbers
) -> dict[str, NDArray[Any]]:
    """Decide both levers at one precision by their break-evens, and price the outcome."""
    precision = deployment.precisions[index]
    cache_on = regime.prefix_share > prefix_share_needed(deployment, precision, regime, batch)
    B = np.where(cache_on, batch_size(deployment, precision, regime, cache_on=True), batch)
    speculation_on = length > 1 + overhead(deployment, precision, regime, B)
    cost = np.zeros(regime.shape)
    for toggles in TOGGLES:
        parts = cost_parts(deployment, precision, regime, toggles)
        cost = np.where((speculation_on == toggles[0]) & (cache_on == toggles[1]), parts.total_ms, cost)
    return {
        "precision": np.full(regime.shape, index),
        "speculation_on": speculation_on,
        "cache_on": cache_on,
        "batch": B,
        "cost_ms": cost,
    }


def regret(chosen: Decisions, best: Decisions) -> Numbers:
    """What the chosen configuration costs more than the best, as a share of the latter."""
    return chosen.cost_ms / best.cost_ms - 1


def _refuse_unfit(deployment: Deployment, regime: Regime, cost: Numbers) -> None:
    """Raise, with the reason for every precision, where nothing fits."""
    if np.isfinite(cost).all():
        return
    index = tuple(int(i) for i in np.argwhere(~np.isfinite(cost))[0])
    raise InputError(dropped(deployment, regime.at(index)).values())


def dropped(deployment: Deployment, regime: Regime) -> dict[str, str]:
    """Say which precisions cannot be used in one regime, and why, by name."""
    reasons = {}
    for precision in deployment.precisions:
        name = printable(precision.name)
        rejected = deployment.rejected(precision)
        if rejected is not None:
            reasons[precision.name] = rejected
        elif capacity(deployment, precision, regime) < 1:
            weights = precision.bytes_per_parameter * deployment.parameters / 1e9
            one = deployment.kv_bytes_per_token * float(regime.context_tokens) / 1e9
            reasons[precision.name] = (
                f"{name}: does not fit: {weights:.1f} GB of weights and {one:.1f} GB of KV cache for one request of "
                f"{float(regime.context_tokens):g} tokens, on {deployment.hbm_bytes / 1e9:.1f} GB; give more memory, a "
                "lower precision or a shorter context"
            )
    return reasons
