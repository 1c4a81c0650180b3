"""A first walk over the traces: what training constants are made of, and how the clusters fall into folds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.latency.folds import fold_of_cluster
from oracle.policies import Inputs, Static, Training
from oracle.policies.laid_out import NOTHING, Batches, laid_out
from oracle.policies.learning import Learnt, windows_inside
from oracle.traces import Traces
from oracle.tuning.families import total_ms
from oracle.unit_sums import ArraySums, unit_beyond

FOLDS = 5


@dataclass(frozen=True, eq=False)
class Surveyed:
    """What a first walk gathers; R rows, each of one category and unit.

    Attributes
    ----------
    learnt
        What training constants are made of.
    unit : (R,) names
        Clusters, or groups of them where there are more than `MOST_UNITS`.
    tokens : (R,) float64
        Tokens emitted.
    late
        Positions among the last K - 1 of their text.
    clusters
        How many there are.
    grouped
        Whether units are groups.
    categories_apart
        Whether there were few enough categories to keep them apart.
    match_kinds
        What the match probabilities are.
    """

    learnt: Learnt
    unit: tuple[str, ...]
    tokens: NDArray[np.float64]
    late: float
    clusters: int
    grouped: bool
    categories_apart: bool
    match_kinds: frozenset[str]

    @property
    def occupied(self) -> int:
        """How many units have positions: held-out scores need two."""
        return len({name for name, tokens in zip(self.unit, self.tokens, strict=True) if tokens})

    @property
    def training(self) -> Training:
        """Constants from everything."""
        return self.learnt.training(np.ones(len(self.unit), dtype=bool))


def survey(batches: Batches) -> Surveyed:
    """Walk over all generations.

    Raises
    ------
    InputError
        There is no position to learn from.
    """
    laid = laid_out(batches)
    lengths = laid.costs.lengths
    sums = ArraySums()
    kinds: frozenset[str] = frozenset()
    for found, traces in laid.over(partial(_surveyed, lengths=lengths)):
        sums.add(found, traces.own_cluster_of, traces.category_of)
        kinds |= traces.match_kinds
    rows, category = sums.sums, tuple(name or None for name in sums.labels(0))
    if not rows or not rows["tokens"].any():
        raise InputError(NOTHING)
    return Surveyed(
        Learnt(category, rows["unique"], rows["windows"], lengths, rows["static_ms"]),
        sums.units,
        rows["tokens"],
        float(rows["late"].sum()),
        len(sums.clusters),
        sums.grouped,
        sums.apart(0),
        kinds,
    )


def _surveyed(batch: Inputs, lengths: Sequence[int]) -> tuple[dict[str, NDArray[np.float64]], Traces]:
    unique, windows = windows_inside(batch.problem)
    tokens = np.diff(batch.problem.offsets).astype(np.float64)
    arrays = {
        "tokens": tokens,
        "late": np.minimum(tokens, max(batch.problem.k_max - 1, 0)),
        "unique": unique,
        "windows": windows,
        "static_ms": total_ms(batch, [Static(k) for k in lengths]),
    }
    return arrays, batch.traces


def learn(batches: Batches) -> Training:
    """Learn the constants of online policies from all generations of some batches.

    Returns
    -------
    Training
        Mean U by draft length over windows that end inside their text (of a length without such a window: as for
        the nearest length), and the best static lengths, over all and by category.

    Raises
    ------
    InputError
        There is no position to learn from.
    """
    return survey(batches).training


@dataclass(frozen=True)
class Folds:
    """Which generations are held out together; clusters go whole.

    Attributes
    ----------
    of_unit
        The fold of each unit.
    count
        How many folds there are.
    grouped
        Whether units are groups of clusters.
    """

    of_unit: Mapping[str, int]
    count: int
    grouped: bool

    def of(self, clusters: Sequence[str]) -> NDArray[np.int64]:
        """The fold of each of some clusters."""
        units = map(unit_beyond, clusters) if self.grouped else clusters
        return np.fromiter((self.of_unit[unit] for unit in units), np.int64, len(clusters))


def folds_of(found: Surveyed, folds: int | None) -> Folds:
    """Spread units over folds of about equally many tokens; None: `FOLDS`, or as many as units with positions."""
    names = sorted(set(found.unit))
    at = {name: i for i, name in enumerate(names)}
    sizes = np.bincount([at[name] for name in found.unit], found.tokens, len(names)).astype(np.int64)
    occupied = found.occupied
    count = min(FOLDS, occupied) if folds is None else folds
    if not 2 <= count <= occupied:
        raise InputError(
            f"folds is {count}, and {occupied} clusters have positions: held-out scores need 2 to {occupied} folds"
            if occupied > 1
            else "there is one cluster with positions only; held-out scores need two: add generations"
        )
    return Folds(dict(zip(names, fold_of_cluster(sizes, count).tolist(), strict=True)), count, found.grouped)
