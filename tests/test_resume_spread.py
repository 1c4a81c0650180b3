"""Runs over shards whose batches an engine's workers read and work on: the bytes of one process, whatever the order."""

from pathlib import Path
from typing import Any

import click
import pytest
from cluster_data import ShuffledEngine
from in_process import printed
from shard_runs import MODEL, content, write_files
from test_resume import stopped_after
from test_resume_damage import damage, ended

from oracle.cluster import ray_engine
from oracle.errors import InputError


class InPlaceOfRay(ShuffledEngine):
    """What `--engine ray` opens, without Ray; counts how often it hands out pieces."""

    runs = 0

    def __init__(self, address: str | None, cpus: int, **_more: object) -> None:
        super().__init__(seed=cpus)

    def __enter__(self) -> "InPlaceOfRay":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def run(self, *given: Any) -> Any:
        type(self).runs += 1
        return super().run(*given)


@pytest.fixture(autouse=True)
def _in_place_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "RayEngine", InPlaceOfRay)


@pytest.mark.parametrize("command", ["solve", "score", "ablate"])
def test_shards_worked_on_elsewhere_are_those_of_one_process(command: str, tmp_path: Path) -> None:
    traces = write_files(tmp_path, 4)
    words = (command, traces, "-m", MODEL, "--shards", "-o")
    here = printed(*words, tmp_path / "local")
    assert printed(*words, tmp_path / "ray", "--engine", "ray") == here
    assert content(tmp_path / "ray") == content(tmp_path / "local")


def test_either_engine_goes_on_with_what_the_other_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = write_files(tmp_path, 5)
    words = ("ablate", traces, "-m", MODEL, "--shards", "--s-max", "0", "-o")
    printed(*words, tmp_path / "whole")
    for begins, ends in (("ray", "local"), ("local", "ray")):
        out = tmp_path / begins
        with monkeypatch.context() as patch:
            stopped_after(patch, 2)
            with pytest.raises(click.Abort):
                printed(*words, out, "--engine", begins)
        assert len(list((out / "shards").iterdir())) == 2
        printed(*words, out, "--engine", ends)
        assert content(out) == content(tmp_path / "whole")


def test_all_shards_are_handed_out_at_once_and_damaged_ones_once_more(tmp_path: Path) -> None:
    traces = write_files(tmp_path, 4)
    for file, group in (("part-1", 0), ("part-1", 1), ("part-2", 1)):
        damage(traces / f"{file}.parquet", group)
    words = ("ablate", traces, "-m", MODEL, "--shards", "--keep-going", "--s-max", "0", "-o")
    here = ended(*words, tmp_path / "local")
    InPlaceOfRay.runs = 0
    there = ended(*words, tmp_path / "ray", "--engine", "ray")
    assert there == here
    assert here.returncode == 3
    assert len([line for line in here.stderr.splitlines() if line.startswith("left out: ")]) == 3
    assert content(tmp_path / "ray") == content(tmp_path / "local")
    assert InPlaceOfRay.runs == 2


def test_what_was_left_out_stays_so_in_further_walks(tmp_path: Path) -> None:
    traces = write_files(tmp_path, 2)
    damage(traces / "part-1.parquet", 0)
    words = ("ablate", traces, "-m", MODEL, "--shards", "--keep-going", "--s-max", "1.5", "-o")
    here, there = (ended(*words, tmp_path / engine, "--engine", engine) for engine in ("local", "ray"))
    assert (here.returncode, there) == (3, here)
    assert content(tmp_path / "ray") == content(tmp_path / "local")


def test_a_fault_is_told_in_the_same_words(tmp_path: Path) -> None:
    traces = write_files(tmp_path, 4)
    damage(traces / "part-1.parquet", 1)
    said = []
    for engine in ("local", "ray"):
        with pytest.raises(InputError) as raised:
            printed("solve", traces, "-m", MODEL, "-o", tmp_path / engine, "--shards", "--engine", engine)
        said.append(str(raised.value))
        assert [path.name for path in (tmp_path / engine / "shards").iterdir()] == ["00000.json"]
    assert said[0] == said[1]
    assert said[0].startswith(f"{traces}/part-1.parquet, row group 1: ")
