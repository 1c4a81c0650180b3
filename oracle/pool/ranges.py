"""Ranges in which the numbers of a memory plan lie."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oracle.errors import Faults


@dataclass(frozen=True)
class Range:
    """Where a finite number lies; `whole` asks for a whole one, with both ends."""

    least: float = -math.inf
    above: float = -math.inf
    most: float = math.inf
    below: float = math.inf
    whole: bool = False

    def fault(self, value: float) -> str | None:
        """Say in words what is wrong with a value; None if nothing is."""
        within = math.isfinite(value) and self.least <= value <= self.most and self.above < value < self.below
        if within and not (self.whole and value != int(value)):
            return None
        if self.whole and math.isfinite(self.least) and math.isfinite(self.most):
            return f"is {value:g}; it is a whole number from {self.least:,.0f} to {self.most:,.0f}"
        bounds = (("at least", self.least), ("above", self.above), ("at most", self.most), ("below", self.below))
        rules = [f"{word} {bound:g}" for word, bound in bounds if math.isfinite(bound)]
        share = self.most == 1 and 1 < value <= 100
        slip = f"; a percentage is written as a fraction: {value / 100:g}" if share else ""
        return f"is {value:g}; it is a finite number {' and '.join(rules)}{slip}"


_MOST = 1e18  # of anything: beyond, products no longer fit into float64
POSITIVE = Range(above=0, most=_MOST)
NOT_NEGATIVE = Range(least=0, most=_MOST)
SHARE = Range(least=0, most=1)
COUNT = Range(least=1, most=1e9, whole=True)


def within(value: float, rule: Range, place: str, faults: Faults) -> bool:
    """Note a value that is out of its range; True if it lies in it."""
    said = rule.fault(value)
    if said is not None:
        faults.add(f"{place} {said}")
    return said is None


def check_ranges(thing: Any, rules: Mapping[str, Range], place: str, faults: Faults) -> None:
    """Note every attribute of `thing` that is out of its range; None is not there and passes."""
    for name, rule in rules.items():
        value = getattr(thing, name)
        if value is not None:
            within(value, rule, f"{place}{name}", faults)
