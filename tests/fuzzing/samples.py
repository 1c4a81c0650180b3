"""Inputs that are fine, for each reader: what the damage starts from."""

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from engine_samples import make
from fuzzing.tables import rounds_table
from traces_factory import DENSE, TEXTS, trace_table

ROOT = Path(__file__).parents[2]
_WRITINGS: tuple[dict[str, Any], ...] = (
    {"compression": "none"},
    {"compression": "snappy", "row_group_size": 2},
    {"compression": "zstd", "data_page_version": "2.0"},
    {"compression": "gzip", "use_dictionary": False},
    {"compression": "lz4", "write_page_index": True, "write_page_checksum": True},
    {"compression": "brotli", "version": "1.0", "store_schema": False},
)
LEAN = tuple(name for name in trace_table().column_names if name not in ("generation", "match_kind", "context_start"))


def parquet(table: pa.Table, **how: Any) -> bytes:
    """A table as Parquet."""
    out = io.BytesIO()
    pq.write_table(table, out, **how)
    return out.getvalue()


@cache
def trace_tables() -> tuple[pa.Table, ...]:
    """Traces: with every column, of a dense target, with match_probs, with one column only."""
    depths = pa.array([[[0.5, 0.25]] * n for n in (3, 0, 4)], pa.list_(pa.list_(pa.float32(), 2)))
    routed = ("new_experts", "unique_experts", *TEXTS)
    return (
        trace_table(),
        trace_table(drop=(*DENSE, *TEXTS)),
        trace_table(drop=("match_prob", *routed), match_probs=depths),
        trace_table(drop=("experts", "unique_experts", *TEXTS)),
        trace_table(drop=[name for name in LEAN if name != "match_prob"]),
    )


@cache
def traces() -> tuple[bytes, ...]:
    """Trace files, each table written in several ways."""
    return tuple(parquet(table, **how) for table in trace_tables() for how in _WRITINGS)


@cache
def rounds() -> tuple[bytes, ...]:
    """Files of rounds."""
    whole = rounds_table()
    lean = whole.select(["generation", "draft_length", "target_ms", "draft_ms", "unique_experts", "context_len"])
    return tuple(parquet(table, **how) for table in (whole, lean) for how in _WRITINGS)


@cache
def models() -> tuple[str, ...]:
    """Latency models, typed by hand and fitted, of one and of several batch sizes."""
    found = [(ROOT / "cases" / name / "model.json").read_text() for name in ("published-a100", "hand-junk-tail")]
    tree = json.loads(found[1])
    block = tree["verify"]
    by_size = {"format": tree["format"], "version": 1, "draft": {"k": [1, 2, 3], "ms": [1.4, 2.5, 3.4]}}
    by_size["verify"] = [{"batch_size": size, **block} for size in (1, 8)]
    bare = {**tree, "reject_ms": 0.25, "draft": {"ms_per_token": 0.459, "base_ms": 0.073}}
    return (*found, json.dumps(by_size), json.dumps(bare))


@cache
def levers(*names: str) -> tuple[str, ...]:
    """Files of cases/levers."""
    return tuple((ROOT / "cases" / "levers" / name).read_text() for name in names)


@cache
def traffic() -> tuple[str, ...]:
    """Traffic as values and as series, CSV, TOML and JSON."""
    one = {"concurrency": 4, "repetitiveness": 0.5, "prefix_share": 0.2, "prompt_tokens": 900, "output_tokens": 200}
    one["context_tokens"] = 2000
    chained = {"reading": "stationary", "autocorrelation": 0.8, "autocorrelation_low": 0.7, "autocorrelation_high": 0.9}
    return (
        *levers("day.csv", "open-chat.toml"),
        json.dumps([{"slot": name, **one, **chained} for name in "ab"]),
        "".join(",".join(map(str, row)) + "\n" for row in ({**one, **chained}, {**one, **chained}.values())),
        json.dumps({**one, **chained}),
        json.dumps([{"slot": 1, **one}, {"slot": "b", **one}]),
        json.dumps(one),
    )


@cache
def plans() -> tuple[str, ...]:
    """Memory plans."""
    return tuple((ROOT / "cases" / "pool" / name).read_text() for name in ("a100.toml", "post-pool.toml", "post.toml"))


_LOGGED = (
    {"request": "r1", "tenant": "a", "arrival": "2026-01-31T12:00:00Z", "end": "2026-01-31T12:00:09Z"},
    {"request": "r2", "arrival": 1769860801.5, "first_token": 1769860802.0, "end": 1769860809.0, "cluster": "c"},
)
_SAID = {"prompt_ids": [1, 2, 3], "output_ids": [4, 5], "prompt": "a b c", "output": "d e", "prompt_tokens": 3}


