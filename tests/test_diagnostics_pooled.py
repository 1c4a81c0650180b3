"""The pooled model, smooth forms of the budget and budgets left out, against refits on the rows."""

import numpy as np
import pytest
import statsmodels.api as sm
from fold_referee import clustered, column, designed, drawn, evidence_of, held_out, numbers, recorded, summary
from latency_simulation import close
from scipy import stats
from test_diagnostics_ladder import categorical

from oracle.latency.diagnostics.fold_errors import ONE_CLUSTER
from oracle.latency.diagnostics.pooled import budget_forms, pooled_model

BUDGETS = {
    "m": [lambda m: m],
    "log m": [np.log],
    "sqrt m": [np.sqrt],
    "1/m": [lambda m: 1 / m],
    "m + m²": [lambda m: m, lambda m: m**2],
}


@pytest.fixture(scope="module", params=["rounds", "rounds-grouped_mm", "rounds-batched_mm", "simulated"])
def measured(request):
    frame = drawn(ks=range(1, 8)) if request.param == "simulated" else recorded(request.param)
    return frame, evidence_of(frame)


def forms(frame):
    base = designed(frame, "unique_experts", "context_len")
    m, U = column(frame, "verified_positions"), column(frame, "unique_experts")
    found = {"none": base}
    for name, functions in BUDGETS.items():
        budget = np.column_stack([by(m) for by in functions])
        found[name] = np.column_stack([base, budget])
        found[f"{name}, · U"] = np.column_stack([base, budget, budget * U[:, None]])
    return found


def percent(y, predicted):
    return 100 * np.mean(np.abs(y - predicted) / y)


def test_pooled_coefficients_equal_statsmodels(measured):
    frame, evidence = measured
    found = pooled_model(evidence)
    y, design = column(frame, "target_ms"), designed(frame, "unique_experts", "context_len", "draft_length")
    theirs, cr3 = clustered(y, design, frame["cluster"])
    error, t = np.sqrt(np.diagonal(cr3)), stats.t.ppf(0.975, frame["cluster"].nunique() - 1)
    names = ["beta0_ms", "alpha_ms_per_expert", "context_ms_per_token", "gamma_ms_per_draft_token"]
    assert [c.name for c in found.coefficients] == names
    for j, each in enumerate(c.estimate for c in found.coefficients):
        ours = [each.value, each.error_cr1, each.error_cr3, each.low, each.high]
        value = theirs.params[j]
        assert close(ours, [value, theirs.bse[j], error[j], value - t * error[j], value + t * error[j]], theirs.bse[j])
    z = np.column_stack([np.ones(len(y)), *(stats.zscore(x) for x in design.T[1:])])
    standard, cr3 = clustered(stats.zscore(y), z, frame["cluster"])
    assert found.coefficients[0].standardised is None
    for j, each in enumerate(found.coefficients[1:], start=1):
        ours = [each.standardised.value, each.standardised.error_cr1, each.standardised.error_cr3]
        assert close(ours, [standard.params[j], standard.bse[j], np.sqrt(cr3[j, j])], standard.bse[j])
    assert close([found.r2, found.rmse_ms], [theirs.rsquared, np.sqrt(theirs.ssr / len(y))])
    assert found.left_out == {}


def test_pooled_errors_by_budget(measured):
    frame, evidence = measured
    found = pooled_model(evidence)
    design = designed(frame, "unique_experts", "context_len", "draft_length")
    outside = held_out(frame, design)
    assert close(numbers(found.held_out_mape_percent), summary(outside.mape))
    assert close(numbers(found.held_out_r2), summary(outside.r2), 1.0)
    assert close(numbers(found.held_out_rmse_ms), summary(outside.rmse))
    for row in found.by_k:
        at = frame["draft_length"].to_numpy() == row.k
        assert close(numbers(row.held_out), summary(held_out(frame, design, at).mape))


def test_budgets_left_out_equal_refits_on_the_other_rows(measured):
    frame, evidence = measured
    rows = budget_forms(evidence)
    designs, y, K = forms(frame), column(frame, "target_ms"), frame["draft_length"].to_numpy()
    assert [row.name for row in rows] == [*designs, "categorical"]
    for row, design in zip(rows, designs.values(), strict=False):
        theirs = held_out(frame, design)
        assert close(numbers(row.mape_percent), summary(theirs.mape))
        assert close(numbers(row.rmse_ms), summary(theirs.rmse))
        assert close(numbers(row.r2), summary(theirs.r2), 1.0)
        left = {}
        for k in np.unique(K).tolist():
            params = sm.OLS(y[k != K], design[k != K]).fit().params
            left[k] = percent(y[k == K], design[k == K] @ params)
        assert close(list(row.left_out_k_percent.values()), list(left.values()))
        assert close(row.left_out_mean_percent, np.mean(list(left.values())))
        assert row.worst_k == max(left, key=left.get)


def test_categorical_form_stands_beside_them_at_known_budgets(measured):
    frame, evidence = measured
    row = budget_forms(evidence)[-1]
    theirs = categorical(frame)
    assert close(numbers(row.mape_percent), summary(held_out(frame, theirs).mape))
    for k, over_folds in row.mape_by_k.items():
        assert close(numbers(over_folds), summary(held_out(frame, theirs, frame["draft_length"].to_numpy() == k).mape))
    assert set(row.left_out_k_percent.values()) == {None}
    assert (row.left_out_mean_percent, row.worst_k) == (None, None)


def test_source_pattern_budgets_left_out_are_worst_in_the_small_regime():
    rows = {row.name: row for row in budget_forms(evidence_of(drawn(400, 39)))}
    assert rows["m"].worst_k in (1, 3)
    assert rows["m"].left_out_k_percent[3] > 7
    assert max(rows["categorical"].mape_by_k[k].mean for k in range(1, 11)) < 1.5
    assert all(row.left_out_mean_percent > 2.5 for row in rows.values() if row.name != "categorical")


def test_two_budgets_cannot_predict_each_other_through_m():
    rows = {row.name: row for row in budget_forms(evidence_of(drawn(ks=(2, 6))))}
    assert rows["none"].left_out_mean_percent is not None
    assert rows["m"].left_out_k_percent == {2: None, 6: None}
    assert rows["m"].why.startswith("without k = 2: target_ms: the rounds do not identify budget 0")
    assert rows["m + m², · U"].why.startswith("target_ms: the rounds do not identify budget 1")
    assert rows["m + m², · U"].mape_percent.mean is None
    assert rows["m"].left_out_mean_percent is None
    assert rows["m"].worst_k is None
    assert rows["m"].mape_percent.mean is not None


def test_what_does_not_vary_has_no_coefficient():
    found = pooled_model(evidence_of(drawn(ks=(4,)).assign(context_len=700)))
    assert [c.name for c in found.coefficients] == ["beta0_ms", "alpha_ms_per_expert"]
    assert found.left_out == {"context_len": "does not vary", "verified_positions": "does not vary"}


def test_coefficients_that_cannot_be_told_apart_give_no_model():
    frame = drawn()
    found = pooled_model(evidence_of(frame.assign(context_len=4 * column(frame, "unique_experts"))))
    assert found.coefficients == ()
    assert found.why.startswith("target_ms: the rounds do not identify context_ms_per_token: its regressor does not")


def test_one_cluster_is_fitted_but_not_held_out():
    found = pooled_model(evidence_of(drawn(40).assign(cluster="only")))
    assert len(found.coefficients) == 4
    assert found.held_out_mape_percent.mean is None
    assert found.why == ONE_CLUSTER
