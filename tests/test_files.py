import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracle.errors import InputError
from oracle.files import find_parquet, open_parquet, sha256_of
from oracle.outputs import atomic_folder, atomic_output, refuse_output_over_input


def touch(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def refusal(call, *args, **kwargs) -> str:
    with pytest.raises(InputError) as error:
        call(*args, **kwargs)
    return str(error.value)


def test_a_folder_stands_for_its_visible_parquet_files_at_any_depth(tmp_path):
    wanted = [touch(tmp_path / "a.parquet"), touch(tmp_path / "sub" / "b.parquet"), touch(tmp_path / "z.parquet")]
    for hidden in (".c.parquet", "_d.parquet", ".git/e.parquet", "_tmp/f.parquet", "notes.txt"):
        touch(tmp_path / hidden)
    assert find_parquet(tmp_path) == tuple(sorted(wanted))


def test_files_globs_and_folders_mix_and_each_file_comes_once(tmp_path):
    b, a = touch(tmp_path / "b.parquet"), touch(tmp_path / "a.parquet")
    deep = touch(tmp_path / "x" / "c.parquet")
    touch(tmp_path / "_z.parquet")
    assert find_parquet([b, str(tmp_path / "*.parquet"), tmp_path / "x"]) == (b, a, deep)
    assert find_parquet(str(tmp_path / "**" / "*.parquet")) == (a, b, deep)
    os.symlink(a, tmp_path / "link.parquet")
    assert find_parquet([a, tmp_path / "link.parquet"]) == (a,)


def test_a_file_whose_name_looks_like_a_glob_is_a_file(tmp_path):
    odd = touch(tmp_path / "run[1].parquet")
    assert find_parquet(str(odd)) == (odd,)


def test_paths_that_lead_nowhere_are_all_named(tmp_path):
    (tmp_path / "empty").mkdir()
    touch(tmp_path / "zero.parquet", b"")
    os.mkfifo(tmp_path / "pipe")
    names = ("nowhere.parquet", "empty", "*.pq", "zero.parquet", "pipe")
    text = refusal(find_parquet, [str(tmp_path / name) for name in names])
    assert f"{tmp_path}/nowhere.parquet: no such file or folder; check the path" in text
    assert f"{tmp_path}/empty: the folder holds no *.parquet file; name another folder or the files" in text
    assert f"{tmp_path}/*.pq: no file matches this pattern" in text
    assert f"{tmp_path}/zero.parquet: the file is empty (0 bytes); was its writer interrupted? write it again" in text
    assert f"{tmp_path}/pipe: is neither a file nor a folder; give a regular Parquet file" in text
    assert refusal(find_parquet, []) == "no path given; name at least one Parquet file, folder or glob"
    assert refusal(find_parquet, "a\0b") == "a\\x00b: no such file or folder; check the path"
    assert refusal(find_parquet, "a\0/*") == "a\\x00/*: is not a usable path (embedded null byte)"


def test_control_characters_of_a_path_are_escaped():
    assert refusal(find_parquet, "q\x1b.parquet").startswith("q\\x1b.parquet: no such file")


@pytest.fixture
def parquet(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    return path


def test_damaged_files_are_told_apart(tmp_path, parquet):
    data = parquet.read_bytes()
    assert open_parquet(parquet).metadata.num_rows == 3
    cut = touch(tmp_path / "cut.parquet", data[:-9])
    assert f"{cut}: the Parquet file is truncated ({len(data) - 9} bytes, without its footer)" in refusal(
        open_parquet, cut
    )
    csv = touch(tmp_path / "c.parquet", b"a,b\n1,2\n")
    assert f"{csv}: is not a Parquet file (it starts with b'a,b\\n'); convert it to Parquet" in refusal(
        open_parquet, csv
    )
    broken = touch(tmp_path / "b.parquet", data[:-40] + b"\xff" * 32 + data[-8:])
    assert f"{broken}: the Parquet file is damaged and cannot be read; write or copy it again" in refusal(
        open_parquet, broken
    )
    assert f"{tmp_path}/no: no such file; check the path" in refusal(open_parquet, tmp_path / "no")
    empty = touch(tmp_path / "e.parquet", b"")
    assert f"{empty}: the file is empty (0 bytes)" in refusal(open_parquet, empty)


def test_output_appears_whole(tmp_path):
    path = tmp_path / "new" / "out.txt"
    with atomic_output(path) as partial:
        assert partial.parent == path.parent
        partial.write_text("done")
        assert not path.exists()
    assert path.read_text() == "done"
    assert [p.name for p in path.parent.iterdir()] == ["out.txt"]


def write_half(manager, problem) -> None:
    with manager as partial:
        touch(partial / "c.parquet" if partial.is_dir() else partial, b"half")
        raise problem


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_output_keeps_what_was_there_when_writing_fails(tmp_path, problem):
    path = touch(tmp_path / "out.txt", b"old")
    with pytest.raises(problem):
        write_half(atomic_output(path), problem)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_output_goes_through_a_symbolic_link(tmp_path):
    target = touch(tmp_path / "real" / "out.txt", b"old")
    link = tmp_path / "link.txt"
    link.symlink_to(target)
    with atomic_output(link) as partial:
        partial.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def enter(manager) -> None:
    with manager:
        pass


def test_output_that_cannot_be_written_is_refused(tmp_path):
    file = touch(tmp_path / "file")
    assert refusal(enter, atomic_output(tmp_path)) == f"{tmp_path}: is a folder; give a file name to write"
    assert refusal(enter, atomic_output("/dev/null")) == "/dev/null: is not a regular file; give a file name to write"
    assert f"{file}: the folder cannot be made" in refusal(enter, atomic_output(file / "x"))
    nothing = tmp_path / "nothing"
    with atomic_output(nothing):  # nobody writes: an empty file is what was asked for
        pass
    assert nothing.read_bytes() == b""


def test_what_the_machine_says_while_writing_names_the_output(tmp_path):
    path = tmp_path / "full.parquet"
    with pytest.raises(OSError, match=r"full\.parquet: writing failed \(No space left on device\); nothing was kept"):
        write_half(atomic_output(path), OSError(28, "No space left on device"))
    assert list(tmp_path.iterdir()) == []


OURS = frozenset({"a.parquet", "b.parquet", "said.json"})


def folder(path, overwrite=False):
    return atomic_folder(path, overwrite, ours=OURS.__contains__, marker="said.json")


def test_folder_appears_whole_and_replaces_an_earlier_output(tmp_path):
    path = tmp_path / "out"
    with folder(path) as partial:
        touch(partial / "a.parquet")
        touch(partial / "said.json", b'{"program": "draft-oracle 1"}')
        assert not path.exists()
    assert refusal(enter, folder(path)) == (
        f"{path}: the folder exists already; choose another name, or give --overwrite"
    )
    with folder(path, overwrite=True) as partial:
        touch(partial / "b.parquet")
        touch(partial / "said.json", b'{"program": "draft-oracle 1"}')
    assert sorted(p.name for p in path.iterdir()) == ["b.parquet", "said.json"]
    with pytest.raises(KeyboardInterrupt):
        write_half(folder(path, overwrite=True), KeyboardInterrupt)
    assert sorted(p.name for p in path.iterdir()) == ["b.parquet", "said.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["thesis.docx", ".git", "sub/x.parquet", "notes.json"])
def test_folder_with_other_things_is_never_replaced(tmp_path, name):
    path = tmp_path / "home"
    touch(path / name)
    text = refusal(enter, folder(path, overwrite=True))
    assert text == (
        f"{path}: will not be overwritten, since it holds '{name.split('/')[0]}', which is not an output of this "
        "program; choose another folder"
    )
    assert (path / name).exists()


@pytest.mark.parametrize("marker", [None, b'{"program": "another"}'])
def test_folder_of_another_program_is_never_replaced(tmp_path, marker):
    path = tmp_path / "theirs"
    touch(path / "a.parquet")
    if marker is not None:
        touch(path / "said.json", marker)
    text = refusal(enter, folder(path, overwrite=True))
    assert text == (
        f"{path}: will not be overwritten, since no said.json of this program is in it; choose another folder"
    )
    assert (path / "a.parquet").exists()


def test_folder_may_not_take_a_file_and_may_take_an_empty_folder(tmp_path):
    file = touch(tmp_path / "f")
    assert refusal(enter, folder(file)) == f"{file}: is a file; give a folder name to write"
    (tmp_path / "empty").mkdir()
    with folder(tmp_path / "empty") as partial:
        touch(partial / "a.json")
    assert (tmp_path / "empty" / "a.json").exists()


def test_an_output_never_replaces_an_input(tmp_path):
    data = touch(tmp_path / "data" / "t.parquet")
    link = tmp_path / "link.parquet"
    link.symlink_to(data)
    for output in (data, link, tmp_path / "data", tmp_path):
        assert refusal(refuse_output_over_input, output, [data]) == (
            f"{output}: would replace the input {data}; choose another place"
        )
    assert refusal(refuse_output_over_input, "-", []) == (
        "this output is a file and not text for stdout; give a file name"
    )
    refuse_output_over_input(tmp_path / "data" / "u.parquet", [data])
    refuse_output_over_input(None, [data])


def test_sha256(tmp_path):
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_of(touch(tmp_path / "abc", b"abc")) == known
