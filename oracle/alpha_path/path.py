"""The exact path of the optimum along a scale s on all alpha: every breakpoint of every decision.

alpha = 0 (s = 0) and alpha as fitted (s = 1) are two points of it. Between and beyond, each decision keeps its draft
length over a few pieces; it may return to one that it had left.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.costs import LengthCosts
from oracle.errors import InputError
from oracle.problem import Problem
from oracle.result_files import list_array

S_MAX = 2.0
NONE = -1  # draft length where there is no change


@dataclass(frozen=True)
class Change:
    """The nearest change of each decision on one side of a scale.

    Attributes
    ----------
    s : (N,) float64
        Where the draft length changes; NaN where it does not.
    draft_length : (N,) int16
        The length beyond; -1 where there is none.
    """

    s: NDArray[np.float64]
    draft_length: NDArray[np.int16]


@dataclass(frozen=True)
class AlphaPath:
    """Optimal draft lengths for every scale s in [0, s_max] on all alpha.

    Attributes
    ----------
    s_max
        Where the path ends.
    piece_offsets : (N + 1,) int64
        First piece of each decision; the last entry is P.
    s_from : (P,) float64
        Where each piece begins, ascending within a decision; the first of each at 0. At a breakpoint, where two
        lengths cost the same, the piece that begins there holds. A change exactly at s_max is beyond the path.
    draft_length : (P,) int16
        k* from there on.
    """

    s_max: float
    piece_offsets: NDArray[np.int64]
    s_from: NDArray[np.float64]
    draft_length: NDArray[np.int16]

    @property
    def positions(self) -> int:
        """N, decisions."""
        return len(self.piece_offsets) - 1

    @property
    def breakpoints(self) -> NDArray[np.int64]:
        """How often each decision changes in [0, s_max), (N,)."""
        return np.diff(self.piece_offsets) - 1

    @property
    def position(self) -> NDArray[np.int64]:
        """The decision each piece belongs to, (P,)."""
        return np.repeat(np.arange(self.positions), self.breakpoints + 1)

    def draft_length_at(self, s: float) -> NDArray[np.int16]:
        """k* of every decision at a scale in [0, s_max], (N,)."""
        return self.draft_length[self._piece_at(s)]

    def change_below(self, s: float = 1.0, chosen: NDArray[np.int16] | None = None) -> Change:
        """The first change that a smaller scale than s brings: it lies at most at s.

        Parameters
        ----------
        s
            A scale in [0, s_max].
        chosen : (N,) int16
            k* at s itself, which says how a tie exactly there was decided; None: for the piece that begins there.
        """
        piece = self._piece_at(s)
        piece = piece - (self._begins_at(piece, s) & (self._before(piece) == chosen))
        first = piece == self.piece_offsets[:-1]
        return Change(
            frozen(np.where(first, np.nan, self.s_from[piece])),
            frozen(np.where(first, NONE, self._before(piece)).astype(np.int16)),
        )

    def change_above(self, s: float = 1.0, chosen: NDArray[np.int16] | None = None) -> Change:
        """The first change that a larger scale than s brings: it lies above s, or at s where a tie hides it.

        Parameters are those of `change_below`.
        """
        here = self._piece_at(s)
        tied = self._begins_at(here, s) & (
            self.draft_length[here] != (self.draft_length[here] if chosen is None else chosen)
        )
        following = here + 1 - tied
        last = following == self.piece_offsets[1:]
        piece = np.minimum(following, max(len(self.s_from) - 1, 0))
        return Change(
            frozen(np.where(last, np.nan, self.s_from[piece])),
            frozen(np.where(last, NONE, self.draft_length[piece]).astype(np.int16)),
        )

    def _begins_at(self, piece: NDArray[np.int64], s: float) -> NDArray[np.bool_]:
        """Whether a piece begins exactly at s, and another lies before it, (N,)."""
        return np.asarray((piece > self.piece_offsets[:-1]) & (self.s_from[piece] == s))

    def _before(self, piece: NDArray[np.int64]) -> NDArray[np.int16]:
        """Draft length of the piece before, (N,); of the first piece of all: its own."""
        return self.draft_length[np.maximum(piece - 1, 0)]

    @property
    def returns(self) -> NDArray[np.bool_]:
        """Whether a decision comes back to a length that it had left, (N,)."""
        longest = int(self.draft_length.max(initial=0))
        kinds = np.unique(self.position * (longest + 1) + self.draft_length)
        different = np.bincount(kinds // (longest + 1), minlength=self.positions)
        return np.asarray(different <= self.breakpoints)

    def counts_at(self, scales: NDArray[np.float64], k_max: int) -> NDArray[np.float64]:
        """Decisions by k* at each of some ascending scales, (len(scales), k_max + 1)."""
        steps = np.zeros((len(scales) + 1, k_max + 1))
        ends = np.full(len(self.s_from), np.inf)
        ends[:-1] = self.s_from[1:]
        ends[self.piece_offsets[1:] - 1] = np.inf
        np.add.at(steps, (np.searchsorted(scales, self.s_from), self.draft_length), 1.0)
        np.add.at(steps, (np.searchsorted(scales, ends), self.draft_length), -1.0)
        return np.cumsum(steps, axis=0)[:-1]

    def _piece_at(self, s: float) -> NDArray[np.int64]:
        """The piece of every decision that holds at a scale, (N,)."""
        if not 0.0 <= s <= self.s_max:
            raise ValueError(f"s is {s}; the path covers 0 … {self.s_max}")
        begun = np.concatenate([[0], np.cumsum(self.s_from <= s)])
        return self.piece_offsets[:-1] + np.diff(begun[self.piece_offsets]) - 1


def alpha_path(problem: Problem, costs: LengthCosts, s_max: float = S_MAX) -> AlphaPath:
    """Find the optimal draft length of every decision for every scale s in [0, s_max] on all alpha.

    The method is exact: no grid and no search, up to the rounding of float64 sums.

    Parameters
    ----------
    problem
        A batch of generations.
    costs
        Cost coefficients by draft length, for the same K; they are the path's point s = 1.
    s_max
        Where the path ends; a finite number of at least 1.

    Raises
    ------
    InputError
        An s_max that does not reach s = 1, or no end.
    """
    from kernels.scale_path import scale_path  # noqa: PLC0415  # numba is slow to import

    check_s_max(s_max)
    if costs.k_max != problem.k_max:
        raise ValueError(f"costs reach k = {costs.k_max}, the problem k = {problem.k_max}; lay both out for one k_max")
    piece_offsets, s_from, draft_length = scale_path(
        problem.survival,
        problem.unique_experts,
        problem.context_len,
        frozen(costs.base_ms),
        frozen(costs.alpha_ms),
        frozen(costs.context_ms),
        problem.offsets,
        float(s_max),
    )
    return AlphaPath(float(s_max), frozen(piece_offsets), frozen(s_from), frozen(draft_length))


def check_s_max(s_max: float) -> None:
    """Raise unless a path to `s_max` contains s = 1 and ends."""
    if not 1.0 <= s_max < np.inf:
        raise InputError(
            f"the path of scales on alpha ends at {s_max}; it must reach alpha as fitted, s = 1, and end somewhere: "
            f"give a finite number of at least 1 (--s-max {S_MAX:g})"
        )


def scaled(costs: LengthCosts, s: float) -> LengthCosts:
    """The same costs with all alpha multiplied by s."""
    return replace(costs, alpha_ms=costs.alpha_ms * s)


def alpha_path_table(
    path: AlphaPath, generation: tuple[str, ...], offsets: NDArray[np.int64], chosen: NDArray[np.int16] | None = None
) -> pa.Table:
    """The path of a batch as rows of a file: one row a generation, list columns over its positions.

    Parameters
    ----------
    generation
        Names, G.
    offsets : (G + 1,) int64
        First position of each generation.
    chosen : (N,) int16
        k* at s = 1, which says how ties exactly there were decided.

    Returns
    -------
    `generation`; `s_from` and `draft_length`, for each position the list of its pieces; `first_change_below` and
    `first_change_above`, the scales nearest to s = 1 at which the position's length changes, and the lengths beyond;
    those of a side are null where it does not change on that side as far as the path goes.
    """

    def pieces(values: NDArray[np.generic]) -> pa.Array:
        return list_array(list_array(pa.array(values), path.piece_offsets), offsets)

    def nearest(values: NDArray[np.generic], change: Change) -> pa.Array:
        return list_array(pa.array(values, mask=np.isnan(change.s)), offsets)

    below, above = path.change_below(1.0, chosen), path.change_above(1.0, chosen)
    return pa.table(
        {
            "generation": pa.array(generation, pa.string()),
            "s_from": pieces(path.s_from),
            "draft_length": pieces(path.draft_length),
            "first_change_below": nearest(below.s, below),
            "draft_length_below": nearest(below.draft_length, below),
            "first_change_above": nearest(above.s, above),
            "draft_length_above": nearest(above.draft_length, above),
        }
    )
