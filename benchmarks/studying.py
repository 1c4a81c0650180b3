"""The commands on a synthetic trace: solve, score and ablate as the command line walks over files."""

import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from oracle.traces import TraceFiles, write_traces

from .inputs import GENERATION, K, latency_model, trace_batches

Command = Literal["solve", "score", "ablate"]
COMMANDS: tuple[Command, ...] = ("solve", "score", "ablate")
_COLUMNS = ("match_prob", "experts")

Spread = Callable[[TraceFiles], TraceFiles]


def write_shards(folder: Path, generations: int, first: int, count: int, length: int = GENERATION) -> Iterator[Path]:
    """Write trace files `first` … `first + count - 1` of `generations` of so many positions, a row group at a time."""
    for shard in range(first, first + count):
        path = folder / f"{shard:05}.parquet"
        write_traces(path, trace_batches(generations, shard * generations, length=length), {"recorder": "synthetic"})
        yield path


def run(command: Command, shards: Sequence[Path], output: Path, threads: int, spread: Spread | None = None) -> int:
    """Do what the command does with trace files, its tables aside; give the number of positions.

    Parameters
    ----------
    output
        Where `solve` writes its decisions.
    spread
        Lets workers elsewhere read the files.
    """
    import pyarrow as pa  # noqa: PLC0415

    from oracle.study import Question, study  # noqa: PLC0415
    from oracle.traces.budget import budget_of  # noqa: PLC0415

    pa.set_cpu_count(threads)
    files = TraceFiles(shards, columns=_COLUMNS).within(budget_of(None, threads, K))
    question = Question(
        score=command == "score",
        ablate=command == "ablate",
        decisions=output if command == "solve" else None,
        threads=threads,
    )
    return study(files if spread is None else spread(files), latency_model(), question).positions


def warm_up(folder: Path, commands: Sequence[Command], threads: int = 1) -> None:
    """Import and compile what the commands need, on one generation."""
    small = list(write_shards(folder, 1, 0, 1))
    for command in commands:
        run(command, small, folder / "decisions.parquet", threads)


def positions_of(generations: int) -> int:
    """Decisions in so many generations."""
    return generations * GENERATION


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
