"""Absolute percentage errors of many variants over the same rounds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oracle.latency.diagnostics.fold_errors import OverFolds, over_folds
from oracle.latency.evidence import Evidence
from oracle.latency.forms import RESPONSE
from oracle.latency.metrics import Coefficients
from oracle.latency.moments import Floats, Integers


@dataclass(frozen=True)
class PercentageTable:
    """Sums of absolute percentage errors by fold and m.

    Parameters
    ----------
    ms
        The M numbers of verified positions.
    sums, rounds
        (F, M) float64: sum of the errors in percent, and rounds that have one.
    """

    ms: tuple[int, ...]
    sums: Floats
    rounds: Floats

    def over_folds(self, m: int | None = None) -> OverFolds:
        """MAPE of each fold in percent, over all m or at one."""
        at = slice(None) if m is None else [self.ms.index(m)]
        with np.errstate(divide="ignore", invalid="ignore"):
            return over_folds(self.sums[:, at].sum(axis=1) / self.rounds[:, at].sum(axis=1))

    def together(self, m: int | None = None) -> float | None:
        """MAPE of all rounds in percent, over all m or at one; None where nothing is predicted."""
        at = slice(None) if m is None else [self.ms.index(m)]
        rounds = float(self.rounds[:, at].sum())
        return float(self.sums[:, at].sum()) / rounds if rounds else None


def mape_gain_percent(before: PercentageTable, after: PercentageTable) -> OverFolds:
    """By how many percentage points `after` lowers the MAPE of `before`, fold by fold, where both predict."""
    both = (before.rounds > 0) & (after.rounds > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.where(both, before.sums - after.sums, 0.0).sum(axis=1) / np.where(both, after.rounds, 0.0).sum(
            axis=1
        )
    return over_folds(change)


class LaidOutRounds:
    """Columns of the rounds sorted by (fold, m), each sorted when it is first asked for."""

    def __init__(self, evidence: Evidence) -> None:
        self.ms = evidence.moments.ms
        self._folds = max(evidence.folds, 1)
        key = evidence.fold_of_round * len(self.ms) + np.searchsorted(self.ms, evidence.m)
        small = np.uint16 if self._folds * len(self.ms) < 1 << 16 else np.int64
        self._order: Integers = np.argsort(key.astype(small), kind="stable")
        counts = np.bincount(key, minlength=self._folds * len(self.ms))
        self._bounds = np.concatenate(([0], np.cumsum(counts)))
        self._evidence = evidence
        self._sorted: dict[str, Floats] = {}

    def column(self, name: str) -> Floats:
        """(N,) one column in sorted order."""
        if name not in self._sorted:
            self._sorted[name] = self._evidence.columns[name][self._order]
        return self._sorted[name]

    def errors(self, by_fold: Sequence[Coefficients], regressors: Sequence[str]) -> PercentageTable:
        """Absolute percentage errors of a variant.

        Parameters
        ----------
        by_fold
            For each fold the coefficients that predict its rounds, m -> intercept and slopes.
        """
        columns, response = [self.column(name) for name in regressors], self.column(RESPONSE)
        shape = (self._folds, len(self.ms))
        sums, rounds = np.zeros(shape), np.zeros(shape)
        for f, coefficients in enumerate(by_fold):
            for i, m in enumerate(self.ms):
                beta = coefficients.get(m)
                start, stop = self._bounds[f * len(self.ms) + i : f * len(self.ms) + i + 2].tolist()
                if beta is None or start == stop:
                    continue
                actual = response[start:stop]
                left = actual - beta[0]
                for slope, column in zip(beta[1:].tolist(), columns, strict=True):
                    if slope:
                        left -= slope * column[start:stop]
                np.abs(left, out=left)
                left /= actual
                sums[f, i], rounds[f, i] = 100 * left.sum(), stop - start
        return PercentageTable(self.ms, sums, rounds)

    def same(self, coefficients: Coefficients, regressors: Sequence[str]) -> PercentageTable:
        """Absolute percentage errors where the same coefficients predict every fold."""
        return self.errors([coefficients] * self._folds, regressors)
