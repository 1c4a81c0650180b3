"""Work done elsewhere equals work done here, bit for bit, whatever becomes of the order; faults keep their words."""

import platform
import shutil
import socket
import sys
import warnings
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cluster_data import TINY, ShuffledEngine, split_rounds, split_traces
from in_process import printed
from traces_factory import rows, trace_table

from oracle.alpha_path.study import alpha_study
from oracle.cluster.ray_engine import RayEngine, in_words
from oracle.cluster.spreading import Arrival, SpreadRounds, SpreadTraces, in_place_order, spread
from oracle.costs import LengthRange
from oracle.errors import InputError, InputWarning
from oracle.files import find_parquet
from oracle.latency.fit import fit_latency
from oracle.latency.model import LatencyModel
from oracle.pieces import Piece, pieces_of
from oracle.pipeline import in_order
from oracle.rounds import RoundFiles
from oracle.study import Question, study
from oracle.traces import TraceFiles

SMALL = 1  # byte: every row group is a piece of its own


@pytest.fixture(scope="module")
def model() -> LatencyModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        return fit_latency(RoundFiles(TINY / "rounds.parquet")).model


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return split_traces(tmp_path_factory.mktemp("data") / "traces")


def refusal(call, *args, **kwargs) -> str:
    with pytest.raises(InputError) as error:
        call(*args, **kwargs)
    return str(error.value)


def drained(files: TraceFiles) -> int:
    return sum(in_order(_generations, files, 1))


def _generations(batch) -> int:
    return batch.generations


def question(folder: Path, threads: int) -> Question:
    folder.mkdir()
    return Question(
        score=True,
        ablate=True,
        decisions=folder / "decisions.parquet",
        shifts=folder / "shifts.parquet",
        every_length=folder / "lengths.parquet",
        threads=threads,
    )


def test_pieces_cover_every_row_group_once_and_in_order(traces: Path) -> None:
    files = find_parquet(traces)
    for most in (SMALL, 50_000, 1 << 30):
        pieces = pieces_of(files, most)
        covered = [(piece.file, group) for piece in pieces for group in piece.groups]
        assert covered == [(file, group) for file in files for group in range(pq.ParquetFile(file).num_row_groups)]
        for piece in pieces:
            before = pq.ParquetFile(piece.file).metadata
            assert piece.first_row == sum(before.row_group(g).num_rows for g in range(piece.groups.start))
    assert len(pieces_of(files, 1 << 30)) == len(files)
    assert len(pieces_of(files, SMALL)) > len(files)


@pytest.mark.parametrize("piece_bytes", [SMALL, 60_000])
def test_a_study_spread_and_shuffled_is_the_study_of_one_process(
    traces: Path, model: LatencyModel, tmp_path: Path, piece_bytes: int
) -> None:
    files = TraceFiles(traces, batch_bytes=100_000)
    here = study(files, model, question(tmp_path / "here", 2))
    engine = ShuffledEngine(seed=piece_bytes)
    there = study(SpreadTraces(files, engine, piece_bytes), model, question(tmp_path / "there", 1))
    assert engine.pieces > len(files.paths)
    assert there.scores == here.scores
    assert there.value_ms == here.value_ms
    np.testing.assert_array_equal(there.chosen, here.chosen)
    for mine, theirs in zip(here.ablations, there.ablations, strict=True):
        assert theirs.prevalence == mine.prevalence
        np.testing.assert_array_equal(theirs.terms_ms, mine.terms_ms)
    for name in ("decisions", "shifts", "lengths"):
        file = f"{name}.parquet"
        assert (tmp_path / "there" / file).read_bytes() == (tmp_path / "here" / file).read_bytes()


def test_every_other_walk_over_batches_is_spread_too(traces: Path, model: LatencyModel, tmp_path: Path) -> None:
    files, lengths = TraceFiles(traces), LengthRange(0, 4)
    for name, batches in (("here", files), ("there", SpreadTraces(files, ShuffledEngine(), SMALL))):
        alpha_study(batches, model, lengths, rows=tmp_path / name)
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()


