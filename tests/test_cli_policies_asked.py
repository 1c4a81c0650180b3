"""Policies that a user asks for by name, and traces too few to hold any out: columns, the engine's log, clusters."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_cli import PUBLISHED, TINY, refused, succeeded

GENERATIONS = 12  # of six prompts, each decoded greedily and sampled


def lists(rows: Sequence[Sequence[int]]) -> pa.Array:
    return pa.array(rows, pa.list_(pa.int16()))


def write(path: Path, rows: int = GENERATIONS, drop: Sequence[str] = (), **columns: Any) -> Path:
    table = pq.read_table(TINY / "traces.parquet").slice(0, rows).drop_columns(["draft_text", "token_text", *drop])
    for name, column in columns.items():
        table = table.drop_columns([name]) if name in table.column_names else table
        table = table.append_column(name, column)
    pq.write_table(table, path)
    return path


def tables_of(*arguments: object) -> dict[str, Any]:
    return json.loads(succeeded("policies", *arguments, "-m", PUBLISHED, "--json"))["tables"]


def engine(k: int) -> tuple[list[list[int]], list[list[int]]]:
    """Rounds of an engine that drafts k tokens and accepts those that equal the text's, walked through the chains."""
    drafted, advanced = [], []
    for row in pq.read_table(TINY / "traces.parquet").slice(0, GENERATIONS).to_pylist():
        t, steps = 0, []
        while t < len(row["token_id"]):
            chain, text = row["draft_token_id"][t][:k], row["token_id"][t : t + k]
            matched = next((j for j, (a, b) in enumerate(zip(chain, text, strict=False)) if a != b), len(text))
            steps.append(min(matched + 1, len(row["token_id"]) - t))
            t += steps[-1]
        drafted.append([k] * len(steps))
        advanced.append(steps)
    return drafted, advanced


def test_a_column_of_lengths_is_a_policy_whose_author_answers_for_it(tmp_path: Path) -> None:
    sizes = [len(ids) for ids in pq.read_table(TINY / "traces.parquet")["token_id"].to_pylist()[:GENERATIONS]]
    path = write(tmp_path / "t.parquet", mine=lists([[3] * n for n in sizes]))
    tables = tables_of(path, "--policy", "column:mine", "--policy", "static:3")
    rows = {row["family"]: row for row in tables["tuned_policies"]["rows"]}
    assert rows["column:mine"]["ms_per_token"] == pytest.approx(rows["static:3"]["ms_per_token"], rel=1e-12)
    assert rows["column:mine"]["online"] == "author's claim"
    assert rows["static:3"]["online"] == "yes"
    assert any(note.startswith("author's claim: a column of lengths") for note in tables["tuned_policies"]["notes"])
    assert {row["undominated"] for row in tables["realised_scores"]["rows"] if row["policy"] == "column:mine"} == {None}
    assert "column:mine" not in str(tables["deployment"]), "nothing to deploy: no engine knows the column"
    said = refused("policies", path, "-m", PUBLISHED, "--policy", "column:yours", "--policy", "column:")
    assert "policy 'column:yours': the traces have no column 'yours'; the columns there: generation, " in said
    assert "match_prob" in said
    assert "policy 'column:': column needs a value" in said


def test_the_log_is_scored_on_recorded_matches_only(tmp_path: Path) -> None:
    drafted, advanced = engine(3)
    log = {"logged_draft_length": lists(drafted), "logged_advance": lists(advanced)}
    path = write(tmp_path / "t.parquet", **log)
    for asked in ([], ["--policy", "logged"], ["--policy", "logged", "--policy", "confidence@keep"]):
        tables = tables_of(path, *asked)
        assert "logged" not in {row["family"] for row in tables["tuned_policies"]["rows"]}
        why = "logged: realised score only: a log says nothing of positions at which no round of the engine started"
        for name in ("tuned_policies", "realised_scores"):
            assert sum(note.startswith(why) for note in tables[name]["notes"]) == 1
        rows = {(r["decoding"], r["policy"]): r for r in tables["realised_scores"]["rows"]}
        for decoding in ("greedy", "sample"):
            logged, fixed = rows[decoding, "logged"], rows[decoding, "static:3"]
            assert logged["expected_ms_per_token"] is None
            for measure in ("ms_per_token", "rounds", "acceptance", "undominated"):
                assert logged[measure] == pytest.approx(fixed[measure], rel=1e-12)
    other = [[min(a + 1, 4) for a in steps] for steps in advanced]
    other = [
        steps[: int(np.searchsorted(np.cumsum(steps), sum(own))) + 1]
        for steps, own in zip(other, advanced, strict=True)
    ]
    wrong = [[3] * len(steps) for steps in other]
    path = write(tmp_path / "o.parquet", logged_draft_length=lists(wrong), logged_advance=lists(other))
    assert "policy 'logged': needs realised scores: " in refused(
        "policies", path, "-m", PUBLISHED, "--policy", "logged"
    )
    tables = tables_of(path)
    assert any(n.startswith("logged: not scored, since policy 'logged'") for n in tables["tuned_policies"]["notes"])
    assert "logged" not in {row["policy"] for row in tables["realised_scores"]["rows"]}
    bare = write(tmp_path / "b.parquet", drop=["draft_token_id"], **log)
    assert "needs realised scores" in refused("policies", bare, "-m", PUBLISHED, "--policy", "logged")
    notes = tables_of(bare, "--k-max", "4")["tuned_policies"]["notes"]
    assert "logged: not scored, since the traces hold no token_id and draft_token_id" in notes


