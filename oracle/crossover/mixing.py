"""What mixing tenants in one batch costs: further experts, and the time of a round, against one tenant alone.

The number of requests stays; they come from 1, 2, 4, … tenants in equal parts. Paths share their random numbers, so
differences are paired, and intervals leave the same clusters out of both sides. Which tenants there are is given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.crossover.costs import BatchCosts
from oracle.crossover.jackknife import half_widths
from oracle.crossover.traffic import Traffic
from oracle.crossover.unique_experts import BatchExperts


@dataclass(frozen=True)
class MixingCost:
    """One number of tenants at one batch size and draft length.

    Attributes
    ----------
    tenants, batch_size, draft_length
        Of which this is said.
    unique_experts, unique_half
        U of the batch, and half its 95 % interval.
    popularity
        What the popularity-weighted formula says.
    extra, extra_half
        Experts more than with one tenant, paired.
    extra_formula, share_formula
        Experts, and share of the cost per token, by the popularity-weighted formula: it takes tokens as independent.
    extra_ms, extra_ms_half
        Milliseconds more a round.
    share, share_half
        The same as a share of the round with one tenant, and of the cost per token: acceptance is held.
    distinct
        Whether no batch on either side holds a cluster twice: else one tenant's batches repeat texts, and the
        difference is not that of tenants alone.
    """

    tenants: int
    batch_size: int
    draft_length: int
    unique_experts: float
    unique_half: float
    popularity: float
    extra: float
    extra_half: float
    extra_formula: float
    extra_ms: float
    extra_ms_half: float
    share: float
    share_half: float
    share_formula: float
    distinct: bool


def tenant_counts(tenants: int) -> tuple[int, ...]:
    """Numbers of tenants to mix: 1, 2, 4, … and all."""
    counts = [1]
    while 2 * counts[-1] <= tenants:
        counts.append(2 * counts[-1])
    return tuple(dict.fromkeys([*counts, tenants]))


def measured_and_beyond(
    mixing: Sequence[MixingCost], lengths: Sequence[int]
) -> tuple[list[MixingCost], list[MixingCost]]:
    """Give several tenants at these draft lengths: what was measured, and what only the formula can tell.

    Where one tenant's batches hold a cluster twice, measuring would count texts that recur as the tenant's. If that is
    so at every batch size, all count as measured.
    """
    several = [each for each in mixing if each.tenants > 1 and each.draft_length in lengths]
    distinct = [each for each in several if each.distinct]
    return (distinct, [each for each in several if not each.distinct]) if distinct else (several, [])


def mixing_costs(
    measured: Mapping[int, BatchExperts], shown: tuple[int, ...], traffic: Traffic, costs: BatchCosts
) -> list[MixingCost]:
    """Set batches of several tenants beside those of one.

    Parameters
    ----------
    measured
        By number of tenants; 1 is among them.
    shown
        Batch sizes, for which the formula is there.
    traffic
        Context lengths, held the same.
    """
    one = measured[1]
    most = len(costs.base_ms)

    def ms(U: NDArray[np.float64]) -> NDArray[np.float64]:
        return costs.round_ms(U[..., :most, :], traffic.context_len)

    def formula_ms(each: BatchExperts) -> NDArray[np.float64]:
        U = np.full_like(one.mean, np.nan)
        U[np.array(shown) - 1] = each.popularity
        return ms(U)

    found = []
    alone = formula_ms(one)
    for count, several in sorted(measured.items()):
        extra_ms = ms(several.mean) - ms(one.mean)
        by_formula = formula_ms(several) / alone - 1
        left_ms, left_one = ms(several.left_out), ms(one.left_out)
        halves = [
            half_widths(each)
            for each in (
                several.left_out,
                several.left_out - one.left_out,
                left_ms - left_one,
                left_ms / left_one - 1,
            )
        ]
        for i, B in enumerate(shown):
            if not count <= B <= most:
                continue
            for k in range(several.mean.shape[1]):
                b = B - 1
                unique, extra, time, share = (float(half[b, k]) for half in halves)
                base = float(ms(one.mean)[b, k])
                found.append(
                    MixingCost(
                        tenants=count,
                        batch_size=B,
                        draft_length=k,
                        unique_experts=float(several.mean[b, k]),
                        unique_half=unique,
                        popularity=float(several.popularity[i, k]),
                        extra=float(several.mean[b, k] - one.mean[b, k]),
                        extra_half=extra,
                        extra_formula=float(several.popularity[i, k] - one.popularity[i, k]),
                        extra_ms=float(extra_ms[b, k]),
                        extra_ms_half=time,
                        share=float(extra_ms[b, k]) / base,
                        share_half=share,
                        share_formula=float(by_formula[b, k]),
                        distinct=min(one.distinct_to, several.distinct_to) >= B,
                    )
                )
    return found
