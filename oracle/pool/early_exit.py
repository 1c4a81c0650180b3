"""Early exit when the rows of a batch go through the layers in lockstep: exact expectations.

A token leaves after layer d with probability p_d, independently in each of B rows; F is the distribution function of d
and G(l) = P(d >= l). A layer takes 1 + r·rows, with r = 1/rows_that_double (0: it only reads weights). Out of
L (1 + r B) for a step in which nobody leaves,

    lockstep    (1 + r B) · E[max d],              E[max d] = Σ_{l=0}^{L-1} (1 - F(l)^B)
    compaction  E[max d] + r B · E[d] + κ · E[compactions]
    refilling   (1 + r B) · E[d]

where a compaction follows every layer after which some rows leave and some stay. Even compaction reads the weights of
every layer that one row still needs. Refilling gives each freed row to another token at once: the bound.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oracle.errors import Faults
from oracle.pool.ranges import COUNT, NOT_NEGATIVE, POSITIVE, check_ranges

Numbers = NDArray[np.float64]
_ROUNDING = 1e-9
MOST_BATCH = 1 << 20


@dataclass(frozen=True)
class EarlyExit:
    """Where tokens leave.

    Attributes
    ----------
    layers
        L, of the whole model.
    exit_layers, probabilities
        Layers after which tokens leave, rising, and p_d; the rest goes through all.
    rows_that_double
        Rows at which a layer takes twice what reading its weights takes; None: rows add nothing.
    compaction_layers
        κ, what one compaction takes, in times a layer takes to read its weights.
    """

    layers: int
    exit_layers: tuple[int, ...]
    probabilities: tuple[float, ...]
    rows_that_double: float | None = None
    compaction_layers: float = 0.0

    @property
    def row_time(self) -> float:
        """r, what a row adds to a layer, in times the layer takes to read its weights."""
        return 0.0 if self.rows_that_double is None else 1 / self.rows_that_double

    @property
    def leaving(self) -> Numbers:
        """(L,) float64, probability to leave after each layer; the last one takes the rest."""
        p = np.zeros(self.layers)
        p[np.array(self.exit_layers, dtype=np.intp) - 1] = self.probabilities
        p[-1] += max(0.0, 1 - float(np.sum(self.probabilities)))
        return p

    def check(self, place: str, faults: Faults) -> None:
        """Note what is out of range."""
        rules = {"layers": COUNT, "rows_that_double": POSITIVE, "compaction_layers": NOT_NEGATIVE}
        check_ranges(self, rules, place, faults)
        if not self.exit_layers:
            faults.add(f"{place}exit_layers is empty; give the layers after which tokens leave")
        if len(self.exit_layers) != len(self.probabilities):
            faults.add(
                f"{place}exit_layers has {len(self.exit_layers)} values and probabilities has "
                f"{len(self.probabilities)}; they go together one by one"
            )
        for i, layer in enumerate(self.exit_layers):
            if layer != int(layer) or not 1 <= layer <= self.layers:
                faults.add(f"{place}exit_layers[{i}] is {layer:g}; it is a whole number from 1 to {self.layers}")
            elif i and layer <= self.exit_layers[i - 1]:
                faults.add(
                    f"{place}exit_layers[{i}] is {layer:g} after {self.exit_layers[i - 1]:g}; layers rise strictly"
                )
        for i, p in enumerate(self.probabilities):
            if not 0 <= p <= 1:
                faults.add(f"{place}probabilities[{i}] is {p:g}; a probability lies in [0, 1]")
        total = float(np.sum(self.probabilities))
        if total > 1 + _ROUNDING:
            faults.add(f"{place}probabilities sum to {total:g}; tokens leave once, so the sum is at most 1")


@dataclass(frozen=True)
class Savings:
    """Shares of a step's time that early exit saves, by batch size; negative where compaction costs more than it saves.

    Attributes
    ----------
    batch : (n,) float64
        B.
    lockstep, compaction, refilling : (n,) float64
        As the module states them.
    deepest : (n,) float64
        E[max d], layers that a step goes through.
    """

    batch: Numbers
    lockstep: Numbers
    compaction: Numbers
    refilling: Numbers
    deepest: Numbers


def savings(exits: EarlyExit, batch: ArrayLike) -> Savings:
    """Give the expected savings at batch sizes from 1 on."""
    B = np.asarray(batch, dtype=np.float64)
    L, r, p = exits.layers, exits.row_time, exits.leaving
    F = np.minimum(np.concatenate([[0.0], np.cumsum(p)]), 1.0)  # F[l] = P(d <= l)
    F[-1] = 1.0
    deepest = (1 - F[:-1] ** B[..., None]).sum(axis=-1)
    depth = float((1 - F[:-1]).sum())
    some_stay = 1 - F[1:] ** B[..., None]
    none_leaves = np.maximum(0.0, (1 - p) ** B[..., None] - F[:-1] ** B[..., None])  # and some stay
    compactions = (some_stay - np.minimum(some_stay, none_leaves)).sum(axis=-1)
    whole = L * (1 + r * B)
    compacted = deepest + r * B * depth + exits.compaction_layers * compactions
    return Savings(B, 1 - deepest / L, 1 - compacted / whole, np.full(B.shape, 1 - depth / L), deepest)


def largest_batch_saving(exits: EarlyExit, share: float) -> int:
    """Give the largest batch size at which lockstep still saves so much of a step; 0 where no batch size does.

    What lockstep saves falls as the batch grows, so the search halves. Where every token leaves early it never falls
    below what the deepest exit leaves: then the largest that is looked at.
    """

    def enough(batch: int) -> bool:
        return float(savings(exits, batch).lockstep) >= share

    if not enough(1):
        return 0
    low, high = 1, MOST_BATCH + 1
    if enough(MOST_BATCH):
        return MOST_BATCH
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low
