"""Shards worked out again: killed between their files and their record, nothing is in the next run's way."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from in_process import printed
from shard_runs import MODEL, content, write_files
from test_resume_damage import ended

from oracle.errors import InputError
from oracle.pieces import Piece
from oracle.shards import manifest
from oracle.traces import TraceFiles


class KilledError(BaseException):
    """What nothing catches, as nothing catches SIGKILL."""


def short_of_memory(read: Any) -> Any:
    """Reading that fails for one row group, of a file that nothing is wrong with."""

    def reads(files: TraceFiles, piece: Piece) -> Iterator[Any]:
        if piece.file.name == "part-1.parquet" and 1 in piece.groups:
            raise InputError(f"{piece.file}: cannot be read just now")
        yield from read(files, piece)

    return reads


def test_a_shard_replaced_by_a_run_that_was_killed_is_worked_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, out, whole = write_files(tmp_path, 3), tmp_path / "out", tmp_path / "whole"
    words = ("solve", traces, "-m", MODEL, "--shards", "-o")
    printed(*words, whole)
    with monkeypatch.context() as patch:
        patch.setattr(TraceFiles, "read", short_of_memory(TraceFiles.read))
        assert ended(*words, out, "--keep-going").returncode == 3
    record, decisions = out / "shards" / "00001.json", out / "decisions" / "00001.parquet"
    before = decisions.read_bytes()

    def killed(*_of_a_record: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(manifest, "write_record", killed)
        with pytest.raises(KilledError):
            printed(*words, out)
    assert decisions.read_bytes() != before, "the kill must come between the files and the record to say anything"
    assert not record.exists()
    found = ended(*words, out, "--keep-going")
    assert (found.returncode, found.stderr) == (0, "")
    assert content(out) == content(whole)


def test_what_was_left_out_stays_committed_if_it_cannot_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, out = write_files(tmp_path, 3), tmp_path / "out"
    words = ("solve", traces, "-m", MODEL, "--shards", "-o", out)
    monkeypatch.setattr(TraceFiles, "read", short_of_memory(TraceFiles.read))
    assert ended(*words, "--keep-going").returncode == 3
    before = content(out)
    assert ended(*words).returncode == 2
    after = content(out)
    assert {name: after[name] for name in before if name != "manifest.json"} == {
        name: before[name] for name in before if name != "manifest.json"
    }
