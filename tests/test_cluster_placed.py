"""Relative paths on other nodes: the file that was meant where the command was given, under the name it has there."""

import os
import pickle
import platform
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cluster_data import split_traces

from oracle.cluster.answers import Answer, answers
from oracle.cluster.placed import placed
from oracle.cluster.ray_engine import _answered
from oracle.files import find_parquet, open_parquet, sha256_of, shown, size_of
from oracle.pieces import Piece, pieces_of
from oracle.provenance import versions
from oracle.traces import TraceFiles


class OnAnotherNode:
    """An engine whose only worker works in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, files: TraceFiles) -> list[Answer]:
        """Let the worker read everything, a piece a row group."""
        pieces = pieces_of(files.paths, 1)
        sent = pickle.dumps((placed(pieces), Reading(files)))
        here = os.getcwd()
        os.chdir(self.folder)
        try:
            numbers, there = range(len(pieces)), pickle.loads(sent)
            rows = pa.table({"piece": list(numbers)})
            found = [row for table in _answered(rows, *there, versions()) for row in table.to_pylist()]
            assert os.getcwd() == str(self.folder), "other work of the same worker is not disturbed"
        finally:
            os.chdir(here)
        return [pickle.loads(row["answer"]) for row in found if row["answer"] is not None]


class Reading:
    """What `spread` makes of reading and a function."""

    def __init__(self, files: TraceFiles) -> None:
        self.files = files

    def __call__(self, piece: Piece):
        return answers(piece, self.files.read, said)


def said(pair) -> tuple[str, ...]:
    traces, _ = pair
    return traces.source, *traces.generation


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with traces, which is worked in."""
    (tmp_path / "here").mkdir()
    split_traces(tmp_path / "here" / "traces")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def elsewhere(here: Path) -> Path:
    """A folder with other traces under the same names."""
    folder = here.parent / "elsewhere"
    split_traces(folder.parent / "elsewhere-all", files=6)
    folder.mkdir()
    (folder.parent / "elsewhere-all").rename(folder / "traces")
    return folder


def test_a_worker_in_another_folder_reads_what_was_meant(here: Path, elsewhere: Path) -> None:
    files = TraceFiles("traces")
    wanted = [said(pair) for piece in pieces_of(files.paths, 1) for pair in files.read(piece)]
    found = OnAnotherNode(elsewhere)(files)
    assert [answer.value for answer in found] == wanted
    assert {source for source, *_ in wanted} == {f"traces/part-{number}.parquet" for number in range(3)}


def test_faults_keep_the_names_that_were_given(here: Path, elsewhere: Path) -> None:
    broken = here / "traces" / "part-0.parquet"
    table = pq.read_table(broken)
    at = table.schema.get_field_index("context_start")
    table = table.set_column(at, table.schema.field(at), pa.array([-1] * len(table), pa.int32()))
    pq.write_table(table, broken, row_group_size=1)
    files = TraceFiles(["traces/part-0.parquet"])
    faults = OnAnotherNode(elsewhere)(files)[0].faults
    with pytest.raises(ValueError, match="context_start") as raised:
        next(iter(files))
    assert faults == (str(raised.value).splitlines()[0],)
    assert faults[0].startswith("traces/part-0.parquet, generation '")


def test_a_file_that_is_not_there_is_named_as_given_and_by_its_place(here: Path, elsewhere: Path) -> None:
    files = TraceFiles("traces/part-0.parquet")
    node = OnAnotherNode(elsewhere)
    given = pieces_of(files.paths, 1)
    (here / "traces" / "part-0.parquet").unlink()
    answer = next(answers(placed(given)[0], files.read, said))
    assert pickle.loads(answer).faults == (
        f"traces/part-0.parquet: no such file on the worker {platform.node()}; every node of the cluster must see it "
        f"as {here}/traces/part-0.parquet, or give a URI (s3://, gs://)",
    )
    shutil.copy(node.folder / "traces" / "part-0.parquet", here / "traces")
    assert pickle.loads(next(answers(placed(given)[0], files.read, said))).faults == ()


def test_a_placed_path_is_the_given_one_to_all_but_who_opens_it(here: Path, elsewhere: Path, monkeypatch) -> None:
    (given, *_), folder = find_parquet("traces"), here / "traces"
    sha256, size = sha256_of(given), size_of(given)
    piece = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(placed([Piece(given, range(1), 0)])))))[0]
    monkeypatch.chdir(elsewhere)
    assert piece == Piece(given, range(1), 0)
    assert (piece.file, 0) in frozenset({(given, 0)}), "row groups that are left out are found again"
    assert hash(piece.file) == hash(given)
    assert shown(piece.file) == str(given) == "traces/part-0.parquet"
    assert (sha256_of(piece.file), size_of(piece.file)) == (sha256, size)
    with open_parquet(piece.file) as file, open_parquet(folder / "part-0.parquet") as same:
        assert file.metadata.equals(same.metadata)


def test_files_named_by_uri_are_sent_as_they_are(here: Path) -> None:
    pieces = pieces_of(find_parquet(f"file://{here}/traces"))
    assert all(sent is piece for sent, piece in zip(placed(pieces), pieces, strict=True))
