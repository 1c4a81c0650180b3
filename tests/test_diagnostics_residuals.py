from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from latency_simulation import close, simulated
from scipy.special import ndtri, stdtrit
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, cross_val_predict
from statsmodels.robust.scale import mad
from statsmodels.stats.diagnostic import het_breuschpagan

from oracle.latency.diagnostics.residuals import residual_diagnostics
from oracle.latency.evidence import gather_evidence
from oracle.rounds import Rounds

FOLDER = Path(__file__).parents[1] / "cases" / "tiny-moe"


def evidence_of(frame):
    return gather_evidence(Rounds.from_pandas(frame))


def noisy_frame():
    frame = simulated(rounds_per_k=200, questions=20, seed=2, ks=(1, 3, 6))
    rng = np.random.default_rng(1)
    frame["target_ms"] += rng.normal(0, 0.01, len(frame)) * frame["target_ms"]
    frame["kv_usage"] = frame["context_len"] / 5000 + rng.uniform(0, 0.01, len(frame))
    frame["position"] = rng.integers(0, 300, len(frame))
    frame["round_index"] = rng.permutation(len(frame)) * 3
    frame["draft_ms"] = frame["draft_ms"].where(np.arange(len(frame)) % 50 != 7, 0.0)
    return frame


@pytest.fixture(scope="module", params=["recorded", "simulated"])
def examined(request):
    recorded = request.param == "recorded"
    frame = pd.read_parquet(FOLDER / "rounds-grouped_mm.parquet") if recorded else noisy_frame()
    ms = np.unique(frame["draft_length"]) + 1
    dummies = (frame["draft_length"].to_numpy()[:, None] == ms - 1).astype(float)
    own = ms > 1
    experts = dummies[:, own] * frame[["unique_experts"]].to_numpy(dtype=float)
    design = np.column_stack([dummies, experts, frame["context_len"].to_numpy(dtype=float)])
    return frame, design, sm.OLS(frame["target_ms"].to_numpy(), design).fit(), residual_diagnostics(evidence_of(frame))


def test_breusch_pagan_equals_statsmodels(examined):
    _, design, ols, found = examined
    with_constant = np.column_stack([np.ones(len(design)), design[:, 1:]])  # the dummies add up to the constant
    lm, p, _, _ = het_breuschpagan(ols.resid, with_constant)
    spread = found.heteroscedasticity
    assert close([spread.lm, spread.p], [lm, p], 1.0)
    assert spread.degrees == design.shape[1] - 1
    low, high = np.quantile(ols.fittedvalues, (0.1, 0.9))
    bottom, top = (ols.resid[at].std() for at in (ols.fittedvalues <= low, ols.fittedvalues >= high))
    assert close([spread.bottom_sd_ms, spread.top_sd_ms, spread.ratio], [bottom, top, top / bottom])


def test_tails_in_sample_and_held_out(examined):
    frame, design, ols, found = examined
    y = frame["target_ms"].to_numpy()
    folds = list(GroupKFold(5).split(y, groups=frame["cluster"].to_numpy(dtype=str)))
    held_out = y - cross_val_predict(LinearRegression(fit_intercept=False), design, y, cv=folds)
    assert [tails.held_out for tails in found.tails] == [False, True]
    for tails, residual in zip(found.tails, (ols.resid, held_out), strict=True):
        sd = np.sqrt(np.mean(residual**2))
        assert close(tails.sd_ms, sd)
        assert tails.over_1_ms_share == np.mean(np.abs(residual) > 1)
        assert tails.over_3_sd_share == np.mean(np.abs(residual) > 3 * sd)
        probability, quantile, normal = zip(*tails.quantiles, strict=True)
        assert close(quantile, np.quantile(residual / sd, probability), 1.0)
        assert close(normal, ndtri(probability), 1.0)
    assert (found.rounds, found.unpredicted) == (len(frame), 0)
    assert found.mean_target_ms == pytest.approx(y.mean())


