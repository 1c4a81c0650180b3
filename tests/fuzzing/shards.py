"""Cases in a process of their own, under a limit of memory and of time; the process that looks on starts the next one.

A shard is a range of cases. Its process writes the number of the case it is at where the one that looks on can read it,
so a crash or a hang costs that case and nothing else.
"""

import faulthandler
import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HANG_S = float(os.environ.get("FUZZ_HANG_S", "10"))  # of processor time: a busy machine is no hang
STUCK_S = 12 * HANG_S  # of any time
GROWTH_BYTES = 512 << 20
CASES_A_SHARD = 10_000
UNPREPARED = 3  # exit code of a shard that has not come to its first case
_SMALL = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}
_IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # outputs are flushed to disk, which takes longest
RUN = Path(__file__).with_name("run.py")


@dataclass
class Found:
    """What came of all cases so far.

    Attributes
    ----------
    outcomes
        How many of each reader and kind.
    faults
        (case, reader, what) of every case that ended as none may.
    slowest_s, growth_bytes
        The longest case; the most that a process held at its end above what it held at its begin.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[tuple[int, str, str]] = field(default_factory=list)
    slowest_s: float = 0.0
    growth_bytes: int = 0

    @property
    def cases(self) -> int:
        """How many cases were run."""
        return sum(self.outcomes.values())


def run_shard(seed: str, first: int, upto: int, progress: Path, readers: frozenset[str]) -> None:
    """Run cases in this process and print what came of them, as one JSON object."""
    from fuzzing import cases  # noqa: PLC0415  # what it imports is the process's own size

    chosen = cases.named(readers)
    found = Found()
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY) as name, cases.inside(Path(name)), open(progress, "r+b") as file:
        at = mmap.mmap(file.fileno(), 8)
        try:
            cases.watch(chosen)
        except Exception:
            traceback.print_exc()
            sys.exit(UNPREPARED)
        faulthandler.register(signal.SIGPROF, chain=True)  # says where, then the process ends
        before = _held()
        _limit_memory()
        for number in range(first, upto):
            at[:8] = number.to_bytes(8, "little")
            signal.setitimer(signal.ITIMER_PROF, HANG_S)
            faulthandler.dump_traceback_later(STUCK_S, exit=True)
            reader, rng = cases.choice_of(seed, number, chosen)
            begun = time.process_time()
            outcome = cases.run_case(reader, rng, Path(name))
            found.slowest_s = max(found.slowest_s, time.process_time() - begun)
            faulthandler.cancel_dump_traceback_later()
            found.outcomes[outcome.reader, outcome.kind] += 1
            if outcome.kind == cases.FAULT:
                found.faults.append((number, outcome.reader, outcome.text))
        found.growth_bytes = _held() - before
    print(json.dumps([list(found.outcomes.items()), found.faults, found.slowest_s, found.growth_bytes]))


def _held() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _limit_memory() -> None:
    """Let the address space grow by `GROWTH_BYTES` and no further: asking for more is an error, touched or not."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + GROWTH_BYTES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_all(
    seed: str, first: int, upto: int, readers: frozenset[str] = frozenset(), a_shard: int = CASES_A_SHARD
) -> Iterator[Found]:
    """Run cases shard by shard; give what was found so far after each."""
    found = Found()
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress"
        while first < upto:
            progress.write_bytes(first.to_bytes(8, "little"))
            end = min(upto, first + a_shard)
            command = [sys.executable, str(RUN), "--shard", seed, str(first), str(end), str(progress), *sorted(readers)]
            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **_SMALL}, check=False)
            if done.returncode == UNPREPARED:
                raise RuntimeError(f"what the cases start from is not read:\n{done.stderr}")
            if done.returncode == 0:
                first = end
                _add(found, done.stdout)
            else:  # the cases before it are run again, up to it
                at = int.from_bytes(progress.read_bytes(), "little")
                if at > first:
                    for before in run_all(seed, first, at, readers, a_shard):
                        _merge(found, before)
                hung = done.returncode == -signal.SIGPROF or "Timeout" in done.stderr
                how = "hang" if hung else f"exit {done.returncode}"
                found.faults.append((at, "?", f"{how}: {done.stderr.strip()[:1500]}"))
                found.outcomes["?", "fault"] += 1
                first = at + 1
            yield found


def _add(found: Found, text: str) -> None:
    outcomes, faults, slowest, growth = json.loads(text.splitlines()[-1])
    shard = Found(Counter({tuple(key): count for key, count in outcomes}), [tuple(f) for f in faults], slowest, growth)
    _merge(found, shard)


def _merge(found: Found, other: Found) -> None:
    found.outcomes += other.outcomes
    found.faults += other.faults
    found.slowest_s = max(found.slowest_s, other.slowest_s)
    found.growth_bytes = max(found.growth_bytes, other.growth_bytes)
