"""Real rounds of a small trained model on one processor core: known facts, and statsmodels as referee."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from latency_simulation import close

from oracle.latency.fit import fit_latency
from oracle.rounds import RoundFiles

FOLDER = Path(__file__).parents[1] / "cases" / "tiny-moe"

pytestmark = pytest.mark.filterwarnings("ignore::oracle.errors.InputWarning")


@pytest.fixture(scope="module", params=["rounds", "rounds-grouped_mm", "rounds-batched_mm"])
def recorded(request):
    path = FOLDER / f"{request.param}.parquet"
    return request.param, pd.read_parquet(path), fit_latency(RoundFiles(path))


def clustered(y, design, clusters):
    return sm.OLS(y, design).fit(cov_type="cluster", cov_kwds={"groups": pd.factorize(clusters)[0]})


def test_separate_fits_equal_statsmodels(recorded):
    _, frame, result = recorded
    for row in result.separate.rows[1:]:
        rows = frame[frame["draft_length"] == row.m - 1]
        design = sm.add_constant(rows[["unique_experts", "context_len"]].to_numpy(dtype=np.float64))
        theirs = clustered(rows["target_ms"].to_numpy(), design, rows["cluster"])
        ours = (row.beta0_ms, row.alpha_ms_per_expert, row.context_ms_per_token)
        assert close([e.value for e in ours], theirs.params, theirs.bse)
        assert close([e.error_cr1 for e in ours], theirs.bse)
        assert close([row.r2, row.rmse_ms], [theirs.rsquared, np.sqrt(theirs.ssr / len(rows))])


def test_joint_fit_equals_statsmodels(recorded):
    _, frame, result = recorded
    later = frame[frame["draft_length"] > 0]
    dummies = (frame["draft_length"].to_numpy()[:, None] == np.arange(11)).astype(float)
    experts = dummies[:, 1:] * frame[["unique_experts"]].to_numpy(dtype=np.float64)
    theirs = clustered(
        frame["target_ms"].to_numpy(), np.column_stack([dummies, experts, frame["context_len"]]), frame["cluster"]
    )
    names = [f"beta0_ms[{m}]" for m in range(2, 12)] + [f"alpha_ms_per_expert[{m}]" for m in range(2, 12)]
    ours = [result.joint.estimates[name] for name in (*names, "context_ms_per_token")]
    at = [*range(1, 21), 21]
    assert close([e.value for e in ours], theirs.params[at], theirs.bse[at])
    assert close([e.error_cr1 for e in ours], theirs.bse[at])
    line = clustered(later["draft_ms"], np.column_stack([later["draft_length"], np.ones(len(later))]), later["cluster"])
    assert close([e.value for e in result.draft.line.each], line.params.to_numpy())
    assert close([e.error_cr1 for e in result.draft.line.each], line.bse.to_numpy())


def test_alpha_at_m_1_is_not_identified(recorded):
    _, frame, result = recorded
    assert (frame.loc[frame["draft_length"] == 0, "unique_experts"] == 4.0).all()
    for table in (result.joint, result.separate):
        assert table.rows[0].alpha_source == "borrowed from m = 2"
        assert table.rows[0].mean_unique_experts == 4.0


def test_one_more_expert_costs_what_the_kernel_makes_it_cost(recorded):
    name, _, result = recorded
    alpha = np.array([row.alpha_ms_per_expert.value for row in result.separate.rows[1:]])
    low, high = {"rounds": (0.22, 0.26), "rounds-grouped_mm": (0.06, 0.11), "rounds-batched_mm": (-0.04, 0.09)}[name]
    assert (alpha > low).all()
    assert (alpha < high).all()
    unclear = [row.m for row in result.separate.rows[1:] if row.alpha_ms_per_expert.spans_zero()]
    assert len(unclear) >= 8 if name == "rounds-batched_mm" else not unclear


def test_draft_times_are_concave_so_the_table_is_chosen(recorded):
    _, frame, result = recorded
    assert result.draft.choice == "table"
    means = frame.groupby("draft_length")["draft_ms"].mean()
    assert close(result.model.draft.ms, means[1:].to_numpy())
    assert 0.3 < result.draft.rows[0].line_ms - result.draft.rows[0].mean_ms.value < 0.7


def test_rounds_hold_nothing_to_leave_out(recorded):
    _, frame, result = recorded
    assert result.counts.verify_rounds == result.counts.rows == len(frame)
    assert result.counts.clusters == frame["cluster"].nunique()
    assert result.counts.generations == frame["generation"].nunique()
