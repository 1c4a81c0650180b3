"""The report of a fit: on recorded rounds it must find by itself what is known about them, and say it."""

import hashlib
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_cli import TINY, oracle, refused, succeeded

FIGURES = {
    "time-by-experts.svg",
    "coefficients.svg",
    "draft-times.svg",
    "factors.svg",
    "standardised.svg",
    "specifications.svg",
    "regimes.svg",
    "robustness.svg",
    "residuals.svg",
    "columns-1.svg",
}


def report(rounds: Path, folder: Path, *more: str) -> dict[str, Any]:
    succeeded("fit", rounds, "--report", folder, *more)
    return dict(json.loads((folder / "report.json").read_text())["tables"])


def sentences(tables: dict[str, Any]) -> str:
    return "\n".join(f"{row['severity']}: {row['sentence']}" for row in tables["weak_spots"]["rows"])


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("eager") / "report"
    return report(TINY / "rounds.parquet", folder), folder


def test_what_is_known_of_the_eager_rounds_is_found(eager: tuple[dict[str, Any], Path]) -> None:
    said = sentences(eager[0])
    assert re.search(
        r"medium: drift over the run: 6\d % of the residual variance is common to rounds recorded together", said
    )
    assert re.search(
        r"no boundary between regimes was found: alpha runs from 0\.22\d to 0\.2\d+ ms without a jump", said
    )
    assert re.search(
        r"unique_experts_reference behaves like unique_experts with errors .* shrinks alpha 2\.\d-fold", said
    )
    assert "draft times are concave in k" in said
    assert "c is weakly identified" in said
    assert "c grows with m" in said
    assert "m = 1: unique experts are 4 in every round, so alpha is borrowed from m = 2" in said


def test_the_control_does_not_use_unique_experts(tmp_path: Path) -> None:
    tables = report(TINY / "rounds-batched_mm.parquet", tmp_path / "report")
    assert "high: the target's time does not use unique experts as far as these rounds can tell" in sentences(tables)
    verdicts = {row["hypothesis"]: row["verdict"] for row in tables["hypotheses"]["rows"]}
    assert verdicts["H1"] == "contradicted"
    assert verdicts["H2"] == verdicts["H3"] == "not supported by these data"


def test_reference_experts_taken_for_verified_ones_are_noticed(tmp_path: Path) -> None:
    table = pq.read_table(TINY / "rounds.parquet")
    reference, verified = table["unique_experts_reference"], table["unique_experts"]
    swapped = table.set_column(table.column_names.index("unique_experts"), "unique_experts", reference)
    swapped = swapped.set_column(
        table.column_names.index("unique_experts_reference"), "unique_experts_verified", verified
    )
    pq.write_table(swapped, tmp_path / "rounds.parquet")
    tables = report(tmp_path / "rounds.parquet", tmp_path / "report")
    worst = tables["weak_spots"]["rows"][0]
    assert worst["severity"] == "high"
    assert "unique_experts_verified" in worst["sentence"]


def test_report_holds_page_values_and_figures(eager: tuple[dict[str, Any], Path]) -> None:
    tables, folder = eager
    assert {path.name for path in folder.iterdir()} == FIGURES | {"report.md", "report.json"}
    page = (folder / "report.md").read_text()
    assert sorted(re.findall(r"\]\(([a-z0-9-]+\.svg)\)", page)) == sorted(FIGURES)
    for table in tables.values():
        assert f"## {table['title']}" in page
    assert "| CR1 error" not in page
    assert "alpha ms/expert CR1 error" in page
    assert page.count("Alpha by m fitted on unique_experts and on unique_experts_reference") == 1
    places = {kind: page.index(f"{kind}.svg") for kind in ("factors", "regimes", "residuals")}
    assert page.index("## Candidate factors") < places["factors"] < page.index("## Standardised association")
    assert page.index("## Places where a regime may end") < places["regimes"] < page.index("## Robustness at m")


def test_report_says_what_it_rests_on(eager: tuple[dict[str, Any], Path]) -> None:
    tables, folder = eager
    digest = hashlib.sha256((TINY / "rounds.parquet").read_bytes()).hexdigest()
    page = (folder / "report.md").read_text()
    assert re.search(
        rf"^Made by draft-oracle \S+ from rounds\.parquet \(sha256 {digest[:12]}…\); options: kind", page, re.M
    )
    facts = {row["key"]: row["value"] for row in tables["evidence"]["rows"]}
    assert facts["compared"] == "unique_experts_reference"
    assert "unique_experts_reference" not in facts["factors"]
    assert "kv_usage: not among the factors, not recorded" in tables["factors"]["notes"]
    row = tables["latency_errors"]["rows"][3]
    assert 0 < row["alpha_ms_per_expert_error_cr1"] <= row["alpha_ms_per_expert_error_cr3"]