def test_the_log_has_an_expected_score_where_matches_are_certain(tmp_path: Path) -> None:
    drafted, advanced = engine(3)
    rows = pq.read_table(TINY / "traces.parquet").slice(0, GENERATIONS).to_pylist()
    chains = [[[float(a == b) for a, b in zip(c, r["token_id"][t:], strict=False)][:3] for t, c in
               enumerate(r["draft_token_id"])] for r in rows]  # fmt: skip
    certain = pa.array(
        [[row + [0.0] * (3 - len(row)) for row in chain] for chain in chains], pa.list_(pa.list_(pa.float32(), 3))
    )
    kinds = pa.array(["realised"] * GENERATIONS)
    log = {"logged_draft_length": lists(drafted), "logged_advance": lists(advanced)}
    path = write(tmp_path / "t.parquet", drop=["match_prob"], match_probs=certain, match_kind=kinds, **log)
    found = tables_of(path, "--policy", "logged", "--policy", "static:3")["tuned_policies"]["rows"]
    by_family = {row["family"]: row["ms_per_token"] for row in found}
    assert by_family["logged"] == pytest.approx(by_family["static:3"], rel=1e-12)


def test_few_clusters_lower_the_folds_and_carry_no_verdict(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", rows=6)
    assert len(set(pq.read_table(path)["cluster"].to_pylist())) == 3
    text = succeeded("policies", path, "-m", PUBLISHED)
    assert "3 folds (not 5: there are no more clusters) of 3 clusters" in text
    assert "3 clusters with positions: fewer than 10, so no difference counts as significant" in text
    assert "few clusters: fewer than 10, so intervals are too narrow to call anything faster or slower" in text
    assert ": k = 0 was not measured; nothing else" in text
    assert not any(f"  {word}  " in text for word in ("faster", "slower"))
    assert "deploy static:" in text


def test_one_cluster_is_scored_in_sample_and_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", rows=2)
    out = tmp_path / "out"
    succeeded("policies", path, "-m", PUBLISHED, "-o", out, "--policy", "confidence:0.5", "--policy", "survival")
    assert not (out / "scores-by-generation.parquet").exists()
    assert "expected, in-sample" in (out / "pareto.svg").read_text()
    tables = json.loads((out / "tables.json").read_text())["tables"]
    assert "tuned_policies" not in tables
    assert "deployment" not in tables
    assert {"untuned_policies", "realised_scores", "calibration", "extensions"} <= set(tables)
    names = [row["policy"] for row in tables["untuned_policies"]["rows"]]
    assert names == ["oracle", *(f"static:{k}" for k in range(1, 11)), "confidence:0.5"]
    notes = tables["untuned_policies"]["notes"]
    assert any(
        note.startswith("nothing was tuned, and no policy is named to deploy: only one cluster") for note in notes
    )
    assert {row["policy"] for row in tables["realised_scores"]["rows"]} == {*names, "clairvoyant"}
    assert not any(row["held_out"] for row in tables["realised_scores"]["rows"])


def test_threads_and_memory_change_no_figure(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet")
    asked = (path, "--policy", "static", "--policy", "confidence@keep", "--policy", "goodput")
    whole = tables_of(*asked, "--threads", "1")
    other = tables_of(*asked, "--threads", "2", "--memory", "400")
    for name in ("deployment", "tuned_policies", "tuned_measures", "realised_scores", "calibration"):
        assert other[name] == whole[name]
    said = refused("policies", path, "-m", PUBLISHED, "--memory", "100")
    assert "--memory is 100 MB; " in said
