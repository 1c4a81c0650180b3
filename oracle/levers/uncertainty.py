"""What intervals on r, rho, eta and the autocorrelation x leave of a decision: on, off, or undecided.

The gain of speculation rises with r and with eta, that of the prefix cache with rho, so a lever is certain where both
ends of the box agree. With x it rises too, under the reading renewal it falls: traffic gives its ends in that order.
For all three levers at once, a configuration is possible where it is the cheapest on a grid over r, rho and x with the
eta that favour it: its own at the upper end if it speculates, all others at the lower one.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from oracle.levers.break_even import prefix_share_needed
from oracle.levers.cost import batch_size, overhead, round_length
from oracle.levers.deployment import Deployment, Precision
from oracle.levers.procedure import Configuration, decide_joint
from oracle.levers.regime import Regime

Verdict = Literal["on", "off", "undecided"]
_STEPS = (65, 17, 5)  # of the grid: r, whose effect is curved, rho, whose effect is a line, and x


def toggle_verdicts(
    deployment: Deployment, precision: Precision, low: Regime, high: Regime, *, cache_on: bool = False
) -> tuple[Verdict, Verdict]:
    """Say whether speculation and the prefix cache pay everywhere, nowhere, or here and there in a box.

    Parameters
    ----------
    low, high
        One regime with repetitiveness, prefix share and autocorrelation at the lower and at the upper end.
    cache_on
        Whether the batch is that with the prefix cache (it differs where a cached prefix is shared in memory).
    """
    ends = precision.eta_interval or (precision.eta, precision.eta)
    speculation, prefix = [], []
    for regime, eta in zip((low, high), ends, strict=True):
        p = replace(precision, eta=eta, eta_interval=None)
        B = batch_size(deployment, p, regime, cache_on)
        speculation.append(bool(round_length(deployment, p, regime) > 1 + overhead(deployment, p, regime, B)))
        prefix.append(bool(regime.prefix_share > prefix_share_needed(deployment, p, regime, B)))
    return _verdict(speculation), _verdict(prefix)


def _verdict(pays: list[bool]) -> Verdict:
    return "undecided" if pays[0] != pays[1] else "on" if pays[0] else "off"


def agreed(*readings: tuple[Verdict, Verdict]) -> tuple[Verdict, Verdict]:
    """Give the verdicts on both levers in which all readings of a deployment agree; else they are undecided."""
    speculation, prefix = ({reading[i] for reading in readings} for i in (0, 1))
    return _only(speculation), _only(prefix)


def _only(said: set[Verdict]) -> Verdict:
    return said.pop() if len(said) == 1 else "undecided"


def possible_configurations(deployment: Deployment, low: Regime, high: Regime) -> tuple[Configuration, ...]:
    """Give every configuration that is the cheapest somewhere in the box, in the order of ties.

    Parameters
    ----------
    low, high
        One regime with repetitiveness, prefix share and autocorrelation at the lower and at the upper end.
    """
    found: set[Configuration] = set()
    for favoured, box in favoured_boxes(deployment, low, high):
        decided = decide_joint(favoured, box)
        # what wins although another's eta is favoured would win without that too
        keys = np.stack([decided.precision, decided.speculation_on, decided.cache_on]).reshape(3, -1)
        found |= {Configuration(int(p), bool(s), bool(k)) for p, s, k in np.unique(keys, axis=1).T}
    order = {index: place for place, index in enumerate(deployment.admissible)}
    return tuple(sorted(found, key=lambda c: (order[c.precision], c.speculation_on, c.cache_on)))


def favoured_boxes(deployment: Deployment, low: Regime, high: Regime) -> Iterator[tuple[Deployment, Regime]]:
    """Give the grid over r, rho and x with the eta that favour nothing, and each precision in turn."""
    r = np.linspace(low.repetitiveness, high.repetitiveness, _STEPS[0])[:, None]
    rho = np.linspace(low.prefix_share, high.prefix_share, _STEPS[1])[None, :]
    box = low.having(repetitiveness=r, prefix_share=rho)
    if low.autocorrelation is not None and high.autocorrelation is not None:
        steps = _STEPS[2] if low.autocorrelation != high.autocorrelation else 1
        x = np.linspace(low.autocorrelation, high.autocorrelation, steps)[:, None, None]
        box = low.having(repetitiveness=r, prefix_share=rho, autocorrelation=x)
    for favoured in (None, *deployment.admissible):
        yield _favouring(deployment, favoured), box


def _favouring(deployment: Deployment, favoured: int | None) -> Deployment:
    """Set one precision's eta to its upper end and all others, or all, to their lower one."""
    precisions = tuple(
        p if p.eta_interval is None else replace(p, eta=p.eta_interval[int(i == favoured)], eta_interval=None)
        for i, p in enumerate(deployment.precisions)
    )
    return replace(deployment, precisions=precisions)
