"""``draft-oracle ablate`` as a user meets it: named changes, the path in alpha, stability, and what it refuses."""

import json
from pathlib import Path

import naive
import numpy as np
import pyarrow.parquet as pq
import pytest
from test_cli import PUBLISHED, TINY, refused, succeeded

from oracle.ablation import TERMS
from oracle.costs import length_costs
from oracle.latency.model import LatencyModel
from oracle.traces import load_traces

ROUNDS = TINY / "rounds-grouped_mm.parquet"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.json"
    succeeded("fit", ROUNDS, "-o", path)
    return path


def naive_costs(model: Path, **zero: bool) -> naive.Costs:
    costs = length_costs(LatencyModel.load(model), 0, 10)
    alpha = np.zeros(11) if zero.get("experts") else costs.alpha_ms
    context = np.zeros(11) if zero.get("context") else costs.context_ms
    return naive.Costs(
        beta0=costs.verify_ms.tolist(),
        draft=costs.draft_ms.tolist(),
        reject=costs.reject_ms.tolist(),
        alpha=alpha.tolist(),
        context=context.tolist(),
        lengths=list(costs.lengths),
    )


def test_several_changes_are_lanes_of_one_study(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ("--change", "experts=0", "--change", "experts=0,context=0", "--change", f"model={PUBLISHED},draft=0.5")
    said = refused("ablate", TINY, "-m", model, *asked)
    assert "model=" in said
    assert "it prices k = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10; fit it over the same lengths" in said
    asked = asked[:4]
    succeeded("ablate", TINY, "-m", model, *asked, "--every-length", "-o", out)
    assert sorted(path.name for path in out.iterdir()) == [
        "alpha-path.parquet",
        "alpha-path.svg",
        "lengths.parquet",
        "shifts.parquet",
        "stability.parquet",
        "stability.svg",
        "tables.json",
        "tables.md",
    ]
    written = json.loads((out / "tables.json").read_text())
    assert written["provenance"]["options"]["changes"] == ["experts=0", "experts=0, context=0"]
    changes = {row["change"]: row for row in written["tables"]["changes"]["rows"]}
    assert [*changes] == [
        "experts=0",
        "experts=0, beta0 refitted",
        "experts=0, context=0",
        "experts=0, context=0, beta0 refitted",
    ]
    scores = {row["policy"]: row for row in written["tables"]["scores"]["rows"]}
    for change, policy in (("experts=0", "blind"), ("experts=0, context=0", "under experts=0, context=0")):
        assert changes[change]["price_ms_per_token"] == scores[policy]["regret_ms_per_token"] > 0
    rows = pq.read_table(out / "shifts.parquet").to_pylist()
    assert len(rows) == 78 * 4
    as_is = [row for row in rows if row["change"] == "experts=0"]
    moved = np.concatenate([np.array(row["changed_draft_length"]) - row["draft_length"] for row in as_is])
    assert changes["experts=0"]["moved"] == (moved != 0).mean()
    assert changes["experts=0"]["shift"] == pytest.approx(moved.mean())

    traces = load_traces(TINY / "traces.parquet")
    assert traces.match_prob is not None
    assert traces.unique_experts is not None
    for g, name in ((3, "experts=0"), (60, "experts=0, context=0")):
        span = slice(int(traces.offsets[g]), int(traces.offsets[g + 1]))
        generation = naive.Generation(
            naive.by_depth(traces.match_prob[span].tolist(), 10),
            traces.unique_experts[span].astype(float).tolist(),
            int(traces.context_start[g]),
        )
        twin = naive.solve(generation, naive_costs(model, experts=True, context="context" in name))
        [row] = [r for r in rows if (r["generation"], r["change"]) == (traces.generation[g], name)]
        for t, k in enumerate(row["changed_draft_length"]):
            assert twin.q[t][k] - twin.value[t] <= 1e-9

    every = pq.read_table(out / "lengths.parquet").to_pandas()
    assert len(every) == 19_746 * 11 * 5
    blind = every[every["change"] == "experts=0"]
    at = (blind["generation"] == as_is[3]["generation"]) & (blind["position"] == 5)
    best = int(blind.loc[at, "q_difference_ms"].to_numpy().argmin())
    assert best == as_is[3]["changed_draft_length"][5] == int(blind.loc[at & blind["optimal"], "draft_length"].iloc[0])
    every = every[every["change"] == ""]
    terms = every[[f"q_difference_{term}" for term in TERMS]].sum(axis=1)
    np.testing.assert_allclose(terms, every["q_difference_ms"], atol=1e-12)
    assert (every.loc[every["optimal"], "q_difference_ms"] == 0).all()
    assert every["q_difference_ms"].min() > -1e-9
    for name in ("shifts", "lengths", "alpha-path", "stability"):
        rests_on = pq.read_metadata(out / f"{name}.parquet").metadata
        assert json.loads(rests_on[b"draft_oracle.provenance"])["command"] == "ablate"
    assert "or give --overwrite" in refused("ablate", TINY, "-m", model, "-o", out)


def test_rounds_give_the_draws_and_what_is_not_wanted_is_left_out(model: Path) -> None:
    drawn = json.loads(
        succeeded("ablate", TINY, "-m", model, "--rounds", ROUNDS, "--draws", "40", "--s-max", "0", "--json")
    )
    assert "alpha_path" not in drawn["tables"]
    assert "stability" in drawn["tables"]
    assert "40" in drawn["provenance"]["options"]["draws"]
    assert [entry["name"] for entry in drawn["provenance"]["inputs"]] == [
        "traces.parquet",
        "model.json",
        "rounds-grouped_mm.parquet",
    ]
    plain = json.loads(succeeded("ablate", TINY, "-m", model, "--draws", "0", "--json"))["tables"]
    assert "stability" not in plain
    assert "alpha_path" in plain
    typed = json.loads(succeeded("ablate", TINY, "-m", PUBLISHED, "--json"))["tables"]
    assert "stability" not in typed, "a model typed by hand tells no errors"


def test_what_ablate_refuses(model: Path) -> None:
    said = refused("ablate", TINY, "-m", model, "--change", "expert=0", "--change", "draft=-1")
    assert "error: 2 faults" in said
    assert "--every-length writes a file" in refused("ablate", TINY, "-m", model, "--every-length")
    assert "it must reach alpha as fitted" in refused("ablate", TINY, "-m", model, "--s-max", "0.5")
    assert "need at least 40 draws" in refused("ablate", TINY, "-m", model, "--draws", "2")
    assert "leave one of them out" in refused("ablate", TINY, "-m", model, "--draws", "0", "--rounds", ROUNDS)
    assert "nan is not a finite number" in refused("ablate", TINY, "-m", model, "--s-max", "nan")
    assert "nothing can be drawn" in refused("ablate", TINY, "-m", PUBLISHED, "--draws", "50")


def test_cases_and_gallery_are_shown_and_drawn(model: Path, tmp_path: Path) -> None:
    asked = ("--draws", "0", "--s-max", "0", "--cases", "3", "--gallery")
    out = tmp_path / "out"
    succeeded("ablate", TINY, "-m", model, *asked, "-o", out)
    pictures = {path.name for path in out.glob("*.svg")}
    assert pictures == {"case-1.svg", "case-2.svg", "case-3.svg", "gallery.svg"}
    tables = json.loads((out / "tables.json").read_text())["tables"]
    cases, gallery = tables["cases"]["rows"], tables["gallery"]["rows"]
    assert (len(cases), len(gallery)) == (3, 12)
    shown = [row["generation"] for row in (*cases, *gallery)]
    assert len(set(shown)) == 15, "all of different generations"
    rows = pq.read_table(out / "shifts.parquet").to_pylist()
    moved = {row["generation"]: row for row in rows if row["change"] == "experts=0"}
    for row in cases:
        t, found = row["position"], moved[row["generation"]]
        assert found["changed_draft_length"][t] > found["draft_length"][t]
        assert found["next_match_prob"][t] >= 0.8
        assert found["next_q_changed_ms"][t] < 0
    succeeded("ablate", TINY, "-m", model, *asked[:4], "-o", out, "--overwrite")
    assert not list(out.glob("*.svg")), "nothing of the earlier run is left"
