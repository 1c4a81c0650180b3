"""The whole path, threads and Ray in the benchmarks: sizes, memory, disk, and processes that end cleanly."""

import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import clustering, path, run, scaling, studying
from benchmarks.subprocesses import run_module
from oracle.files import open_parquet
from oracle.traces import TraceFiles

SIZES = ("path, 2,048 positions", "path, 4,096 positions", "path, 8,192 positions")


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def report(told):
    return run.measure("smallest", only=["path", "threads"], progress=told.append)


def test_progress_names_sizes_before_they_are_measured(report, told):
    assert told == ["what this machine can do", "path", *(f"path: size {i} of 3" for i in (1, 2, 3)), "threads"]


def test_each_size_has_its_time_memory_and_disk(report):
    rows = [report.row(name) for name in SIZES]
    assert [row.positions for row in rows] == [2048, 4096, 8192]
    for row in rows:
        assert row.value == pytest.approx(row.figures["seconds"] / row.positions * 1e9)
        assert 100 < row.figures["loaded_mb"] <= row.figures["peak_mb"] < path.MEMORY_MB
    disk = [row.figures["trace_mb"] for row in rows]
    assert disk[1] == pytest.approx(2 * disk[0], rel=0.05)
    assert disk[2] == pytest.approx(4 * disk[0], rel=0.05)
    assert disk[2] * 1e6 > 8192 * 48 * 8 / 2  # ids do not compress away


def test_the_line_is_that_of_the_sizes(report):
    line, rows = report.row(path.LINE), [report.row(name) for name in SIZES]
    found = path.straight_line([row.positions for row in rows], [row.figures["seconds"] for row in rows])
    assert line.figures["slope_ns"] == line.value == found.slope_ns
    assert line.figures["fixed_s"] == found.fixed_s
    assert "largest relative deviation" in line.note


def test_threads_are_measured_for_each_command_with_the_cores_they_were_given(report):
    counts = scaling.thread_counts(report.machine.cores)
    for command in ("solve", "score", "ablate"):
        for n in counts:
            row = report.row(f"{command}, {n} thread{'s' * (n > 1)}")
            assert row.positions == 4096
            assert 0 < row.figures["cores_given"] <= n + 0.1
            assert list(row.ratios) == ([] if n == 1 else ["one thread"])
            assert all(0 < ratio < math.inf for ratio in row.ratios.values())


def test_counts_of_threads():
    assert [scaling.thread_counts(cores) for cores in (1, 2, 6, 8)] == [(1, 2), (1, 2), (1, 2, 4, 6), (1, 2, 4, 8)]


def test_a_line_is_found_where_there_is_one():
    n = [100, 300, 1000, 3000, 10_000]
    line = path.straight_line(n, [0.25 + 2e-3 * each for each in n])
    assert (line.fixed_s, line.slope_ns) == pytest.approx((0.25, 2e6))
    assert line.r_squared == pytest.approx(1.0)
    assert line.largest_deviation < 1e-12


def test_a_line_weighs_sizes_alike():
    n = np.array([100.0, 300.0, 1000.0, 3000.0, 10_000.0])
    rng = random.Random(3)
    t = np.array([(0.1 + 1e-3 * each) * rng.uniform(0.8, 1.25) for each in n])
    line = path.straight_line(n.tolist(), t.tolist())
    slope, fixed = np.polyfit(n, t, 1, w=1 / t)
    assert (line.fixed_s, line.slope_ns) == pytest.approx((fixed, slope * 1e9))
    off = fixed + slope * n - t
    assert line.largest_deviation == pytest.approx(max(abs(off / t)))
    assert line.r_squared == pytest.approx(1 - sum(off**2) / sum((t - t.mean()) ** 2))
    curved = path.straight_line(n.tolist(), (1e-7 * n**2).tolist())
    assert curved.largest_deviation > 0.5


def test_a_size_that_the_disk_has_no_room_for_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(path.shutil, "disk_usage", lambda _: SimpleNamespace(free=1_200_000))
    monkeypatch.setattr(
        path, "_row_of_size", lambda shards, *_: path.Row("measured", "path", "", "", note=str(len(shards)))
    )
    first, second, third = path.rows((2048, 4096, 8192), 1, 1)
    assert [first.note, second.note] == ["1", "2"]
    assert third.name == "path, 8,192 positions"
    assert third.value is None
    assert third.note.startswith("not measured: 0.0 GB of temporary files more, 0.0 GB are free; set TMPDIR")


def test_shards_are_one_dataset_whose_names_differ(tmp_path):
    shards = list(studying.write_shards(tmp_path, 70, 0, 2))
    names = [name for batch in TraceFiles(shards) for name in batch.generation]
    assert names == [f"g{g}" for g in range(140)]
    with open_parquet(shards[1]) as file:
        assert file.metadata.num_rows == 70


def test_peak_memory_is_that_of_this_process():
    before = studying.peak_bytes()
    block = np.ones(before // 8 + (64 << 20) // 8)  # more than was ever held
    assert studying.peak_bytes() >= block.nbytes


def test_without_ray_one_row_says_so(monkeypatch):
    monkeypatch.setattr(clustering.importlib.util, "find_spec", lambda _: None)
    (row,) = clustering.rows(4096, 1)
    assert (row.name, row.value) == ("solve, engine local / Ray", None)
    assert row.note == "Ray is not installed: pip install 'draft-oracle[ray]'"


def test_a_ray_that_cannot_be_reached_says_why(monkeypatch):
    monkeypatch.setattr(clustering.importlib.util, "find_spec", lambda _: "there")
    monkeypatch.setattr(clustering, "run_module", lambda *_: {"fault": "--engine ray: Ray cannot be reached (no)"})
    (row,) = clustering.rows(4096, 1)
    assert (row.value, row.note) == (None, "--engine ray: Ray cannot be reached (no)")


@pytest.mark.ray
def test_ray_writes_the_bytes_of_one_process():
    rows = {row.name: row for row in clustering.rows(4096, 1)}
    assert list(rows) == ["Ray started", "first solve on Ray", "solve, engine local", "solve, engine local / Ray"]
    local = rows["solve, engine local"]
    assert local.figures == {"same_bytes": 1.0}
    assert local.positions == 4096
    assert rows["solve, engine local / Ray"].note.endswith("the same bytes")


def test_a_module_that_fails_is_told_with_its_last_words():
    with pytest.raises(RuntimeError, match=r"(?s)benchmark path failed with exit code 1:.*no-such-folder"):
        run_module("path", "/no-such-folder/traces", "1", "1", "1")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_leaves_no_files_and_no_process(tmp_path, number):
    command = [sys.executable, "-m", "oracle", "bench", "--smallest", "--only", "path"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    root = Path(__file__).resolve().parent.parent
    running = subprocess.Popen(command, cwd=root, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("*/warm")) and time.monotonic() < deadline:  # a process of its own is at work
        time.sleep(0.05)
    assert list(tmp_path.glob("*/warm"))
    running.send_signal(number)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert said.decode().startswith("stopped")
    assert list(tmp_path.iterdir()) == []
