"""Averages of requests (match_kind empirical) are not resampled: no interval, and nothing is called significant."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_cli import PUBLISHED, succeeded

from oracle.resampling import AVERAGES, cluster_sums
from oracle.traces import load_traces

K, TEXTS, LENGTH = 3, 14, 40
WHY = "resampling them does not hold their own sampling error"


def table(kinds: list[str]) -> pa.Table:
    """Texts with rates of their own, at which drafting pays clearly."""
    rng = np.random.default_rng(3)
    rates = [[min(0.99, 0.8 + 0.01 * g)] * K for g in range(TEXTS)]
    experts = [rng.permuted(np.tile(np.arange(16), (LENGTH, 2, 1)), axis=2)[:, :, :2] for _ in range(TEXTS)]
    return pa.table(
        {
            "generation": [f"g{g}" for g in range(TEXTS)],
            "category": ["code", "prose"] * (TEXTS // 2),
            "match_kind": kinds,
            "context_start": pa.array([9] * TEXTS, pa.int32()),
            "match_probs": pa.array([[rate] * LENGTH for rate in rates], pa.list_(pa.list_(pa.float32()))),
            **{name: pa.array([n] * TEXTS, pa.int32()) for name, n in zip(SIZES, (2, 2, 16), strict=True)},
            "experts": pa.array([[row.astype(np.uint8).tobytes() for row in text] for text in experts]),
        }
    )


SIZES = ("layers", "top_k", "num_experts")


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    path = tmp_path / "averages.parquet"
    pq.write_table(table(["empirical"] * TEXTS), path)
    return path


def tables_of(*words: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(succeeded(*map(str, words), "-m", str(PUBLISHED), "--json"))["tables"]
    return found


def ends_in(tables: dict[str, Any], *names: str) -> list[Any]:
    """All ends of intervals in tables."""
    rows = [row for name in names for row in tables[name]["rows"]]
    return [value for row in rows for key, value in row.items() if key.endswith(("_low", "_high"))]


def test_scores_have_no_intervals_and_say_why(traces: Path) -> None:
    tables = tables_of("score", traces)
    ends = ends_in(tables, "scores")
    assert ends
    assert set(ends) == {None}
    assert WHY in json.dumps(tables)
    changed = tables_of("ablate", traces, "--draws", "0")
    ends = ends_in(changed, *(name for name in changed if changed[name].get("rows")))
    assert ends
    assert set(ends) == {None}


def test_a_recommendation_has_no_interval_not_even_the_noise(traces: Path) -> None:
    tables = tables_of("recommend", "--traces", traces, "--engine", "vllm")
    assert set(ends_in(tables, "draft_lengths")) == {None}
    verdicts = {row["verdict"] for row in tables["draft_lengths"]["rows"]}
    assert not verdicts & {"significant", "not significant"}
    text = succeeded("recommend", "--traces", str(traces), "-m", str(PUBLISHED), "--engine", "vllm")
    assert WHY in text
    assert "no interval" in text


def test_policies_call_nothing_significant_but_hold_requests_out(traces: Path) -> None:
    text = succeeded("policies", str(traces), "-m", str(PUBLISHED))
    assert WHY in text
    assert "5 folds, 560 tokens; no intervals: there is one cluster only" in text
    assert "so the setting is the rule's default, no finding" in text
    tables = tables_of("policies", traces)
    assert set(ends_in(tables, "deployment", "tuned_policies")) == {None}
    assert {row["verdict"] for row in tables["tuned_policies"]["rows"]} <= {None, "few clusters"}


def test_a_crossover_has_no_intervals(traces: Path) -> None:
    tables = tables_of("crossover", traces)
    assert set(ends_in(tables, *(name for name in tables if tables[name].get("rows")))) <= {None}
    assert WHY in json.dumps(tables)


def test_some_averages_among_recorded_texts_are_enough(tmp_path: Path) -> None:
    path = tmp_path / "mixed.parquet"
    pq.write_table(table(["overlap"] * (TEXTS - 1) + ["empirical"]), path)
    found = load_traces(path)
    assert found.own_cluster_of == tuple(f"g{g}" for g in range(TEXTS))
    assert found.cluster_of == (*found.own_cluster_of[:-1], AVERAGES)
    sums, names = cluster_sums(np.ones((TEXTS, 1)), found.cluster_of)
    assert names == (AVERAGES,)
    assert sums.tolist() == [[TEXTS]]
    assert set(ends_in(tables_of("score", path), "scores")) == {None}
    pq.write_table(table(["overlap"] * TEXTS), path)
    assert None not in ends_in(tables_of("score", path), "scores")[2:]


def test_overlaps_of_greedy_texts_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "greedy.parquet"
    kinds = table(["overlap"] * TEXTS)
    for decoding, expected in (("sample", {"overlap"}), ("greedy", {"overlap of greedy texts"})):
        pq.write_table(kinds.append_column("decoding", pa.array([decoding] * TEXTS)), path)
        assert load_traces(path).match_kinds == expected
        text = succeeded("score", str(path), "-m", str(PUBLISHED))
        assert ("a greedy engine accepts by equality" in text) == (decoding == "greedy")


def test_chains_that_end_leave_realised_scores_out(tmp_path: Path) -> None:
    path = tmp_path / "lookup.parquet"
    chains = pa.array([[[1]] * LENGTH] * TEXTS, pa.list_(pa.list_(pa.int32())))
    tokens = pa.array([[1] * LENGTH] * TEXTS, pa.list_(pa.int32()))
    whole = table(["overlap"] * TEXTS).append_column("token_id", tokens).append_column("draft_token_id", chains)
    pq.write_table(whole, path)
    tables = tables_of("policies", path)
    assert "realised_scores" not in tables
    text = succeeded("policies", str(path), "-m", str(PUBLISHED))
    assert "no realised scores: " in text
    assert "draft_token_id holds 1 tokens where 3 are needed" in text
