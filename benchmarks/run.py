"""All benchmarks of one size, in the order of the work."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from oracle.errors import InputError

from . import bandwidth, compilation, fitting, kernels, path, routing, searching, solving
from .contests import Contest, rows_of
from .report import BenchReport, Machine, Row
from .solving import lanes_vectorised

__all__ = ["GROUPS", "BenchReport", "Machine", "Row", "lanes_vectorised", "measure"]

Size = Literal["smallest", "quick", "full"]
GROUPS = (
    kernels.SURVIVAL,
    routing.GROUP,
    solving.GROUP,
    kernels.EVALUATION,
    searching.GROUP,
    compilation.GROUP,
    path.GROUP,
    fitting.GROUP,
)


@dataclass(frozen=True)
class Scale:
    """How much each part of a run takes.

    Attributes
    ----------
    generations
        Of the kernels' inputs.
    slow_generations
        Of those that plain Python and QuantEcon get.
    rounds, budget_s
        Most repeats of a contest; seconds after which it stops repeating.
    bandwidth_bytes
        Least size of the array that is read; 0: small, the figure is not to be trusted.
    compiled
        What the compile rows compile.
    path_positions, path_repeats
        Of the Parquet trace.
    fit_rounds, fit_clusters
        Of the rounds that the latency fit gets.
    """

    generations: int
    slow_generations: int
    rounds: int
    budget_s: float
    bandwidth_bytes: int
    compiled: str
    path_positions: int
    path_repeats: int
    fit_rounds: int
    fit_clusters: int


SCALES: dict[Size, Scale] = {
    "smallest": Scale(4, 1, 3, 0.0, 0, compilation.ONE, 8_192, 1, 2_000, 20),
    "quick": Scale(400, 8, 9, 1.5, 1 << 27, compilation.ALL, 500_000, 5, 100_000, 300),
    "full": Scale(2_000, 20, 15, 8.0, 1 << 29, compilation.ALL, 1_000_000, 7, 925_752, 300),
}


def measure(
    size: Size = "quick",
    only: Collection[str] | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    path_positions: int | None = None,
) -> BenchReport:
    """Measure the kernels, their rivals, compile time, the whole path and the latency fit.

    Parameters
    ----------
    size
        `smallest` runs everything once or so, for tests; its figures mean little.
    only
        Some of `GROUPS`; None: all. The read bandwidth is always measured.
    progress
        Told what is measured next.
    path_positions
        Length of the Parquet trace in positions; None: as the size has it.

    Raises
    ------
    InputError
        An unknown size or group.
    AssertionError
        A rival and we do not agree: then no figure of ours is worth anything.
    """
    if size not in SCALES:
        raise InputError(f"no benchmark size {size!r}; there are {', '.join(SCALES)}")
    wanted = set(GROUPS if only is None else only)
    if unknown := wanted.difference(GROUPS):
        raise InputError(f"no benchmarks called {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    tell = progress or (lambda _: None)
    scale = SCALES[size]
    tell("read bandwidth")
    limit = bandwidth.measure_bandwidth(scale.bandwidth_bytes, scale.rounds)
    assert limit.value is not None
    rows = [limit]
    for group in GROUPS:
        if group in wanted:
            tell(group)
            rows.extend(_rows(group, scale, limit.value, path_positions or scale.path_positions))
    return BenchReport(size, bandwidth.describe_machine(limit.value), tuple(rows))


def _rows(group: str, scale: Scale, limit_gb_per_s: float, path_positions: int) -> Iterator[Row]:
    if group == compilation.GROUP:
        yield from compilation.rows(scale.compiled)
    elif group == path.GROUP:
        yield from path.rows(path_positions, scale.path_repeats, limit_gb_per_s)
    elif group == fitting.GROUP:
        yield from fitting.rows(fitting.Setting(scale.fit_rounds, scale.fit_clusters, scale.rounds, scale.budget_s))
    else:
        for contest in _contests(group, scale):
            yield from rows_of(contest, group, limit_gb_per_s, rounds=scale.rounds, budget_s=scale.budget_s)


def _contests(group: str, scale: Scale) -> Iterable[Contest]:
    if group == kernels.SURVIVAL:
        return kernels.survival_contests(scale.generations)
    if group == routing.GROUP:
        return routing.contests(scale.generations)
    if group == solving.GROUP:
        return solving.contests(scale.generations, scale.slow_generations)
    if group == searching.GROUP:
        return searching.contests(scale.generations, scale.slow_generations)
    return kernels.evaluation_contests(scale.generations)
