"""Ray started for real on two cores: the commands print and write, byte for byte, what one process does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_data import TINY, split_rounds, split_traces
from in_process import printed
from shard_runs import content

from oracle.errors import InputError
from oracle.pipeline import in_order
from oracle.traces import TraceFiles

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module", autouse=True)
def _one_ray() -> Iterator[None]:
    """A Ray of the calling program, which the commands use and leave running."""
    from ray import cloudpickle  # noqa: PLC0415

    from oracle.cluster.ray_engine import RayEngine  # noqa: PLC0415

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not see the tests' folder
    with RayEngine(cpus=2):
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    split_traces(folder / "traces")
    split_rounds(folder / "rounds")
    printed("fit", TINY / "rounds.parquet", "-o", folder / "model.json")
    return folder


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row group a piece of its own."""
    from oracle.cluster.spreading import SpreadRounds, SpreadTraces  # noqa: PLC0415

    for spread in (SpreadTraces, SpreadRounds):
        monkeypatch.setattr(spread.__init__, "__defaults__", (1,))


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(path.iterdir())
    return {file.name.replace(path.name, "output"): file.read_bytes() for file in files}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("solve", ()),
        ("solve", ("--flat",)),
        ("score", ()),
        ("ablate", ("--draws", "40", "--every-length", "--k-max", "4")),
    ],
)
def test_results_and_files_are_those_of_one_process(data: Path, tmp_path: Path, command: str, words) -> None:
    said = {}
    for engine in ("local", "ray"):
        given = (command, data / "traces", "--model", data / "model.json", *words, "--engine", engine)
        said[engine] = printed(*given, "-o", tmp_path / engine, "--json")
    assert said["ray"] == said["local"]
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


def test_a_fit_is_that_of_one_process(data: Path, tmp_path: Path) -> None:
    said = {
        engine: printed("fit", data / "rounds", "-o", tmp_path / engine, "--engine", engine, "--json")
        for engine in ("local", "ray")
    }
    assert said["ray"] == said["local"]
    assert (tmp_path / "ray").read_bytes() == (tmp_path / "local").read_bytes()


def test_files_named_by_uri_or_by_a_relative_path_mean_the_same_to_workers(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    given = ("--model", "model.json", "--engine", "ray", "--threads", "2")
    by_path = printed("solve", "traces", *given)
    assert printed("solve", f"file://{data}/traces", *given) == by_path.replace("traces/", f"file://{data}/traces/")
    assert printed("solve", "traces", "--model", "model.json", "--threads", "2") == by_path


def test_shards_of_a_relative_path_are_those_of_one_process(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    for engine in ("local", "ray"):
        printed("solve", "traces", "--model", "model.json", "--shards", "-o", tmp_path / engine, "--engine", engine)
    assert content(tmp_path / "ray") == content(tmp_path / "local")


def test_a_fault_found_by_a_worker_is_said_in_the_same_words(data: Path, tmp_path: Path) -> None:
    import shutil  # noqa: PLC0415

    for name in ("part-0.parquet", "again.parquet"):
        shutil.copy(data / "traces" / "part-0.parquet", tmp_path / name)
    said = []
    for engine in ("local", "ray"):
        with pytest.raises(InputError) as error:
            printed("solve", tmp_path, "--model", data / "model.json", "--engine", engine)
        said.append(str(error.value))
    assert said[0] == said[1]
    assert "part-0.parquet, generation " in said[0]


def _other_versions() -> dict[str, str]:
    return {"draft-oracle": "0", "numpy": "1.2"}


def _dies(batch) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_with_other_versions_and_workers_that_die_are_said(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oracle.cluster import ray_engine  # noqa: PLC0415
    from oracle.cluster.spreading import SpreadTraces  # noqa: PLC0415

    files = TraceFiles(data / "traces" / "part-0.parquet")
    with ray_engine.RayEngine() as engine:
        with pytest.raises(OSError, match=r"^Ray: "):
            list(in_order(_dies, SpreadTraces(files, engine), 1))
        monkeypatch.setattr(ray_engine, "versions", _other_versions)
        with pytest.raises(InputError, match=r"numpy .* instead of 1\.2; install the same draft-oracle on every node"):
            list(in_order(len, SpreadTraces(files, engine), 1))


def ray_workers() -> bool:
    """Whether a process of Ray carries out a task, by the name it gives itself then."""
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            name = cmdline.read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if name.startswith(b"ray::") and b"IDLE" not in name:
            return True
    return False


def test_an_interrupted_command_ends_at_once_and_leaves_nothing(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    words = ["ablate", data / "traces", "-m", data / "model.json", "-o", output, "--engine", "ray", "--threads", "1"]
    program = "from oracle.cli.main import main; main()"
    for at_work in (False, True):  # while Ray starts; while it works
        with subprocess.Popen(
            [sys.executable, "-c", program, *map(str, words)], stderr=subprocess.PIPE, start_new_session=True, text=True
        ) as running:
            deadline = time.monotonic() + 60
            time.sleep(2)
            while at_work and not ray_workers() and running.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            os.killpg(running.pid, signal.SIGINT)
            _, said = running.communicate(timeout=60)
        assert running.returncode == 130, said
        assert said == "stopped (SIGINT); files appear only when a command has ended\n"
        assert not list(tmp_path.iterdir())
