"""What a run over shards says of itself: whatever else stands there is refused, and shown without what it could do."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest
from in_process import printed
from shard_runs import MODEL, content, write_files

from oracle.errors import InputError
from oracle.shards import manifest


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write_files(folder, 2)
    begin_or_go_on(folder)
    return folder


def begin_or_go_on(folder: Path) -> None:
    with contextlib.chdir(folder):  # results name their inputs
        printed("solve", "traces", "-m", MODEL, "-o", "out", "--shards")


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as raised:
        begin_or_go_on(folder)
    return str(raised.value)


@pytest.mark.parametrize(
    "change",
    [
        {"batches": []},
        {"batches": None},
        {"left_out": {"0": "x"}},
        {"left_out": []},
        {"files": {"../../traces/part-0.parquet": "0"}},
        {"input_sha256": None},
        {"sha256": "0" * 64},
        {"more": 1},
    ],
)
def test_a_record_that_was_altered_is_refused(change: dict[str, object], run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    record = folder / "out" / "shards" / "00001.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | change))
    assert refusal(folder) == (
        "out/shards/00001.json: is not what was written there (another SHA-256); remove it, and its shard is worked "
        "out again, or choose another folder"
    )
    record.unlink()
    begin_or_go_on(folder)
    assert content(folder / "out") == content(run / "out")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": "x"}', "[" * 100_000, '{"a": NaN}', "\x00\xff"])
def test_a_record_that_is_none_is_refused(text: str, run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    (folder / "out" / "shards" / "00000.json").write_text(text)
    assert refusal(folder).startswith("out/shards/00000.json: ")


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    record = {"batches": [{"longest_context": 0.1, "seen": {"dense": None}}], "left_out": {"3": "α\x1b"}, "files": {}}
    manifest.write_record(tmp_path / "r.json", record)
    read = manifest.read_record(tmp_path / "r.json")
    assert {key: read[key] for key in record} == record


def test_names_and_values_of_a_manifest_are_shown_escaped(tmp_path: Path) -> None:
    path, odd = tmp_path / "manifest.json", "k\x1b[31m\n"
    with pytest.raises(InputError) as raised:
        manifest.refuse_other(path, {odd: 1, "options": {odd: {odd: odd}}}, {"options": {"list": [{"name": odd}]}})
    shown = r"k\x1b[31m\n"
    assert raised.value.faults == tuple(
        f"{path}: the run in this folder began with {what}; go on with what it began with, or choose another folder"
        for what in (
            f"{shown} 1, which is nothing now",
            f'options.{shown} {{"k\\u001b[31m\\n": "k\\u001b[31m\\n"}}, which is nothing now',
            f"options.list nothing, which is {shown} now",
        )
    )
