"""Files on other file systems: found by URI, read as local ones are, named without secrets, never written over."""

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cluster_data import TINY, ShuffledEngine
from in_process import printed
from pyarrow import fs
from traces_factory import trace_table

from oracle.cluster.spreading import SpreadTraces
from oracle.errors import InputError
from oracle.files import find_parquet, open_parquet, sha256_of, size_of
from oracle.kinds import files_of_kind
from oracle.locations import RemoteFile, is_uri, path_here, without_secrets
from oracle.outputs import refuse_output_over_input
from oracle.pipeline import in_order
from oracle.traces import TraceFiles


def refusal(call, *args, **kwargs) -> str:
    with pytest.raises(InputError) as error:
        call(*args, **kwargs)
    return str(error.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place in ("b.parquet", "sub/a.parquet", "_hidden/c.parquet", ".d.parquet", "notes.txt"):
        (tmp_path / "data" / place).parent.mkdir(parents=True, exist_ok=True)
        prefix = Path(place).stem
        pq.write_table(trace_table(prefix=prefix), tmp_path / "data" / place)
    return tmp_path / "data"


def test_texts_are_uris_by_their_scheme_only() -> None:
    assert all(map(is_uri, ("s3://b/x", "gs://b", "file:///x", "abfss://c@a/x")))
    assert not any(map(is_uri, ("/s3://b", "s3:/b", "C://x", "traces/a.parquet", "")))


def test_a_folder_by_uri_stands_for_the_files_that_its_path_stands_for(folder: Path) -> None:
    found = find_parquet(f"file://{folder}")
    assert [str(file) for file in found] == [f"file://{path}" for path in find_parquet(folder)]
    assert [file.name for file in found] == ["b.parquet", "a.parquet"]
    for file, path in zip(found, find_parquet(folder), strict=True):
        assert size_of(file) == path.stat().st_size
        assert sha256_of(file) == sha256_of(path)
        with open_parquet(file) as here:
            assert here.read().equals(pq.read_table(path))
        again = pickle.loads(pickle.dumps(file))
        assert (str(again), size_of(again)) == (str(file), size_of(file))
    assert find_parquet([f"file://{folder}/b.parquet", folder / "b.parquet"]) == found[:1]


def test_any_file_system_of_arrow_will_do(folder: Path) -> None:
    below = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    files = TraceFiles(files_of_kind([RemoteFile(below, "b.parquet", "store://b.parquet")], "traces"))
    assert sum(in_order(_positions, SpreadTraces(files, ShuffledEngine()), 1)) == 7
    assert [batch.source for batch in files] == ["store://b.parquet"]


def _positions(batch) -> int:
    return batch.positions


def test_commands_read_uris_and_say_the_same(tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    printed("fit", f"file://{TINY}/rounds.parquet", "-o", model)
    by_path, by_uri = (
        printed("solve", f"{scheme}{TINY}/traces.parquet", "--model", model, "-o", tmp_path / f"{name}.parquet")
        for name, scheme in (("path", ""), ("uri", "file://"))
    )
    assert by_uri == by_path.replace(f"{TINY}", f"file://{TINY}")
    assert (tmp_path / "uri.parquet").read_bytes() == (tmp_path / "path.parquet").read_bytes()


def test_what_cannot_be_found_is_named_with_the_way_out(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "zero.parquet").touch()
    assert refusal(find_parquet, f"file://{folder}/x.parquet") == (
        f"file://{folder}/x.parquet: no such file or folder; check the address"
    )
    assert refusal(find_parquet, f"file://{folder}/*.parquet").endswith(
        "no such file or folder; patterns are not read in URIs; give the folder"
    )
    assert refusal(find_parquet, f"file://{folder}/empty").endswith(
        "the folder holds no *.parquet file; name another folder or the files"
    )
    assert "the file is empty (0 bytes)" in refusal(find_parquet, f"file://{folder}/zero.parquet")
    assert refusal(find_parquet, "nowhere://x/y").startswith("nowhere://x/y: cannot be reached (")
    two = refusal(find_parquet, ["nowhere://x/y", f"file://{folder}/x.parquet"])
    assert two.startswith("1. ")
    assert "2. file://" in two


def test_a_file_that_is_gone_or_no_parquet_is_named_by_its_uri(folder: Path) -> None:
    file = find_parquet(f"file://{folder}/b.parquet")[0]
    (folder / "b.parquet").write_bytes(b"something else")
    assert refusal(open_parquet, file).startswith(f"file://{folder}/b.parquet: is not a Parquet file (it starts with")
    (folder / "b.parquet").unlink()
    assert refusal(open_parquet, file) == f"file://{folder}/b.parquet: no such file; check the path"
    with pytest.raises(FileNotFoundError):
        size_of(file)


class _Cut(fs.FileSystemHandler):
    """A file system whose network is down."""

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)

    def open_input_file(self, path):
        raise OSError("connection reset by peer")

    def _down(self, *args, **kwargs):
        raise OSError("connection reset by peer")

    get_type_name = get_file_info = get_file_info_selector = open_input_stream = open_output_stream = _down
    open_append_stream = create_dir = delete_dir = delete_dir_contents = delete_file = move = copy_file = _down
    delete_root_dir_contents = normalize_path = _down


def test_a_network_that_fails_is_not_called_a_damaged_file() -> None:
    file = RemoteFile(fs.PyFileSystem(_Cut()), "x.parquet", "s3://bucket/x.parquet")
    assert refusal(open_parquet, file) == (
        "s3://bucket/x.parquet: cannot be read; check the network and your rights there (connection reset by peer)"
    )


def test_keys_and_options_in_a_uri_are_never_shown() -> None:
    secret = "s3://KEY:SECRET@bucket/traces?endpoint_override=localhost&scheme=http"
    assert without_secrets(secret) == "s3://bucket/traces"
    assert without_secrets("abfss://box@account.dfs/x") == "abfss://account.dfs/x"
    said = refusal(find_parquet, "nowhere://KEY:SECRET@x/y?token=SECRET")
    assert "nowhere://x/y" in said
    assert "SECRET" not in said


def test_outputs_never_replace_an_input_named_by_uri_and_are_files_of_this_machine(folder: Path) -> None:
    target = folder / "b.parquet"
    for given in (f"file://{target}", find_parquet(f"file://{target}")[0]):
        assert f"{target}: would replace the input" in refusal(refuse_output_over_input, target, [given])
    refuse_output_over_input(folder / "new.parquet", [f"file://{target}", "s3://b/x"])
    assert path_here("file:///a/b") == "/a/b"
    assert path_here("s3://a/b") == "s3://a/b"
    for output in (Path("s3://bucket/out.parquet"), "s3://bucket/out.parquet"):
        assert refusal(refuse_output_over_input, output, []).endswith(
            "results are written to this machine; give a path, and copy them from there"
        )


def test_row_groups_that_hold_nothing_are_no_pieces(tmp_path: Path) -> None:
    from oracle.pieces import pieces_of  # noqa: PLC0415

    table = pa.table({"x": pa.array([], pa.int32())})
    pq.write_table(table, tmp_path / "none.parquet")
    assert pieces_of([tmp_path / "none.parquet"]) == []