def test_an_earlier_report_is_replaced_only_if_asked(eager: tuple[dict[str, Any], Path]) -> None:
    folder = eager[1]
    assert "or give --overwrite" in refused("fit", TINY / "rounds.parquet", "--report", folder)
    (folder / "mine.txt").write_text("keep me")
    assert "'mine.txt', which is not an output" in refused(
        "fit", TINY / "rounds.parquet", "--report", folder, "--overwrite"
    )
    (folder / "mine.txt").unlink()
    succeeded("fit", TINY / "rounds.parquet", "--report", folder, "--overwrite")
    assert "--factor names columns for the report" in refused("fit", TINY / "rounds.parquet", "--factor", "x")
    assert "no column x to use as a factor" in refused(
        "fit", TINY / "rounds.parquet", "--factor", "x", "--report", folder, "--overwrite"
    )


def rounds_of(sizes: tuple[int, ...], scale: float = 1.0) -> pa.Table:
    """Rounds of several batch sizes, each with its own alpha (0.1 · size) and beta0 (5 + size)."""
    rng = np.random.default_rng(5)
    parts = []
    for size in sizes:
        n = 400
        k = rng.integers(0, 4, n)
        U = np.where(k == 0, 4.0, 4.0 + 3 * k + rng.normal(0, 1.5, n))
        L = rng.uniform(100, 2_000, n)
        T = 5 + size + 0.1 * size * U + 1e-3 * L + rng.normal(0, 0.05, n)
        parts.append(
            pa.table(
                {
                    "generation": [f"g{i % 20}" for i in range(n)],
                    "draft_length": k,
                    "target_ms": T * scale,
                    "draft_ms": np.where(k == 0, 0.0, 0.1 + 0.5 * k) * scale,
                    "unique_experts": U,
                    "context_len": L.round(),
                    "batch_size": np.full(n, size),
                }
            )
        )
    return pa.concat_tables(parts)


def test_each_batch_size_has_its_own_model_and_report(tmp_path: Path) -> None:
    pq.write_table(rounds_of((1, 8)), tmp_path / "rounds.parquet")
    model = tmp_path / "model.json"
    tables = report(tmp_path / "rounds.parquet", tmp_path / "report", "-o", str(model))
    for size in (1, 8):
        alpha = [row["alpha_ms_per_expert"] for row in tables[f"latency_model_batch_{size}"]["rows"]]
        assert alpha == pytest.approx([0.1 * size] * 4, abs=0.02)
    assert (tmp_path / "report" / "regimes-batch-8.svg").exists()
    said = refused("score", TINY / "traces.parquet", "-m", model)
    assert "--batch-size" in said
    assert "1, 8" in said
    assert "19,746" in succeeded("score", TINY / "traces.parquet", "-m", model, "--batch-size", "8")
    assert "1, 8" in refused("score", TINY / "traces.parquet", "-m", model, "--batch-size", "4")


@pytest.mark.parametrize(("scale", "unit"), [(1e3, "microseconds"), (1e-3, "seconds")])
def test_another_unit_of_time_is_noticed_and_named(tmp_path: Path, scale: float, unit: str) -> None:
    pq.write_table(rounds_of((1,), scale), tmp_path / "rounds.parquet")
    done = oracle("fit", tmp_path / "rounds.parquet", "--report", tmp_path / "report")
    for said in (done.stdout, done.stderr):
        assert f"which looks like {unit}" in said
        assert "Nothing was converted" in said
    assert done.stderr.startswith("warning: ")
    assert done.stdout.startswith("Times that look as if they were not milliseconds")
    page = (tmp_path / "report" / "report.md").read_text()
    assert page.index(f"which looks like {unit}") < page.index("## What to distrust")
    alone = oracle("fit", tmp_path / "rounds.parquet")
    assert alone.stderr.startswith("warning: ")
    assert f"which looks like {unit}" in alone.stdout


def test_hostile_column_names_stay_text(tmp_path: Path) -> None:
    name = "unique_experts<script>|[x](http://a.b)\x1b[31m"
    table = rounds_of((1,)).drop_columns("batch_size")
    noisy = np.asarray(table["unique_experts"]) + np.random.default_rng(0).normal(0, 2, len(table))
    pq.write_table(table.append_column(name, pa.array(noisy)), tmp_path / "rounds.parquet")
    done = oracle("fit", tmp_path / "rounds.parquet", "--report", tmp_path / "report", "--factor", name)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    page = (tmp_path / "report" / "report.md").read_text()
    assert "\x1b" not in page
    assert "<script>" not in page
    assert "[x](" not in page
    assert "&lt;script&gt;" in page
    for figure in (tmp_path / "report").glob("*.svg"):
        assert "\x1b" not in figure.read_text()
    lines = [line for line in page.split("\n") if line.startswith("|")]
    for above, line in pairwise(lines):
        if "-" in line and set(line) <= set("|-: "):  # as many cells in the head as in the rule
            assert len(re.findall(r"(?<!\\)\|", above)) == line.count("|")
