"""Readers of Parquet and of Arrow tables: what they are given, and what must hold of what they make of it."""

import random
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np
from fuzzing import bombs, samples, tables
from fuzzing.mutations import damaged_json
from fuzzing.parquet_damage import damaged_parquet

from oracle.errors import Faults
from oracle.kinds import sorted_by_kind
from oracle.observe.request_log import LogForm, requests_in
from oracle.observe.times import UNITS
from oracle.observe.tokens import KINDS
from oracle.rounds import RoundFiles, load_rounds, write_rounds
from oracle.traces import TraceFiles, Traces, load_traces, write_traces
from oracle.traces.lookup import read_generation


def trace_file(rng: random.Random) -> bytes:
    """Damaged traces: bombs, columns of other types, damaged bytes."""
    kind = rng.randrange(20)
    if kind == 0 and rng.random() < 0.5:
        return bombs.trace(rng)
    if kind < 6:
        return _altered(rng, samples.trace_tables())
    return damaged_parquet(rng.choice(samples.traces()), rng, samples.traces())


def rounds_file(rng: random.Random) -> bytes:
    """Damaged rounds."""
    if rng.random() < 0.3:
        return _altered(rng, (tables.rounds_table(),))
    return damaged_parquet(rng.choice(samples.rounds()), rng, samples.rounds())


def _altered(rng: random.Random, whole: Sequence[Any]) -> bytes:
    """A table of other types, where Parquet can hold it."""
    for _ in range(20):
        try:
            return samples.parquet(tables.altered(rng.choice(whole), rng))
        except (ValueError, NotImplementedError, OSError, TypeError):
            continue
    return samples.traces()[0]


def within(values: Any, least: float, most: float) -> bool:
    """Whether all values lie between, or there are none."""
    return values is None or bool(np.all((values >= least) & (values <= most)))


def check_traces(traces: Traces) -> None:
    """Assert what `Traces` promises."""
    assert traces.generations == len(traces.context_start) == len(traces.offsets) - 1
    assert traces.offsets[0] == 0
    assert np.all(np.diff(traces.offsets) >= 0)
    for values in (traces.match_prob, traces.match_probs, traces.draft_prob):
        assert values is None or len(values) == traces.positions
        assert within(values, 0, 1)
    assert traces.experts is None or within(traces.experts, 0, (traces.num_experts or 0) - 1)
    assert within(traces.unique_experts, 0, (traces.num_experts or 0) * 1.001)
    assert within(traces.logged_advance, 1, 2**15)


def read_trace(path: Path, out: Path, rng: random.Random) -> None:
    """Traces from files, one generation of them, and back."""
    for each in TraceFiles(path, match_is=rng.choice((None, None, "survival"))):
        check_traces(each)
    TraceFiles(path).check()
    read_generation(TraceFiles(path), "g0")
    whole = load_traces(path)
    write_traces(out, [whole])
    again = load_traces(out)
    assert again.generation == whole.generation
    assert np.array_equal(again.offsets, whole.offsets)
    check_traces(again)


def read_table(_: Path, __: Path, rng: random.Random) -> None:
    """A table in memory, as other programs hand it over."""
    table = rng.choice(samples.trace_tables())
    table = tables.lying_lists(rng, table) if rng.random() < 0.3 else tables.altered(table, rng)
    check_traces(Traces.from_arrow(table, "table", rng.choice((None, "survival", "conditional"))))


def read_rounds(path: Path, out: Path, _: random.Random) -> None:
    """Rounds from files, and back."""
    for each in RoundFiles(path):
        assert np.all(np.isfinite(each.target_ms) | each.is_prefill)
        assert np.all(each.draft_length >= 0)
    whole = load_rounds(path)
    write_rounds(out, whole)
    assert len(load_rounds(out)) == len(whole)


def read_kinds(path: Path, _: Path, __: random.Random) -> None:
    """Telling traces from rounds."""
    found = sorted_by_kind(path)
    assert sum(map(len, found.values())) <= 1


def log_file(rng: random.Random) -> bytes:
    """Damaged request logs, Parquet or JSON lines."""
    if rng.random() < 0.4:
        return damaged_parquet(rng.choice(samples.logs()), rng, samples.logs())
    return damaged_json(samples.log_lines(), rng)


def read_log(path: Path, _: Path, rng: random.Random) -> None:
    """Request logs."""
    form = LogForm(tokens=rng.choice(KINDS), time_unit=rng.choice(tuple(UNITS)), time_zone=rng.choice((None, UTC)))
    faults = Faults()
    for each in requests_in([path], form, faults):
        assert each.end >= each.arrival
        assert each.output.tokens is None or len(each.output.tokens) >= 0
    faults.raise_if_any()
