"""What a change of precision, traffic or costs does to levers that were decided before it.

The common way into a misconfigured state is not a lever that was wrong from the start but one that is inherited: it
paid at the old setting and no longer does at the new one. Each lever is judged by its own part of the cost: speculation
by decode, the prefix cache by prefill and cache management.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from oracle.levers.break_even import prefix_share_needed, repetitiveness_needed
from oracle.levers.cost import Toggles, batch_size, cost_parts
from oracle.levers.deployment import Deployment, Precision
from oracle.levers.regime import Regime

LEVERS = ("speculation", "prefix cache")


@dataclass(frozen=True)
class Setting:
    """A deployment at one of its precisions, in one traffic regime."""

    deployment: Deployment
    precision: Precision
    regime: Regime


@dataclass(frozen=True)
class Judged:
    """A lever at one setting.

    Attributes
    ----------
    observed, needed
        Repetitiveness or prefix share, and its break-even.
    off_ms, on_ms
        Its part of the cost per token without and with it.
    """

    observed: float
    needed: float
    off_ms: float
    on_ms: float

    @property
    def pays(self) -> bool:
        """Whether it is cheaper on."""
        return self.on_ms < self.off_ms

    @property
    def gain(self) -> float:
        """What it changes, as a share of the cost without it; negative where it saves."""
        return self.on_ms / self.off_ms - 1


@dataclass(frozen=True)
class InheritedLever:
    """A lever before and after a change.

    Attributes
    ----------
    lever
        One of `LEVERS`.
    was_on
        Whether it was on before.
    before, after
        How it is judged there.
    """

    lever: str
    was_on: bool
    before: Judged
    after: Judged

    @property
    def invalidated(self) -> bool:
        """Whether keeping it as it was is wrong after the change."""
        return self.was_on != self.after.pays


def judge(setting: Setting) -> tuple[Judged, Judged]:
    """Judge speculation and the prefix cache at one setting."""
    deployment, precision, regime = setting.deployment, setting.precision, setting.regime
    off, on, cached = (
        cost_parts(deployment, precision, regime, toggles)
        for toggles in (Toggles(False, False), Toggles(True, False), Toggles(False, True))
    )
    B = batch_size(deployment, precision, regime)
    speculation = Judged(
        float(regime.repetitiveness),
        float(repetitiveness_needed(deployment, precision, regime, B)),
        float(off.decode_ms),
        float(on.decode_ms),
    )
    prefix = Judged(
        float(regime.prefix_share),
        float(prefix_share_needed(deployment, precision, regime, B)),
        float(off.prefill_ms),
        float(cached.prefill_ms + cached.cache_ms),
    )
    return speculation, prefix


def check_change(old: Setting, new: Setting, running: Toggles | None = None) -> tuple[InheritedLever, InheritedLever]:
    """Check both levers across a change of setting.

    Parameters
    ----------
    old, new
        Before and after; they may differ in precision, traffic, costs or draft length.
    running
        Whether speculation and the prefix cache are on before; without it, as their break-evens say there.
    """
    before, after = judge(old), judge(new)
    on = running or (before[0].pays, before[1].pays)
    return (
        InheritedLever(LEVERS[0], on[0], before[0], after[0]),
        InheritedLever(LEVERS[1], on[1], before[1], after[1]),
    )


def precision_moves(
    deployment: Deployment, regime: Regime
) -> Iterator[tuple[Precision, Precision, tuple[InheritedLever, InheritedLever]]]:
    """Check both levers for every move from one usable precision to another, in one regime."""
    usable = [
        deployment.precisions[i]
        for i in deployment.admissible
        if batch_size(deployment, deployment.precisions[i], regime) >= 1
    ]
    for old in usable:
        for new in usable:
            if old is not new:
                yield old, new, check_change(Setting(deployment, old, regime), Setting(deployment, new, regime))
