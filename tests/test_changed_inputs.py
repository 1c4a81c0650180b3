"""Files that change while a run reads them: refused, whichever walk is under way, and nothing is published."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process import printed
from pyarrow import fs
from shard_runs import CASES, MODEL, content, write_files, write_model

from oracle.cli import ablate
from oracle.cli import fit as fitting
from oracle.digests import Digests, Stamps
from oracle.errors import InputError
from oracle.files import File, find_parquet
from oracle.latency import fit
from oracle.locations import RemoteFile
from oracle.provenance import inputs_of
from oracle.shards.commits import Commits
from oracle.traces import Traces


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    return write_files(tmp_path, 3)


def halved(path: Path) -> None:
    """Put another file in the place of one, as a writer does that leaves no half of it to be seen."""
    table = pq.read_table(path)
    at = table.column_names.index("match_prob")
    half = pa.array([[x / 2 for x in row] for row in table["match_prob"].to_pylist()], table.schema.field(at).type)
    pq.write_table(table.set_column(at, table.schema.field(at), half), path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def same_size(path: Path) -> None:
    """Write the same bytes again: another time of the last write is all that tells."""
    path.write_bytes(path.read_bytes())


def refusal(path: Path) -> str:
    return (
        f"{path}: changed while it was read, so results would belong to no one state of it; wait until nothing writes "
        "there, and give the command again"
    )


def once(call: Callable[..., Any], then: Callable[[], None]) -> Callable[..., Any]:
    """A function that does something else besides after its first call."""
    done = threading.Lock()

    def called(*given: Any, **named: Any) -> Any:
        found = call(*given, **named)
        if done.acquire(blocking=False):
            then()
        return found

    return called


@pytest.mark.parametrize("change", [halved, same_size])
@pytest.mark.parametrize("words", [("solve",), ("score",), ("ablate", "--s-max", "0"), ("policies",)])
def test_nothing_is_published_of_a_file_that_changes(
    words: tuple[str, ...],
    change: Callable[[Path], None],
    traces: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = traces / "part-1.parquet"
    monkeypatch.setattr(Traces, "from_arrow", once(Traces.from_arrow, lambda: change(path)))
    with pytest.raises(InputError) as raised:
        printed(words[0], traces, "-m", MODEL, "-o", tmp_path / "out", *words[1:])
    assert str(raised.value) == refusal(path)
    assert not (tmp_path / "out").exists()


def test_later_walks_of_ablate_are_watched_too(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = traces / "part-2.parquet"
    monkeypatch.setattr(ablate, "along_alpha", once(ablate.along_alpha, lambda: same_size(path)))
    with pytest.raises(InputError) as raised:
        printed("ablate", traces, "-m", MODEL, "-o", tmp_path / "out", "--s-max", "1.5")
    assert str(raised.value) == refusal(path)
    assert not (tmp_path / "out").exists()


def test_rounds_that_change_are_not_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rounds.parquet"
    shutil.copy(CASES / "tiny-moe" / "rounds.parquet", path)
    monkeypatch.setattr(fit, "fit_latency", once(fit.fit_latency, lambda: same_size(path)))
    with pytest.raises(InputError) as raised:
        printed("fit", path, "-o", tmp_path / "model.json")
    assert str(raised.value) == refusal(path)
    assert not (tmp_path / "model.json").exists()


def test_rounds_that_change_after_they_were_fitted_are_refused(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = traces / "rounds.parquet"
    shutil.copy(CASES / "tiny-moe" / "rounds.parquet", path)
    monkeypatch.setattr(fitting, "fitted", once(fitting.fitted, lambda: same_size(path)))
    with pytest.raises(InputError) as raised:
        printed("run", traces, "-o", tmp_path / "out")
    assert str(raised.value) == refusal(path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [0, 1, 2, 4, 5, 7])
def test_a_run_over_shards_stops_and_goes_on_once_the_file_is_back(
    number: int, traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file changes after any of the commits of three walks; no shard of it is committed from then on."""
    path, model, kept = traces / "part-2.parquet", write_model(tmp_path), tmp_path / "kept"
    command = ("ablate", traces, "-m", model, "--s-max", "1.5", "--draws", "40", "--shards", "-o")
    add, commits = Commits.add, []

    def counted(*given: Any) -> None:
        add(*given)
        commits.append(given)
        if len(commits) == number + 1:
            os.link(path, kept)
            halved(path)

    with monkeypatch.context() as patch:
        patch.setattr(Commits, "add", counted)
        with pytest.raises(InputError) as raised:
            printed(*command, tmp_path / "out")
    assert str(raised.value) == refusal(path)
    assert not (tmp_path / "out" / "tables.json").exists()
    assert "complete" not in json.loads((tmp_path / "out" / "manifest.json").read_text())
    os.replace(kept, path)
    printed(*command, tmp_path / "out")
    printed(*command, tmp_path / "new")
    assert content(tmp_path / "out") == content(tmp_path / "new")


@pytest.mark.parametrize("uri", [False, True])
def test_stamps_name_all_that_changed(uri: bool, traces: Path) -> None:
    paths = [traces / f"part-{number}.parquet" for number in range(3)]
    files: tuple[File, ...] = find_parquet(f"file://{traces}" if uri else traces)
    assert all(isinstance(file, RemoteFile) is uri for file in files)
    stamps = Stamps(files)
    stamps.check()
    same_size(paths[0])
    paths[2].unlink()
    stamps.check(files[1:2])
    with pytest.raises(InputError) as raised:
        stamps.check()
    changed, gone = raised.value.faults
    assert changed.startswith(f"{files[0]}: changed while it was read")
    assert gone.startswith(f"{files[2]}: is gone while it was read")


def test_a_file_far_away_is_told_by_size_and_time(traces: Path) -> None:
    below = fs.SubTreeFileSystem(str(traces), fs.LocalFileSystem())  # not a local one by its type
    file = RemoteFile(below, "part-0.parquet", "far://part-0.parquet")
    stamps = Stamps([file])
    stamps.check()
    same_size(traces / "part-0.parquet")
    with pytest.raises(InputError, match=r"^far://part-0\.parquet: changed while it was read"):
        stamps.check()


def test_inputs_are_compared_with_what_they_were_when_their_digests_were_begun(traces: Path) -> None:
    path = traces / "part-0.parquet"
    with Digests([path]) as digests:
        digests.of(path)
        same_size(path)
        with pytest.raises(InputError) as raised:
            inputs_of([path], digests)
    assert str(raised.value) == refusal(path)


def _generation(traces: Path) -> str:
    return str(pq.read_table(traces / "part-1.parquet", columns=["generation"])["generation"][0])


@pytest.mark.parametrize("command", ["explain", "crossover", "pool", "report", "run"])
def test_other_commands_watch_what_they_read(
    command: str, traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = traces / "part-1.parquet"
    out = tmp_path / {"explain": "out.svg", "report": "out.html"}.get(command, "out")
    words = {
        "explain": ("explain", traces, "-m", MODEL, "-g", _generation(traces), "-t", "3", "-o", out),
        "crossover": ("crossover", traces, "-m", MODEL, "-o", out),
        "pool": ("pool", CASES / "pool" / "tiny-moe.toml", "--traces", traces, "-o", out),
        "report": ("report", traces, "-m", MODEL, "-o", out),
        "run": ("run", traces, "-m", MODEL, "-o", out),
    }[command]
    monkeypatch.setattr(Traces, "from_arrow", once(Traces.from_arrow, lambda: same_size(path)))
    with pytest.raises(InputError) as raised:
        printed(*words)
    assert str(raised.value) == refusal(path)
    assert not out.exists()
