"""Readers that a whole study stands behind: runs over shards that are gone on with, what a model says of its fit."""

import json
import os
import random
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

from fuzzing import samples
from fuzzing.mutations import damaged_json
from fuzzing.parquet_damage import damaged_parquet
from in_process import printed
from traces_factory import trace_table

from oracle.alpha_path.study import alpha_study
from oracle.costs import LengthRange
from oracle.errors import InputError, InputWarning
from oracle.latency.draws import draws_from_file
from oracle.latency.fit import fit_latency
from oracle.latency.model import LatencyModel
from oracle.rounds import RoundFiles
from oracle.study import Question, study
from oracle.summaries.model_file import model_table
from oracle.summaries.study import study_tables
from oracle.traces import TraceFiles

KINDS = {"manifest": "manifest.json", "record": "shards/*.json", "totals": "totals/*.parquet"}


def _run(folder: Path) -> str:
    """Answer over shards, in a folder that holds traces and a model."""
    words = ("ablate", "traces.parquet", "-m", "model.json", "--k-max", "3", "--draws", "0", "--s-max", "0")
    before = Path.cwd()
    os.chdir(folder)
    try:
        return printed(*words, "--shards", "-o", "out", "--threads", "1")
    finally:
        os.chdir(before)


@cache
def finished() -> tuple[dict[str, bytes], dict[str, str], str]:
    """The files of a finished run, traces and model among them; the one of each kind; the answer."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "traces.parquet").write_bytes(samples.parquet(samples.trace_tables()[0], row_group_size=2))
        (folder / "model.json").write_text(samples.models()[0])
        said = _run(folder)
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        of_kind = {kind: str(min((folder / "out").glob(one)).relative_to(folder)) for kind, one in KINDS.items()}
    return files, of_kind, said


def shard_file(kind: str) -> Callable[[random.Random], bytes]:
    """Give what damages a file of a finished run."""

    def make(rng: random.Random) -> bytes:
        files, of_kind, _ = finished()
        held = files[of_kind[kind]]
        return damaged_parquet(held, rng, [held]) if kind == "totals" else damaged_json(held.decode(), rng)

    return make


def go_on(kind: str) -> Callable[[Path, Path, random.Random], None]:
    """Give what goes on with a run of which one file is another one: the same answer, or a message."""

    def read(path: Path, _: Path, __: random.Random) -> None:
        files, of_kind, said = finished()
        with tempfile.TemporaryDirectory(dir=path.parent.parent) as name:
            for file, held in files.items():
                (Path(name) / file).parent.mkdir(parents=True, exist_ok=True)
                (Path(name) / file).write_bytes(path.read_bytes() if file == of_kind[kind] else held)
            assert _run(Path(name)) == said

    return read


@cache
def fitted_model() -> str:
    """A latency model with everything that a fit says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        found = fit_latency(RoundFiles(samples.ROOT / "cases" / "tiny-moe" / "rounds.parquet"))
    return found.model.to_json()


@cache
def read_as_fitted() -> None:
    """Read the model as it is."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.json"
        path.write_text(fitted_model())
        read_fit_record(path, path, random.Random(0))


def fit_record(rng: random.Random) -> bytes:
    """A model whose coefficients are as they were, and whose record of the fit is damaged."""
    model = json.loads(fitted_model())
    part = rng.choice((*model["fit"], None))
    whole = model["fit"] if part is None else model["fit"][part]
    try:
        changed = json.loads(damaged_json(json.dumps(whole), rng))
    except (ValueError, RecursionError):
        changed = rng.choice((None, [], {}, "", 0, -1.5))
    model["fit"] = changed if part is None else {**model["fit"], part: changed}
    return json.dumps(model).encode()


@cache
def _traces_of_its_target() -> bytes:
    return samples.parquet(trace_table(top_k=4))


def read_fit_record(path: Path, _: Path, __: random.Random) -> None:
    """Everything that takes a model's record of its fit into account."""
    model = LatencyModel.load(path)
    traces = path.parent / "traces.parquet"
    traces.write_bytes(_traces_of_its_target())
    try:
        files = TraceFiles(traces)
        calls: tuple[Callable[[], object], ...] = (
            lambda: model_table(model),
            lambda: study_tables(study(files, model, Question(score=True, ablate=True, k_max=3))),
            lambda: alpha_study(files, model, LengthRange(0, 3)),
            lambda: draws_from_file(model, draws=3),
        )
        refused = None
        for call in calls:
            try:
                call()
            except InputError as error:
                refused = error
        if refused is not None:
            raise refused
    finally:
        traces.unlink()
