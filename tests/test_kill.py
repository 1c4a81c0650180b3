"""Runs over shards, killed at random moments: nothing lost, nothing half-written, the same bytes in the end.

`python -m pytest -m slow tests/test_kill.py` kills 50 times; without `-m slow` three times.
"""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from shard_runs import MODEL, check_whole, content, write_files, write_model

PROGRAM = (sys.executable, "-m", "oracle")


def command(traces: Path, out: Path) -> tuple[str, ...]:
    more = ("--s-max", "1.2", "--draws", "40", "--k-max", "4", "--every-length", "--threads", "2")
    return (*PROGRAM, "ablate", str(traces), "-m", str(traces.parent / "model.json"), "-o", str(out), "--shards", *more)


def write_inputs(folder: Path, files: int, copies: int = 1) -> Path:
    """Traces, and beside them a model that tells its errors: `ablate` walks over the shards three times."""
    write_model(folder)
    return write_files(folder, files, copies)


def run(words: tuple[str, ...], **how: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, **how)  # type: ignore[call-overload,no-any-return]


def killed(words: tuple[str, ...], seconds: float) -> bool:
    """Start a run and kill it after so many seconds; False if it had ended by then."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_and_gone_on_with(kills: int, tmp_path: Path) -> None:
    """Killed until so many kills are done; whenever a folder is complete, it is compared and another one begun."""
    traces, whole = write_inputs(tmp_path, 8, copies=4 if kills > 3 else 2), tmp_path / "whole"
    started = time.perf_counter()
    assert run(command(traces, whole)).returncode == 0
    longest = time.perf_counter() - started
    expected, moments = content(whole), random.Random(kills)
    done = folders = 0
    midway: set[int] = set()
    out = tmp_path / "out-0"
    while done < kills:
        if killed(command(traces, out), moments.uniform(0.1, 1.0) * longest):
            done += 1
            midway.add(check_whole(out) if out.exists() else 0)
            continue
        assert content(out) == expected
        folders += 1
        out = tmp_path / f"out-{folders}"
    assert run(command(traces, out)).returncode == 0
    assert content(out) == expected
    if kills > 3:
        assert len(midway) > 8, "kills must hit runs at several states for this test to say anything"


def test_a_lock_of_a_dead_run_is_taken_over_and_a_living_one_respected(tmp_path: Path) -> None:
    traces, out = write_inputs(tmp_path, 8, copies=4), tmp_path / "out"
    first = subprocess.Popen(command(traces, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (out / "manifest.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)  # alive, and nothing goes on
    second = run(command(traces, out))
    assert second.returncode == 2
    assert second.stderr.startswith(f"error: {out}: process {first.pid} on ")
    assert second.stderr.endswith("is at work in this folder; wait for it to end, or choose another folder\n")
    first.kill()
    first.wait()
    assert (out / ".lock").exists()
    assert run(command(traces, out)).returncode == 0
    assert not (out / ".lock").exists()


def limited(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_file_that_cannot_grow_leaves_nothing_half_written(tmp_path: Path) -> None:
    """RLIMIT_FSIZE: the operating system refuses to write, as for a full disk, in the middle of a file."""
    traces, out, single = write_inputs(tmp_path, 3, copies=2), tmp_path / "out", tmp_path / "d.parquet"
    failed = run(command(traces, out), preexec_fn=limited(150_000))
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"error: {out}/"), failed.stderr
    assert failed.stderr.endswith("writing failed (File too large); nothing was kept there\n")
    check_whole(out)
    assert not list(out.rglob("*.partial"))
    assert run(command(traces, out)).returncode == 0
    whole = tmp_path / "whole"
    assert run(command(traces, whole)).returncode == 0
    assert content(out) == content(whole)
    solve = (*PROGRAM, "solve", str(traces), "-m", str(MODEL), "-o", str(single))
    assert run(solve, preexec_fn=limited(150_000)).returncode == 1
    assert not [path for path in tmp_path.iterdir() if "d.parquet" in path.name]


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    """A file system of half the size that is needed; only root may mount one."""
    traces, whole, small = write_inputs(tmp_path, 8), tmp_path / "whole", tmp_path / "small"
    assert run(command(traces, whole)).returncode == 0
    half = sum(path.stat().st_size for path in whole.rglob("*") if path.is_file()) // 2
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={half}", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        out = small / "out"
        failed = run(command(traces, out))
        assert failed.returncode == 1
        assert "writing failed (No space left on device)" in failed.stderr
        committed = check_whole(out)
        assert not list(out.rglob("*.partial"))
        subprocess.run(["mount", "-o", "remount,size=200m", str(small)], check=True)
        assert run(command(traces, out)).returncode == 0
        assert content(out) == content(whole)
        assert 0 < committed < 3 * 8, "the disk must fill up midway for this test to say anything"
    finally:
        subprocess.run(["umount", str(small)], check=True)
