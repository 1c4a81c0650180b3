"""`ablate` over shards: the walks along alpha and over the draws are gone on with like the first, byte for byte."""

import json
import shutil
from collections import Counter
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process import printed
from shard_runs import check_whole, content, write_files, write_model
from test_resume import refusal, stopped_after
from test_resume_damage import ended

from oracle.errors import InputError
from oracle.shards import walk
from oracle.traces import TraceFiles

ASKED = ("--draws", "40", "--s-max", "1.5", "--k-max", "3")
SHARDS = 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("traces"), SHARDS)


def command(traces: Path, model: Path, out: Path) -> tuple[str | Path, ...]:
    return ("ablate", traces, "-m", model, "-o", out, *ASKED)


@pytest.fixture(scope="module")
def ablated(traces: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ablated") / "out"
    printed(*command(traces, model, out), "--shards", "--threads", "1")
    return out


def works_noted(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
    """Walks and shards that are worked out from now on."""
    worked: Counter[tuple[str, str]] = Counter()
    work = walk.ShardWalk._worked_out

    def noted(self: walk.ShardWalk, shard: walk.Shard, *given: object) -> object:
        worked[self._keeping.name, shard.name] += 1
        return work(self, shard, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(walk.ShardWalk, "_worked_out", noted)
    return worked


def test_answers_and_rows_are_those_of_one_run(traces: Path, model: Path, tmp_path: Path) -> None:
    one, out = tmp_path / "one", tmp_path / "out"
    assert printed(*command(traces, model, out), "--shards") == printed(*command(traces, model, one))
    tables = [json.loads((folder / "tables.json").read_text())["tables"] for folder in (out, one)]
    assert tables[0] == tables[1], "every digit of every table"
    for name in ("alpha-path", "stability"):
        parts = pa.concat_tables([pq.read_table(path) for path in sorted((out / name).iterdir())])
        assert parts.equals(pq.read_table(one / f"{name}.parquet"))
        assert (out / f"{name}.svg").read_bytes() == (one / f"{name}.svg").read_bytes()
        rests_on = pq.read_metadata(out / name / "00001.parquet").metadata
        assert [each["name"] for each in json.loads(rests_on[b"draft_oracle.provenance"])["inputs"]] == [
            "part-1.parquet",
            "model.json",
        ]


@pytest.mark.parametrize("shards", [SHARDS, SHARDS + 1, 2 * SHARDS, 3 * SHARDS - 1])
def test_what_was_stopped_on_any_walk_and_gone_on_with_is_the_same(
    shards: int, traces: Path, model: Path, ablated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stopped_after(patch, shards)
        with pytest.raises(click.Abort):
            printed(*command(traces, model, tmp_path / "out"), "--shards")
    assert check_whole(tmp_path / "out") == shards
    worked = works_noted(monkeypatch)
    printed(*command(traces, model, tmp_path / "out"), "--resume", "--threads", "2")
    assert worked.total() == 3 * SHARDS - shards
    assert content(tmp_path / "out") == content(ablated)


def test_what_was_removed_is_worked_out_again_and_nothing_else(
    traces: Path, model: Path, ablated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shutil.copytree(ablated, tmp_path / "out")
    (out / "alpha-path" / "00001.parquet").unlink()
    (out / "totals" / "00002-stability.parquet").unlink()
    worked = works_noted(monkeypatch)
    printed(*command(traces, model, out), "--shards")
    assert worked == {("alpha-path", "00001"): 1, ("stability", "00002"): 1}
    assert content(out) == content(ablated)


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("alpha-path/00001.parquet", "00001-alpha-path.json"),
        ("totals/00000-alpha-path.parquet", "00000-alpha-path.json"),
        ("stability/00002.parquet", "00002-stability.json"),
        ("totals/00002-stability.parquet", "00002-stability.json"),
    ],
)
def test_altered_results_are_refused(
    name: str, record: str, traces: Path, model: Path, ablated: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(ablated, tmp_path / "out")
    altered = bytearray((out / name).read_bytes())
    altered[len(altered) // 2] ^= 1
    (out / name).write_bytes(altered)
    assert refusal(*command(traces, model, out), "--shards") == (
        f"{out}/{name}: is not what was written there (another SHA-256); remove it, and its shard is worked out again, "
        f"or choose another folder ({record} tells what it was)"
    )


def test_an_altered_record_and_changed_traces_are_refused_once(
    traces: Path, model: Path, ablated: Path, tmp_path: Path
) -> None:
    out, other = shutil.copytree(ablated, tmp_path / "out"), shutil.copytree(traces, tmp_path / "traces")
    changed = bytearray((other / "part-1.parquet").read_bytes())
    changed[500] ^= 1
    (other / "part-1.parquet").write_bytes(changed)
    assert refusal(*command(other, model, out), "--shards") == (
        f"{other}/part-1.parquet: has changed since shard 00001 was worked out (another SHA-256); give the same file, "
        "or choose another folder"
    )
    record = out / "shards" / "00001-stability.json"
    record.write_text(record.read_text().replace('"positions": ', '"positions": 1'))
    assert refusal(*command(traces, model, out), "--shards") == (
        f"{record}: is not what was written there (another SHA-256); remove it, and its shard is worked out again, or "
        "choose another folder"
    )


def test_other_draws_or_another_path_are_another_run(traces: Path, model: Path, ablated: Path, tmp_path: Path) -> None:
    out = shutil.copytree(ablated, tmp_path / "out")
    asked = ("ablate", traces, "-m", model, "-o", out, "--shards", "--k-max", "3")
    said = refusal(*asked, "--draws", "50", "--s-max", "1.6")
    assert "began with options.s_max 1.5, which is 1.6 now" in said
    assert 'began with options.draws "40 draws' in said


@pytest.mark.parametrize("keep_going", [False, True])
def test_walks_leave_out_what_the_first_left_out_and_take_it_in_again(
    keep_going: bool, traces: Path, model: Path, ablated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row group that cannot be read for a while: worked out without it, then with it, on every walk."""
    out, read = tmp_path / "out", TraceFiles.read

    def failing(self: TraceFiles, piece):
        if piece.file.name == "part-1.parquet" and 1 in piece.groups:
            raise InputError(f"{piece.file}: the disk does not answer")
        return read(self, piece)

    with monkeypatch.context() as patch:
        patch.setattr(TraceFiles, "read", failing)
        assert ended(*command(traces, model, out), "--shards", "--keep-going").returncode == 3
    rows = [pq.read_metadata(out / name / "00001.parquet").num_rows for name in ("alpha-path", "stability")]
    assert rows[0] == rows[1] == pq.ParquetFile(traces / "part-1.parquet").metadata.row_group(0).num_rows
    worked = works_noted(monkeypatch)
    if keep_going:  # shards that left something out are not tried again by themselves
        (out / "shifts" / "00001.parquet").unlink()
    printed(*command(traces, model, out), "--shards", *["--keep-going"] * keep_going)
    assert worked == {(name, "00001"): 1 for name in ("", "alpha-path", "stability")}
    assert content(out) == content(ablated)


def test_later_walks_leave_nothing_out_by_themselves(
    traces: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, read = tmp_path / "out", TraceFiles.read

    def failing(self: TraceFiles, piece):
        if (out / "shards" / "00002.json").exists() and piece.file.name == "part-1.parquet":
            raise InputError(f"{piece.file}: the disk does not answer")
        return read(self, piece)

    monkeypatch.setattr(TraceFiles, "read", failing)
    assert refusal(*command(traces, model, out), "--shards", "--keep-going") == (
        f"{traces}/part-1.parquet, row group 0: the disk does not answer"
    )
