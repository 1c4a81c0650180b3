"""The memory that score and a whole ablate take: over many positions, and over many generations.

The path's rows tell that of solve. Each command runs once, in a process of its own.

Run as a module it tells one: `python -m benchmarks.holding COMMAND TRACES THREADS`.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from oracle.traces import TraceFiles

from .inputs import GENERATION, K, latency_model
from .path import LOADED_MB, PEAK_MB, SECONDS
from .report import Row, timed_row
from .studying import peak_bytes, run, write_shards
from .subprocesses import PREFIX, answer, run_module
from .timing import Timing

GROUP = "memory"
SHORT = 4  # positions of a short generation
Walks = Literal["score", "ablate"]


def rows(positions: int, short_generations: int, threads: int) -> Iterator[Row]:
    """A row a command for so many positions in long generations, and for so many short generations."""
    shapes = ((max(1, positions // GENERATION), GENERATION), (short_generations, SHORT))
    for generations, length in shapes:
        with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
            folder = Path(name, "traces")
            folder.mkdir()
            list(write_shards(folder, generations, 0, 1, length))
            for command in get_args(Walks):
                yield _row(command, folder, generations, length, threads)


def _row(command: Walks, folder: Path, generations: int, length: int, threads: int) -> Row:
    used = run_module("holding", command, str(folder), str(threads))
    what = "score" if command == "score" else "ablate with path and draws, files written"
    figures = {PEAK_MB: used["peak_bytes"] / 1e6, LOADED_MB: used["loaded_bytes"] / 1e6, SECONDS: used["seconds"]}
    n = generations * length
    name = f"{command}, {generations:,} generations of {length}"
    timing = Timing((used["seconds"],))
    return timed_row(name, GROUP, f"{what}, {threads} threads, K = {K}", timing, positions=n, figures=figures)


def held(command: Walks, traces: Path, threads: int) -> dict[str, Any]:
    """Run a command over the files of a folder, after a small one that compiles; what it takes."""
    warm = traces.parent / f"warm-{command}"
    warm.mkdir()
    small = list(write_shards(warm, 1, 0, 1))
    _walked(command, small, warm, threads)
    loaded, begin = peak_bytes(), time.perf_counter()
    _walked(command, sorted(traces.iterdir()), warm, threads)
    return {"peak_bytes": peak_bytes(), "loaded_bytes": loaded, "seconds": time.perf_counter() - begin}


def _walked(command: Walks, shards: list[Path], output: Path, threads: int) -> None:
    if command == "score":
        run("score", shards, output, threads)
    else:
        ablate_in_full(shards, output, threads)


def ablate_in_full(shards: list[Path], output: Path, threads: int) -> None:
    """Walk for the changes, along the scale on alpha, and under as many draws as usual; write the files."""
    import pyarrow as pa  # noqa: PLC0415

    from oracle.alpha_path.study import alpha_study  # noqa: PLC0415
    from oracle.costs import LengthRange  # noqa: PLC0415
    from oracle.figures.alpha_path import decisions_by_scale  # noqa: PLC0415
    from oracle.figures.stability import stability_figure  # noqa: PLC0415
    from oracle.latency.draws import DRAWS, Draws  # noqa: PLC0415
    from oracle.stability.study import stability  # noqa: PLC0415
    from oracle.study import Question, study  # noqa: PLC0415
    from oracle.traces.budget import budget_of  # noqa: PLC0415

    pa.set_cpu_count(threads)
    model, span = latency_model(), LengthRange(0, K)
    scales = (0.5 + i / DRAWS for i in range(DRAWS))
    models = [replace(model, alpha_ms_per_expert=tuple(s * a for a in model.alpha_ms_per_expert)) for s in scales]
    draws = Draws(tuple(models), "file", clusters=40, seed=0, set_aside=0)
    files = TraceFiles(shards, columns=("match_prob", "experts")).within(budget_of(None, threads, K, draws=DRAWS))
    study(files, model, Question(score=True, ablate=True, shifts=output / "shifts.parquet", threads=threads))
    path = alpha_study(files, model, span, rows=output / "alpha-path.parquet", threads=threads)
    decisions_by_scale(path, output / "alpha-path.svg")
    found = stability(files, model, draws, span, rows=output / "stability.parquet", threads=threads)
    stability_figure(found, output / "stability.svg")


if __name__ == "__main__":
    answer(lambda: held("score" if sys.argv[1] == "score" else "ablate", Path(sys.argv[2]), int(sys.argv[3])))
