"""Runs over shards: the same answers as one run, gone on with where they stopped, refused where something differs."""

import errno
import json
import shutil
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process import printed
from shard_runs import CASES, MODEL, check_whole, content, write_files

from oracle.errors import InputError, InputWarning
from oracle.locks import FolderLock
from oracle.shards import walk

FEW = ("--draws", "0", "--s-max", "0")


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("traces"), 4)


@pytest.fixture(scope="module")
def ablated(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ablated") / "out"
    printed("ablate", traces, "-m", MODEL, "-o", out, "--shards", *FEW, "--threads", "1")
    return out


def refusal(*words: str | Path) -> str:
    with pytest.raises(InputError) as raised:
        printed(*words)
    return str(raised.value)


def stopped_after(monkeypatch: pytest.MonkeyPatch, shards: int) -> None:
    """End the process's work when so many shards are committed."""
    work, done = walk.ShardWalk._worked_out, []

    def counted(*given: object) -> object:
        if len(done) == shards:
            raise KeyboardInterrupt
        done.append(given)
        return work(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(walk.ShardWalk, "_worked_out", counted)


@pytest.mark.parametrize("command", ["solve", "score", "ablate"])
def test_shards_give_the_answers_of_one_run(command: str, traces: Path, tmp_path: Path) -> None:
    more = FEW if command == "ablate" else ()
    file = tmp_path / ("one" if command == "ablate" else "one.parquet")
    one = printed(command, traces, "-m", MODEL, "-o", file, *more)
    out = tmp_path / "out"
    assert printed(command, traces, "-m", MODEL, "-o", out, "--shards", *more) == one
    if command == "score":
        assert pq.read_table(out / "scores.parquet").equals(pq.read_table(file))
    else:
        name, whole = ("shifts", file / "shifts.parquet") if command == "ablate" else ("decisions", file)
        parts = pa.concat_tables([pq.read_table(path) for path in sorted((out / name).iterdir())])
        keys = [(key, "ascending") for key in ("generation", "change") if key in parts.column_names]
        assert parts.sort_by(keys).equals(pq.read_table(whole).sort_by(keys))


@pytest.mark.parametrize("shards", [0, 1, 3])
def test_what_was_stopped_and_gone_on_with_is_the_same(
    shards: int, traces: Path, ablated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("ablate", traces, "-m", MODEL, "-o", tmp_path / "out", *FEW)
    with monkeypatch.context() as patch:
        stopped_after(patch, shards)
        with pytest.raises(click.Abort):
            printed(*command, "--shards")
    assert check_whole(tmp_path / "out") == shards
    printed(*command, "--resume", "--threads", "2")  # the other name of --shards, other threads
    assert content(tmp_path / "out") == content(ablated)
    printed(*command, "--shards")
    assert content(tmp_path / "out") == content(ablated), "again, when all is done"


def test_finished_shards_are_not_worked_out_again(
    traces: Path, ablated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shutil.copytree(ablated, tmp_path / "out")
    (out / "shifts" / "00002.parquet").unlink()
    worked: list[str] = []
    work = walk.ShardWalk._worked_out

    def noted(self: walk.ShardWalk, shard: walk.Shard, *given: object) -> object:
        worked.append(shard.name)
        return work(self, shard, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(walk.ShardWalk, "_worked_out", noted)
    printed("ablate", traces, "-m", MODEL, "-o", out, "--shards", *FEW)
    assert worked == ["00002"]
    assert content(out) == content(ablated)


def test_the_manifest_says_what_the_run_rests_on(ablated: Path, traces: Path) -> None:
    said = json.loads((ablated / "manifest.json").read_text())
    assert (said["format"], said["version"], said["complete"]) == ("draft-oracle/shards", 2, True)
    assert said["options"] == {"changes": ["experts=0"], "s_max": 0, "draws": 0}
    digests = content(traces)
    assert said["digests"] == [digests[each["name"]] for each in said["traces"]]
    files = content(ablated)
    assert {name: sha for shard in said["shards"] for name, sha in shard["files"].items()}.items() <= files.items()
    assert len(said["shards"]) == 4


def test_what_differs_is_named(traces: Path, ablated: Path, tmp_path: Path) -> None:
    out, other = shutil.copytree(ablated, tmp_path / "out"), shutil.copytree(traces, tmp_path / "traces")
    begun = f"{out}/manifest.json: the run in this folder began with "
    way_out = "; go on with what it began with, or choose another folder"
    again = ("ablate", traces, "-m", MODEL, "-o", out, "--shards")
    assert refusal(*again, *FEW, "--k-max", "5") == f"{begun}options.k_max nothing, which is 5 now{way_out}"
    assert refusal("score", *again[1:]).splitlines()[0] == f'1. {begun}command "ablate", which is "score" now{way_out}'
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["libraries"]["numpy"] = "1.0"
    (out / "manifest.json").write_text(json.dumps(manifest))
    assert refusal(*again, *FEW).startswith(f'{begun}libraries.numpy "1.0", which is "')
    shutil.copy(ablated / "manifest.json", out)
    (other / "part-3.parquet").unlink()
    assert refusal("ablate", other, *again[2:], *FEW) == (
        f"{out}/manifest.json: the traces are not those that the run in this folder began with: part-3.parquet is "
        f"missing{way_out}"
    )
    shutil.copy(other / "part-0.parquet", other / "part-00.parquet")
    assert "began with: part-3.parquet is missing and part-00.parquet is new; go on" in refusal(
        "ablate", other, *again[2:], *FEW
    )
    reversed_order = [traces / f"part-{number}.parquet" for number in (3, 2, 1, 0)]
    assert "their order is another one, part-0.parquet, part-1.parquet, part-2" in refusal(
        "ablate", *reversed_order, *again[2:], *FEW
    )
    assert (
        refusal(*again, *FEW, "--memory", "400")
        .splitlines()[0]
        .startswith(f"1. {begun}another --memory, or with it other --threads: batches.batch_bytes ")
    )


def test_changed_inputs_and_results_are_named(traces: Path, ablated: Path, tmp_path: Path) -> None:
    out, other = shutil.copytree(ablated, tmp_path / "out"), shutil.copytree(traces, tmp_path / "traces")
    again = ("ablate", other, "-m", MODEL, "-o", out, "--shards", *FEW)
    changed = bytearray((other / "part-1.parquet").read_bytes())
    changed[500] ^= 1
    (other / "part-1.parquet").write_bytes(changed)
    (out / "shifts" / "00002.parquet").write_bytes(b"PAR1 something else PAR1")
    assert refusal(*again) == (
        f"1. {other}/part-1.parquet: has changed since shard 00001 was worked out (another SHA-256); give the same "
        "file, or choose another folder\n"
        f"2. {out}/shifts/00002.parquet: is not what was written there (another SHA-256); remove it, and its shard is "
        "worked out again, or choose another folder (00002.json tells what it was)"
    )


def test_folders_of_others_are_left_alone(traces: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    assert refusal("solve", traces, "-m", MODEL, "-o", tmp_path, "--shards") == (
        f"{tmp_path}: holds 'thesis.tex' and no manifest.json of a run over shards; choose another folder"
    )
    (tmp_path / "manifest.json").write_text("{}")
    assert refusal("solve", traces, "-m", MODEL, "-o", tmp_path, "--shards") == (
        f"{tmp_path}/manifest.json: is not the manifest of this program (format draft-oracle/shards, version 2); "
        "choose another folder"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "thesis.tex"]
    assert "would replace the input" in refusal("solve", traces, "-m", MODEL, "-o", traces, "--shards")


def test_what_a_run_of_another_host_left_is_taken_over_with_a_warning(traces: Path, tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text('{"pid": 7, "host": "elsewhere"}')
    lock = FolderLock(tmp_path)
    with pytest.warns(InputWarning) as warned:
        lock.take()
    lock.release()
    assert str(warned[0].message) == (
        f"{tmp_path}: goes on with what process 7 on elsewhere left; its lock is free, so that run is dead, unless the "
        "file system does not share locks among hosts: then stop one of the two"
    )
    (tmp_path / ".lock").write_text("")  # its writer was killed between making and writing it
    printed("solve", traces, "-m", MODEL, "-o", tmp_path, "--shards")


def test_a_folder_that_cannot_be_written_is_told(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: FolderLock) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", ".lock")

    monkeypatch.setattr(FolderLock, "take", denied)
    assert refusal("solve", traces, "-m", MODEL, "-o", tmp_path, "--shards") == (
        f"{tmp_path}: cannot be written (Permission denied); choose another place"
    )


def test_an_id_in_two_shards_is_found_whether_read_or_worked_out(tmp_path: Path) -> None:
    traces = write_files(tmp_path, 2)
    shutil.copy(traces / "part-0.parquet", traces / "part-2.parquet")
    command = ("solve", traces, "-m", MODEL, "-o", tmp_path / "out", "--shards")
    first = refusal(*command)
    assert f"the id occurs already in {traces}/part-0.parquet" in first
    assert refusal(*command) == first


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--keep-going",), "--keep-going leaves out what a run over shards cannot read; give --shards too"),
        (("--shards",), "--shards writes a folder; give --output FOLDER"),
    ],
)
def test_options_that_say_nothing_together(words: tuple[str, ...], message: str, traces: Path) -> None:
    with pytest.raises(click.UsageError, match=message):
        printed("solve", CASES / "tiny-moe" / "traces.parquet", "-m", MODEL, *words)


def test_memory_is_refused_where_it_is_too_little(traces: Path) -> None:
    assert refusal("solve", traces, "-m", MODEL, "--memory", "100", "--threads", "2") == (
        "--memory is 100 MB; 2 threads need at least 396 MB: give more, or fewer --threads"
    )
    assert printed("solve", traces, "-m", MODEL, "--memory", "396", "--threads", "2") == printed(
        "solve", traces, "-m", MODEL
    )
