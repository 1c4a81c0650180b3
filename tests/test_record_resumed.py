"""Recordings that were stopped and gone on with: the same bytes in the end, and nobody else in the folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("torch", reason="needs the extra `record`")
pytest.importorskip("transformers", reason="needs the extra `record`")

import record_models
from record_commands import command, succeeded, write_models

from oracle.cli.main import group
from oracle.errors import InputError
from oracle.recorder import recording, rounds
from oracle.rounds import load_rounds

pytestmark = pytest.mark.record


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_models(tmp_path_factory.mktemp("models"), ["dense", "olmoe", "qwen3_moe"])


@pytest.mark.parametrize("decoding", ["greedy", "sample"])
def test_a_stopped_recording_goes_on_to_the_same_bytes(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoding: str
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    succeeded(command(models, "olmoe", whole, "--decoding", decoding))
    real = recording.record
    done: list[int] = []

    def stops(*arguments: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(arguments[3])
        return real(*arguments)

    monkeypatch.setattr(recording, "record", stops)
    words = command(models, "olmoe", stopped, "--decoding", decoding)
    result = CliRunner().invoke(group, words)
    assert "what is finished stays; the same command with --resume goes on" in result.output
    assert not (stopped / "traces.parquet").exists()
    assert len(list((stopped / "_parts").iterdir())) == 2
    refused = CliRunner().invoke(group, words)
    assert "the folder exists already; choose another name, or --resume a recording" in str(refused.exception)
    done.clear()
    monkeypatch.setattr(recording, "record", lambda *a: (done.append(a[3]), real(*a))[1])
    succeeded([*words, "--resume"])
    assert done == [2, 3, 4, 5]
    assert (stopped / "traces.parquet").read_bytes() == (whole / "traces.parquet").read_bytes()
    assert (stopped / "record.json").read_bytes() == (whole / "record.json").read_bytes()
    other = CliRunner().invoke(group, [*words, "--resume", "--temperature", "2"])
    assert isinstance(other.exception, InputError)
    assert "was recorded with something else (settings temperature: 1.0 then, 2.0 now)" in str(other.exception)
    succeeded([*words, "--resume", "--timing-rounds", "20", "--timing-repeats", "1"])  # rounds may come later
    assert len(load_rounds(stopped / "rounds.parquet")) == 20
    before = (stopped / "rounds.parquet").read_bytes()
    succeeded([*words, "--resume", "--timing-rounds", "20", "--timing-repeats", "1"])
    assert (stopped / "rounds.parquet").read_bytes() == before


def test_rounds_are_timed_anew_until_they_are_there_and_left_alone_if_none_are_asked_for(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    words = [*command(models, "olmoe", out), "--timing-repeats", "1"]

    def said() -> Any:
        return json.loads((out / "record.json").read_text("utf-8"))["timing"]

    succeeded([*words, "--timing-rounds", "20"])
    assert said() == {"anchors": 5, "repeats": 1}
    before = (out / "rounds.parquet").read_bytes()
    succeeded([*words, "--resume"])
    assert said() == {"anchors": 5, "repeats": 1}, "of the rounds that are there"
    with monkeypatch.context() as patch:
        patch.setattr(rounds, "write_rounds", interrupted)
        CliRunner().invoke(group, [*words, "--resume", "--timing-rounds", "24"])
    assert said() is None
    assert (out / "rounds.parquet").read_bytes() == before
    succeeded([*words, "--resume", "--timing-rounds", "24"])
    assert said() == {"anchors": 6, "repeats": 1}
    assert len(load_rounds(out / "rounds.parquet")) == 24


def interrupted(*_arguments: Any) -> None:
    raise KeyboardInterrupt


def test_one_run_at_a_time_records_into_a_folder(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, load, said = tmp_path / "out", recording.load, []
    words = command(models, "dense", out)

    def meanwhile(settings: Any) -> Any:
        monkeypatch.undo()
        said.extend(str(CliRunner().invoke(group, [*words, *more]).exception) for more in ((), ("--resume",)))
        return load(settings)

    monkeypatch.setattr(recording, "load", meanwhile)
    succeeded(words)
    assert len(set(said)) == 1
    assert said[0].startswith(f"{out}: process {os.getpid()} on ")
    assert said[0].endswith("is at work in this folder; wait for it to end, or choose another folder")
    assert sorted(path.name for path in out.iterdir()) == ["record.json", "traces.parquet"]


def test_an_interrupt_keeps_what_is_finished(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [sys.executable, "-m", "oracle", *command(models, "qwen3_moe", out, "--max-new-tokens", "150")]
    root = Path(__file__).parent.parent
    with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as going:
        while not list(out.glob("_parts/*.parquet")) and going.poll() is None:
            time.sleep(0.01)
        going.send_signal(signal.SIGINT)
        said, errors = going.communicate()
    assert (going.returncode, said) == (130, "")  # nothing of progress in a pipe
    assert errors.splitlines() == [
        "what is finished stays; the same command with --resume goes on",
        "stopped (SIGINT); files appear only when a command has ended",
    ]
    assert not list(out.glob("_parts/.*"))
    assert not (out / "traces.parquet").exists()


def test_another_model_under_the_same_name_is_no_resumption(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, out = tmp_path / "draft", tmp_path / "out"
    shutil.copytree(models / "dense", draft)
    real = recording.record

    def only_the_first(*arguments: Any) -> Any:
        if arguments[3]:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(recording, "record", only_the_first)
    words = command(models, "olmoe", out, draft=str(draft))
    CliRunner().invoke(group, words)
    assert [path.name for path in (out / "_parts").glob("*.parquet")] == ["trace-000000.parquet"]
    record_models.save(draft, "dense", seed=77)
    result = CliRunner().invoke(group, [*words, "--resume"])
    assert isinstance(result.exception, InputError)
    said = str(result.exception)
    assert "was recorded with something else (files draft/model.safetensors: sha256 " in said
    assert "target/" not in said
    assert "tokenizer" not in said
