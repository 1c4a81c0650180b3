"""Timing contestants in turns, so that a machine that drifts drifts for all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

FEWEST_ROUNDS = 3


@dataclass(frozen=True)
class Timing:
    """Wall times of repeated runs, seconds, in the order they were taken."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle time, seconds."""
        return statistics.median(self.seconds)

    @property
    def fastest(self) -> float:
        """The least time, seconds."""
        return min(self.seconds)

    @property
    def slowest(self) -> float:
        """The greatest time, seconds."""
        return max(self.seconds)

    def over(self, other: "Timing") -> float:
        """Median over rounds of this time divided by the other's of the same round."""
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=True))


def interleaved(contestants: Mapping[str, Callable[[], object]], *, rounds: int, budget_s: float) -> dict[str, Timing]:
    """Run all contestants in turn, A B C A B C …, after one run each that is not counted.

    Parameters
    ----------
    contestants
        What to run, by name. The uncounted run compiles and warms the caches.
    rounds
        Most counted runs of each.
    budget_s
        No round begins after that many seconds, once `FEWEST_ROUNDS` were taken.
    """
    for run in contestants.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    begin = time.perf_counter()
    for done in range(max(rounds, 1)):
        if done >= FEWEST_ROUNDS and time.perf_counter() - begin > budget_s:
            break
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: Timing(tuple(times)) for name, times in seconds.items()}