def test_bins_have_leave_one_cluster_out_intervals(examined):
    frame, _, ols, found = examined
    variables = ["context_len", "position", "round_index"]
    variables += ["kv_usage"] if "kv_usage" in frame else []
    assert {(b.variable, b.held_out) for b in found.binned} == {(v, h) for v in variables for h in (False, True)}
    for binned in (b for b in found.binned if not b.held_out):
        x = frame[binned.variable].to_numpy(dtype=float)
        edges = np.unique(np.quantile(x, np.linspace(0, 1, 21)))
        assert sum(row.rounds for row in binned.bins) == len(frame)
        row = binned.bins[4]
        assert close([row.low, row.high], edges[4:6], 1.0)
        inside = (x >= row.low) & (x < row.high)
        r, g = ols.resid[inside], frame["cluster"].to_numpy(dtype=str)[inside]
        without = np.array([r[g != name].mean() for name in np.unique(g)])
        G = len(without)
        error = np.sqrt((G - 1) / G * ((without - r.mean()) ** 2).sum())
        assert (row.rounds, row.clusters) == (inside.sum(), G)
        assert close(row.mean_ms, r.mean(), error)
        half = row.mean_high_ms - row.mean_ms
        assert row.mean_ms - row.mean_low_ms == pytest.approx(half)
        assert half == pytest.approx(error * stdtrit(G - 1, 0.975))


def test_trends_equal_a_clustered_slope(examined):
    frame, _, ols, found = examined
    for binned in (b for b in found.binned if not b.held_out):
        x = frame[binned.variable].to_numpy(dtype=float)
        groups = pd.factorize(frame["cluster"])[0]
        theirs = sm.OLS(ols.resid, sm.add_constant(x)).fit(cov_type="cluster", cov_kwds={"groups": groups})
        slope = binned.trend.slope
        assert close(slope.value, theirs.params[1], theirs.bse[1])
        assert close(slope.error_cr1, theirs.bse[1])
        rise = 100 * theirs.params[1] * np.subtract(*np.quantile(x, (0.95, 0.05))) / frame["target_ms"].mean()
        assert abs(binned.trend.rise_percent - rise) < 1e-9
        assert 0 <= binned.trend.p <= 1
        largest = max((row.mean_ms for row in binned.bins), key=abs)
        assert binned.largest_percent == pytest.approx(100 * largest / frame["target_ms"].mean())


def test_the_fit_leaves_no_slope_along_context_length(examined):
    context = next(b for b in examined[3].binned if b.variable == "context_len" and not b.held_out)
    assert abs(context.trend.rise_percent) < 1e-9
    assert context.trend.p > 0.999


def share_by_hand(residual, block):
    """Intraclass correlation by analysis of variance, blocks of unequal size."""
    groups = pd.Series(residual).groupby(block)
    n, mean = groups.size().to_numpy(), groups.mean().to_numpy()
    N, a = n.sum(), len(n)
    between = (n * (mean - residual.mean()) ** 2).sum() / (a - 1)
    within = ((residual - groups.transform("mean")) ** 2).sum() / (N - a)
    typical = (N - (n**2).sum() / N) / (a - 1)
    common = (between - within) / typical
    return common / (common + within)


def test_drift_of_the_blocks_found_by_hand(examined):
    frame, _, ols, residuals = examined
    found, index = residuals.drift, frame["round_index"].to_numpy(dtype=float)
    block = np.floor((index - index.min()) / found.block)
    assert (found.order, found.blocks) == ("round_index", len(np.unique(block)))
    assert close(found.share_of_variance, share_by_hand(ols.resid, block), 1.0)
    of_cluster = pd.Series(ols.resid).groupby(frame["cluster"].to_numpy()).transform("mean").to_numpy()
    assert close(found.share_within_clusters, share_by_hand(ols.resid - of_cluster, block), 1.0)


