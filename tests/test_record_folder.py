"""The folder of a recording: one run at a time, nothing of a killed one in the way, nothing of a user's touched."""

import errno
import json
import os
import platform
from pathlib import Path
from typing import Any

import pytest

from oracle import locks
from oracle.errors import InputError, InputWarning
from oracle.outputs import atomic_output
from oracle.recorder.folder import ORIGIN, PARTS, recording_folder

SAID = {"format": "draft-oracle/recording", "timing": {"anchors": 3, "repeats": 1}}


def recorded(folder: Path, resume: bool = False) -> dict[str, Any] | None:
    """Record what every recording holds; give what the earlier one said."""
    with recording_folder(folder, resume) as former:
        (folder / ORIGIN).write_text(json.dumps(SAID))
        return former


def refusal(folder: Path, resume: bool = False) -> str:
    with pytest.raises(InputError) as error, recording_folder(folder, resume):
        pytest.fail("not refused")
    return str(error.value)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_one_run_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    busy = (
        f"{out}: process {os.getpid()} on {platform.node()} is at work in this folder; wait for it to end, or choose "
        "another folder"
    )
    with recording_folder(out, False) as former:
        assert former is None
        assert refusal(out) == refusal(out, resume=True) == busy, "from before the first file"
        (out / ORIGIN).write_text(json.dumps(SAID))
        assert refusal(out) == refusal(out, resume=True) == busy, "to the end"
    assert names(out) == [ORIGIN]
    assert refusal(out) == f"{out}: the folder exists already; choose another name, or --resume a recording"
    assert recorded(out, resume=True) == SAID
    assert names(out) == [ORIGIN]


def test_what_a_killed_run_was_writing_is_removed_and_what_it_had_finished_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    child = os.fork()
    if child == 0:
        with recording_folder(out, False), atomic_output(out / PARTS / "b"), atomic_output(out / ORIGIN):
            os._exit(9)
    os.waitpid(child, 0)
    assert ".lock" in names(out)
    (out / PARTS / ".b.another-host-0.partial").touch()
    (out / PARTS / "a").touch()
    (out / ORIGIN).write_text(json.dumps(SAID))
    assert recorded(out, resume=True) == SAID
    assert names(out) == [PARTS, f"{PARTS}/a", ORIGIN]


def test_a_run_that_was_killed_before_its_first_file_is_not_in_the_way(tmp_path: Path) -> None:
    out = tmp_path / "out"
    child = os.fork()
    if child == 0:
        with recording_folder(out, False), atomic_output(out / ORIGIN):
            os._exit(9)
    os.waitpid(child, 0)
    assert len(names(out)) == 2, "its lock, and what it was writing"
    assert recorded(out) is None
    assert names(out) == [ORIGIN]


def test_folders_in_which_nothing_was_recorded_are_removed_but_for_those_that_were_there(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for folder in ("there", "there/new/newer"):
        with pytest.raises(KeyError), recording_folder(tmp_path / folder, False):
            raise KeyError
    assert names(tmp_path) == ["there"]


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_of_something_else_is_refused_and_not_touched(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "mine.txt").touch()
    (tmp_path / ".mine.partial").touch()
    before = tmp_path.stat().st_mtime_ns
    why = "the folder exists already; choose another name, or --resume a recording"
    none = f"holds no recording ({ORIGIN} cannot be read); choose another"
    assert refusal(tmp_path, resume) == f"{tmp_path}: {none if resume else why}"
    assert tmp_path.stat().st_mtime_ns == before, "not even a lock file was put there"
    (tmp_path / ORIGIN).write_text('{"format": "another"}')
    other = f"{tmp_path / ORIGIN}: is not of this program; choose another folder"
    assert refusal(tmp_path, resume) == (other if resume else f"{tmp_path}: {why}")
    assert names(tmp_path) == [".mine.partial", "mine.txt", ORIGIN]


def test_places_that_cannot_be_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file") == f"{tmp_path}/file: is a file; give a folder to write"
    below = tmp_path / "file" / "below"
    assert refusal(below) == f"{below}: the folder cannot be made (Not a directory); choose another"
    (tmp_path / ".lock").symlink_to("file")
    (tmp_path / ORIGIN).write_text(json.dumps(SAID))
    said = "cannot be written (Too many levels of symbolic links); choose another place"
    assert refusal(tmp_path, resume=True) == f"{tmp_path}: {said}"


def test_where_there_are_no_locks_it_is_said_and_gone_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(_descriptor: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, "flock", no_locks)
    with pytest.warns(InputWarning) as caught:
        recorded(tmp_path / "out")
    assert [str(each.message) for each in caught] == [
        f"{tmp_path}/out: its file system knows no locks; see to it that no other run records into this folder"
    ]
