"""Random damage to payloads: whatever stands where, the answer is a file or an `InputError`, never anything else."""

import copy
import json
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
from engine_samples import make
from engine_samples.make import RECORDED

from oracle.errors import Faults, InputError
from oracle.recorded_by.aligned import Wanted
from oracle.recorded_by.conversion import convert_trace
from oracle.recorded_by.scored_text import ScoredTexts
from oracle.recorded_by.source import open_source
from oracle.recorded_by.timings import Told, rounds_of, rows_in
from oracle.traces import load_traces

ROUTED = Wanted(num_experts=8, top_k=2, by=("request",))
DENSE = Wanted(dense_target=True, prompt_tokens=3)
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2.5,
    10**15,
    1e300,
    "",
    "x",
    "AAAA",
    [],
    [0],
    [[]],
    [None],
    {},
    {"a": 1},
    "\x1b[31m",
]
PAYLOADS = {
    "vllm": (lambda r: [make.vllm(r)], ROUTED),
    "sglang": (lambda r: [make.sglang(r, 1)], ROUTED),
    "sglang-openai": (lambda r: [make.sglang_openai(r)], ROUTED),
    "trtllm": (lambda r: [make.trtllm(r)], DENSE),
    "llamacpp": (make.llamacpp_rounds, DENSE),
    "aiperf": (lambda r: [make.aiperf(r)], DENSE),
}


def places(tree: Any, path: tuple = ()) -> list[tuple]:
    """Paths to everything in a tree."""
    found = [path] if path else []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        found += places(value, (*path, key))
    return found


def damaged(tree: Any, rng: random.Random) -> Any:
    """A copy with one value changed, or left out."""
    tree = copy.deepcopy(tree)
    *way, last = rng.choice(places(tree))
    at = tree
    for key in way:
        at = at[key]
    if rng.random() < 0.2:
        del at[last]
    else:
        at[last] = rng.choice(VALUES)
    return tree


@pytest.mark.parametrize("name", PAYLOADS)
def test_damaged_requests(name, tmp_path):
    rng = random.Random(name)
    make_records, wanted = PAYLOADS[name]
    outcomes = {"written": 0, "refused": 0}
    output = tmp_path / "t.parquet"
    for _ in range(150):
        records = [record for request in RECORDED[:2] for record in make_records(request)]
        at = rng.randrange(len(records))
        records[at] = damaged(records[at], rng)
        path = tmp_path / "r.jsonl"
        path.write_text(make.lines(records))
        output.unlink(missing_ok=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                convert_trace(open_source([path], name.split("-")[0]), output, wanted)
            said = ""
        except InputError as error:
            said = str(error)
        assert "\x1b" not in said
        assert output.exists() == (said == "")
        if not said:
            load_traces(output)
        outcomes["refused" if said else "written"] += 1
    assert min(outcomes.values()) > 5, outcomes


def test_damaged_scores(tmp_path):
    rng = random.Random("scores")
    path, scores = tmp_path / "r.jsonl", tmp_path / "s.jsonl"
    path.write_text(make.lines([make.vllm(RECORDED[0])]))
    refused = 0
    for i in range(150):
        layout = (make.scored_by_vllm, make.scored_by_sglang, make.scored_by_openai)[i % 3]
        scores.write_text(json.dumps(damaged(layout(RECORDED[0]), rng)) + "\n")
        kind = ("reference", "greedy", "overlap_lower", "overlap_upper")[i % 4]
        wanted = Wanted(num_experts=8, match=kind)
        try:
            texts = ScoredTexts(scores)
            target = texts if kind.startswith("overlap") else None
            convert_trace(open_source([path], None), tmp_path / "t.parquet", wanted, draft=texts, target=target)
        except InputError:
            refused += 1
    assert 20 < refused < 150


@pytest.mark.parametrize("trees", [make.BENCH_FORWARD, make.BATCHED_BENCH, make.llamacpp_rounds(RECORDED[0])])
def test_damaged_times(trees):
    rng = random.Random(len(trees))
    refused = 0
    for _ in range(150):
        faults = Faults()
        damage = [("here", damaged(tree, rng)) for tree in trees]
        told = Told(2.0, dict.fromkeys(range(1, 9), 1.0), "verified")
        try:
            list(rounds_of(rows_in(iter(damage), told, faults), "rounds", faults))
        except InputError:
            refused += 1
    assert refused > 20


def test_text_that_is_no_payload(tmp_path):
    rng = random.Random(4)
    path: Path = tmp_path / "r.jsonl"
    for _ in range(200):
        path.write_bytes(bytes(rng.choice(b'{}[]",:ab1\\\n\x00\xff') for _ in range(rng.randrange(1, 40))))
        with pytest.raises(InputError):
            convert_trace(open_source([path], "vllm"), tmp_path / "t.parquet", ROUTED)
