"""Every reader: what it is given, how that is damaged, and what must hold of whatever it makes of it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fuzzing import bombs, samples, study_readers
from fuzzing.mutations import damaged_bytes, damaged_json, damaged_text
from fuzzing.parquet_readers import (
    check_traces,
    log_file,
    read_kinds,
    read_log,
    read_rounds,
    read_table,
    read_trace,
    rounds_file,
    trace_file,
    within,
)

from oracle.acceptance.reading import acceptance_from_text, read_acceptance
from oracle.acceptance.step_times import read_step_times
from oracle.errors import Faults, InputError
from oracle.files import read_text, shown
from oracle.latency.model import LatencyModel
from oracle.levers.deployment_file import read_deployment
from oracle.levers.measured_file import measured_from_text
from oracle.levers.traffic_file import traffic_from_text
from oracle.pool.plan_file import read_plan
from oracle.recorded_by.acceptance_table import as_csv
from oracle.recorded_by.aligned import Wanted
from oracle.recorded_by.conversion import convert_trace
from oracle.recorded_by.scored_text import ScoredTexts
from oracle.recorded_by.source import open_source
from oracle.recorded_by.timings import Told, rounds_of, rows_in
from oracle.recorder.prompts import read_prompts
from oracle.rounds import load_rounds, write_rounds
from oracle.traces import load_traces

Make = Callable[[random.Random], bytes]
Read = Callable[[Path, Path, random.Random], None]
_ROUTED = Wanted(num_experts=8, top_k=2, by=("request",))
_DENSE = Wanted(dense_target=True, prompt_tokens=3)


@dataclass(frozen=True)
class Reader:
    """One reader.

    Attributes
    ----------
    name, weight
        The name, and its share of the cases.
    suffix
        Of the file it is given.
    make
        Gives the bytes of a case.
    read
        Reads a file, may write to the second path, and asserts what must hold of what was read.
    prepare
        Done once before anything is watched: what is compiled or loaded for the first time is not of a case.
    """

    name: str
    weight: int
    suffix: str
    make: Make
    read: Read
    prepare: Callable[[], object] = tuple


def _text(inputs: Callable[[], Sequence[str]], damage: Callable[[str, random.Random], bytes] = damaged_text) -> Make:
    return lambda rng: damage(rng.choice(inputs()), rng)


def _mixed_text(inputs: Callable[[], Sequence[str]]) -> Make:
    """Damage by what the text is: JSON as a tree, all else as text."""

    def make(rng: random.Random) -> bytes:
        text = rng.choice(inputs())
        return (damaged_json if text.lstrip()[:1] in ("{", "[") else damaged_text)(text, rng)

    return make


def _read_model(path: Path, out: Path, rng: random.Random) -> None:
    model = LatencyModel.load(path)
    assert LatencyModel.from_json(model.to_json()) == model
    model.save(out)
    for block in model.blocks:
        for k in block.draft_lengths:
            assert np.isfinite(block.coefficients(k + 1)).all()
            assert block.draft_ms(k) >= 0 or k == 0
    model.at_batch_size(rng.choice((None, 1, 3)))


def _read_deployment(path: Path, _: Path, __: random.Random) -> None:
    deployment = read_deployment(path).deployment
    assert all(np.isfinite(precision.eta) for precision in deployment.precisions)


def _read_plan(path: Path, _: Path, __: random.Random) -> None:
    assert read_plan(path).memory.usable_bytes >= 0


def _read_measured(path: Path, _: Path, __: random.Random) -> None:
    for each in measured_from_text(read_text(path), shown(path)):
        assert each.acceptance is None or 0 <= each.acceptance <= 1


def _read_prompts(path: Path, _: Path, __: random.Random) -> None:
    for prompt in read_prompts(path):
        prompt.id.encode("utf-8")
        assert not prompt.is_token_ids or max(prompt.prompt) < 1 << 31


def _read_traffic(path: Path, _: Path, __: random.Random) -> None:
    for each in traffic_from_text(read_text(path), shown(path), {"context_tokens": 500.0}):
        assert within(each.regime.repetitiveness, 0, 1)
        assert each.tokens is None or np.isfinite(each.tokens).all()
        for regime in (each.regime, each.low, each.high):
            assert regime.autocorrelation is None or within(regime.autocorrelation, 0, np.nextafter(1, 0))


def _read_acceptance(path: Path, _: Path, rng: random.Random) -> None:
    is_ = rng.choice((None, "survival", "conditional"))
    for curve in read_acceptance(path, is_, rng.choice((None, 3))).curves:
        assert within(curve.survival, 0, 1)
        assert curve.length_error(curve.draft_length) is None or np.isfinite(curve.mean_length(curve.draft_length))
    try:
        text = as_csv(read_acceptance(path, is_, 3))
    except InputError:
        return
    acceptance_from_text(text, "table", "survival")


def _read_step_times(path: Path, _: Path, __: random.Random) -> None:
    for each in read_step_times(path):
        assert all(
            np.isfinite(value) and value > 0 for value in (*each.step_ms.values(), *each.tokens_per_second.values())
        )


def _convert(engine: str | None, wanted: Wanted) -> Read:
    def read(path: Path, out: Path, _: random.Random) -> None:
        convert_trace(open_source([path], engine), out, wanted)
        check_traces(load_traces(out))

    return read


def _convert_times(path: Path, out: Path, _: random.Random) -> None:
    source = open_source([path], None)
    faults = Faults()
    told = Told(2.0, dict.fromkeys(range(1, 9), 1.0), "verified")
    trees = ((place, tree) for _, place, tree in source.trees())
    write_rounds(out, rounds_of(rows_in(trees, told, faults), "rounds", faults))
    load_rounds(out)


def _convert_scored(path: Path, out: Path, rng: random.Random) -> None:
    requests = path.with_name("requests.jsonl")
    requests.write_text(samples.requests()["vllm"].splitlines()[0] + "\n")
    try:
        kind = rng.choice(("reference", "greedy", "overlap_lower", "overlap_upper"))
        scores = ScoredTexts(path)
        beside = scores if kind.startswith("overlap") else None
        convert_trace(
            open_source([requests], None), out, Wanted(num_experts=8, match=kind), draft=scores, target=beside
        )
    finally:
        requests.unlink()
    check_traces(load_traces(out))


def _array_file(suffix: str) -> Make:
    def make(rng: random.Random) -> bytes:
        if rng.random() < 0.1:
            return bombs.npz(rng) if suffix == ".npz" else bombs.npy(rng)
        fit = [raw for raw in samples.arrays() if (raw[:2] == b"PK") == (suffix == ".npz")]
        return damaged_bytes(rng.choice(fit), rng, samples.arrays())

    return make


def _engines() -> list[Reader]:
    found = []
    for name in samples.requests():
        engine = name.split("-")[0]
        wanted = _ROUTED if engine in ("vllm", "sglang") else _DENSE

        def make(rng: random.Random, name: str = name) -> bytes:
            return bombs.payload(rng, samples.requests()[name]) or damaged_json(samples.requests()[name], rng)

        found.append(Reader(f"convert {name}", 1, ".jsonl", make, _convert(engine, wanted)))
    return found


def _no_bytes(_: random.Random) -> bytes:
    return b""


READERS: tuple[Reader, ...] = (
    Reader("traces", 2, ".parquet", trace_file, read_trace),
    Reader("traces in memory", 4, ".none", _no_bytes, read_table),
    Reader("rounds", 2, ".parquet", rounds_file, read_rounds),
    Reader("kinds", 1, ".parquet", trace_file, read_kinds),
    Reader("latency model", 16, ".json", _text(samples.models, damaged_json), _read_model),
    Reader(
        "deployment",
        8,
        ".toml",
        _text(lambda: samples.levers("deployment.toml")),
        _read_deployment,
    ),
    Reader("memory plan", 8, ".toml", _text(samples.plans), _read_plan),
    Reader("request log", 3, ".jsonl", log_file, read_log),
    Reader("prompts", 4, ".jsonl", _text(samples.prompts, damaged_json), _read_prompts),
    Reader("traffic", 8, ".csv", _mixed_text(samples.traffic), _read_traffic),
    Reader(
        "measured",
        6,
        ".csv",
        _mixed_text(samples.measured),
        _read_measured,
    ),
    Reader("acceptance", 16, ".txt", _mixed_text(samples.acceptance), _read_acceptance),
    Reader("step times", 8, ".csv", _mixed_text(samples.step_times), _read_step_times),
    Reader("convert times", 6, ".jsonl", _text(samples.times, damaged_json), _convert_times),
    Reader("convert scores", 4, ".jsonl", _text(samples.scores, damaged_json), _convert_scored),
    Reader("convert npz", 4, ".npz", _array_file(".npz"), _convert("vllm", _ROUTED)),
    Reader(
        "convert npy", 4, ".npy", _array_file(".npy"), _convert("vllm", Wanted(num_experts=8, top_k=2, prompt_tokens=3))
    ),
    *_engines(),
    *(
        Reader(
            f"shards: {kind}",
            2,
            Path(of_kind).suffix,
            study_readers.shard_file(kind),
            study_readers.go_on(kind),
            study_readers.finished,
        )
        for kind, of_kind in study_readers.KINDS.items()
    ),
    Reader(
        "record of a fit",
        3,
        ".json",
        study_readers.fit_record,
        study_readers.read_fit_record,
        study_readers.read_as_fitted,
    ),
)
