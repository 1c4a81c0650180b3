"""The whole path: a Parquet trace in, Parquet decisions out, and the memory that takes.

Run as a module it solves one trace a few times and prints seconds and peak memory:
`python -m benchmarks.path TRACE THREADS[,THREADS…] REPEATS`.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from oracle.traces import TraceFiles, write_traces

from .bandwidth import cores_had
from .inputs import USUAL, K, costs, trace_batches
from .report import Row, timed_row
from .subprocesses import run_module
from .timing import Timing

GROUP = "path"
_COLUMNS = ("match_prob", "experts")
_PART = 2  # the memory of a trace is compared with that of one so many times shorter
_THREADS = (1, 2)


def write_trace(path: Path, positions: int) -> None:
    """Write a synthetic trace of about `positions` decisions."""
    write_traces(path, trace_batches(positions), {"recorder": "synthetic"})


def solve_trace(trace: Path, decisions: Path, threads: int) -> int:
    """Read a trace, solve it, write the decisions; returns the number of positions."""
    from oracle.analysis import Plan, walk  # noqa: PLC0415
    from oracle.result_files import result_writer  # noqa: PLC0415

    positions = 0
    writer = None
    try:
        for result in walk(TraceFiles(trace, columns=_COLUMNS), Plan(costs(), decisions=True), threads):
            assert result.decisions is not None
            writer = writer or result_writer(decisions, result.decisions.schema)
            writer.write_table(result.decisions)
            positions += result.positions
    finally:
        if writer is not None:
            writer.close()
    return positions


def rows(positions: int, repeats: int, bandwidth_gb_per_s: float) -> Iterator[Row]:
    """Rows of the path with one and two threads, and of its peak memory for a trace and for half of it."""
    with tempfile.TemporaryDirectory() as folder:
        traces = [Path(folder, f"{name}.parquet") for name in ("part", "whole")]
        for trace, size in zip(traces, (positions // _PART, positions), strict=True):
            write_trace(trace, size)
        # threads take turns in one process; what was written a moment ago is still in the page cache
        timed = run_module("path", str(traces[1]), ",".join(map(str, _THREADS)), str(repeats))
        moved = USUAL.id_bytes + 4 + 34
        for threads in _THREADS:
            note = "warm page cache; bytes are those of the columns, decoded"
            if threads > 1:
                note = f"{threads} busy threads were given {timed['cores_had']:.2f} cores just before; {note}"
            yield timed_row(
                f"path, {threads} thread{'s' * (threads > 1)}",
                GROUP,
                f"Parquet trace of {USUAL} to Parquet decisions, K = {K}",
                Timing(tuple(timed["seconds"][str(threads)])),
                positions=timed["positions"],
                bytes_per_position=moved,
                bandwidth_gb_per_s=bandwidth_gb_per_s,
                note=note,
            )
        for trace, name in zip(traces, ("half the trace", "the whole trace"), strict=True):
            used = run_module("path", str(trace), str(_THREADS[-1]), "1")
            megabytes = used["peak_bytes"] / 1e6
            yield Row(
                name=f"peak memory, {name}",
                group=GROUP,
                what=f"resident set of a process with {_THREADS[-1]} threads",
                unit="MB",
                value=megabytes,
                least=megabytes,
                most=megabytes,
                runs=1,
                positions=used["positions"],
                note=f"{used['loaded_bytes'] / 1e6:.0f} MB of it after imports and first calls",
            )


def peak_bytes() -> int:
    """The most memory this process has held.

    Linux passes `ru_maxrss` of the process that started this one on to it; VmHWM begins anew.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def timed_runs(trace: Path, threads: list[int], repeats: int) -> dict[str, object]:
    """Solve a trace `repeats` times with each number of threads, in turns, after a small one that compiles."""
    with tempfile.TemporaryDirectory() as folder:
        small, decisions = Path(folder, "small.parquet"), Path(folder, "decisions.parquet")
        write_trace(small, 1)
        solve_trace(small, decisions, 1)
        loaded = peak_bytes()
        cores = cores_had(max(threads), 0.3)
        seconds: dict[str, list[float]] = {str(n): [] for n in threads}
        positions = 0
        for _ in range(repeats):
            for n in threads:
                start = time.perf_counter()
                positions = solve_trace(trace, decisions, n)
                seconds[str(n)].append(time.perf_counter() - start)
    return {
        "positions": positions,
        "seconds": seconds,
        "peak_bytes": peak_bytes(),
        "loaded_bytes": loaded,
        "cores_had": cores,
    }


if __name__ == "__main__":
    print(json.dumps(timed_runs(Path(sys.argv[1]), [int(n) for n in sys.argv[2].split(",")], int(sys.argv[3]))))
