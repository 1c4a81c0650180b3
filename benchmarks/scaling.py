"""Scaling over threads: solve, score and ablate on one trace with 1, 2, … threads, and the cores really given.

Run as a module it times one folder of traces: `python -m benchmarks.scaling TRACES THREADS[,THREADS…] REPEATS`.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .bandwidth import cores_had, usable_cores
from .inputs import GENERATION, USUAL, K
from .report import Row, timed_row
from .studying import COMMANDS, run, warm_up, write_shards
from .subprocesses import PREFIX, answer, run_module
from .timing import Timing, interleaved

GROUP = "threads"
CORES_GIVEN, SPEED_UP = "cores_given", "one thread"
_SHARDS = 4
_BUDGET_S = 20.0  # of each command
_BUSY_S = 0.3


def thread_counts(cores: int) -> tuple[int, ...]:
    """1, 2, 4, … and all cores; 2 even where there is one core only, which shows what is lost then."""
    return tuple(sorted({1, 2, *(2**i for i in range(cores.bit_length()) if 2**i <= cores), cores}))


def rows(positions: int, repeats: int) -> Iterator[Row]:
    """A row a command and number of threads."""
    counts = thread_counts(usable_cores())
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        folder = Path(name, "traces")
        folder.mkdir()
        list(write_shards(folder, max(1, positions // GENERATION // _SHARDS), 0, _SHARDS))
        found = run_module("scaling", str(folder), ",".join(map(str, counts)), str(repeats))
    for command in COMMANDS:
        timings = {n: Timing(tuple(found["seconds"][command][str(n)])) for n in counts}
        for n, timing in timings.items():
            yield timed_row(
                f"{command}, {n} thread{'s' * (n > 1)}",
                GROUP,
                f"{command}: Parquet traces of {USUAL}, K = {K}",
                timing,
                positions=found["positions"],
                ratios={} if n == 1 else {SPEED_UP: timings[1].over(timing)},
                figures={CORES_GIVEN: found["cores_had"][str(n)]},
                note="warm page cache",
            )


def timed_runs(traces: Path, threads: Sequence[int], repeats: int) -> dict[str, Any]:
    """Time each command with each number of threads, in turns, in this process."""
    warm = traces.parent / "warm"
    warm.mkdir()
    warm_up(warm, COMMANDS, max(threads))
    shards, output = sorted(traces.iterdir()), traces.parent / "decisions.parquet"
    seconds = {}
    for command in COMMANDS:
        runs = {str(n): partial(run, command, shards, output, n) for n in threads}
        timings = interleaved(runs, rounds=repeats, budget_s=_BUDGET_S)
        seconds[command] = {n: timing.seconds for n, timing in timings.items()}
    return {
        "positions": run("solve", shards, output, max(threads)),
        "seconds": seconds,
        "cores_had": {str(n): cores_had(n, _BUSY_S) for n in threads},
    }


if __name__ == "__main__":
    answer(lambda: timed_runs(Path(sys.argv[1]), [int(n) for n in sys.argv[2].split(",")], int(sys.argv[3])))
