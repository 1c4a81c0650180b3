"""Unique experts that the tokens of a pass touch: as measured, else by the uniform formula.

Tokens of one request share more experts than tokens of different ones, so that a round of n tenants with k draft tokens
each touches fewer than n (k + 1) tenants without drafts. Hence rows may say which draft length they were measured at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from oracle.crossover.formulas import uniform_unique_experts
from oracle.errors import MOST_DRAFT_TOKENS, Faults
from oracle.pool.ranges import COUNT, POSITIVE, Range, check_ranges

Numbers = NDArray[np.float64]
_LENGTH = Range(least=0, most=MOST_DRAFT_TOKENS, whole=True)


@dataclass(frozen=True)
class UniqueExperts:
    """Unique experts a layer, mean, that so many tokens of a pass touched, as measured.

    Attributes
    ----------
    tokens
        Of all tenants in the pass: tenants times (draft length + 1).
    experts
        Mean over layers and passes.
    draft_length
        Of the rounds that were measured, 0 for plain steps; None: for every draft length without rows of its own.
    """

    tokens: int
    experts: float
    draft_length: int | None = None


def measured_at(rows: Sequence[UniqueExperts], draft_length: int) -> list[UniqueExperts]:
    """Give the rows of a draft length, else those of none."""
    own = [row for row in rows if row.draft_length == draft_length]
    return own or [row for row in rows if row.draft_length is None]


def unique_experts(
    rows: Sequence[UniqueExperts], positions: Numbers, draft_length: int, experts: int, top_k: int
) -> Numbers:
    """Unique experts a layer: measured and on lines between, else by the uniform formula.

    Beyond the largest number of tokens measured, of the experts not touched by then the share that the formula says.
    """
    formula = uniform_unique_experts(positions, experts, top_k)
    known = measured_at(rows, draft_length)
    if not known:
        return formula
    x = np.array([1.0, *(float(row.tokens) for row in known if row.tokens > 1)])
    y = np.array([float(top_k), *(row.experts for row in known if row.tokens > 1)])
    last = float(uniform_unique_experts(x[-1], experts, top_k))
    more = np.zeros(positions.shape) if last >= experts else (formula - last) / (experts - last)
    return np.asarray(np.where(positions <= x[-1], np.interp(positions, x, y), y[-1] + (experts - y[-1]) * more))


def check_unique_experts(
    rows: Sequence[UniqueExperts], experts: int | None, top_k: int | None, place: str, faults: Faults
) -> None:
    """Note measured unique experts that no routing gives."""
    if not rows:
        return
    if experts is None or top_k is None:
        faults.add(f"{place}: the model's experts are not stated; add them, or leave unique_experts out")
        return
    for i, each in enumerate(rows, 1):
        check_ranges(each, {"tokens": COUNT, "experts": POSITIVE, "draft_length": _LENGTH}, f"{place} {i}: ", faults)
        most = min(float(experts), float(each.tokens) * top_k)
        if not top_k <= each.experts <= most:
            faults.add(
                f"{place} {i}: experts is {each.experts:g}; {each.tokens:g} tokens touch from {top_k:g} to {most:g}"
            )
    for length in dict.fromkeys(row.draft_length for row in rows):
        for (_, before), (i, each) in pairwise(
            [(i, row) for i, row in enumerate(rows, 1) if row.draft_length == length]
        ):
            if each.tokens <= before.tokens or each.experts < before.experts:
                faults.add(
                    f"{place} {i}: tokens rise strictly and experts never fall from one row to the next of a draft "
                    "length; sort the rows"
                )
