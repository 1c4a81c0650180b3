"""Damaged traces in a run over shards: told by file and row group, left out if asked, never silently."""

import contextlib
import io
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process import printed
from shard_runs import MODEL, content, write_files

from oracle.cli.main import group
from oracle.errors import InputError


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Four files of two row groups; the second row group of the second file cannot be decoded."""
    folder = write_files(tmp_path, 4)
    damage(folder / "part-1.parquet", 1)
    return folder


def damage(path: Path, number: int) -> None:
    """Overwrite the pages of a column of one row group."""
    parsed = pq.ParquetFile(path)
    columns = [parsed.metadata.row_group(number).column(i) for i in range(parsed.metadata.num_columns)]
    column = next(each for each in columns if each.path_in_schema.startswith("match_prob"))
    data = bytearray(path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    data[begin : begin + column.total_compressed_size] = b"\x00" * column.total_compressed_size
    path.write_bytes(data)


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str


def ended(*words: str | Path) -> Ended:
    """What a command prints and ends with, as `main` has it."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = group.main(list(map(str, words)), prog_name="draft-oracle", standalone_mode=False) or 0
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            code = 2
    return Ended(code, out.getvalue(), err.getvalue())


def test_what_cannot_be_read_is_told_by_file_and_row_group(traces: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        printed("solve", traces, "-m", MODEL, "-o", tmp_path / "out", "--shards")
    assert str(raised.value).startswith(f"{traces}/part-1.parquet, row group 1: ")
    assert [path.name for path in (tmp_path / "out" / "shards").iterdir()] == ["00000.json"], "what came before stays"


def test_the_rest_is_kept_if_asked_and_the_exit_code_says_so(traces: Path, tmp_path: Path) -> None:
    out, rest = tmp_path / "out", tmp_path / "rest"
    command = ("ablate", traces, "-m", MODEL, "-o", out, "--shards", "--keep-going", "--s-max", "1.5", "--cases", "2")
    found = ended(*command)
    assert found.returncode == 3, found.stderr
    left_out = f"left out: {traces}/part-1.parquet, row group 1: "
    assert left_out in found.stderr
    assert left_out in found.stdout, "the tables say so too"
    manifest = json.loads((out / "manifest.json").read_text())
    assert len(manifest["left_out"]) == 1
    assert json.loads((out / "tables.json").read_text())["provenance"]["left_out"] == manifest["left_out"]
    rest.mkdir()
    for path in traces.iterdir():
        shutil.copy(path, rest)
    pq.write_table(pq.ParquetFile(traces / "part-1.parquet").read_row_group(0), rest / "part-1.parquet")
    expected = printed("ablate", rest, "-m", MODEL, "--s-max", "1.5", "--cases", "2")
    kept = [line for line in found.stdout.splitlines() if "left out: " not in line]
    assert kept == expected.replace(str(rest), str(traces)).splitlines()
    before = content(out)
    assert ended(*command).returncode == 3, "going on leaves out the same"
    assert content(out) == before
    without = ended(*(word for word in command if word != "--keep-going"))
    assert without.returncode == 2
    assert without.stderr.startswith(f"error: {traces}/part-1.parquet, row group 1: ")


def test_wrong_values_leave_out_their_row_group(tmp_path: Path) -> None:
    traces = write_files(tmp_path, 2)
    parsed = pq.ParquetFile(traces / "part-0.parquet")
    groups = [parsed.read_row_group(number) for number in range(2)]
    at = groups[0].column_names.index("context_start")
    groups[0] = groups[0].set_column(at, groups[0].schema.field(at), pa.array([-1] * len(groups[0]), pa.int32()))
    with pq.ParquetWriter(traces / "part-0.parquet", groups[0].schema) as writer:
        for each in groups:
            writer.write_table(each)
    found = ended("score", traces, "-m", MODEL, "-o", tmp_path / "out", "--shards", "--keep-going")
    assert found.returncode == 3
    assert f"left out: {traces}/part-0.parquet, row group 0, generation '" in found.stderr
    assert f"(and {len(groups[0]) - 1} more faults)" in found.stderr


def test_files_that_are_no_parquet_are_left_out(traces: Path, tmp_path: Path) -> None:
    (traces / "part-4.parquet").write_bytes(b"")
    (traces / "part-5.parquet").write_bytes((traces / "part-0.parquet").read_bytes()[:-20])
    command = ("solve", traces, "-m", MODEL, "-o", tmp_path / "out", "--shards", "--keep-going")
    program = (sys.executable, "-m", "oracle", *map(str, command))
    found = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 3
    said = [line for line in found.stderr.splitlines() if line.startswith("left out: ")]
    assert len(said) == 3
    assert said[0].startswith(f"left out: {traces}/part-4.parquet: the file is empty (0 bytes)")
    assert "part-5.parquet: the Parquet file is truncated" in said[1]
    assert "part-1.parquet, row group 1: " in said[2]


def test_nothing_readable_is_an_error(tmp_path: Path) -> None:
    traces = write_files(tmp_path, 1)
    for number in range(2):
        damage(traces / "part-0.parquet", number)
    found = ended("solve", traces, "-m", MODEL, "-o", tmp_path / "out", "--shards", "--keep-going")
    assert found.returncode == 2
    assert (
        f"1. nothing could be read of the traces; mend or replace them\n2. {traces}/part-0.parquet, row group 0"
        in found.stderr
    )
