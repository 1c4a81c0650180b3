"""How fast one core reads memory: the limit that every kernel's bytes are held against."""

import os
import platform
import re
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import numpy as np

from .limits import Limits
from .report import Machine, Row
from .timing import interleaved

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_PIECE_BYTES = 1 << 25
_TIMES_CACHE = 4  # so much larger than the last cache that almost nothing of a pass is still in it


def last_cache_bytes(default: int = 32 << 20) -> int:
    """Size of the largest cache the system reports; `default` where it reports none."""
    found = [re.fullmatch(r"(\d+)([KMG])", file.read_text().strip()) for file in _CACHES.glob("index*/size")]
    return max((int(match[1]) * _UNITS[match[2]] for match in found if match), default=default)


def measure_bandwidth(least_bytes: int, rounds: int) -> Row:
    """Read an array much larger than the caches, several times, piece by piece, and take the best piece.

    NumPy's sum of int64 keeps a core's loads busy: it reads as fast as a compiled loop does. A piece is done before
    another process is likely to come in between; when its turn comes again the caches have forgotten it.
    """
    size = max(least_bytes, _TIMES_CACHE * last_cache_bytes()) if least_bytes else _PIECE_BYTES
    numbers = np.arange(size // 8, dtype=np.int64)
    pieces = [numbers[start : start + _PIECE_BYTES // 8] for start in range(0, len(numbers), _PIECE_BYTES // 8)]
    timings = interleaved({str(i): piece.sum for i, piece in enumerate(pieces)}, rounds=rounds, budget_s=5.0)
    rates = [
        piece.nbytes / seconds / 1e9
        for piece, timing in zip(pieces, timings.values(), strict=True)
        for seconds in timing.seconds
    ]
    return Row(
        name="read bandwidth",
        group="bandwidth",
        what=f"one core reads {numbers.nbytes / 1e6:.0f} MB",
        unit="GB/s",
        value=max(rates),
        least=min(rates),
        most=max(rates),
        runs=len(rates),
        note=f"the best piece of {pieces[0].nbytes / 1e6:.0f} MB is the limit",
    )


def cores_had(threads: int, seconds: float) -> float:
    """How many cores that many busy threads are really given: fewer than there are where others are at work."""
    numbers = np.arange(1 << 16)
    end = time.perf_counter() + seconds

    def work() -> None:
        while time.perf_counter() < end:
            for _ in range(100):
                numbers.sum()  # without the interpreter's lock

    cpu, wall = time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work) for _ in range(threads)]:
            done.result()
    return (time.process_time() - cpu) / (time.perf_counter() - wall)


def usable_cores() -> int:
    """Cores given to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_machine(limits: Limits) -> Machine:
    """Name the processor and the versions of what the figures depend on."""
    return Machine(
        cpu=_cpu_model(),
        cores=usable_cores(),
        python=platform.python_version(),
        numpy=version("numpy"),
        numba=version("numba"),
        pyarrow=version("pyarrow"),
        read_bandwidth_gb_per_s=limits.bandwidth_gb_per_s,
        peak_gop_per_s=dict(limits.peak_gop_per_s),
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
