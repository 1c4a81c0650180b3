"""Folders and files as outputs: nothing of a user's is lost, whatever appears, fails or is killed on the way."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from oracle import outputs, swaps
from oracle.errors import InputError, InputWarning
from oracle.outputs import atomic_files, atomic_folder, atomic_output

OURS = frozenset({"a.parquet", "said.json"})
FULL = OSError(28, "No space left on device")


def folder(path: Path, overwrite: bool = False) -> AbstractContextManager[Path]:
    return atomic_folder(path, overwrite, ours=OURS.__contains__, marker="said.json")


def fill(place: Path, text: str) -> None:
    (place / "a.parquet").write_text(text)
    (place / "said.json").write_text('{"program": "draft-oracle 1"}')


def write(path: Path, text: str, overwrite: bool = False, meanwhile: Callable[[], object] = lambda: None) -> None:
    with folder(path, overwrite) as place:
        fill(place, text)
        meanwhile()


def refusal(call: Callable[..., object], *args: object) -> str:
    with pytest.raises(InputError) as error:
        call(*args)
    return str(error.value)


def everything(place: Path) -> dict[str, str]:
    """All files below, hidden ones too."""
    return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}


def whole(name: str, text: str) -> dict[str, str]:
    return {f"{name}/a.parquet": text, f"{name}/said.json": '{"program": "draft-oracle 1"}'}


def make_thesis(out: Path) -> None:
    out.mkdir(exist_ok=True)
    (out / "thesis.txt").write_text("precious")


def test_a_folder_that_someone_makes_during_the_run_is_not_replaced(tmp_path):
    out = tmp_path / "mine"
    said = refusal(write, out, "first", False, lambda: make_thesis(out))
    assert said == f"{out}: changed during the run: the folder exists already; the result is kept as {out}-kept"
    thesis = {"mine/thesis.txt": "precious"}
    assert everything(tmp_path) == thesis | whole("mine-kept", "first")
    (out / "thesis.txt").unlink()
    refusal(write, out, "second", False, lambda: make_thesis(out))
    assert everything(tmp_path) == thesis | whole("mine-kept", "first") | whole("mine-kept-2", "second")


def test_a_foreign_file_in_an_earlier_output_stops_overwriting_at_the_last_moment(tmp_path):
    out = tmp_path / "out"
    write(out, "old")
    said = refusal(write, out, "new", True, lambda: make_thesis(out))
    assert said == (
        f"{out}: changed during the run: will not be overwritten, since it holds 'thesis.txt', which is not an output "
        f"of this program; the result is kept as {out}-kept"
    )
    assert everything(tmp_path) == {"out/thesis.txt": "precious"} | whole("out", "old") | whole("out-kept", "new")


@pytest.mark.parametrize("one_step", [True, False])
def test_a_foreign_file_that_comes_between_the_check_and_the_exchange_is_put_back(tmp_path, monkeypatch, one_step):
    out, exchange = tmp_path / "out", swaps.exchange
    write(out, "old")

    def late(first: Path, second: Path) -> None:
        if first.name == ".out.former" and not (first / "thesis.txt").exists():
            make_thesis(out)
        exchange(first, second)

    monkeypatch.setattr(swaps, "exchange", late)
    if not one_step:
        monkeypatch.setattr(swaps, "_exchanged", lambda *_names: False)
    assert "since it holds 'thesis.txt'" in refusal(write, out, "new", True)
    assert everything(tmp_path) == {"out/thesis.txt": "precious"} | whole("out", "old") | whole("out-kept", "new")


def test_a_result_whose_name_another_kind_of_file_has_taken_is_kept(tmp_path):
    out, file = tmp_path / "out", tmp_path / "result.json"
    said = refusal(write, out, "first", False, lambda: out.write_text("a file"))
    assert said == f"{out}: changed during the run: is a file; the result is kept as {out}-kept"
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(OSError, match=r"result\.json: writing failed \(Is a directory\); the res"))
        stack.enter_context(atomic_output(file)).write_text("second")
        file.mkdir()
    assert everything(tmp_path) == {"out": "a file", "result-kept.json": "second"} | whole("out-kept", "first")


def killed_at(step: int, out: Path, one_step: bool) -> bool:
    """Replace an earlier output in another process, which dies at its n-th change of names; False: it had ended."""
    child = os.fork()
    if child == 0:
        left = [step]

        def rename(first: Path, second: Path) -> None:
            count()
            os.replace(first, second)

        def count() -> None:
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)

        exchanged = swaps._exchanged
        swaps._exchanged = lambda *names: count() or (exchanged(*names) if one_step else False)
        swaps.discard = lambda *_former: count()
        swaps.os = type("os", (), vars(os) | {"rename": staticmethod(rename)})
        try:
            write(out, "new", overwrite=True)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.filterwarnings("ignore::oracle.errors.InputWarning")
@pytest.mark.parametrize("one_step", [True, False])
def test_killed_between_any_two_steps_an_output_is_there_whole_at_the_next_run(tmp_path, one_step):
    out, steps, seen = tmp_path / "out", 0, set()
    write(out, "old")
    while killed_at(steps, out, one_step):
        if one_step:
            assert out.exists(), "the exchange is one step: no moment without an output"
        assert "exists already" in refusal(write, out, "never")
        seen.add((out / "a.parquet").read_text())
        write(out, "old", overwrite=True)
        assert everything(tmp_path) == whole("out", "old")
        steps += 1
    assert steps >= (4 if one_step else 6)
    assert seen == {"old", "new"}


def test_what_a_killed_run_had_moved_aside_is_put_back_and_the_foreign_kept(tmp_path):
    out, former = tmp_path / "out", tmp_path / ".out.former"
    write(former, "old")
    with pytest.warns(InputWarning, match=f"{out}: a run that replaced it was killed; what it had moved aside is"):
        write(out, "new", overwrite=True)
    assert everything(tmp_path) == whole("out", "new")
    make_thesis(former)
    with pytest.warns(InputWarning, match=f"files it did not write are kept in {out}-kept"):
        write(out, "newer", overwrite=True)
    assert everything(tmp_path) == whole("out", "newer") | {"out-kept/thesis.txt": "precious"}


def test_one_run_at_a_time_writes_a_folder(tmp_path):
    out = tmp_path / "out"
    host = os.uname().nodename
    busy = f"{out}: process {os.getpid()} on {host} is at work in this folder; wait for it to end, or choose another "
    write(out, "one", False, lambda: refusal(write, out, "two") == f"{busy}folder" or pytest.fail("not refused"))
    assert everything(tmp_path) == whole("out", "one")


def test_of_two_runs_that_write_one_file_the_last_ones_stays(tmp_path):
    path = tmp_path / "one.json"
    with atomic_output(path) as first:
        with atomic_output(path) as second:
            assert first != second
            first.write_text("first")
            second.write_text("second")
        assert everything(tmp_path) == {first.name: "first", "one.json": "second"}
        with atomic_output(path) as third:  # the name of the second is free again
            third.write_text("third")
    assert everything(tmp_path) == {"one.json": "first"}


def test_a_hidden_name_that_another_run_takes_at_the_very_end_is_left_to_it(tmp_path, monkeypatch):
    path, sync, others = tmp_path / "x", outputs.sync, []
    with ExitStack() as stack:

        def taken(place: Path) -> None:
            sync(place)
            if place == tmp_path:  # the file has its place; its hidden name is free
                monkeypatch.undo()
                others.append(stack.enter_context(atomic_output(path)))

        monkeypatch.setattr(outputs, "sync", taken)
        with atomic_output(path) as partial:
            partial.write_text("first")
        assert others == [partial]
        assert partial.exists()
        partial.write_text("second")
    assert everything(tmp_path) == {"x": "second"}


def test_what_dead_runs_left_is_removed_and_what_living_ones_write_is_not(tmp_path):
    file, out, other = tmp_path / "x", tmp_path / "out", tmp_path / "out.b"
    child = os.fork()
    if child == 0:
        with atomic_output(file), atomic_output(file), folder(out) as place:
            fill(place, "half")
            os._exit(9)
    os.waitpid(child, 0)
    assert len(everything(tmp_path)) == 5, "two files, two in the folder, and its lock"
    with atomic_output(file) as living, folder(other) as place:
        fill(place, "living")
        living.write_text("living")
        for _ in range(2):
            with atomic_output(file) as partial:
                partial.write_text("done")
        write(out, "done")
        assert living.exists()
        assert place.exists()
    assert everything(tmp_path) == {"x": "living"} | whole("out", "done") | whole("out.b", "living")


def failing(manager: AbstractContextManager[Path], name: str | None = None) -> str:
    with ExitStack() as stack:
        error = stack.enter_context(pytest.raises(OSError, match="writing failed"))
        place = stack.enter_context(manager)
        if name is not None:
            stack.enter_context(atomic_output(place / name))
        raise FULL
    return str(error.value)


def test_a_full_disk_names_what_was_asked_for_and_says_what_is_there(tmp_path):
    out, file, reason = tmp_path / "out", tmp_path / "x", "writing failed (No space left on device)"
    assert failing(folder(out), "a.parquet") == f"{out}/a.parquet: {reason}; nothing was kept there"
    write(out, "old")
    still = "what was there before is there still"
    assert failing(folder(out, True), "a.parquet") == f"{out}/a.parquet: {reason}; {still}"
    assert failing(folder(out, True)) == f"{out}: {reason}; {still}"
    assert failing(atomic_files(out), "a.parquet") == f"{out}/a.parquet: {reason}; {still}"
    assert failing(atomic_output(file)) == f"{file}: {reason}; nothing was kept there"
    file.write_text("old")
    assert failing(atomic_output(file)) == f"{file}: {reason}; {still}"
    assert everything(tmp_path) == {"x": "old"} | whole("out", "old")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_under_standard_output_names_it(unbuffered):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "oracle", "fit", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
    assert done.stderr == "error: standard output: writing failed (No space left on device)\n"
    assert done.returncode == 1


@pytest.mark.parametrize("opened", [folder, atomic_output])
@pytest.mark.parametrize("below", ["", "sub/out"])
def test_a_link_to_a_folder_that_does_not_exist_makes_none(tmp_path, opened, below):
    link, nowhere = tmp_path / "dang", tmp_path / "nowhere" / "zz"
    link.symlink_to(nowhere)
    assert refusal(opened(link / below).__enter__) == (
        f"{link / below}: leads through a symbolic link to {nowhere}, whose folder does not exist; make that folder, "
        "or choose another place"
    )
    nowhere.parent.mkdir()
    with opened(link / below):
        pass
    assert (nowhere / below).exists()
    assert link.is_symlink()
