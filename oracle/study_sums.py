"""What a study keeps of the batches it has walked over: sums whose size does not grow with the traces."""

import numpy as np
from numpy.typing import NDArray

from oracle.ablation import ShiftSums
from oracle.analysis import BatchResult
from oracle.expert_sources import ExpertSources
from oracle.scores import ScoreSums
from oracle.unit_sums import DistinctNames, add_rows

_SOURCES = ("recorded", "routing")


class StudySums:
    """Adds up the results of batches, in the order of the traces.

    Parameters
    ----------
    k_max
        K, the longest draft length.

    Attributes
    ----------
    generations, positions, longest_context, first_unique_sum
        Of all batches; see `BatchResult`.
    match_kinds
        What the match probabilities are.
    chosen : (2, K + 1) float64
        Decisions by k*, each position 1 and weighted by visit probability.
    value_ms : () float64
        Σ V(0), milliseconds.
    scores
        Policies' totals.
    shifts
        How decisions move, by change.
    clusters
        Those that occur, counted where something is resampled.
    """

    def __init__(self, k_max: int) -> None:
        self.generations = self.positions = 0
        self.longest_context = 0.0
        self.match_kinds: frozenset[str] = frozenset()
        self.chosen = np.zeros((2, k_max + 1))
        self.value_ms = np.zeros(())
        self.scores = ScoreSums()
        self.shifts: dict[str, ShiftSums] = {}
        self.clusters = DistinctNames()
        self._first_unique = np.zeros(())
        self._sources = ExpertSources()
        self._unique = np.zeros((2, k_max + 1))
        self._has_both = False

    def add(self, result: BatchResult) -> None:
        """Take in a batch."""
        self.generations += result.generations
        self.positions += result.positions
        self.longest_context = max(self.longest_context, result.longest_context)
        self.match_kinds |= result.match_kinds
        self._sources.add(result.experts_from, result.positions)
        add_rows(self.chosen, result.chosen)
        add_rows(self.value_ms, result.value_ms)
        add_rows(self._first_unique, result.first_unique)
        if result.unique_sums is not None and result.positions:
            self._has_both = True
            add_rows(self._unique, result.unique_sums)
        if result.scores is not None:
            self.scores.add(result.scores)
            self.clusters.add(result.scores.cluster)
        for name, found in (result.shifts or {}).items():
            self.shifts.setdefault(name, ShiftSums(found.k_max)).add(found)
            if result.scores is None:
                self.clusters.add(found.cluster)

    @property
    def first_unique_sum(self) -> float:
        """Sum of U(t, 0) over the positions."""
        return float(self._first_unique)

    @property
    def experts_from(self) -> list[str]:
        """Where U comes from: batches without positions do not count, if any holds some."""
        return self._sources.names

    def mean_unique(self) -> dict[str, NDArray[np.float64]]:
        """Mean U by draft length both ways, where the traces hold both."""
        return dict(zip(_SOURCES, self._unique / self.positions, strict=True)) if self._has_both else {}
