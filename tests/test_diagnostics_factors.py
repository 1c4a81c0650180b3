"""Candidate factors against statsmodels and scikit-learn on the same folds."""

import numpy as np
import pytest
from fold_referee import clustered, column, designed, drawn, evidence_of, held_out, numbers, recorded, summary
from latency_simulation import close
from scipy import stats
from statsmodels.stats.outliers_influence import variance_inflation_factor

from oracle.latency.diagnostics.factors import factor_relations, factor_strengths, standardised_by_m
from oracle.latency.diagnostics.fold_errors import over_folds

ALL = ("unique_experts", "verified_positions", "context_len", "kv_usage", "graph_bucket", "max_unique_experts")


@pytest.fixture(scope="module", params=["rounds", "rounds-grouped_mm", "rounds-batched_mm", "simulated"])
def measured(request):
    frame = drawn() if request.param == "simulated" else recorded(request.param)
    return request.param, frame, evidence_of(frame)


def test_each_factor_alone_and_on_top_of_unique_experts(measured):
    name, frame, evidence = measured
    assert evidence.factors == (ALL if name == "simulated" else ALL[:3])
    experts = held_out(frame, designed(frame, "unique_experts"))
    for row in factor_strengths(evidence):
        alone = held_out(frame, designed(frame, row.factor))
        assert close(row.r2.by_fold, alone.r2, 1.0)
        assert close(numbers(row.r2), summary(alone.r2), 1.0)
        assert close(numbers(row.rmse_ms), summary(alone.rmse))
        assert row.why is None
        if row.factor == "unique_experts":
            assert row.gain_ms is None
        else:
            both = held_out(frame, designed(frame, "unique_experts", row.factor))
            assert close(numbers(row.gain_ms), summary(experts.rmse - both.rmse), experts.rmse.mean())


def test_standardised_coefficients_within_each_m(measured):
    _, frame, evidence = measured
    for row in standardised_by_m(evidence):
        rows = frame[frame["draft_length"] == row.k]
        assert (row.rounds, row.clusters) == (len(rows), rows["cluster"].nunique())
        use = [name for name in ALL[:3:2] if column(rows, name).std() > 0]
        z = [stats.zscore(column(rows, name)) for name in (*use, "target_ms")]
        theirs, cr3 = clustered(z[-1], np.column_stack([np.ones(len(rows)), *z[:-1]]), rows["cluster"])
        half = stats.t.ppf(0.975, row.clusters - 1) * np.sqrt(np.diagonal(cr3))
        assert close(row.r2, theirs.rsquared, 1.0)
        for j, name in enumerate(use, start=1):
            ours = getattr(row, name)
            assert close([ours.value, ours.error_cr1], [theirs.params[j], theirs.bse[j]], theirs.bse[j])
            expected = [np.sqrt(cr3[j, j]), theirs.params[j] - half[j], theirs.params[j] + half[j]]
            assert close([ours.error_cr3, ours.low, ours.high], expected, theirs.bse[j])
        if len(use) == 1:
            assert (row.unique_experts, row.why) == (None, "unique_experts does not vary")


def test_correlations_and_inflation(measured):
    _, frame, evidence = measured
    found = factor_relations(evidence)
    X = np.column_stack([column(frame, name) for name in found.factors])
    assert close(found.pooled, np.corrcoef(X.T), 1.0)
    design = np.column_stack([np.ones(len(X)), X])
    assert close(found.vif, [variance_inflation_factor(design, j + 1) for j in range(X.shape[1])])
    assert found.exact == ()

    m = column(frame, "verified_positions")
    dummies = (m[:, None] == np.unique(m)).astype(float)
    within = X - dummies @ np.linalg.lstsq(dummies, X, rcond=None)[0]
    moving = [name not in ("verified_positions", "graph_bucket") for name in found.factors]
    assert [value is not None for value in found.vif_within_m] == moving
    theirs = np.corrcoef(within[:, moving].T)
    ours = np.array(found.within_m, dtype=float)[np.ix_(moving, moving)]
    assert close(ours, theirs, 1.0)
    residual = np.column_stack([dummies, X[:, moving]])
    width = dummies.shape[1]
    for j, value in enumerate(v for v in found.vif_within_m if v is not None):
        others = np.delete(residual, width + j, axis=1)
        own = residual[:, width + j]
        left = own - others @ np.linalg.lstsq(others, own, rcond=None)[0]
        assert close(value, (within[:, moving][:, j] ** 2).sum() / (left**2).sum())

    last = frame[m == m.max()]
    at_m = np.array(found.by_m[int(m.max())], dtype=float)[np.ix_(moving, moving)]
    names = np.array(found.factors)[moving]
    assert close(at_m, np.corrcoef([column(last, name) for name in names]), 1.0)