@cache
def log_lines() -> str:
    """Request logs as JSON lines."""
    return make.lines([{**each, **_SAID, "output_tokens": 2} for each in _LOGGED])


@cache
def logs() -> tuple[bytes, ...]:
    """Request logs as Parquet."""
    rows = [{**each, **_SAID, "arrival": 5.0 * i, "end": 5.0 * i + 4} for i, each in enumerate(_LOGGED)]
    table = pa.Table.from_pylist(rows)
    dated = table.set_column(table.column_names.index("end"), "end", pa.array([10**15] * 2, pa.timestamp("us", "UTC")))
    return tuple(parquet(each, **how) for each in (table, dated) for how in _WRITINGS)


@cache
def prompts() -> tuple[str, ...]:
    """Prompts of a recording."""
    text = {"id": "p1", "category": "code", "prompt": "def main("}
    return (make.lines([text, {"id": 2, "cluster": "q", "prompt_token_ids": [1, 2, 3]}]), make.lines([text]))


@cache
def measured() -> tuple[str, ...]:
    """Measurements by precision."""
    row = {"precision": "bf16", "batch_size": 1, "step_off_ms": 9.0, "step_on_ms": 11.0, "survival": [0.8, 0.5]}
    return (*levers("measured.csv"), json.dumps([row]))


@cache
def acceptance() -> tuple[str, ...]:
    """Acceptance of every kind that is read."""
    first = make.RECORDED[0]
    return (
        "position,rate,draft_length,tenant,rounds\n1,0.8,3,a,100\n2,0.6,3,a,100\n3,0.5,3,a,100\n",
        json.dumps([{"rates": [0.8, 0.6], "draft_length": 2, "rounds": 50, "mean_acceptance_length": 2.4}]),
        "[0.8, 0.6, 0.5]",
        make.PROMETHEUS,
        make.LOG,
        json.dumps(make.vllm(first)),
        make.lines([make.sglang(request) for request in make.RECORDED[:3]]),
        json.dumps(make.trtllm(first)),
        json.dumps({"timings": {"predicted_n": 100, "draft_n": 90, "draft_n_accepted": 60}}),
        "slot print_timing: draft acceptance = 0.72 (   72 accepted /   100 generated)\n",
        "[2026-01-01 00:00:00] Decode batch, #running-req: 3, #token: 900, accept len: 2.51, accept rate: 0.4\n",
    )


@cache
def step_times() -> tuple[str, ...]:
    """Step times as CSV and JSON."""
    return (
        "draft_length,step_ms,batch_size,setting\n0,7.5,1,a\n1,9.0,1,a\n2,10.5,1,a\n",
        "m,tokens_per_second\n1,130\n2,150\n",
        json.dumps([{"draft_length": k, "step_ms": 7.0 + k, "batch_size": 4} for k in range(4)]),
    )


@cache
def requests() -> dict[str, str]:
    """Requests by engine, as JSON lines."""
    two = make.RECORDED[:2]
    return {
        "vllm": make.lines([make.vllm(request) for request in two]),
        "vllm-summary": make.lines([make.vllm(request, detailed=False) for request in two]),
        "sglang": make.lines([make.sglang(request, 1) for request in two]),
        "sglang-openai": make.lines([make.sglang_openai(request) for request in two]),
        "trtllm": make.lines([make.trtllm(request) for request in two]),
        "llamacpp": make.lines([row for request in two for row in make.llamacpp_rounds(request)]),
        "aiperf": make.lines([make.aiperf(request) for request in two]),
    }


@cache
def times() -> tuple[str, ...]:
    """Timed passes."""
    return (make.lines(make.BENCH_FORWARD), make.lines(make.BATCHED_BENCH), requests()["llamacpp"])


@cache
def scores() -> tuple[str, ...]:
    """A text as a server scored it, in three layouts."""
    first = make.RECORDED[0]
    made = (make.scored_by_vllm, make.scored_by_sglang, make.scored_by_openai)
    return tuple(make.lines([layout(first)]) for layout in made)


@cache
def arrays() -> tuple[bytes, ...]:
    """.npz and .npy of one request."""
    folder = ROOT / "tests" / "engine_samples"
    packed = io.BytesIO()
    with np.load(folder / "cmpl-0.npz") as held:
        np.savez_compressed(packed, **held)
    return (folder / "cmpl-0.npz").read_bytes(), packed.getvalue(), (folder / "vllm-routing.npy").read_bytes()
