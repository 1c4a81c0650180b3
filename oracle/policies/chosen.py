"""What rules choose, before it meets the draft lengths that the latency model has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Steps = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Named:
    """Draft lengths that rules name outright; another length would be another policy.

    Attributes
    ----------
    draft_length : (N, P) or (1, P) integer
        Draft tokens to verify; one row: the same everywhere.
    """

    draft_length: NDArray[Any]

    def capped(self, shortest: int | None, longest: int | None) -> "Named":
        """The same within bounds."""
        return Named(np.clip(self.draft_length, shortest, longest))


@dataclass(frozen=True, eq=False)
class Stopping:
    """Rules that go from one draft length to the next while cost <= price * gain, as `kernels.stopping` walks them.

    Where a rule stops at a length that may not be chosen, it verifies the next shorter one that may, or the shortest.

    Attributes
    ----------
    steps
        Takes a slice of positions; gives the cost, (S, rows), and the gain, (S, rows) or (S, 1) where it is equal
        from every position, of the step s from each of them. A gain is 0 or more.
    price : (P,) float64
        What tells the rules apart.
    verified : (S + 1,) int
        Draft tokens to verify, by the step before which a rule stops.
    drafted : (S + 1,) int, or None
        Draft steps made; None: as many as are verified.
    """

    steps: Callable[[slice], Steps]
    price: NDArray[np.float64]
    verified: NDArray[np.int64]
    drafted: NDArray[np.int64] | None

    @classmethod
    def along(
        cls,
        lengths: Sequence[int],
        steps: Callable[[slice], Steps],
        price: NDArray[np.float64],
        *,
        keep: bool,
        looks: bool,
    ) -> "Stopping":
        """Rules along S + 1 draft lengths.

        Parameters
        ----------
        keep
            Whether the step at which drafting stops is verified too.
        looks
            Whether a step is drafted before it is judged, and so paid for.
        """
        stopped = np.array(lengths)
        judged = np.append(stopped[1:], stopped[-1])
        return cls(steps, price, judged if keep else stopped, judged if looks else None)

    def capped(self, shortest: int | None, longest: int | None) -> "Stopping":
        """The same within bounds; no step is drafted beyond the upper one."""
        drafted = None if self.drafted is None else np.clip(self.drafted, shortest, longest)
        return replace(self, verified=np.clip(self.verified, shortest, longest), drafted=drafted)


Chosen = Named | Stopping