def test_source_pattern_comes_back_from_its_coefficients():
    rows = {row.factor: row for row in factor_strengths(evidence_of(drawn(rounds_per_k=400, questions=39)))}
    assert max(rows.values(), key=lambda row: row.r2.mean).factor == "unique_experts"
    gains = {name: row.gain_ms.mean for name, row in rows.items() if row.gain_ms is not None}
    assert max(gains, key=gains.get) == "context_len"
    assert rows["context_len"].gain_ms.low > 0
    assert rows["context_len"].r2.mean < 0.15


def test_association_moves_from_context_to_experts_as_the_budget_grows():
    rows = standardised_by_m(evidence_of(drawn(rounds_per_k=400, questions=39)))
    experts, context = ([getattr(row, name).value for row in rows] for name in ("unique_experts", "context_len"))
    assert (experts[0] < 0.2, experts[-1] > 0.6) == (True, True)
    assert (context[0] > 0.9, context[-1] < 0.75) == (True, True)


def test_a_factor_that_others_give_exactly_has_no_inflation_and_no_gain():
    frame = drawn(ks=range(1, 5)).assign(twice=lambda f: 2 * f["unique_experts"] + 3)
    evidence = evidence_of(frame, further=["twice"])
    found = factor_relations(evidence)
    assert found.exact == ("unique_experts", "twice")
    assert found.vif[evidence.factors.index("twice")] is None
    others = [name for name in found.factors if name not in found.exact]
    assert all(found.vif[found.factors.index(name)] is not None for name in others)
    row = factor_strengths(evidence)[-1]
    assert row.factor == "twice"
    assert row.gain_ms is None
    assert row.why.startswith("target_ms: the rounds do not identify twice: its regressor does not vary, or moves")
    assert close(row.rmse_ms.mean, factor_strengths(evidence)[0].rmse_ms.mean)


def test_without_unique_experts_that_vary_there_is_no_gain_on_top_of_them():
    evidence = evidence_of(drawn().assign(unique_experts=0.0))
    rows = factor_strengths(evidence)
    assert rows[0].factor == "verified_positions"
    assert {row.why for row in rows} == {"unique_experts: does not vary"}
    assert all(row.gain_ms is None and row.r2.mean is not None for row in rows)
    assert all(row.unique_experts is None and row.context_len is not None for row in standardised_by_m(evidence))


def test_one_cluster_has_no_held_out_error():
    evidence = evidence_of(drawn().assign(cluster="only"))
    for row in factor_strengths(evidence):
        assert (row.r2.mean, row.rmse_ms.mean, row.gain_ms) == (None, None, None)
        assert row.why == "one cluster only: no held-out error; record more generations"
    for row in standardised_by_m(evidence):
        assert row.unique_experts.value > 0
        assert (row.unique_experts.low, row.unique_experts.error_cr3) == (None, None)


def test_a_time_that_never_changes_explains_nothing():
    frame = drawn()
    still = frame.assign(target_ms=np.where(frame["draft_length"] == 3, 7.0, frame["target_ms"]))
    row = standardised_by_m(evidence_of(still))[2]
    assert (row.k, row.unique_experts, row.context_len, row.r2) == (3, None, None, None)
    assert row.why == "target_ms does not vary"


def test_intervals_over_folds():
    found = over_folds(np.array([1.0, 2.0, np.nan, 4.0]))
    assert found.by_fold == (1.0, 2.0, None, 4.0)
    assert close(numbers(found), summary([1.0, 2.0, 4.0]))
    assert numbers(over_folds(np.array([3.0]))) == [3.0, None, None]
    assert numbers(over_folds(np.array([np.nan]))) == [None, None, None]
