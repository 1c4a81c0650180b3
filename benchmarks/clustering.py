"""Ray beside the engine of one process: starting it, the first solve on it, and a solve once workers are warm.

Run as a module it times one folder of traces: `python -m benchmarks.clustering TRACES CORES REPEATS`.
"""

import importlib.util
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oracle.errors import InputError

from .bandwidth import usable_cores
from .inputs import GENERATION, USUAL, K
from .report import Row, timed_row
from .studying import run, warm_up, write_shards
from .subprocesses import PREFIX, answer, run_module
from .timing import Timing, interleaved

GROUP = "cluster"
LOCAL, RAY = "solve, engine local", "Ray"
SAME_BYTES = "same_bytes"
START, FIRST = "Ray started", "first solve on Ray"
ABSENT = "Ray is not installed: pip install 'draft-oracle[ray]'"
_SHARDS = 8
_BUDGET_S = 20.0


def rows(positions: int, repeats: int) -> Iterator[Row]:
    """Rows of Ray's start, of its first solve, and of both engines in turns; of none where Ray is not there."""
    if importlib.util.find_spec("ray") is None:
        yield _absent(ABSENT)
        return
    cores = usable_cores()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        folder = Path(name, "traces")
        folder.mkdir()
        list(write_shards(folder, max(1, positions // GENERATION // _SHARDS), 0, _SHARDS))
        found = run_module("clustering", str(folder), str(cores), str(repeats))
    if "fault" in found:
        yield _absent(found["fault"])
        return
    for name, key, what in ((START, "start_s", f"Ray on this machine, {cores} cores"), (FIRST, "first_s", "one solve")):
        seconds = found[key]
        yield Row(name, GROUP, what, "s", seconds, seconds, seconds, 1, note="once")
    local, ray = (Timing(tuple(found["seconds"][engine])) for engine in ("local", "ray"))
    what, n = f"Parquet traces of {USUAL} to Parquet decisions, K = {K}", found["positions"]
    said = "the same bytes" if found["same_bytes"] else "OTHER BYTES than one process"
    yield timed_row(
        LOCAL,
        GROUP,
        what,
        local,
        positions=n,
        ratios={RAY: ray.over(local)},
        figures={SAME_BYTES: float(found["same_bytes"])},
        note=f"{cores} threads; {_SHARDS} files; warm page cache",
    )
    yield timed_row(f"{LOCAL} / {RAY}", GROUP, f"{what}; {RAY}", ray, positions=n, note=f"{cores} workers; {said}")


def _absent(reason: str) -> Row:
    return Row(f"{LOCAL} / {RAY}", GROUP, "Ray beside one process", "ns/position", note=reason)


def timed_runs(traces: Path, cores: int, repeats: int) -> dict[str, Any]:
    """Solve with both engines in turns and compare what they write; a sentence where Ray cannot be had."""
    from oracle.cluster.ray_engine import RayEngine  # noqa: PLC0415
    from oracle.cluster.spreading import SpreadTraces  # noqa: PLC0415

    warm = traces.parent / "warm"
    warm.mkdir()
    warm_up(warm, ("solve",), cores)
    shards = sorted(traces.iterdir())
    outputs = {engine: traces.parent / f"{engine}.parquet" for engine in ("local", "ray")}
    try:
        begin = time.perf_counter()
        with RayEngine(None, cores) as engine:
            started = time.perf_counter()
            ways = {
                "local": lambda: run("solve", shards, outputs["local"], cores),
                "ray": lambda: run("solve", shards, outputs["ray"], cores, lambda files: SpreadTraces(files, engine)),
            }
            positions = ways["ray"]()
            first = time.perf_counter()
            timings = interleaved(ways, rounds=repeats, budget_s=_BUDGET_S)
    except InputError as error:
        return {"fault": str(error)}
    return {
        "positions": positions,
        "start_s": started - begin,
        "first_s": first - started,
        "seconds": {name: timing.seconds for name, timing in timings.items()},
        "same_bytes": outputs["local"].read_bytes() == outputs["ray"].read_bytes(),
    }


if __name__ == "__main__":
    answer(lambda: timed_runs(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
