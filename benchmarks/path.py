"""The whole path by size: Parquet traces in, Parquet decisions out, and the memory and temporary disk that takes.

Traces are folders of equally long files, of which a larger size has more: so all sizes together need the disk of the
largest. Each size is solved in a process of its own, as `draft-oracle solve` does it.

Run as a module it solves some files a few times and prints seconds and peak memory:
`python -m benchmarks.path TRACES COUNT THREADS REPEATS`.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .inputs import GENERATION, USUAL, K
from .report import Row, timed_row
from .studying import peak_bytes, positions_of, run, warm_up, write_shards
from .subprocesses import PREFIX, answer, run_module
from .timing import Timing, interleaved

GROUP = "path"
LINE = "path, straight line"
MEMORY_MB = 600  # the most that any size may take
PEAK_MB, LOADED_MB, DISK_MB, SECONDS = "peak_mb", "loaded_mb", "trace_mb", "seconds"
FIXED_S, SLOPE_NS, R_SQUARED, WORST = "fixed_s", "slope_ns", "r_squared", "largest_deviation"
FEWEST_SIZES = 3  # through two points every line is straight
_SPARE = 1.05
_BUDGET_S = 10.0


@dataclass(frozen=True)
class Line:
    """Seconds = `fixed_s` + `slope_ns` · positions / 1e9, every size of the same weight.

    Attributes
    ----------
    fixed_s, slope_ns
        Seconds before the first position; nanoseconds a position.
    r_squared
        Share of the variance of the times that the line explains.
    largest_deviation
        Of a time from the line, over that time.
    """

    fixed_s: float
    slope_ns: float
    r_squared: float
    largest_deviation: float


def straight_line(positions: Sequence[int], seconds: Sequence[float]) -> Line:
    """Fit a line that makes the sum of squared relative deviations least."""
    n, t = np.asarray(positions, dtype=np.float64), np.asarray(seconds)
    design = np.stack([np.ones_like(n), n], axis=1)
    fixed, slope = np.linalg.lstsq(design / t[:, None], np.ones_like(t), rcond=None)[0]
    off = fixed + slope * n - t
    explained = 1.0 - (off @ off) / ((t - t.mean()) @ (t - t.mean()))
    return Line(float(fixed), float(slope) * 1e9, float(explained), float(np.abs(off / t).max()))


def rows(sizes: Sequence[int], repeats: int, threads: int) -> Iterator[Row]:
    """Rows of the path for about so many positions, rising, and of the line through their times.

    All sizes are whole multiples of the first.
    """
    generations = max(1, sizes[0] // GENERATION)
    measured: list[Row] = []
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        folder = Path(name, "traces")
        folder.mkdir()
        shards: list[Path] = []
        for size in sizes:
            count = round(size / sizes[0])
            if lacking := _lacking(shards, count, folder):
                yield _row_of_absent(positions_of(generations * count), lacking)
                continue
            shards += write_shards(folder, generations, len(shards), count - len(shards))
            row = _row_of_size(shards, threads, repeats)
            measured.append(row)
            yield row
    if len(measured) >= FEWEST_SIZES:
        yield _row_of_line(measured)


def _lacking(shards: Sequence[Path], count: int, folder: Path) -> str:
    """Say what the disk lacks for so many files and the decisions; empty if nothing."""
    if not shards:
        return ""
    needed = _SPARE * sum(shard.stat().st_size for shard in shards) / len(shards) * (count - len(shards))
    free = shutil.disk_usage(folder).free
    if needed <= free:
        return ""
    return f"not measured: {needed / 1e9:.1f} GB of temporary files more, {free / 1e9:.1f} GB are free; set TMPDIR"


def _name(positions: int) -> str:
    return f"path, {positions:,} positions"


def _row_of_absent(positions: int, reason: str) -> Row:
    return Row(_name(positions), GROUP, "", "ns/position", positions=positions, note=reason)


def _what(threads: int) -> str:
    said = f"{threads} thread{'s' * (threads > 1)}, warm page cache"
    return f"Parquet traces of {USUAL} to Parquet decisions, K = {K}, {said}"


def _row_of_size(shards: Sequence[Path], threads: int, repeats: int) -> Row:
    used = run_module("path", str(shards[0].parent), str(len(shards)), str(threads), str(repeats))
    timing = Timing(tuple(used["seconds"]))
    figures = {
        SECONDS: timing.median,
        PEAK_MB: used["peak_bytes"] / 1e6,
        LOADED_MB: used["loaded_bytes"] / 1e6,
        DISK_MB: sum(shard.stat().st_size for shard in shards) / 1e6,
    }
    n = used["positions"]
    return timed_row(_name(n), GROUP, _what(threads), timing, positions=n, figures=figures)


def _row_of_line(measured: Sequence[Row]) -> Row:
    positions = [row.positions for row in measured if row.positions is not None]
    line = straight_line(positions, [row.figures[SECONDS] for row in measured])
    return Row(
        name=LINE,
        group=GROUP,
        what=f"time = a + b · positions over {len(measured)} sizes, each of the same weight",
        unit="ns/position",
        value=line.slope_ns,
        least=line.slope_ns,
        most=line.slope_ns,
        runs=len(measured),
        figures={
            FIXED_S: line.fixed_s,
            SLOPE_NS: line.slope_ns,
            R_SQUARED: line.r_squared,
            WORST: line.largest_deviation,
        },
        note=f"time = {line.fixed_s:.3g} s + {line.slope_ns:,.1f} ns · positions: R² {line.r_squared:.5f}, "
        f"largest relative deviation {line.largest_deviation:.1%}",
    )


def timed_runs(traces: Path, count: int, threads: int, repeats: int) -> dict[str, Any]:
    """Solve the first `count` files of a folder, after a small one that compiles; what it takes."""
    output = traces.parent / "decisions.parquet"
    warm = traces.parent / "warm"
    warm.mkdir(exist_ok=True)
    warm_up(warm, ("solve",), threads)
    loaded = peak_bytes()
    shards = sorted(traces.iterdir())[:count]
    positions: list[int] = []

    def solve() -> None:
        positions.append(run("solve", shards, output, threads))

    timing = interleaved({"solve": solve}, rounds=repeats, budget_s=_BUDGET_S)["solve"]
    return {
        "positions": positions[-1],
        "seconds": timing.seconds,
        "peak_bytes": peak_bytes(),
        "loaded_bytes": loaded,
    }


if __name__ == "__main__":
    answer(lambda: timed_runs(Path(sys.argv[1]), *map(int, sys.argv[2:])))
