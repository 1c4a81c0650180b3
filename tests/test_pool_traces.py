"""Unique experts of a plan measured in traces: against batches drawn from the definition, and what is refused."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from pool_strategies import POOL
from test_cli import refused, succeeded

TRACES = POOL.parent / "tiny-moe" / "traces.parquet"
PLAN = POOL / "tiny-moe.toml"


@pytest.fixture(scope="module")
def tables():
    return json.loads(succeeded("pool", PLAN, "--traces", TRACES, "--json"))["tables"]


def drawn(k, batch, draws=400):
    """Mean unique experts a layer of batches of windows of different prompts; rounds start anywhere."""
    table = pq.read_table(TRACES, columns=["cluster", "experts"]).to_pydict()
    routed = [np.frombuffer(b"".join(each), np.uint8).reshape(-1, 6, 4) for each in table["experts"]]
    clusters = np.array(table["cluster"])
    dice, found = np.random.default_rng(1), []
    names = np.unique(clusters)
    for _ in range(draws):
        rows = []
        for name in dice.choice(names, batch, replace=False):
            own = routed[dice.choice(np.flatnonzero(clusters == name))]
            start = dice.integers(0, len(own) - k)
            rows.append(own[start : start + k + 1])
        joined = np.concatenate(rows)
        found.append(np.mean([len(np.unique(joined[:, layer])) for layer in range(6)]))
    return np.mean(found)


@pytest.mark.parametrize(("k", "batch"), [(0, 8), (4, 2), (4, 8)])
def test_measured_as_batches_drawn_from_the_definition(tables, k, batch):
    rows = {row["key"]: row for row in tables["pool_stated"]["rows"] if row["part"] == "unique_experts"}
    tokens = batch * (k + 1)
    (row,) = [each for key, each in rows.items() if key == f"{tokens} tokens" and each["shown"].endswith(f"length {k}")]
    assert row["value"] == pytest.approx(drawn(k, batch), rel=0.03)
    assert row["value"] < 0.97 * 64 * (1 - (1 - 4 / 64) ** tokens)  # what the uniform formula says


def test_the_page_says_what_was_measured(tables):
    facts = {row["fact"]: row["value"] for row in tables["pool"]["rows"]}
    assert facts["unique experts"].startswith(
        "measured on batches of 78 generations (39 clusters) in the traces, up to 39 tenants, beyond by the uniform "
        "formula's growth from there on; 8 tenants with 4 draft tokens touch 42."
    )
    assert facts["unique experts"].endswith(" a layer, by the uniform formula 59.16")
    assert "unique experts were not measured" not in str(tables["pool"])
    assert tables["pool_stated"]["title"].endswith("unique experts measured in the traces")


def test_refusals(tmp_path):
    error = refused("pool", POOL / "a100.toml", "--traces", TRACES)
    assert (
        "the traces are of 64 experts of which a token goes to 4, the plan's model has 128 and 8; take traces" in error
    )
    error = refused("pool", POOL / "post.toml", "--traces", TRACES)
    assert "--traces measures unique experts, and nothing in the plan rests on them; give expert_parameters" in error
    both = tmp_path / "both.toml"
    both.write_text(PLAN.read_text("utf-8") + "[[unique_experts]]\ntokens = 4\nexperts = 9\n", "utf-8")
    error = refused("pool", both, "--traces", TRACES)
    assert "the plan states unique_experts, and --traces measures them; leave one of them out" in error
    assert "none.parquet" in refused("pool", PLAN, "--traces", tmp_path / "none.parquet")
