"""The ladder of specifications against refits on the rows of the same folds."""

import numpy as np
import pytest
from fold_referee import column, designed, drawn, evidence_of, held_out, numbers, recorded, summary
from latency_simulation import close

from oracle.latency.diagnostics.fold_errors import ONE_CLUSTER
from oracle.latency.diagnostics.ladder import specification_ladder


def categorical(frame):
    """A level and a slope of U for each m (no slope where U does not vary), one slope of L."""
    m, U = column(frame, "verified_positions"), column(frame, "unique_experts")
    dummies = (m[:, None] == np.unique(m)).astype(float)
    moving = [U[m == each].std() > 0 for each in np.unique(m)]
    return np.column_stack([dummies, (dummies * U[:, None])[:, moving], column(frame, "context_len")])


def designs(frame):
    U, L, m = (column(frame, name) for name in ("unique_experts", "context_len", "verified_positions"))
    rungs = {"U": designed(frame, "unique_experts")}
    for name, added in {"+ L": L, "+ m": m, "+ m·L": m * L, "+ m·U": m * U}.items():
        rungs[name] = np.column_stack([list(rungs.values())[-1], added])
    if "max_unique_experts" in frame:
        rungs["+ E_max"] = np.column_stack([rungs["+ m·U"], column(frame, "max_unique_experts")])
    rungs["categorical m"] = categorical(frame)
    return rungs


@pytest.mark.parametrize("name", ["rounds", "rounds-grouped_mm", "rounds-batched_mm", "simulated"])
def test_every_rung_equals_a_refit_on_the_rows(name):
    frame = drawn() if name == "simulated" else recorded(name)
    ladder = specification_ladder(evidence_of(frame))
    expected = designs(frame)
    assert [rung.name for rung in ladder.rungs] == list(expected)
    assert ladder.left_out == ({} if name == "simulated" else {"+ E_max": "max_unique_experts: not recorded"})
    before = None
    for rung, design in zip(ladder.rungs, expected.values(), strict=True):
        theirs = held_out(frame, design)
        assert close(numbers(rung.r2), summary(theirs.r2), 1.0)
        assert close(numbers(rung.rmse_ms), summary(theirs.rmse))
        assert close(numbers(rung.mape_percent), summary(theirs.mape))
        if before is None:
            assert (rung.over, rung.rmse_gain_ms, rung.mape_gain_percent) == (None, None, None)
        else:
            assert rung.over == before[0]
            assert close(numbers(rung.rmse_gain_ms), summary(before[1].rmse - theirs.rmse), theirs.rmse.mean())
            assert close(numbers(rung.mape_gain_percent), summary(before[1].mape - theirs.mape), theirs.mape.mean())
        before = rung.name, theirs


def test_source_pattern_only_the_categorical_form_collapses_the_error():
    rungs = {rung.name: rung for rung in specification_ladder(evidence_of(drawn(400, 39))).rungs}
    mape = {name: rung.mape_percent.mean for name, rung in rungs.items()}
    assert mape["+ L"] < 0.6 * mape["U"]
    assert all(abs(mape[name] / mape["+ L"] - 1) < 0.05 for name in ("+ m", "+ m·L", "+ m·U", "+ E_max"))
    assert mape["categorical m"] < 0.4 * mape["+ E_max"]
    assert rungs["categorical m"].mape_gain_percent.low > 0
    assert rungs["categorical m"].r2.mean > 0.99


def test_rungs_that_the_rounds_cannot_carry_are_named():
    frame = drawn().assign(context_len=500, max_unique_experts=lambda f: 8 * (f["draft_length"] + 1))
    ladder = specification_ladder(evidence_of(frame))
    assert [(rung.name, rung.over) for rung in ladder.rungs] == [
        ("U", None),
        ("+ m", "U"),
        ("+ m·U", "+ m"),
        ("categorical m", "+ m·U"),
    ]
    assert ladder.left_out["+ L"] == ladder.left_out["+ m·L"] == "context_len: does not vary"
    assert ladder.left_out["+ E_max"].startswith("target_ms: the rounds do not identify E_max")
    theirs = held_out(frame, categorical(frame)[:, :-1])
    assert close(numbers(ladder.rungs[-1].mape_percent), summary(theirs.mape))


def test_one_cluster_has_no_ladder():
    ladder = specification_ladder(evidence_of(drawn(40).assign(cluster="only")))
    assert ladder.rungs == ()
    assert set(ladder.left_out.values()) == {ONE_CLUSTER}


def test_an_m_of_one_cluster_alone_is_left_out_of_both_sides_of_a_gain():
    frame = drawn()
    frame = frame[(frame["draft_length"] != 10) | (frame["cluster"] == "q003")]
    last = specification_ladder(evidence_of(frame)).rungs[-1]
    known = frame[frame["draft_length"] != 10]
    evidence = evidence_of(frame)
    fold = evidence.fold[[evidence.clusters.index(name) for name in known["cluster"]]]
    full, y = categorical(known), column(known, "target_ms")
    rmse = []
    for f in range(5):
        params = np.linalg.lstsq(full[fold != f], y[fold != f], rcond=None)[0]
        rmse.append(np.sqrt(np.mean((y[fold == f] - full[fold == f] @ params) ** 2)))
    home = evidence.fold[evidence.clusters.index("q003")]
    assert close(last.rmse_ms.by_fold[home], rmse[home])
    assert last.rmse_gain_ms.by_fold[home] is not None
