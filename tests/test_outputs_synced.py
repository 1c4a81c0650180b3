"""What is written outlives a power cut: everything has reached the disk before it has its name, and then the name."""

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from oracle import syncing
from oracle.errors import InputError
from oracle.outputs import atomic_files, atomic_folder, atomic_output
from oracle.swaps import _exchanged

Step = tuple[str, ...]


def folder(path: Path, overwrite: bool = False) -> AbstractContextManager[Path]:
    return atomic_folder(path, overwrite, ours={"a", "said"}.__contains__, marker="said")


def fill(place: Path) -> None:
    (place / "a").write_text("1")
    (place / "said").write_text("draft-oracle")


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """Every sync and every change of a name from now on, names below the test's folder."""
    seen: list[Step] = []
    fsync = os.fsync

    def below(path: object) -> str:
        return os.path.relpath(str(path), tmp_path)

    def synced(descriptor: int) -> None:
        seen.append(("sync", below(os.readlink(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    def renaming(call: Callable[[object, object], None]) -> Callable[[object, object], None]:
        def renamed(source: object, target: object) -> None:
            seen.append(("rename", below(source), below(target)))
            call(source, target)

        return renamed

    def exchanged(first: Path, second: Path) -> bool:
        seen.append(("exchange", below(first), below(second)))
        return _exchanged(first, second)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr("oracle.swaps._exchanged", exchanged)
    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, renaming(getattr(os, name)))
    return seen


def test_a_folder_and_all_in_it_are_synced_before_it_has_its_name_and_its_parents_too(
    tmp_path: Path, steps: list[Step]
) -> None:
    with folder(tmp_path / "new" / "newer" / "out") as place:
        fill(place)
        assert steps == [("sync", "new"), ("sync", ".")], "a folder's own entry lies in the one above"
        steps.clear()
    partial = "new/newer/.out.partial"
    assert steps == [
        ("sync", f"{partial}/a"),
        ("sync", f"{partial}/said"),
        ("sync", partial),
        ("rename", partial, "new/newer/out"),
        ("sync", "new/newer"),
    ]


def test_folders_within_are_synced_from_the_deepest_up(tmp_path: Path, steps: list[Step]) -> None:
    deep = tmp_path / "top" / "middle" / "deep"
    deep.mkdir(parents=True)
    (deep / "x").touch()
    (tmp_path / "top" / "y").touch()
    syncing.sync_tree(tmp_path / "top")
    assert [name for _, name in steps] == ["top/middle/deep/x", "top/middle/deep", "top/middle", "top/y", "top"]


def test_what_replaces_a_folder_is_synced_before_the_exchange_and_the_former_removed_after(
    tmp_path: Path, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    with folder(tmp_path / "out") as place:
        fill(place)
    steps.clear()
    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda path: (steps.append(("unlink", path.parent.name)), unlink(path))[0])
    with folder(tmp_path / "out", overwrite=True) as place:
        fill(place)
    in_order = [step for step in steps if step != ("unlink", tmp_path.name)]  # of the lock
    assert in_order[2:] == [
        ("sync", ".out.partial"),
        ("rename", ".out.partial", "out"),  # refused: something is there
        ("rename", ".out.partial", ".out.former"),
        ("exchange", ".out.former", "out"),
        ("sync", "."),
        ("unlink", ".out.former"),
        ("unlink", ".out.former"),
    ]


def test_files_are_synced_before_they_have_their_names(tmp_path: Path, steps: list[Step]) -> None:
    with atomic_output(tmp_path / "made" / "x") as partial:
        partial.write_text("1")
    hidden = f"made/{partial.name}"
    assert steps == [("sync", "."), ("sync", hidden), ("rename", hidden, "made/x"), ("sync", "made")]
    steps.clear()
    with atomic_files(tmp_path) as place:
        fill(place)
    assert steps == [
        *(("sync", f"{place.name}/{name}") for name in ("a", "said")),
        ("sync", place.name),
        *(("rename", f"{place.name}/{name}", name) for name in ("a", "said")),
        ("sync", "."),
    ]


def failing_for_folders(number: int) -> Callable[[int], None]:
    fsync = os.fsync

    def sync(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    return sync


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_syncs_no_folder_is_written_to_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "fsync", failing_for_folders(number))
    with folder(tmp_path / "made" / "out") as place:
        fill(place)
    assert sorted(path.name for path in (tmp_path / "made" / "out").iterdir()) == ["a", "said"]


def test_a_disk_that_fails_is_said_and_what_is_there_by_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, file = tmp_path / "out", tmp_path / "x"
    monkeypatch.setattr(os, "fsync", failing_for_folders(errno.EIO))
    with pytest.raises(OSError, match="failed") as raised, folder(out) as place:
        fill(place)
    assert str(raised.value) == f"{out}: writing failed (Input/output error); nothing was kept there"
    assert not list(tmp_path.iterdir()), "it failed before the folder had its name"
    with pytest.raises(OSError, match="failed") as raised, atomic_output(file) as partial:
        partial.write_text("1")
    said = "writing failed (Input/output error); it is there, but may be lost if the machine stops"
    assert str(raised.value) == f"{file}: {said}"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    with pytest.raises(InputError) as refused, folder(tmp_path / "made" / "out"):
        pytest.fail("the new folder may be lost")
    assert str(refused.value) == f"{tmp_path}/made: the folder cannot be made (Input/output error); choose another"


def test_a_folder_that_may_be_written_to_and_not_read_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def opened(path: object, *how: int) -> int:
        if path == tmp_path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, *how)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(os, "open", opened)
    with atomic_output(tmp_path / "x") as partial:
        partial.write_text("1")
    assert (tmp_path / "x").read_text() == "1"
