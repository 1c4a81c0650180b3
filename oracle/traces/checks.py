"""The checks of values that have been read: each names the generation, the position, the rule and the way out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import Faults, printable
from oracle.traces.schema import MATCH_KINDS, MOST_EXPERTS

# A product of probabilities that was rounded to float32 may rise by a few units in the last place.
_SURVIVAL_SLACK = 8 * float(np.finfo(np.float32).eps)
# Means over layers of growing integer counts, rounded to float32.
_MEAN_SLACK = 4 * float(np.finfo(np.float32).eps)
_MOST_INT16 = 2**15 - 1


@dataclass(frozen=True)
class Places:
    """Names the places of a batch in messages, and notes faults at them.

    Attributes
    ----------
    source
        File name.
    ids
        Generation ids, None where null.
    offsets : (G + 1,) int64
        Where each generation begins in the position arrays.
    first_row
        The file's row number of the first generation, for generations without an id.
    """

    source: str
    ids: Sequence[str | None]
    offsets: NDArray[np.int64]
    first_row: int = 0

    def generation(self, g: int) -> str:
        """Name generation number `g` of the batch."""
        name = self.ids[g]
        shown = f"row {self.first_row + g}" if name is None else f"generation '{printable(name)}'"
        return f"{self.source}, {shown}" if self.source else shown

    def note(
        self,
        faults: Faults,
        bad: NDArray[Any] | np.bool_,
        describe: Callable[[int], str],
        offsets: NDArray[np.int64] | None = None,
        unit: str = "position",
    ) -> None:
        """Note the first bad entry of each generation.

        Parameters
        ----------
        bad
            (N,) bool, or ascending indices of the bad entries.
        describe
            Gives rule, value and way out for the index of an entry.
        offsets
            Where each generation begins, if not in the position arrays.
        """
        offsets = self.offsets if offsets is None else offsets
        indices = np.flatnonzero(bad) if bad.dtype == np.bool_ else np.asarray(bad)
        of = np.searchsorted(offsets, indices, side="right") - 1
        generations, first, counts = np.unique(of, return_index=True, return_counts=True)
        for g, i, count in zip(generations, indices[first], counts, strict=True):
            more = f" (and {count - 1} more {unit}s of this generation)" if count > 1 else ""
            faults.add(f"{self.generation(int(g))}, {unit} {i - offsets[g]}: {describe(int(i))}{more}")


def check_probabilities(name: str, values: NDArray[np.float32], places: Places, faults: Faults) -> bool:
    """Check that probabilities of shape (N,) or (N, K) lie in [0, 1]; say whether they do."""
    if values.size == 0 or (values.min() >= 0 and values.max() <= 1):  # a NaN fails both comparisons
        return True
    good = (values >= 0) & (values <= 1)
    by_depth = values.ndim == 2

    def describe(i: int) -> str:
        j = int(np.argmin(good[i])) if by_depth else 0
        value = float(values[i, j] if by_depth else values[i])
        cell = f"{name}[{j}]" if by_depth else name
        if np.isnan(value):
            way_out = (
                "Pad cells past the end of a text with 0" if by_depth else "Leave the generation out if it is unknown"
            )
            return f"{cell} is NaN; a probability lies in [0, 1]. {way_out}"
        residue = -1e-4 < value < 1.0001
        way_out = "Clip the rounding residue when recording" if residue else "Was a logarithm or a ratio recorded?"
        return f"{cell} is {value:.9g}; a probability lies in [0, 1]. {way_out}"

    places.note(faults, ~(good.all(axis=1) if by_depth else good), describe)
    return False


def conditional_of(survival: NDArray[np.float32], places: Places, faults: Faults) -> NDArray[np.float32]:
    """Turn survival products into conditional match probabilities.

    Parameters
    ----------
    survival : (N, K) float32
        S_1 … S_K of each position.

    Returns
    -------
    (N, K) float32
        S_j / S_{j-1}, with S_0 = 1 and 0/0 = 0.
    """
    products = survival.astype(np.float64)
    before = np.ones_like(products)
    before[:, 1:] = products[:, :-1]
    rises = products > before * (1 + _SURVIVAL_SLACK)

    def describe(i: int) -> str:
        j = int(np.argmax(rises[i]))
        return (
            f"match_probs[{j}] is {products[i, j]:.9g} after {before[i, j]:.9g}; a survival product never rises. "
            "If these are conditional probabilities, say --match-is conditional"
        )

    places.note(faults, rises.any(axis=1), describe)
    ratio = np.divide(products, before, out=np.zeros_like(products), where=before > 0)
    return np.minimum(ratio, 1.0).astype(np.float32)


def check_ids(experts: NDArray[Any], num_experts: int, places: Places, faults: Faults) -> None:
    """Check that expert ids of shape (N, layers, top_k) are below `num_experts`."""
    largest = np.iinfo(experts.dtype).max
    if experts.size == 0 or num_experts > largest or int(experts.max()) < num_experts:
        return
    bad = experts >= num_experts

    def describe(i: int) -> str:
        layer, slot = (int(x) for x in np.argwhere(bad[i])[0])
        return (
            f"experts[layer {layer}, slot {slot}] is {experts[i, layer, slot]}; num_experts is {num_experts}, so ids "
            f"lie in 0 … {num_experts - 1}. Was padding ({largest} or -1) left in, or num_experts too low?"
        )

    places.note(faults, bad.any(axis=(1, 2)), describe)


def check_new_experts(counts: NDArray[np.uint16], target: tuple[int, int, int], places: Places, faults: Faults) -> None:
    """Check counts of new experts, (N, K + 1): they fall with j and add up to at most all experts.

    Cells with j > i reach before the generation's begin; they are ignored. `target` is layers, top_k, num_experts.
    """
    layers, top_k, num_experts = target
    own = counts[:, 0] if counts.shape[1] else np.zeros(len(counts), np.uint16)
    places.note(
        faults,
        (own < layers) | (own > layers * top_k),
        lambda i: (
            f"new_experts[0] is {own[i]}; it is the sum over {layers} layers of a token's own experts, so it lies in "
            f"{layers} … {layers * top_k}. Was a mean over layers recorded?"
        ),
    )
    lengths = np.diff(places.offsets)
    row = np.arange(len(counts)) - np.repeat(places.offsets[:-1], lengths)
    known = row[:, None] >= np.arange(counts.shape[1])
    rises = (counts[:, 1:] > counts[:, :-1]) & known[:, 1:]

    def describe_rise(i: int) -> str:
        j = int(np.argmax(rises[i])) + 1
        return (
            f"new_experts[{j}] is {counts[i, j]} after {counts[i, j - 1]}; a longer window before a position never "
            "leaves it more new experts. Column j belongs to the window that starts j positions earlier"
        )

    places.note(faults, rises.any(axis=1), describe_rise)
    union = np.zeros(len(counts), np.int64)
    for j in range(min(counts.shape[1], len(counts))):
        union[: len(counts) - j] += np.where(known[j:, j], counts[j:, j], 0)
    places.note(
        faults,
        union > layers * num_experts,
        lambda i: (
            f"new_experts of the windows that start here add up to {union[i]}; {layers} layers of {num_experts} "
            f"experts hold {layers * num_experts}. Column j belongs to the window that starts j positions earlier"
        ),
    )


def check_unique_experts(
    values: NDArray[np.float32], top_k: int, num_experts: int, places: Places, faults: Faults
) -> None:
    """Check unique experts U(t, 0 … K), (N, K + 1): in [0, num_experts], at most (k + 1)·top_k, never falling in k."""
    ceiling = np.minimum(float(num_experts), top_k * np.arange(1.0, values.shape[1] + 1)) * (1 + _MEAN_SLACK)
    outside = ~((values >= 0) & (values <= ceiling))

    def describe_outside(i: int) -> str:
        k = int(np.argmax(outside[i]))
        value = float(values[i, k])
        if np.isnan(value):
            return f"unique_experts[{k}] is NaN; each cell is a mean number of experts. Past the end repeat the last"
        return (
            f"unique_experts[{k}] is {value:.9g}; {k + 1} tokens of a top-{top_k} model with {num_experts} experts a "
            f"layer touch 0 … {min(num_experts, top_k * (k + 1))} in a layer. Was a sum over layers recorded? "
            "It is the mean"
        )

    places.note(faults, outside.any(axis=1), describe_outside)
    falls = values[:, 1:] < values[:, :-1] * (1 - _MEAN_SLACK)

    def describe_fall(i: int) -> str:
        k = int(np.argmax(falls[i])) + 1
        return (
            f"unique_experts[{k}] is {values[i, k]:.9g} after {values[i, k - 1]:.9g}; more verified positions never "
            "touch fewer experts. Cells run over k = 0 … K"
        )

    places.note(faults, falls.any(axis=1), describe_fall)


def check_rounds(
    draft_length: NDArray[np.int64],
    advance: NDArray[np.int64],
    offsets: NDArray[np.int64],
    places: Places,
    faults: Faults,
) -> None:
    """Check logged rounds: k >= 0, 1 <= advance <= k + 1, and every round starts inside its generation."""
    places.note(
        faults,
        (draft_length < 0) | (draft_length > _MOST_INT16),
        lambda i: f"logged_draft_length is {draft_length[i]}; a draft length lies in 0 … {_MOST_INT16}",
        offsets,
        "round",
    )
    places.note(
        faults,
        (draft_length >= 0) & ((advance < 1) | (advance > draft_length + 1)),
        lambda i: (
            f"logged_advance is {advance[i]} at draft length {draft_length[i]}; an advance is accepted tokens + 1, "
            f"so it lies in 1 … {draft_length[i] + 1}. Was the number of accepted tokens recorded?"
        ),
        offsets,
        "round",
    )
    before = np.concatenate([[0], np.cumsum(advance)])[:-1]
    start = before - np.repeat(np.append(before, 0)[offsets[:-1]], np.diff(offsets))
    length = np.repeat(np.diff(places.offsets), np.diff(offsets))
    places.note(
        faults,
        start >= length,
        lambda i: (
            f"starts at position {start[i]}, but the generation has {length[i]}; logged advances before the last round "
            "add up to less than the positions. Is the token that prefill emits among them? It is no decode round"
        ),
        offsets,
        "round",
    )


def check_target(layers: int, top_k: int, num_experts: int, where: str, faults: Faults) -> bool:
    """Check the shape of the target; say whether it can be."""
    found = [
        f"{name} is {value}; it must be at least 1. A dense target has no expert columns"
        for name, value in (("layers", layers), ("top_k", top_k), ("num_experts", num_experts))
        if value <= 0
    ]
    if num_experts > MOST_EXPERTS:
        found.append(f"num_experts is {num_experts}; ids are at most uint16, so it is at most {MOST_EXPERTS}")
    if 0 < num_experts < top_k:
        found.append(f"top_k is {top_k}, num_experts is {num_experts}; a token is routed to at most all experts")
    for fault in found:
        faults.add(f"{where}: {fault}")
    return not found


def check_match_kinds(kinds: Sequence[str | None], places: Places, faults: Faults) -> None:
    """Check that each generation's match kind is one of those known."""
    known = ", ".join(MATCH_KINDS)
    for g, kind in enumerate(kinds):
        if kind is None:
            faults.add(f"{places.generation(g)}: match_kind is null; it is one of {known}")
        elif kind not in MATCH_KINDS:
            faults.add(f"{places.generation(g)}: match_kind is '{printable(kind)}'; it is one of {known}")
