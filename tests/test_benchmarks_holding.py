"""The memory of score and of a whole ablate in the benchmarks: rows by command and shape, and what must hold."""

import pytest

from benchmarks import holding, path
from benchmarks.checks import checks_of
from benchmarks.report import Row
from benchmarks.studying import write_shards
from oracle.traces import TraceFiles


def test_each_command_is_measured_on_long_and_on_short_generations():
    rows = list(holding.rows(1_024, 100, 1))
    assert [row.name for row in rows] == [
        "score, 2 generations of 512",
        "ablate, 2 generations of 512",
        "score, 100 generations of 4",
        "ablate, 100 generations of 4",
    ]
    assert [row.positions for row in rows] == [1_024, 1_024, 400, 400]
    for row in rows:
        assert 100 < row.figures[path.LOADED_MB] <= row.figures[path.PEAK_MB] < path.MEMORY_MB
        assert row.value == pytest.approx(row.figures[path.SECONDS] / row.positions * 1e9)


def test_the_most_that_any_command_takes_is_judged():
    sizes = [
        ("path, 9,000 positions", 400.0),
        ("ablate, 9 generations of 4", 601.0),
        ("score, 9 generations of 4", 500.0),
    ]
    rows = [Row(name, "memory", "", "", positions=9, figures={path.PEAK_MB: peak}) for name, peak in sizes]
    (check,) = checks_of(rows, clock_counts=True)
    assert (check.passed, check.found, check.fails_the_run) == (False, "601 MB: ablate, 9 generations of 4", True)
    (check,) = checks_of([rows[0], rows[2]], clock_counts=True)
    assert check.passed


def test_short_generations_have_names_of_their_own(tmp_path):
    batches = list(TraceFiles(list(write_shards(tmp_path, 9_000, 0, 1, 4))))
    assert [name for batch in batches for name in batch.generation] == [f"g{g}" for g in range(9_000)]
    assert sum(batch.positions for batch in batches) == 36_000
