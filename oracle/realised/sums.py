"""Realised totals of all batches, in memory that does not grow with the generations."""

from oracle.errors import InputError
from oracle.realised.calibration import CalibrationTally
from oracle.realised.problem import Realised
from oracle.scores import ScoreSums
from oracle.unit_sums import MOST_CATEGORIES, ArraySums, DistinctNames


class RealisedSums:
    """Adds up what was realised of batches, in their order; category and decoding stay apart."""

    def __init__(self) -> None:
        self._totals, self._expected = ScoreSums(), ScoreSums()
        self._calibration = ArraySums()
        self._generations = 0
        self._clusters: dict[str, DistinctNames] = {}

    def add(self, found: Realised) -> None:
        """Take in a batch.

        Raises
        ------
        InputError
            More ways of decoding than can be kept apart.
        """
        labels = tuple(name or "" for name in found.category), found.decoding
        self._totals.add(found.totals, *labels)
        self._expected.add(found.expected, *labels)
        tally = found.calibration
        self._calibration.add({"first": tally.first, "survival": tally.survival}, tally.cluster, tally.group)
        self._generations += found.generations
        for decoding in dict.fromkeys(found.decoding):
            at = [name for name, how in zip(found.totals.cluster, found.decoding, strict=True) if how == decoding]
            self._clusters.setdefault(decoding, DistinctNames()).add(at)
        if len(self._clusters) > MOST_CATEGORIES:
            raise InputError(
                f"the column decoding names more than {MOST_CATEGORIES} ways of decoding; realised scores keep each "
                "apart: write fewer, as greedy and sample, or leave the column out"
            )

    def realised(self) -> Realised | None:
        """Everything taken in so far, a unit in the place of a generation; None if nothing was."""
        totals, expected = self._totals.totals(), self._expected.totals()
        if totals is None or expected is None:
            return None
        tally = self._calibration.sums
        units, decoding = self._calibration.units, self._calibration.labels(0)
        return Realised(
            totals=totals,
            expected=expected,
            category=tuple(name or None for name in self._totals.units.labels(0)),
            decoding=self._totals.units.labels(1),
            calibration=CalibrationTally(decoding, units, tally["first"], tally["survival"]),
            generations=self._generations,
            clusters={name: len(found) for name, found in self._clusters.items()},
        )
