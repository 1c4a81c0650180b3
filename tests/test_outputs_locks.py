"""The lock of a folder: what it never does to a file that is not its own, and that it is let go whatever happens."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from oracle.errors import InputError
from oracle.locks import NAME, FolderLock


def taken(folder: Path) -> FolderLock:
    lock = FolderLock(folder)
    lock.take()
    return lock


def is_free(folder: Path) -> bool:
    try:
        lock = taken(folder)
    except InputError:
        return False
    lock.release()
    return True


def test_a_lock_whose_file_someone_removed_leaves_that_of_the_next_run_alone(tmp_path: Path) -> None:
    first = taken(tmp_path)
    (tmp_path / NAME).unlink()
    second = taken(tmp_path)
    first.release()
    assert not is_free(tmp_path), "a third run would be at work beside the second"
    second.release()
    assert is_free(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_lock_file_that_cannot_be_removed_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    lock = taken(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        lock.release()
    assert (tmp_path / NAME).exists()
    assert is_free(tmp_path)


def test_a_link_in_the_place_of_a_lock_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    (tmp_path / NAME).symlink_to("thesis.txt")
    with pytest.raises(OSError, match="symbolic links"):
        taken(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_a_lock_is_let_go_of_with_its_process(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        taken(tmp_path)
        os._exit(9)
    os.waitpid(child, 0)
    assert (tmp_path / NAME).exists()
    assert is_free(tmp_path)


def test_where_there_are_no_locks_nothing_is_left_and_what_others_wrote_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_descriptor: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unknown)
    with pytest.raises(OSError, match="locks"):
        FolderLock(tmp_path).take()
    assert not list(tmp_path.iterdir())
    (tmp_path / NAME).write_text("held elsewhere")
    with pytest.raises(OSError, match="locks"):
        FolderLock(tmp_path).take()
    assert (tmp_path / NAME).read_text() == "held elsewhere"
