"""What one core can do at best, and what a kernel needs at least: together the least time a position can take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["floating", "integer"]
MEMORY, ARITHMETIC = "memory", "arithmetic"


@dataclass(frozen=True)
class Needs:
    """What one position takes at least.

    Attributes
    ----------
    moved
        Bytes to and from memory; what stays in the caches from one position to the next is not counted.
    operations
        Additions, multiplications, comparisons …, one each; choices between two values and addresses are not counted.
    kind
        What most of them work on: float64, or 64-bit words.
    """

    moved: float
    operations: float
    kind: Kind


@dataclass(frozen=True)
class Limits:
    """What one core of this machine does at best.

    Attributes
    ----------
    bandwidth_gb_per_s
        Bytes read from memory, GB/s.
    peak_gop_per_s
        Operations by kind, thousand millions a second.
    """

    bandwidth_gb_per_s: float
    peak_gop_per_s: Mapping[str, float]

    def least_ns(self, needs: Needs) -> dict[str, float]:
        """Nanoseconds that the bytes and the operations of a position take at least; the greater one is the limit."""
        return {
            MEMORY: needs.moved / self.bandwidth_gb_per_s,
            ARITHMETIC: needs.operations / self.peak_gop_per_s[needs.kind],
        }
