"""Batches laid out for policies anew at every walk, so that memory does not grow with them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from oracle.costs import LengthCosts
from oracle.errors import InputError
from oracle.pipeline import in_order
from oracle.policies.inputs import Inputs, inputs_of
from oracle.traces import Traces

_Result = TypeVar("_Result")
NOTHING = "there is no position to learn from; give traces with positions"


class LaidOut:
    """Generations as policies see them, batch by batch.

    Parameters
    ----------
    batches
        Traces, or what was laid out already; walked over anew each time, such as `TraceFiles`.
    costs
        Cost coefficients by draft length.
    unique_experts
        `recorded`, `routing`, or None for what the traces hold.
    threads
        Batches worked on side by side; results do not depend on it.
    """

    def __init__(
        self,
        batches: Iterable[Traces | Inputs],
        costs: LengthCosts,
        unique_experts: str | None = None,
        threads: int = 1,
    ) -> None:
        self.costs = costs
        self._batches = batches
        self._unique_experts = unique_experts
        self._threads = threads

    def over(self, work: Callable[[Inputs], _Result]) -> Iterator[_Result]:
        """Walk over all batches: what `work` makes of each, in their order."""
        return in_order(partial(self._worked, work=work), self._batches, self._threads)

    def _worked(self, batch: Traces | Inputs, work: Callable[[Inputs], _Result]) -> _Result:
        return work(batch if isinstance(batch, Inputs) else inputs_of(batch, self.costs, self._unique_experts))


Batches = LaidOut | Sequence[Inputs]


def laid_out(batches: Batches) -> LaidOut:
    """Take batches that are held in memory for such as are laid out anew.

    Raises
    ------
    InputError
        There are none.
    """
    if isinstance(batches, LaidOut):
        return batches
    if not batches:
        raise InputError(NOTHING)
    return LaidOut(batches, batches[0].costs)
