"""All benchmarks of one size, in the order of the work."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from oracle.errors import InputError

from . import (
    arithmetic,
    bandwidth,
    clustering,
    compilation,
    evaluating,
    fitting,
    holding,
    path,
    routing,
    scaling,
    searching,
    serving,
    solving,
    surviving,
)
from .checks import checks_of
from .contests import Contest, rows_of
from .limits import Limits
from .report import BenchReport, Check, Machine, Row
from .tables import tables_of

__all__ = ["GROUPS", "BenchReport", "Check", "Machine", "Row", "measure", "tables_of"]

Size = Literal["smallest", "quick", "full"]
Progress = Callable[[str], None]
CONTESTS = (surviving.GROUP, routing.GROUP, solving.GROUP, evaluating.GROUP, searching.GROUP, serving.GROUP)
GROUPS = (*CONTESTS, compilation.GROUP, path.GROUP, holding.GROUP, scaling.GROUP, clustering.GROUP, fitting.GROUP)


@dataclass(frozen=True)
class Scale:
    """How much each part of a run takes.

    Attributes
    ----------
    generations
        Of the kernels' inputs.
    slow_generations
        Of those that plain Python, QuantEcon and slow NumPy get.
    rounds, budget_s
        Most repeats of a contest; seconds after which it stops repeating.
    bandwidth_bytes, peak_times
        Least size of the array that is read, 0: small, the figure is not to be trusted; passes of the loops that tell
        what a core computes at best.
    compiled
        What the compile rows compile.
    path_sizes, path_repeats
        Positions of the Parquet traces, whole multiples of the first, and most repeats of each.
    held_positions, held_generations
        What score and ablate get to show their memory: positions of long generations, and short generations.
    trace_positions
        Of the trace that threads and Ray get.
    fit_rounds, fit_clusters
        Of the rounds that the latency fit gets.
    clock_counts
        Whether times mean something.
    """

    generations: int
    slow_generations: int
    rounds: int
    budget_s: float
    bandwidth_bytes: int
    peak_times: int
    compiled: str
    path_sizes: tuple[int, ...]
    path_repeats: int
    held_positions: int
    held_generations: int
    trace_positions: int
    fit_rounds: int
    fit_clusters: int
    clock_counts: bool = True


SCALES: dict[Size, Scale] = {
    "smallest": Scale(
        generations=4,
        slow_generations=1,
        rounds=3,
        budget_s=0.0,
        bandwidth_bytes=0,
        peak_times=100,
        compiled=compilation.ONE,
        path_sizes=(2_048, 4_096, 8_192),
        path_repeats=1,
        held_positions=4_096,
        held_generations=500,
        trace_positions=4_096,
        fit_rounds=2_000,
        fit_clusters=20,
        clock_counts=False,
    ),
    "quick": Scale(
        generations=400,
        slow_generations=8,
        rounds=9,
        budget_s=1.0,
        bandwidth_bytes=1 << 27,
        peak_times=20_000,
        compiled=compilation.ALL,
        path_sizes=(100_000, 300_000, 1_000_000),
        path_repeats=3,
        held_positions=300_000,
        held_generations=30_000,
        trace_positions=300_000,
        fit_rounds=100_000,
        fit_clusters=300,
    ),
    "full": Scale(
        generations=2_000,
        slow_generations=20,
        rounds=15,
        budget_s=4.0,
        bandwidth_bytes=1 << 29,
        peak_times=20_000,
        compiled=compilation.ALL,
        path_sizes=(100_000, 300_000, 1_000_000, 3_000_000, 10_000_000),
        path_repeats=5,
        held_positions=3_000_000,
        held_generations=500_000,
        trace_positions=1_000_000,
        fit_rounds=925_752,
        fit_clusters=300,
    ),
}


def measure(
    size: Size = "quick",
    only: Collection[str] | None = None,
    progress: Progress | None = None,
    measured: Callable[[BenchReport], None] | None = None,
) -> BenchReport:
    """Measure the kernels, their rivals, compile time, the whole path, memory, threads, Ray and the latency fit.

    Parameters
    ----------
    size
        `smallest` runs everything once or so, for tests; its figures mean little.
    only
        Some of `GROUPS`; None: all. The machine's limits are always measured.
    progress
        Told what is measured next.
    measured
        Given all that has been measured, without checks, whenever another table of `tables_of` is complete; and once
        more where something ends the run early.

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
    tell, hand_over = progress or (lambda _: None), measured or (lambda _: None)
    scale = SCALES[size]
    tell("what this machine can do")
    rows = [bandwidth.measure_bandwidth(scale.bandwidth_bytes, scale.rounds)]
    rows += arithmetic.measure_peaks(scale.peak_times, scale.rounds)
    limits = _limits(rows)
    machine = bandwidth.describe_machine(limits)
    groups = [group for group in GROUPS if group in wanted]
    try:
        hand_over(BenchReport(size, machine, tuple(rows)))
        for group, following in zip(groups, [*groups[1:], None], strict=True):
            tell(group)
            rows.extend(_rows(group, scale, limits, tell))
            if following not in CONTESTS:  # contests share their tables
                hand_over(BenchReport(size, machine, tuple(rows)))
    except BaseException:
        hand_over(BenchReport(size, machine, tuple(rows)))
        raise
    return BenchReport(size, machine, tuple(rows), checks_of(rows, scale.clock_counts))


def _limits(rows: Iterable[Row]) -> Limits:
    best = {row.name: row.value for row in rows if row.value is not None}
    read, *_ = best.values()
    return Limits(read, {kind: best[f"peak, {kind}"] for kind in arithmetic.KINDS})


def _rows(group: str, scale: Scale, limits: Limits, tell: Progress) -> Iterator[Row]:
    if group == compilation.GROUP:
        yield from compilation.rows(scale.compiled)
    elif group == path.GROUP:
        sizes = path.rows(scale.path_sizes, scale.path_repeats, bandwidth.usable_cores())
        yield from _told(sizes, len(scale.path_sizes), tell)
    elif group == holding.GROUP:
        yield from holding.rows(scale.held_positions, scale.held_generations, min(2, bandwidth.usable_cores()))
    elif group == scaling.GROUP:
        yield from scaling.rows(scale.trace_positions, scale.path_repeats)
    elif group == clustering.GROUP:
        yield from clustering.rows(scale.trace_positions, scale.path_repeats)
    elif group == fitting.GROUP:
        yield from fitting.rows(fitting.Setting(scale.fit_rounds, scale.fit_clusters, scale.rounds, scale.budget_s))
    else:
        for contest in _contests(group, scale):
            tell(f"{group}: {contest.name}")
            yield from rows_of(contest, group, limits, rounds=scale.rounds, budget_s=scale.budget_s)


def _told(rows: Iterator[Row], sizes: int, tell: Progress) -> Iterator[Row]:
    """Say which size of the path is under way; the larger ones take a while."""
    for i in range(sizes):
        tell(f"{path.GROUP}: size {i + 1} of {sizes}")
        yield next(rows)
    yield from rows


def _contests(group: str, scale: Scale) -> Iterable[Contest]:
    if group == surviving.GROUP:
        return surviving.contests(scale.generations)
    if group == routing.GROUP:
        return routing.contests(scale.generations)
    if group == solving.GROUP:
        return solving.contests(scale.generations, scale.slow_generations)
    if group == searching.GROUP:
        return searching.contests(scale.generations, scale.slow_generations)
    if group == serving.GROUP:
        return serving.contests(scale.generations, scale.slow_generations)
    return evaluating.contests(scale.generations)