@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_a_fit_of_joined_moments_is_the_fit_of_one_process(tmp_path: Path, kind) -> None:
    files = RoundFiles(split_rounds(tmp_path / "rounds"))
    engine = ShuffledEngine(seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        here = fit_latency(files, kind=kind)
        there = fit_latency(SpreadRounds(files, engine, SMALL), kind=kind)
        whole = fit_latency(RoundFiles(TINY / "rounds.parquet"), kind=kind)
    assert engine.pieces == 10
    assert there.model.to_json() == here.model.to_json()
    for field in ("beta0_ms", "alpha_ms_per_expert"):  # and splitting the rows loses no digits
        np.testing.assert_allclose(getattr(here.model, field), getattr(whole.model, field), rtol=1e-12)


def test_an_id_in_two_pieces_is_refused_in_the_words_of_one_process(tmp_path: Path) -> None:
    table = trace_table()
    for name in ("a", "b"):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    files = TraceFiles(tmp_path)
    said = refusal(drained, SpreadTraces(files, ShuffledEngine()))
    assert said == refusal(drained, files)
    assert "the id occurs already in" in said


def test_a_fault_names_file_generation_and_position_wherever_it_was_found(traces: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(traces, tmp_path / "traces")
    broken = folder / "part-1.parquet"
    table = pq.read_table(broken)
    column = table.schema.get_field_index("match_prob")
    values = table.column(column).combine_chunks().to_pylist()
    values[9][5] = 1.5
    table = table.set_column(column, table.schema.field(column), pa.array(values, table.schema.field(column).type))
    pq.write_table(table, broken, row_group_size=4)
    files = TraceFiles(folder)
    said = refusal(drained, SpreadTraces(files, ShuffledEngine(), SMALL))
    assert said == refusal(drained, files)
    assert said.startswith(f"{broken}, generation '{table.column('generation')[9]}', position 5: match_prob is 1.5")


def test_a_file_that_workers_do_not_see_is_named_with_the_way_out(traces: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(traces, tmp_path / "traces")

    class Elsewhere(ShuffledEngine):
        def run(self, pieces, work):
            (folder / "part-2.parquet").unlink()
            return super().run(pieces, work)

    said = refusal(drained, SpreadTraces(TraceFiles(folder), Elsewhere(), SMALL))
    assert said.startswith(f"{folder / 'part-2.parquet'}: no such file on the worker ")
    assert said.endswith("every node of the cluster must see it under this name, or give a URI (s3://, gs://)")


def test_a_uri_that_workers_cannot_reach_is_named_with_the_way_out(traces: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(traces, tmp_path / "traces")
    files = TraceFiles(f"file://{folder}")
    (folder / "part-2.parquet").unlink()
    pieces = [*pieces_of(files.paths[:2], SMALL), Piece(files.paths[2], range(1), 0)]
    with pytest.raises(InputError) as error:
        list(spread(ShuffledEngine(), pieces, files.read, _last))
    assert str(error.value) == (
        f"file://{folder}/part-2.parquet: cannot be reached from the worker {platform.node()} ([Errno 2] No such file "
        f"or directory: 'file://{folder}/part-2.parquet'); every node of the cluster needs the network and the rights "
        "there that this machine has: credentials in its environment"
    )


def _last(pair) -> int:
    return pair[0].generations


def test_addresses_that_cannot_be_are_refused_at_once() -> None:
    assert refusal(RayEngine, "ray://head:10001") == (
        "--ray-address ray://head:10001: Ray Data does not work through Ray Client; give the command on a node of the "
        "cluster, with --ray-address auto"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert refusal(RayEngine, f"127.0.0.1:{port}") == (
        f"--ray-address 127.0.0.1:{port}: nothing answers there (Connection refused); check the address with "
        "`ray status` on a node of the cluster"
    )
    assert "nothing answers there (" in refusal(RayEngine, "127.0.0.1:99999")


def test_a_damaged_row_group_is_named(traces: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(traces, tmp_path / "traces")
    broken = folder / "part-1.parquet"
    data = bytearray(broken.read_bytes())
    data[100:9000] = bytes(8900)
    broken.write_bytes(data)
    files = TraceFiles(folder)
    said = refusal(drained, SpreadTraces(files, ShuffledEngine(), SMALL))
    assert said == refusal(drained, files)
    assert said.startswith(f"{broken}: ")
    assert "damaged" in said


def _fails(batch) -> int:
    raise MemoryError


def _warns(batch) -> int:
    warnings.warn(InputWarning(f"odd: {batch.generation[0]}"), stacklevel=2)
    return batch.generations


def test_what_fails_on_a_worker_is_a_failure_here_and_what_is_odd_is_said_here(traces: Path) -> None:
    spread = SpreadTraces(TraceFiles(traces), ShuffledEngine(), SMALL)
    with pytest.raises(OSError, match=r"part-0\.parquet: the worker .* failed \(out of memory\)"):
        list(spread.over(_fails))
    with pytest.warns(InputWarning, match="odd: g") as caught:
        assert sum(spread.over(_warns)) == 78
    assert len({str(warning.message) for warning in caught}) == len(pieces_of(spread.paths, SMALL))


def test_what_only_all_pieces_show_is_said_once(tmp_path: Path) -> None:
    falling = np.tile(np.array([0.9, 0.8, 0.6, 0.4], np.float32), (7, 1))
    for name in ("a", "b"):
        table = trace_table((3, 4), K=4, prefix=name, drop=["match_prob"], match_probs=rows((3, 4), falling))
        pq.write_table(table, tmp_path / f"{name}.parquet")
    files = TraceFiles(tmp_path)
    for batches in (files, SpreadTraces(files, ShuffledEngine(), SMALL)):
        with pytest.warns(InputWarning, match="never rise along any chain") as caught:
            drained(batches)
        assert len(caught) == 1


def arrivals(*places: tuple[int, int, bytes | None]) -> list[Arrival]:
    return [Arrival(*place) for place in places]


def test_answers_that_are_lost_or_come_twice_are_noticed() -> None:
    good = arrivals((0, 0, b"a"), (0, 1, None), (1, 0, None), (2, 0, b"b"), (2, 1, b"c"), (2, 2, None))
    assert list(in_place_order(iter(good[::-1]), 3)) == [b"a", b"b", b"c"]
    for lost in range(len(good)):
        with pytest.raises(OSError, match=r"the engine lost batch \d of piece \d of 3; run again"):
            list(in_place_order(iter(good[:lost] + good[lost + 1 :]), 3))
    for again in good:
        with pytest.raises(OSError, match="twice; run again"):
            list(in_place_order(iter([*good, again]), 3))


def test_options_that_contradict_and_a_ray_that_is_missing_are_refused(
    model, traces: Path, tmp_path: Path, monkeypatch
):
    model.save(tmp_path / "model.json")
    given = ("solve", traces, "--model", tmp_path / "model.json")
    with pytest.raises(click.UsageError, match="--ray-address is for --engine ray; give both or neither"):
        printed(*given, "--ray-address", "auto")
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.data", None)
    assert refusal(printed, *given, "--engine", "ray") == (
        "--engine ray needs Ray Data, which is not installed: pip install 'draft-oracle[ray]'"
    )


def test_what_ray_says_becomes_one_line_with_a_way_out() -> None:
    missing = in_words(RuntimeError("trace\nModuleNotFoundError: No module named 'oracle'\nmore"))
    assert isinstance(missing, InputError)
    assert str(missing) == (
        "Ray: ModuleNotFoundError: No module named 'oracle'; install the same draft-oracle on every node of the cluster"
    )
    other = in_words(RuntimeError("RayTaskError\nRuntimeError: a worker has numpy 2.1 instead of 2.4\n"))
    assert str(other).startswith("Ray: a worker has numpy 2.1 instead of 2.4; install the same draft-oracle")
    died = in_words(RuntimeError("trace\nThe worker died\x1b[0m\n\n"))
    assert isinstance(died, OSError)
    assert str(died) == "Ray: The worker died\\x1b[0m"
