"""Work side by side: results in order, reading beside the work, bounded, errors in their place, a clean end."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.analysis import Plan, analyse
from oracle.costs import choose_range, length_costs
from oracle.errors import InputError
from oracle.latency import LatencyModel
from oracle.pipeline import in_order
from oracle.result_files import result_writer
from oracle.traces import TraceFiles

PATIENCE_S = 20.0
CASES = Path(__file__).parent.parent / "cases"
TRACES = CASES / "tiny-moe" / "traces.parquet"


FREED = """
from oracle.pipeline import in_order

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

def work(i):
    blocks = [bytearray(b"1" * 50_000) for _ in range(4_000)]
    return bytes(2_000)  # what stays lies behind what goes

before = resident()
kept = list(in_order(work, range(4), 2))
print(resident() - before)
"""


class BadError(Exception):
    """Of an item."""


class Watched:
    """Numbers that know how many were read and not yet taken out, and which threads read them."""

    def __init__(self, count: int, bad: int | None = None) -> None:
        self.count, self.bad = count, bad
        self.read = 0
        self.readers: set[int] = set()
        self.closed = False
        self._reading = threading.Lock()

    def __iter__(self) -> Iterator[int]:
        try:
            for number in range(self.count):
                assert self._reading.acquire(blocking=False), "two threads read at once"
                self.readers.add(threading.get_ident())
                if number == self.bad:
                    raise BadError(f"item {number}")
                time.sleep(0)
                self.read += 1
                self._reading.release()
                yield number
        finally:
            self.closed = True


@given(count=st.integers(0, 30), threads=st.integers(1, 5), delays=st.lists(st.integers(0, 2), min_size=1, max_size=7))
def test_results_come_in_the_order_of_the_items(count, threads, delays):
    def square(number: int) -> int:
        time.sleep(delays[number % len(delays)] / 2000)
        return number * number

    assert list(in_order(square, Watched(count), threads)) == [n * n for n in range(count)]


def test_items_are_read_beside_the_caller_and_the_work():
    items = Watched(50)
    workers: set[int] = set()
    list(in_order(lambda _: workers.add(threading.get_ident()), items, 2))
    here = threading.get_ident()
    assert here not in items.readers
    assert here not in workers
    assert len(items.readers | workers) <= 3


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_no_more_than_the_threads_work_at_once(threads):
    now = most = 0
    lock = threading.Lock()

    def work(_: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.002)
        with lock:
            now -= 1

    list(in_order(work, range(40), threads))
    assert most == threads


@pytest.mark.parametrize("threads", [1, 3])
def test_an_item_is_read_while_another_is_worked_on(threads):
    items = Watched(10)
    far = threading.Event()

    def work(number: int) -> bool:
        if number == 0:  # the first is not done before the next has been read
            end = time.monotonic() + PATIENCE_S
            while items.read < 2 and time.monotonic() < end:
                time.sleep(0.001)
            if items.read >= 2:
                far.set()
        return far.is_set()

    assert next(in_order(work, items, threads))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_caller_who_takes_nothing_stops_the_reading(threads):
    items = Watched(100)
    with closing(in_order(abs, items, threads)) as results:
        for taken in range(1, 20):
            assert next(results) == taken - 1
            time.sleep(0.003)
            assert items.read <= taken + threads + 1
    time.sleep(0.01)
    read = items.read
    time.sleep(0.02)
    assert items.read == read < 100


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("bad", [0, 1, 7, 19])
def test_an_error_of_reading_comes_behind_the_results_before_it(threads, bad):
    found: list[int] = []
    with pytest.raises(BadError, match=f"item {bad}"):
        found.extend(in_order(abs, Watched(20, bad), threads))
    assert found == list(range(bad))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_an_error_of_the_work_comes_behind_the_results_before_it(threads):
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 5:
            raise BadError("five")
        return number

    found: list[int] = []
    with pytest.raises(BadError, match="five"):
        found.extend(in_order(work, Watched(1000), threads))
    assert found == [0, 1, 2, 3, 4]
    assert max(begun) <= 5 + threads + 1


@pytest.mark.parametrize("threads", [1, 3])
def test_closing_leaves_no_thread_behind_and_begins_nothing_more(threads):
    before = threading.active_count()
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        time.sleep(0.005)
        return number

    results = in_order(work, Watched(1000), threads)
    assert list(islice(results, 4)) == [0, 1, 2, 3]
    results.close()
    assert threading.active_count() == before
    assert max(begun) <= 4 + threads + 1


def test_an_interrupt_while_a_result_is_waited_for_ends_the_walk():
    def work(number: int) -> int:
        if number == 3:
            raise KeyboardInterrupt
        return number

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        list(in_order(work, Watched(1000), 2))
    assert threading.active_count() == before


def solved(traces: list[Path], path: Path, threads: int) -> bytes:
    """The decisions file of small batches."""
    model = LatencyModel.load(CASES / "published-a100" / "model.json")
    span = choose_range(model, 10)
    plan = Plan(length_costs(model, span.k_min, span.k_max), decisions=True)
    files = TraceFiles(traces, columns=("experts", "match_prob"), batch_bytes=30_000)
    tables = (r.decisions for r in in_order(partial(analyse, plan=plan), files, threads))
    first = next(tables)
    assert first is not None
    with result_writer(path, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)
    assert pq.ParquetFile(path).num_row_groups > 10
    return path.read_bytes()


def test_a_file_of_decisions_is_the_same_whatever_the_threads(tmp_path):
    one, two, five = (solved([TRACES], tmp_path / f"{threads}.parquet", threads) for threads in (1, 2, 5))
    assert one == two == five


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_first_faulty_file_is_named_whatever_the_threads(tmp_path, threads):
    table = pq.read_table(TRACES)
    for name, kind in (("b.parquet", "wrong"), ("c.parquet", "bad")):
        ids = [f"{name}-{g}" for g in range(len(table))]
        kinds = table.set_column(table.schema.get_field_index("match_kind"), "match_kind", [[kind] * len(table)])
        pq.write_table(
            kinds.set_column(table.schema.get_field_index("generation"), "generation", [ids]), tmp_path / name
        )
    with pytest.raises(InputError) as error:
        solved([TRACES, tmp_path / "b.parquet", tmp_path / "c.parquet"], tmp_path / "d.parquet", threads)
    assert error.value.faults[0] == (
        f"{tmp_path / 'b.parquet'}, generation 'b.parquet-0': match_kind is 'wrong'; it is one of overlap, reference, "
        "greedy, empirical, realised, overlap_lower, overlap_upper"
    )
    assert all("b.parquet" in fault for fault in error.value.faults)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_walk_gives_back_what_its_threads_freed():
    said = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True).stdout
    assert int(said) < 150e6, said  # 400 MB were held at once; what is on top of an arena stays
