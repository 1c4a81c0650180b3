"""Policies that do not look while they draft: static lengths, bounds, and lengths that a user brings along."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import MOST_DRAFT_TOKENS, InputError, printable
from oracle.policies.chosen import Named
from oracle.policies.inputs import Inputs
from oracle.policies.policy import Policy
from oracle.policies.sets import static
from oracle.traces.lists import BadCellsError, cells, take_apart


@dataclass(frozen=True)
class Static(Policy):
    """Draft K tokens everywhere, at the end of the text too: ``static:K``.

    Where it comes from: every engine's default (``num_speculative_tokens``, ``--spec-draft-n-max``,
    ``num_assistant_tokens``). What it may look at: nothing.
    """

    k: int

    def __post_init__(self) -> None:
        if self.k != int(self.k) or not 0 <= self.k <= MOST_DRAFT_TOKENS:
            raise InputError(f"the draft length is {self.k}; it is a whole number from 0 to {MOST_DRAFT_TOKENS}")

    def __str__(self) -> str:
        return static(self.k)

    @property
    def parameter(self) -> float:
        """K."""
        return float(self.k)

    @property
    def family(self) -> Policy:
        """K = 0."""
        return replace(self, k=0)

    def at(self, parameter: float) -> Policy:
        """With another K."""
        return Static(int(parameter))

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Named:
        """K everywhere."""
        return Named(parameters.astype(np.int16)[None])


@dataclass(frozen=True)
class Budget(Policy):
    """Draft the best static length of the generation's category: ``budget``.

    Where it comes from: operators who set one length a workload. What it may look at: the category, which the
    request carries, and the best static lengths of training generations. A category that was not seen in
    training, and a generation without one, get the best length over all training generations.
    """

    def __str__(self) -> str:
        return "budget"

    @property
    def columns(self) -> frozenset[str]:
        """The category."""
        return frozenset({"category"})

    @property
    def learns(self) -> bool:
        """Best static lengths."""
        return True

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Named:
        """Look every generation's category up."""
        category, training = inputs.traces.category, inputs.training
        if category is None:
            raise InputError(
                f"needs the column category, which {inputs.traces.source or 'the trace'} lacks; add it, or use static:K"
            )
        if training.best_static is None:
            raise InputError("needs the best static lengths of training generations; learn them from traces")
        by_category = training.best_by_category
        overall = training.best_static
        best = [overall if name is None else by_category.get(name, overall) for name in category]
        k = np.repeat(np.array(best, dtype=np.int16), np.diff(inputs.problem.offsets))
        return Named(k[:, None])


@dataclass(frozen=True)
class Oracle(Policy):
    """The optimum of the full cost model: ``oracle``.

    It looks ahead over the whole text: the bound, nothing that an engine can run.
    """

    def __str__(self) -> str:
        return "oracle"

    @property
    def online(self) -> bool:
        """It looks ahead."""
        return False

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Named:
        """k*(t)."""
        return Named(inputs.optimum.draft_length[:, None])


@dataclass(frozen=True)
class Blind(Policy):
    """The optimum of a cost model without experts, paid for at full cost: ``blind``, ``blind:refitted``.

    `blind` keeps the other coefficients; `blind:refitted` lets every length cost the mean of its experts. Both
    look ahead over the whole text: what being blind to experts costs the bound, nothing that an engine can run.
    """

    refitted: bool = False

    def __str__(self) -> str:
        return "blind:refitted" if self.refitted else "blind"

    @property
    def online(self) -> bool:
        """It looks ahead."""
        return False

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Named:
        """k0*(t)."""
        if self.refitted and inputs.refitted is None:
            raise InputError(
                "needs the mean unique experts by m in the latency model (fit.per_m), which it lacks; fit the model "
                "with draft-oracle fit, or use blind"
            )
        solution = inputs.refitted if self.refitted and inputs.refitted is not None else inputs.blind_optimum
        return Named(solution.draft_length[:, None])


@dataclass(frozen=True)
class Column(Policy):
    """Draft lengths that stand in a column of the trace, one whole number a position: ``column:NAME``.

    What it looked at is for its author to say; nothing is checked but that the lengths may be chosen.
    """

    name: str

    def __post_init__(self) -> None:
        if not self.name or "@" in self.name:
            raise InputError(f"the column is {printable(self.name)!r}; give a name without @")

    def __str__(self) -> str:
        return f"column:{self.name}"

    @property
    def columns(self) -> frozenset[str]:
        """The column."""
        return frozenset({self.name})

    @property
    def claimed(self) -> bool:
        """A length alone does not tell what it looked at."""
        return True

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Named:
        """Read the column."""
        table, offsets = inputs.traces.table, inputs.problem.offsets
        if self.name not in table.column_names:
            listed = ", ".join(printable(name, 40) for name in table.column_names[:30])
            raise InputError(f"the trace has no such column; the columns there: {listed}")
        try:
            lists = take_apart(table.column(self.name))
            values = cells(lists.items)
        except (BadCellsError, AttributeError, TypeError, NotImplementedError) as error:
            raise InputError(_NOT_LISTS) from error
        if not np.array_equal(np.diff(lists.offsets), np.diff(offsets)):
            g = int(np.flatnonzero(np.diff(lists.offsets) != np.diff(offsets))[0])
            raise InputError(
                f"generation '{printable(inputs.traces.generation[g])}' has {np.diff(offsets)[g]} positions, the "
                f"column {np.diff(lists.offsets)[g]} entries; give one draft length a position"
            )
        return Named(_whole_lengths(values, inputs))


@dataclass(frozen=True)
class Call(Policy):
    """Draft lengths from a Python function of the user: ``call:NAME`` in tables.

    Attributes
    ----------
    name
        What tables call it.
    function
        Takes the `Inputs` of a batch, gives (N,) whole numbers. What it looks at is for its author to answer for:
        `Inputs.confidence`, `Inputs.training` and the context lengths are what an engine knows.
    """

    name: str
    function: Callable[[Inputs], Any]

    def __str__(self) -> str:
        return f"call:{self.name}"

    @property
    def claimed(self) -> bool:
        """A length alone does not tell what it looked at."""
        return True

    def choose(self, inputs: Inputs, parameters: NDArray[np.float64]) -> Named:
        """Call the function."""
        return Named(_whole_lengths(np.asarray(self.function(inputs)), inputs))


_NOT_LISTS = "the column holds no list of whole numbers, one a position; give list<int16>"


def _whole_lengths(values: NDArray[Any], inputs: Inputs) -> NDArray[np.int64]:
    """Check that there is one whole number a position, 0 or more; (N, 1)."""
    n = inputs.problem.positions
    if values.shape != (n,) and n + values.size > 0:
        raise InputError(f"gives an array of shape {values.shape}; give one draft length a position, ({n},)")
    if values.dtype.kind not in "iu" and n > 0:
        raise InputError(f"gives numbers of type {values.dtype}; draft lengths are whole numbers (int16)")
    whole = values.reshape(-1).astype(np.int64)
    if (whole < 0).any():
        t = int(np.flatnonzero(whole < 0)[0])
        raise InputError(f"{place_of(t, inputs)}: the draft length is {whole[t]}; it is 0 or more")
    return whole[:, None]


def place_of(t: int, inputs: Inputs) -> str:
    """Name a position of the batch."""
    g = int(np.searchsorted(inputs.problem.offsets, t, side="right")) - 1
    name = printable(inputs.traces.generation[g])
    return f"generation '{name}', position {t - int(inputs.problem.offsets[g])}"
