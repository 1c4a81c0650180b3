"""Damaged traces that are mended: the same command works out what rests on them, keeps the rest, and ends as if new."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from in_process import printed
from shard_runs import content, write_files, write_model
from test_resume_damage import damage, ended
from test_resume_passes import works_noted

from oracle.errors import InputError
from oracle.pieces import pieces_of
from oracle.shards import folder as shard_folder
from oracle.shards import manifest

WALKS = ("", "alpha-path", "stability")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("whole"), 3)


@pytest.fixture
def traces(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "traces")


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard for each row group."""
    begin = shard_folder.ShardFolder.begin
    monkeypatch.setattr(shard_folder.ShardFolder, "begin", lambda *given: begin(*given, shard_bytes=1))


def command(traces: Path, model: Path, out: Path, *more: str) -> tuple[str | Path, ...]:
    return (
        "ablate",
        traces,
        "-m",
        model,
        "-o",
        out,
        "--draws",
        "40",
        "--s-max",
        "1.5",
        "--k-max",
        "3",
        "--shards",
        *more,
    )


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def pages(path: Path) -> None:
    damage(path, 1)


def longer_pages(path: Path) -> None:
    """Damaged, and of another size than the mended file."""
    damage(path, 0)
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    path.write_bytes(data[: -8 - size] + b"\0" * 10 + data[-8 - size :])


@pytest.mark.parametrize("fault", [empty, cut, pages, longer_pages])
@pytest.mark.parametrize("keep_going", [True, False])
def test_what_was_left_out_and_is_mended_is_worked_out(
    fault: Callable[[Path], None],
    keep_going: bool,
    traces: Path,
    whole: Path,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault(traces / "part-1.parquet")
    found = ended(*command(traces, model, tmp_path / "out", "--keep-going"))
    assert found.returncode == 3, found.stderr
    assert ended(*command(traces, model, tmp_path / "out", "--keep-going")) == found, "nothing was mended yet"
    shutil.copy(whole / "part-1.parquet", traces)
    worked = works_noted(monkeypatch)
    printed(*command(traces, model, tmp_path / "out", *["--keep-going"] * keep_going))
    assert worked == {(walk, "00001"): 1 for walk in WALKS}
    printed(*command(traces, model, tmp_path / "new"))
    assert content(tmp_path / "out") == content(tmp_path / "new")


@pytest.mark.parametrize("keep_going", [True, False])
@pytest.mark.usefixtures("small_shards")
def test_all_shards_of_a_mended_file_are_worked_out_and_no_others(
    keep_going: bool, traces: Path, whole: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that stopped at the damage too: the shard before it rests on the damaged file."""
    damage(traces / "part-1.parquet", 1)
    more = ["--keep-going"] * keep_going
    assert ended(*command(traces, model, tmp_path / "out", *more)).returncode == (3 if keep_going else 2)
    names = {path.stem for path in (tmp_path / "out" / "shards").iterdir()}
    assert {"00000-0000", "00000-0001", "00001-0000"} <= names
    shutil.copy(whole / "part-1.parquet", traces)
    worked = works_noted(monkeypatch)
    printed(*command(traces, model, tmp_path / "out", *more))
    of_first = {shard: count for (walk, shard), count in worked.items() if walk == ""}
    again = {"00001-0000": 1, "00001-0001": 1}
    assert of_first == (again if keep_going else again | {"00002-0000": 1, "00002-0001": 1})
    printed(*command(traces, model, tmp_path / "new"))
    assert content(tmp_path / "out") == content(tmp_path / "new")


def test_a_file_mended_into_fewer_shards_leaves_nothing_behind(
    traces: Path, whole: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(traces / "part-1.parquet", 1)
    with monkeypatch.context() as patch:
        patch.setattr(
            shard_folder,
            "pieces_of",
            lambda files, most: [
                piece for file in files for piece in pieces_of([file], 1 if file.name == "part-1.parquet" else most)
            ],
        )
        assert ended(*command(traces, model, tmp_path / "out", "--keep-going")).returncode == 3
    assert (tmp_path / "out" / "shifts" / "00001-0000.parquet").exists()
    shutil.copy(whole / "part-1.parquet", traces)
    printed(*command(traces, model, tmp_path / "out", "--keep-going"))
    printed(*command(traces, model, tmp_path / "new"))
    assert content(tmp_path / "out") == content(tmp_path / "new")


def test_what_was_read_and_cannot_be_read_now_is_refused(traces: Path, model: Path, tmp_path: Path) -> None:
    printed(*command(traces, model, tmp_path / "out"))
    size = (traces / "part-2.parquet").stat().st_size
    before = content(tmp_path / "out")
    cut(traces / "part-2.parquet")
    assert ended(*command(traces, model, tmp_path / "out", "--keep-going")).stderr.endswith(
        f"manifest.json: the run in this folder began with traces[part-2.parquet].bytes {size}, which is "
        '"unreadable" now; go on with what it began with, or choose another folder\n'
    )
    assert content(tmp_path / "out") == before


def test_another_file_in_the_place_of_a_good_one_is_refused_though_one_was_damaged(
    traces: Path, model: Path, tmp_path: Path
) -> None:
    damage(traces / "part-1.parquet", 1)
    assert ended(*command(traces, model, tmp_path / "out", "--keep-going")).returncode == 3
    changed = bytearray((traces / "part-2.parquet").read_bytes())
    changed[500] ^= 1
    (traces / "part-2.parquet").write_bytes(changed)
    assert "part-2.parquet: has changed since shard 00002 was worked out" in (
        ended(*command(traces, model, tmp_path / "out", "--keep-going")).stderr
    )


@pytest.mark.parametrize("said", [None, 7, [7], [{"name": 7}], [{"name": "../../x"}], {"a": 1}])
def test_a_manifest_that_was_altered_is_refused_and_nothing_removed(
    said: object, traces: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    printed(*command(traces, model, out))
    path = out / manifest.NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | {"traces": said, "plan": said, manifest.FAULTY: said}))
    before = content(out)
    with pytest.raises(InputError, match="the traces are not those that the run in this folder began with"):
        printed(*command(traces, model, out))
    assert content(out) == before
