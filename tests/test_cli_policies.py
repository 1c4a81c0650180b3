"""The commands that say which policy to deploy, as a user meets them."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_cli import PUBLISHED, TINY, refused, succeeded


def test_policies_are_compared_on_recorded_traces(tmp_path: Path) -> None:
    out = tmp_path / "out"
    succeeded("policies", TINY, "-m", PUBLISHED, "--policy", "static", "--policy", "confidence@keep", "-o", out)
    assert sorted(path.name for path in out.iterdir()) == [
        "calibration.svg",
        "condition-extensions.svg",
        "condition-ratios.svg",
        "pareto-realised.svg",
        "pareto.svg",
        "scores-by-generation.parquet",
        "tables.json",
        "tables.md",
    ]
    written = json.loads((out / "tables.json").read_text())
    assert [entry["name"] for entry in written["provenance"]["inputs"]] == ["traces.parquet", "model.json"]
    tables = written["tables"]
    assert any("the latency model has no m = 1" in note for note in tables["tuned_policies"]["notes"])
    tuned = {row["family"]: row for row in tables["tuned_policies"]["rows"]}
    assert [*tuned] == ["static", "confidence@keep"]
    assert tuned["static"]["chosen_on_all"] == "static:4"
    assert tuned["static"]["against_static_ms"] is None
    assert tuned["static"]["verdict"] is None
    scored = json.loads(succeeded("score", TINY, "-m", PUBLISHED, "--json"))["tables"]["scores"]["rows"]
    best = min(row["ms_per_token"] for row in scored if row["policy"].startswith("static:"))
    assert tuned["static"]["in_sample_ms_per_token"] == pytest.approx(best, rel=1e-12)
    for row in tuned.values():
        assert row["regret_ms_per_token"] > 0
        assert len(row["chosen"]) == 5
    by_generation = out / "scores-by-generation.parquet"
    rests_on = pq.read_metadata(by_generation).metadata
    assert json.loads(rests_on[b"draft_oracle.provenance"]) == written["provenance"]
    assert b"draft_oracle.latency_model" in rests_on
    rows = pq.read_table(by_generation).to_pandas()
    assert len(rows) == 2 * 78
    for family, of in rows.groupby("family"):
        assert of["ms"].sum() / of["tokens"].sum() == pytest.approx(tuned[family]["ms_per_token"], rel=1e-12)
        assert (of["realised_ms"] > 0).all()
        for category, part in of.groupby("category"):
            [row] = [
                r for r in tables["tuned_by_category"]["rows"] if (r["family"], r["category"]) == (family, category)
            ]
            assert part["ms"].sum() / part["tokens"].sum() == pytest.approx(row["ms_per_token"], rel=1e-12)
            assert part["cluster"].nunique() == row["clusters"]
    assert rows["static0_ms"].isna().all(), "the published model has no m = 1"
    static4 = rows[(rows["family"] == "static") & (rows["policy"] == "static:4")]
    assert len(static4) == 78
    decoding = dict(zip(*pq.read_table(TINY / "traces.parquet", columns=["generation", "decoding"]), strict=True))
    realised = {(row["policy"], row["decoding"]): row for row in tables["realised_scores"]["rows"]}
    for name in ("greedy", "sample"):
        mine = static4[[str(decoding[pa.scalar(g)]) == name for g in static4["generation"]]]
        ms = mine["realised_ms"].sum() / mine["tokens"].sum()
        for policy in ("static:4", "static"):
            assert ms == pytest.approx(realised[policy, name]["ms_per_token"], rel=1e-12)
        assert realised["static", name]["held_out"]
    measured = {row["family"]: row for row in tables["tuned_measures"]["rows"]}
    for family, of in rows.groupby("family"):
        row, tokens = measured[family], of["tokens"].sum()
        assert row["rounds"] == pytest.approx(of["rounds"].sum())
        assert row["acceptance"] == pytest.approx(of["accepted"].sum() / of["drafted"].sum())
        assert row["mean_acceptance_length"] == pytest.approx(1 + of["accepted"].sum() / of["rounds"].sum())
        assert row["wasted_per_token"] == pytest.approx(of["wasted"].sum() / tokens)
        assert row["tokens_per_second"] == pytest.approx(1e3 * tokens / of["ms"].sum())
        assert row["speedup"] is None, "the published model has no m = 1"
        for part in ("verify", "expert", "context", "draft", "reject"):
            assert row[f"{part}_ms_per_token"] == pytest.approx(of[f"{part}_ms"].sum() / tokens)
    assert "or give --overwrite" in refused("policies", TINY, "-m", PUBLISHED, "-o", out)
    succeeded("policies", TINY, "-m", PUBLISHED, "--policy", "static", "-o", out, "--overwrite")


def test_traces_without_draft_tokens_or_confidence_have_no_such_tables(tmp_path: Path) -> None:
    table = pq.read_table(TINY / "traces.parquet").drop_columns(["draft_token_id", "draft_text", "draft_prob"])
    pq.write_table(table, tmp_path / "t.parquet")
    tables = json.loads(succeeded("policies", tmp_path / "t.parquet", "-m", PUBLISHED, "--json"))["tables"]
    families = [row["family"] for row in tables["tuned_policies"]["rows"]]
    assert families == ["static", "budget", "survival!", "goodput!", "slope!"]
    assert not any("realised" in name for name in tables)
    said = refused("policies", tmp_path / "t.parquet", "-m", PUBLISHED, "--policy", "confidence:0.5")
    assert "draft_prob" in said


def test_a_policy_that_does_not_exist_is_refused_with_those_that_do() -> None:
    said = refused("policies", TINY, "-m", PUBLISHED, "--policy", "confident:0.5")
    assert "confident" in said
    assert "confidence" in said
    assert "static" in said


def test_recommend_from_traces_prints_a_configuration() -> None:
    page = succeeded(
        "recommend",
        "--traces",
        TINY,
        "-m",
        PUBLISHED,
        "--engine",
        "vllm",
        "--method",
        "eagle3",
        "--draft-model",
        "draft",
    )
    assert "K = 4" in page
    assert "--speculative-config" in page
    assert '"num_speculative_tokens": 4' in page
