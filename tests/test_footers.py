"""Footers and digests of many files: side by side, in the order of the files, the words of one after the other."""

import hashlib
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from traces_factory import trace_table

from oracle import digests, footers
from oracle.digests import Digests
from oracle.errors import InputError
from oracle.files import find_parquet
from oracle.kinds import sorted_by_kind
from oracle.parquet_limits import ParquetLimits
from oracle.pieces import pieces_of
from oracle.provenance import inputs_of
from oracle.traces import TraceFiles

MANY = 24


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(MANY):
        pq.write_table(trace_table((number % 5, 2), prefix=f"{number}-"), tmp_path / f"{number:02d}.parquet")
    return tmp_path


@pytest.mark.parametrize("few", [3, MANY])
def test_footers_are_those_of_each_file_in_order(folder: Path, few: int) -> None:
    paths = find_parquet(folder)[:few]
    read = list(footers.footers(paths))
    assert [path for path, _, _ in read] == list(paths)
    for path, schema, metadata in read:
        assert schema.equals(pq.read_schema(path), check_metadata=True)
        assert metadata.equals(pq.read_metadata(path))


def test_many_are_waited_for_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opens, at_once, most, lock = footers.open_parquet, [0], [0], threading.Lock()

    def far_away(path: Path) -> pq.ParquetFile:
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        time.sleep(0.02)
        with lock:
            at_once[0] -= 1
        return opens(path)

    monkeypatch.setattr(footers, "open_parquet", far_away)
    assert TraceFiles(folder).generations == 2 * MANY
    assert most[0] >= 8
    most[0] = 0
    assert TraceFiles(sorted(folder.iterdir())[:7]).generations == 14
    assert most[0] == 1


def test_faults_are_those_of_one_file_after_the_other(folder: Path) -> None:
    for number in (5, 17):
        (folder / f"{number:02d}.parquet").write_bytes(b"PAR1 and no more")
    for call in (TraceFiles, sorted_by_kind, lambda path: pieces_of(find_parquet(path))):
        with pytest.raises(InputError) as error:
            call(folder)
        assert [fault.partition(" (")[0] for fault in error.value.faults] == [
            f"{folder}/{number}.parquet: the Parquet file is truncated" for number in ("05", "17")
        ]
    left_out = footers.LeftOut()
    assert len(sorted_by_kind(folder, left_out)["traces"]) == MANY - 2
    assert list(left_out.why) == [folder / "05.parquet", folder / "17.parquet"]
    assert left_out.among == find_parquet(folder)
    for number in (3, 4, 20):
        (folder / f"{number:02d}.parquet").write_bytes(b"")
    with pytest.raises(InputError) as error:
        find_parquet(folder)
    assert [fault.split(":")[0] for fault in error.value.faults] == [
        f"{folder}/{n}.parquet" for n in ("03", "04", "20")
    ]
    with pytest.raises(InputError) as error:
        sorted_by_kind(folder)
    assert [fault.split(":")[0] for fault in error.value.faults] == [
        f"{folder}/{n}.parquet" for n in ("03", "04", "05", "17", "20")
    ], "empty and truncated ones together"


def test_a_damaged_footer_is_called_so(folder: Path) -> None:
    path = folder / "00.parquet"
    data = bytearray(path.read_bytes())
    data[-8 - int.from_bytes(data[-8:-4], "little")] = 0x1E  # a field of a type that there is not
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        sorted_by_kind(folder)
    damaged = f"{path}: the Parquet file is damaged and cannot be read; write or copy it again ("
    assert str(error.value).startswith(f"{damaged}its footer is damaged, or the header of a page: ")
    with pytest.raises(InputError) as error:
        ParquetLimits(path)
    assert str(error.value) == f"{damaged}its footer is damaged: there is no field of type 14)"


def test_digests_are_those_of_hashlib(folder: Path) -> None:
    (folder / "empty").touch()
    (folder / "large").write_bytes(b"ab" * 3_000_000)
    paths = sorted(folder.iterdir())
    expected = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    with Digests([*paths, paths[0]]) as under_way:
        assert {path: under_way.of(path) for path in reversed(paths)} == expected
    assert [each["sha256"] for each in inputs_of(paths)] == list(expected.values())
    assert inputs_of(paths[:1])[0] == {"name": "00.parquet", "bytes": paths[0].stat().st_size} | {
        "sha256": expected[paths[0]]
    }


def test_a_file_that_cannot_be_digested_is_an_error_where_it_is_asked_for(folder: Path) -> None:
    there, gone = folder / "00.parquet", folder / "gone"
    with Digests([gone, there]) as under_way:
        assert len(under_way.of(there)) == 64
        with pytest.raises(FileNotFoundError):
            under_way.of(gone)


def test_leaving_stops_what_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without an end: without the stop, leaving would wait for ever."""
    begun = threading.Event()

    class Endless(pa.BufferReader):
        def readinto(self, chunk: bytearray) -> int:
            begun.set()
            return len(chunk)

    monkeypatch.setattr(digests, "opened", lambda _: Endless(b""))
    with Digests([tmp_path / "a", tmp_path / "b"]) as under_way:
        assert begun.wait(10)
    with pytest.raises(CancelledError):
        under_way.of(tmp_path / "a")
