"""Shifts counted over generations: how often a change of the costs moves a decision, and which."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.ablation.shifts import Shifts
from oracle.ablation.terms import TERMS
from oracle.intervals import Interval
from oracle.resampling import bootstrap, cluster_sums
from oracle.unit_sums import UnitSums, add_rows

_FIRST = 4  # columns of `ShiftTally.counts` before those by k*
_MOST_ROWS = 40_000  # categories times units; sums of some 700 bytes each, for every change


@dataclass(frozen=True)
class GenerationShifts:
    """Shifts under one change, counted by generation and pair of lengths.

    Attributes
    ----------
    cluster, category
        Name of each generation's cluster and category ("" where the trace has none), G.
    k_max
        K.
    offsets : (G + 1,) int64
        Where each generation begins in the two arrays that follow, which have an entry a pair that occurs in it.
    pair : (R,) int64
        k* (K + 1) + k', ascending within a generation.
    sums : (R, 10) float64
        Decisions; the same weighted by visit probability; sums of `Shifts.terms_ms` and of
        `Shifts.continuation_change_ms`, milliseconds.
    value_ms : (G,) float64
        Cost of the optimum under the changed costs, milliseconds.
    """

    cluster: tuple[str, ...]
    category: tuple[str, ...]
    k_max: int
    offsets: NDArray[np.int64]
    pair: NDArray[np.int64]
    sums: NDArray[np.float64]
    value_ms: NDArray[np.float64]


@dataclass(frozen=True)
class ShiftTally:
    """Shifts under one change, counted, once a decision and once by visit probability.

    Attributes
    ----------
    cluster, category
        Name of each row's unit of resampling (see `UnitSums`) and category ("" where the trace has none), U.
    counts : (U, 2, 4 + 2 (K + 1)) float64
        By row and weight (each position 1; visit probability): decisions; longer under the changed costs;
        shorter; sum of shifts, tokens; longer, by k* = 0 … K; shorter, by k* = 0 … K.
    transitions : (2, K + 1, K + 1) float64
        By weight, k* and k', over all generations.
    terms_ms : (2, K + 1, 7) float64, milliseconds
        Sum of `Shifts.terms_ms` over the decisions that get longer, and shorter, by k*; each position 1.
    continuation_change_ms : (2, K + 1) float64, milliseconds
        Sum of `Shifts.continuation_change_ms` likewise.
    value_ms
        Cost of the optimum under the changed costs, milliseconds.
    categories_apart
        False: there were more than `MOST_CATEGORIES`, so none is kept.
    groups
        So many groups of clusters the units are; None: they are clusters.
    """

    cluster: tuple[str, ...]
    category: tuple[str, ...]
    counts: NDArray[np.float64]
    transitions: NDArray[np.float64]
    terms_ms: NDArray[np.float64]
    continuation_change_ms: NDArray[np.float64]
    value_ms: float
    categories_apart: bool = True
    groups: int | None = None


def tally(
    found: Shifts,
    offsets: NDArray[np.int64],
    cluster: tuple[str, ...],
    k_max: int,
    category: tuple[str, ...] | None = None,
    value_ms: NDArray[np.float64] | None = None,
) -> GenerationShifts:
    """Count the shifts of a batch."""
    generations, pairs = len(offsets) - 1, (k_max + 1) ** 2
    pair = found.draft_length.astype(np.int64) * (k_max + 1) + found.changed_length
    cell, at = np.unique(np.repeat(np.arange(generations), np.diff(offsets)) * pairs + pair, return_inverse=True)
    weights = (None, found.visit_prob, *found.terms_ms.T, found.continuation_change_ms)
    return GenerationShifts(
        cluster=cluster,
        category=category or ("",) * generations,
        k_max=k_max,
        offsets=np.searchsorted(cell, np.arange(generations + 1) * pairs),
        pair=cell % pairs,
        sums=np.stack([np.bincount(at, w, len(cell)) for w in weights], axis=1),
        value_ms=np.zeros(generations) if value_ms is None else value_ms,
    )


class ShiftSums:
    """Adds up the shifts of batches, in order and in bounded memory; `K` is the longest draft length."""

    def __init__(self, k_max: int) -> None:
        self._units = UnitSums(2 * (_FIRST + 2 * (k_max + 1)), most_rows=_MOST_ROWS)
        self._pairs = np.zeros(((k_max + 1) ** 2, 3 + len(TERMS)))
        self._value_ms = np.zeros(())
        self._width = k_max + 1

    def add(self, found: GenerationShifts) -> None:
        """Take in a batch."""
        self._units.add(self._counts(found), found.cluster, found.category)
        np.add.at(self._pairs, found.pair, found.sums)
        add_rows(self._value_ms, found.value_ms)

    def tally(self) -> ShiftTally:
        """Everything taken in so far."""
        width, units = self._width, self._units
        pairs = self._pairs.reshape(width, width, -1)
        k, changed = np.indices((width, width))
        moved = np.stack(
            [np.where((changed > k)[:, :, None], pairs, 0.0), np.where((changed < k)[:, :, None], pairs, 0.0)]
        )
        by_length = moved.sum(axis=2)
        return ShiftTally(
            cluster=units.units,
            category=units.categories,
            counts=units.sums.reshape(-1, 2, _FIRST + 2 * width),
            transitions=np.moveaxis(pairs[:, :, :2], 2, 0).copy(),
            terms_ms=by_length[:, :, 2:-1],
            continuation_change_ms=by_length[:, :, -1],
            value_ms=float(self._value_ms),
            categories_apart=units.categories_apart,
            groups=units.groups,
        )

    def _counts(self, found: GenerationShifts) -> NDArray[np.float64]:
        """What `ShiftTally.counts` says, of each generation, laid out flat."""
        generations, width = len(found.cluster), self._width
        k, changed = np.divmod(found.pair, width)
        of = np.repeat(np.arange(generations), np.diff(found.offsets))
        counts = np.zeros((generations, 2, _FIRST + 2 * width))
        for w in (0, 1):
            weight = found.sums[:, w]
            for column, value in enumerate(
                (weight, weight * (changed > k), weight * (changed < k), weight * (changed - k))
            ):
                np.add.at(counts[:, w, column], of, value)
            for first, moves in ((_FIRST, changed > k), (_FIRST + width, changed < k)):
                np.add.at(counts[:, w], (of[moves], first + k[moves]), weight[moves])
        return counts.reshape(generations, -1)


def join(parts: Sequence[GenerationShifts]) -> ShiftTally:
    """Add up the shifts of several batches."""
    sums = ShiftSums(parts[0].k_max)
    for part in parts:
        sums.add(part)
    return sums.tally()


def categories_of(found: ShiftTally) -> tuple[str, ...]:
    """The categories that have names, sorted."""
    return tuple(sorted(set(found.category) - {""}))


@dataclass(frozen=True)
class Prevalence:
    """Share of decisions that change, with intervals; position-weighted and visit-weighted.

    `boundary` is `k* → longer` or `k* → shorter`, `any`, `longer` or `shorter` over all k*, or `shift`: the mean
    change in draft tokens, of which `decisions` counts all that were looked at. `clusters` were resampled.
    """

    boundary: str
    decisions: int
    share: float
    interval: Interval | None
    visit_share: float
    visit_interval: Interval | None
    clusters: int = 0


def prevalence(found: ShiftTally, category: str | None = None) -> list[Prevalence]:
    """How often the change moves a boundary, over all decisions or those of one category.

    Returns
    -------
    Rows `any`, `longer`, `shorter`, `shift`, and by k*; none if there is no decision.
    """
    width = found.transitions.shape[1]
    labels = ["any", "longer", "shorter", "shift"]
    labels += [f"{k} → {word}" for word in ("longer", "shorter") for k in range(width)]
    chosen = [g for g, name in enumerate(found.category) if category is None or name == category]

    def shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = sums.reshape(len(sums), 2, _FIRST + 2 * width)
        moved = np.concatenate([sums[:, :, 1:2] + sums[:, :, 2:3], sums[:, :, 1:]], axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            return (moved / sums[:, :, :1]).reshape(len(sums), -1)

    counts = found.counts[chosen].reshape(len(chosen), 2 * (_FIRST + 2 * width))
    per_cluster, names = cluster_sums(counts, [found.cluster[g] for g in chosen])
    everything = per_cluster.sum(axis=0)
    if not chosen or everything[0] == 0:
        return []
    point = shares(everything[None])[0].reshape(2, -1)
    intervals = bootstrap(per_cluster, shares)
    decisions = everything.reshape(2, -1)[0]
    moved = [decisions[1] + decisions[2], decisions[1], decisions[2], decisions[0], *decisions[_FIRST:]]
    return [
        Prevalence(
            boundary=label,
            decisions=round(float(moved[i])),
            share=float(point[0, i]),
            interval=intervals[i],
            visit_share=float(point[1, i]),
            visit_interval=intervals[len(labels) + i],
            clusters=len(names),
        )
        for i, label in enumerate(labels)
    ]