def test_tiny_moe_drifts_by_blocks():
    found = residual_diagnostics(evidence_of(pd.read_parquet(FOLDER / "rounds.parquet"))).drift
    assert found.share_of_variance == pytest.approx(0.63, abs=0.03)  # what its README says of blocks of 264 rounds
    assert found.likelihood_ratio > 1000
    assert found.lowest_percent < -5 < 5 < found.highest_percent


def with_drift(frame, percent, seed=0):
    rng = np.random.default_rng(seed)
    shuffled = frame.sample(frac=1, random_state=seed).assign(round_index=np.arange(len(frame)))
    level = rng.normal(0, percent / 100, len(frame) // 40 + 1)[np.arange(len(frame)) // 40]
    return shuffled.assign(target_ms=shuffled["target_ms"] * (1 + level))


def test_drift_that_was_put_in_is_found_and_none_where_there_is_none():
    frame = simulated(rounds_per_k=800, questions=40, ks=(1, 3, 5))
    found = residual_diagnostics(evidence_of(with_drift(frame, 3.0))).drift
    assert found.share_of_variance > 0.5
    assert found.sd_percent == pytest.approx(3.0, rel=0.4)
    assert found.block == 40
    for seed in range(5):
        still = residual_diagnostics(evidence_of(with_drift(frame, 0.0, seed))).drift
        assert abs(still.share_of_variance) < 0.05
        assert still.likelihood_ratio < 20


def test_row_order_stands_in_for_a_missing_recording_order():
    frame = simulated(rounds_per_k=100, questions=12, ks=(1, 2))
    found = residual_diagnostics(evidence_of(frame))
    assert found.drift.order == "row order"
    assert {b.variable for b in found.binned} == {"context_len", "row order"}
    assert found.notes == (
        "round_index was not recorded: the order of the rows stands for the recording order",
        "kv_usage: not recorded",
        "position: not recorded",
    )
    flat = residual_diagnostics(evidence_of(frame.assign(position=3, round_index=np.r_[np.nan, np.arange(199)])))
    assert "position: does not vary, or rounds have no value" in flat.notes
    assert flat.notes[0] == "some rounds have no round_index: the order of the rows stands for the recording order"


def test_draft_times_against_line_and_table(examined):
    frame, _, _, found = examined
    drafted = frame[frame["draft_length"] > 0]
    used = drafted[drafted["draft_ms"] > 0]
    draft = found.draft
    assert draft.rounds == len(used)
    assert draft.zero_share == pytest.approx(1 - len(used) / len(drafted))
    k, t = used["draft_length"].to_numpy(dtype=float), used["draft_ms"].to_numpy()
    line = sm.OLS(t, np.column_stack([k, np.ones(len(k))])).fit()
    assert close([e.value for e in draft.line.each], line.params, line.bse)
    assert close(draft.line_r2, line.rsquared, 1.0)
    means = used.groupby("draft_length")["draft_ms"].transform("mean").to_numpy()
    deviation = 100 * (line.predict() / means - 1)
    assert draft.worst_deviation_percent == pytest.approx(max(deviation, key=abs))
    assert draft.sd_ms == pytest.approx(np.sqrt(np.mean((t - means) ** 2)))
    assert draft.over_3_sd_share == np.mean(np.abs(t - means) > 3 * draft.sd_ms)
    assert draft.over_1_ms_share == np.mean(np.abs(t - means) > 1)
    parabola = sm.OLS(t, np.column_stack([np.ones(len(k)), k, k**2])).fit(
        cov_type="cluster", cov_kwds={"groups": pd.factorize(used["cluster"])[0]}
    )
    assert close(draft.curvature.value, parabola.params[2], parabola.bse[2])
    assert close(draft.curvature.error_cr1, parabola.bse[2])


def test_typical_round_error_of_draft_times(examined):
    frame, _, _, found = examined
    used = frame[(frame["draft_length"] > 0) & (frame["draft_ms"] > 0)]
    fold_of = {}  # folds are those of all rounds
    y = frame["target_ms"].to_numpy()
    for f, (_, test) in enumerate(GroupKFold(5).split(y, groups=frame["cluster"].to_numpy(dtype=str))):
        fold_of |= dict.fromkeys(frame["cluster"].to_numpy(dtype=str)[test], f)
    fold = used["cluster"].map(fold_of).to_numpy()
    k, t = used["draft_length"].to_numpy(), used["draft_ms"].to_numpy()
    line, table = np.zeros(len(t)), np.zeros(len(t))
    for f in range(5):
        rest = used[fold != f]
        a, b = np.polyfit(rest["draft_length"], rest["draft_ms"], 1)
        line[fold == f] = a * k[fold == f] + b
        table[fold == f] = rest.groupby("draft_length")["draft_ms"].mean().loc[k[fold == f]].to_numpy()
    assert close(found.draft.line_medape_percent, np.median(100 * np.abs(line / t - 1)))
    assert close(found.draft.table_medape_percent, np.median(100 * np.abs(table / t - 1)))


def test_the_shape_of_draft_times():
    frame = simulated(rounds_per_k=100, questions=12, ks=(1, 2, 4, 6))
    assert residual_diagnostics(evidence_of(frame)).draft.shape == "straight"
    for power, shape in ((0.8, "concave"), (1.2, "convex")):
        bent = frame.assign(draft_ms=frame["draft_length"] ** power + 0.01 * frame["draft_ms"])
        assert residual_diagnostics(evidence_of(bent)).draft.shape == shape
    two = residual_diagnostics(evidence_of(frame[frame["draft_length"] < 3])).draft
    assert (two.curvature, two.shape) == (None, None)
    assert residual_diagnostics(evidence_of(frame.assign(draft_ms=0.0))).draft is None
    one = residual_diagnostics(evidence_of(frame[frame["draft_length"] == 2])).draft
    assert (one.line, one.line_medape_percent, one.worst_k) == (None, None, None)


def test_one_cluster_has_no_intervals_and_nothing_held_out():
    found = residual_diagnostics(evidence_of(simulated(rounds_per_k=60, questions=6, ks=(1, 2)).assign(cluster="q")))
    assert not any(binned.held_out for binned in found.binned)
    assert found.binned[0].bins[0].mean_low_ms is None
    assert found.binned[0].trend.p is None
    assert len(found.tails) == 1
    assert found.draft.line_medape_percent is None


def test_blocks_that_are_no_blocks():
    evidence = evidence_of(simulated(rounds_per_k=60, questions=6, ks=(1, 2)))
    assert residual_diagnostics(evidence).drift is not None
    at_once = simulated(rounds_per_k=60, questions=6, ks=(1, 2)).assign(round_index=7)
    assert residual_diagnostics(evidence_of(at_once)).drift is None
    few = simulated(rounds_per_k=30, questions=6, ks=(1, 2))
    assert residual_diagnostics(evidence_of(few)).drift is None


def test_robust_scale_is_not_inflated_by_a_few_far_rounds(examined):
    _, _, ols, found = examined
    tails, residual = found.tails[0], ols.resid
    assert close(tails.robust_sd_ms, mad(residual), 1.0)
    assert tails.over_3_robust_sd_share == np.mean(np.abs(residual - np.median(residual)) > 3 * mad(residual))
    assert close(tails.largest_ms, residual[np.abs(residual).argmax()], 1.0)


def test_a_constant_time_has_no_spread():
    frame = simulated(rounds_per_k=100, questions=12, ks=(1, 2)).assign(target_ms=7.0)
    found = residual_diagnostics(evidence_of(frame))
    assert found.tails[0].sd_ms < 1e-12
    assert found.heteroscedasticity.p > 0.5
    assert all(np.isfinite(quantile) for _, quantile, _ in found.tails[0].quantiles)
