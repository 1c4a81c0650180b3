"""A cluster of several nodes, on one machine: the bytes of one process, also where workers and nodes are lost."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster_data import TINY, split_rounds, split_traces
from in_process import printed
from shard_runs import content

from oracle.cluster import ray_engine
from oracle.cluster.spreading import SpreadTraces
from oracle.pipeline import in_order
from oracle.traces import TraceFiles, Traces

pytestmark = pytest.mark.ray
SMALL = {"object_store_memory": 120 << 20, "include_dashboard": False}
SLOWLY_S = 0.3


@contextmanager
def cluster(head_cpus: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """Two nodes; give the address, and what kills the second one. The second has one CPU."""
    from ray import cloudpickle  # noqa: PLC0415
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not see the tests' folder
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": head_cpus, **SMALL})
    try:
        second = nodes.add_node(num_cpus=1, **SMALL)
        yield nodes.address, lambda: nodes.remove_node(second, allow_graceful=False)
    finally:
        nodes.shutdown()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    split_traces(folder / "traces", files=6)
    split_rounds(folder / "rounds")
    printed("fit", TINY / "rounds.parquet", "-o", folder / "model.json")
    return folder


def test_commands_write_and_print_what_one_process_does(data: Path, tmp_path: Path) -> None:
    model = ("-m", data / "model.json")
    commands: dict[str, tuple[Any, ...]] = {
        "solve": ("solve", data / "traces", *model, "-o", "decisions.parquet"),
        "score": ("score", data / "traces", *model, "-o", "scores.parquet"),
        "ablate": ("ablate", data / "traces", *model, "--draws", "40", "--s-max", "1.5", "-o", "out"),
        "shards": ("ablate", data / "traces", *model, "--draws", "40", "--s-max", "1.5", "--shards", "-o", "out"),
        "fit": ("fit", data / "rounds", "-o", "model.json"),
    }
    with cluster(head_cpus=1) as (address, _):
        for name, (*words, output) in commands.items():
            said = {}
            for engine, more in (("local", ()), ("ray", ("--ray-address", address))):
                folder = tmp_path / name / engine
                folder.mkdir(parents=True)
                said[engine] = printed(*words, folder / output, "--engine", engine, *more)
            assert said["ray"] == said["local"], name
            assert content(tmp_path / name / "ray") == content(tmp_path / name / "local"), name


def _slowly(traces: Traces) -> tuple[tuple[str, ...], float]:
    time.sleep(SLOWLY_S)
    return traces.generation, float(traces.match_prob.sum())


def walked(data: Path, address: str, after_four: Callable[[], object]) -> list[Any]:
    """Walk over all traces, a row group at a time; when four are there, do something to the cluster."""
    found = []
    with ray_engine.RayEngine(address) as engine:
        for each in in_order(_slowly, SpreadTraces(TraceFiles(data / "traces"), engine, 1), 1):
            found.append(each)
            if len(found) == 4:
                threading.Thread(target=after_four).start()
    return found


def kill_a_worker(killed: list[int]) -> None:
    """SIGKILL to a process that carries out a task, by the name it gives itself."""
    while not killed:
        for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if cmdline.read_bytes().startswith(b"ray::MapBatches"):
                    killed.append(int(cmdline.parent.name))
                    os.kill(killed[0], signal.SIGKILL)
                    return
            except OSError:  # it has ended meanwhile
                continue


def test_a_worker_and_a_node_that_are_killed_cost_nothing_but_time(data: Path) -> None:
    here = list(in_order(_slowly, TraceFiles(data / "traces", batch_bytes=1 << 30), 2))
    killed: list[int] = []
    with cluster(head_cpus=1) as (address, kill_the_second_node):
        assert walked(data, address, lambda: kill_a_worker(killed)) == here
        assert killed
        assert walked(data, address, kill_the_second_node) == here


def test_a_cluster_that_has_lost_its_last_cpu_is_an_error(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_LOOK_S", 1.0)
    monkeypatch.setattr(ray_engine, "_WITHOUT_CPU_S", 10.0)
    said = "Ray: no node of the cluster has offered a CPU for 10 s; check it with `ray status`"
    with cluster(head_cpus=0) as (address, kill_the_second_node):
        begun = time.monotonic()
        with pytest.raises(OSError, match=said):
            walked(data, address, kill_the_second_node)
        assert time.monotonic() - begun < 120
