import json

import numpy as np
import pandas as pd
import pytest
from latency_simulation import ALPHA, BETA0, CONTEXT, DRAFT_A, DRAFT_B, close, simulated
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_percentage_error, median_absolute_error, r2_score
from sklearn.model_selection import GroupKFold, cross_val_predict

from oracle.errors import InputError, InputWarning
from oracle.latency.fit import fit_latency
from oracle.latency.model import DraftLine, DraftTable, LatencyModel
from oracle.rounds import Rounds

pytestmark = pytest.mark.filterwarnings("ignore::oracle.errors.InputWarning")


def rounds_of(frame):
    return Rounds.from_pandas(frame)


@pytest.fixture(scope="module")
def source_like():
    frame = simulated(rounds_per_k=1200, questions=60)
    return frame, fit_latency(rounds_of(frame))


def test_published_coefficients_come_back_inside_their_intervals(source_like):
    _, result = source_like
    true = {f"alpha_ms_per_expert[{m}]": a for m, a in ALPHA.items()} | {f"beta0_ms[{m}]": b for m, b in BETA0.items()}
    inside = 0
    for table in (result.joint, result.separate):
        for name, estimate in zip(table.estimates.names, table.estimates.each, strict=True):
            value = true.get(name, CONTEXT)
            inside += estimate.low <= value <= estimate.high
            assert abs(estimate.value - value) < 4 * estimate.error_cr3
    assert inside >= 0.9 * 51  # 21 joint and 30 separate intervals at 95 %
    line = result.draft.line
    assert result.draft.choice == "line"
    for name, value in (("ms_per_token", DRAFT_A), ("base_ms", DRAFT_B)):
        assert abs(line[name].value - value) < 4 * line[name].error_cr3


def test_the_source_shows_the_same_picture(source_like):
    _, result = source_like
    levels = [row.alpha_ms_per_expert.value for row in result.joint.rows]
    assert min(levels[3:]) / max(levels[:3]) > 2.5
    assert result.joint.held_out[0].r2.mean > 0.99
    assert result.model.m == tuple(range(2, 12))
    assert isinstance(result.model.draft, DraftLine)


def test_held_out_metrics_equal_scikit_learn_on_the_same_folds():
    frame = simulated(rounds_per_k=120, questions=17, ks=(1, 2, 5))
    result = fit_latency(rounds_of(frame), folds=4)
    y, groups = frame["target_ms"].to_numpy(), frame["cluster"].to_numpy(dtype=str)
    folds = list(GroupKFold(4).split(y, groups=groups))
    dummies = (frame["draft_length"].to_numpy()[:, None] == [1, 2, 5]).astype(float)
    U, L = frame[["unique_experts"]].to_numpy(), frame[["context_len"]].to_numpy(dtype=float)
    designs = {
        "joint": np.hstack([dummies, dummies * U, L]),
        "separate": np.hstack([dummies, dummies * U, dummies * L]),
    }
    for table, design in ((result.joint, designs["joint"]), (result.separate, designs["separate"])):
        predicted = cross_val_predict(LinearRegression(fit_intercept=False), design, y, cv=folds)
        for row in table.held_out:
            at = np.ones(len(y), dtype=bool) if row.m is None else frame["draft_length"].to_numpy() == row.m - 1
            percent = 100 * np.abs(predicted - y) / y
            assert (row.rounds, row.unpredicted) == (at.sum(), 0)
            for f, (_, test) in enumerate(folds):
                some = test[at[test]]
                assert close(row.r2.by_fold[f], r2_score(y[some], predicted[some]), 1.0)
                assert close(row.rmse_ms.by_fold[f], np.sqrt(np.mean((y - predicted)[some] ** 2)))
                mape = mean_absolute_percentage_error(y[some], predicted[some])
                assert close(row.mape_percent.by_fold[f], 100 * mape)
                assert close(row.medape_percent.by_fold[f], median_absolute_error(np.zeros(len(some)), percent[some]))
            assert close(row.r2.pooled, r2_score(y[at], predicted[at]), 1.0)
            assert close(row.medape_percent.pooled, np.median(percent[at]))
    assert result.joint.held_out[0].r2.half_width == pytest.approx(
        3.182446305284263 * np.std(result.joint.held_out[0].r2.by_fold, ddof=1) / 2
    )


def test_batches_give_the_fit_of_the_whole(source_like):
    frame, whole = source_like
    batches = [rounds_of(frame.iloc[i : i + 700]) for i in range(0, len(frame), 700)]
    batched = fit_latency(batches)
    assert batched.counts == whole.counts
    for a, b in ((batched.joint, whole.joint), (batched.separate, whole.separate)):
        assert close([e.value for e in a.estimates.each], [e.value for e in b.estimates.each])
        assert close(a.held_out[0].rmse_ms.by_fold, b.held_out[0].rmse_ms.by_fold)
        assert close(a.held_out[0].medape_percent.pooled, b.held_out[0].medape_percent.pooled)


def test_rows_left_out_are_counted_and_said():
    frame = simulated(rounds_per_k=60, questions=20, ks=(1, 2)).assign(phase="decode")
    expected = fit_latency(rounds_of(frame.iloc[4:]))
    extra = frame.iloc[:4].assign(phase=["prefill", "decode", "decode", "decode"])
    extra["target_ms"] = [400.0, 0.0, -1.0, 0.0]
    extra["draft_ms"] = [0.0, 0.0, -2.0, 1e9]
    extra["draft_length"] = [0, 1, 1, 0]
    with pytest.warns(InputWarning) as said:
        result = fit_latency(rounds_of(pd.concat([frame.iloc[4:], extra])))
    counts = result.counts
    assert (counts.rows, counts.prefill, counts.verify_rounds, counts.draft_rounds) == (120, 1, 116, 116)
    assert (counts.target_not_positive, counts.draft_not_positive, counts.draft_at_zero) == (3, 2, 1)
    assert close(result.model.beta0_ms, expected.model.beta0_ms)
    assert (
        [str(w.message) for w in said][:3]
        == list(result.warnings[:3])
        == [
            "3 of 119 rounds (2.5 %) have a target_ms of 0 or less: left out of the verification fit",
            "2 rounds with draft length 1 or more have a draft_ms of 0 or less: left out of the draft fit",
            "1 rounds with draft length 0 have a positive draft_ms: not used, drafting nothing costs 0 by definition",
        ]
    )


def with_k0(frame, experts=8.0):
    """The frame with the k = 0 rounds of the same texts, where U is top_k in every round."""
    zero = frame[frame["draft_length"] == 1].assign(draft_length=0, unique_experts=experts, draft_ms=0.0)
    zero["target_ms"] -= 2.0
    return pd.concat([zero, frame], ignore_index=True)


def test_alpha_at_m_1_is_borrowed_and_only_the_sum_is_measured():
    frame = with_k0(simulated(rounds_per_k=90, questions=15, ks=(1, 2)))
    result = fit_latency(rounds_of(frame))
    for table in (result.joint, result.separate):
        first, second = table.rows[:2]
        assert (first.alpha_source, second.alpha_source) == ("borrowed from m = 2", "own")
        assert first.alpha_ms_per_expert == second.alpha_ms_per_expert
        zero = frame[frame["draft_length"] == 0]
        c = first.context_ms_per_token.value
        level = (zero["target_ms"] - c * zero["context_len"]).mean()
        assert close(first.beta0_ms.value, level - second.alpha_ms_per_expert.value * 8.0)
    names, covariance = result.joint.estimates.names, result.joint.estimates.covariance_cr3
    row = np.zeros(len(names))
    row[[names.index("alpha_ms_per_expert[1]"), names.index("alpha_ms_per_expert[2]")]] = 1, -1
    assert abs(row @ covariance @ row) < 1e-12
    assert result.model.fit["alpha_source"] == ["borrowed from m = 2", "own", "own"]


def test_experts_constant_at_a_larger_m_borrow_from_the_next_then_from_below():
    frame = simulated(rounds_per_k=90, questions=15, ks=(1, 2, 3))
    for constant, source in ((2, "borrowed from m = 4"), (3, "borrowed from m = 3")):
        rounded = 20.3 * (1 + 6e-8 * np.sign(np.sin(np.arange(len(frame)))))  # one value and what float32 makes of it
        flat = frame.assign(unique_experts=frame["unique_experts"].where(frame["draft_length"] != constant, rounded))
        result = fit_latency(rounds_of(flat))
        assert result.joint.rows[constant - 1].alpha_source == source
        said = f"m = {constant + 1}: unique experts do not vary there, so alpha is {source}; "
        said += "only beta0 + alpha U is measured"
        assert said in result.warnings


def test_constant_context_sets_c_to_0_and_says_so():
    frame = simulated(rounds_per_k=90, questions=15, ks=(1, 2))
    result = fit_latency(rounds_of(frame.assign(context_len=700)))
    assert result.model.context_ms_per_token == 0.0
    assert result.joint.rows[0].context_source == "not varying"
    assert result.joint.rows[0].context_ms_per_token.error_cr3 is None
    said = "context length varies at no m: c is set to 0, and beta0 holds the time of the context that was measured"
    assert said in result.warnings
    some = frame.assign(context_len=frame["context_len"].where(frame["draft_length"] == 1, 700))
    result = fit_latency(rounds_of(some))
    assert [row.context_source for row in result.separate.rows] == ["own", "not varying"]
    said = "m = 3: context length does not vary there; in the separate fit c is set to 0 and beta0 holds it"
    assert said in result.warnings


def test_a_dense_target_has_alpha_0():
    frame = simulated(rounds_per_k=90, questions=15, ks=(1, 2)).assign(unique_experts=0.0)
    result = fit_latency(rounds_of(frame))
    assert result.model.alpha_ms_per_expert == (0.0, 0.0)
    assert "unique_experts is 0 in every round: a dense target, alpha is 0" in result.warnings


def test_uncertain_coefficients_are_said():
    frame = simulated(rounds_per_k=80, questions=9, ks=(1, 2))
    rng = np.random.default_rng(1)
    frame["target_ms"] = (
        10 - 0.05 * frame["unique_experts"] * (frame["draft_length"] == 1) + rng.normal(0, 0.2, len(frame))
    )
    few = frame[frame["draft_length"] == 2].iloc[:20].assign(draft_length=3)
    tiny = frame[frame["draft_length"] == 2].iloc[:3].assign(draft_length=4)
    result = fit_latency(rounds_of(pd.concat([frame, few, tiny])))
    text = "\n".join(result.warnings)
    assert (
        "9 clusters (generations, or questions that recur): errors and intervals need at least 10 to be trusted" in text
    )
    assert "m = 5 is left out of the model: 3 rounds; coefficients of an m need at least 4" in text
    assert "m = 4: fewer than 30 rounds; the coefficients there are uncertain" in text
    assert "m = 2: alpha is negative, -0.0" in text
    assert "m = 3, 4: alpha cannot be told from 0 (its 95 % interval holds 0)" in text
    assert "it cannot be told from 0" in text
    assert result.model.m == (2, 3, 4)


def test_a_time_of_nothing_that_is_negative_is_said():
    frame = simulated(rounds_per_k=90, questions=15, ks=(1, 2))
    frame["target_ms"] = 0.8 * frame["unique_experts"] - 0.5 * (frame["draft_length"] == 2) + 0.1
    (said,) = [warning for warning in fit_latency(rounds_of(frame)).warnings if "beta0" in warning]
    assert said == (
        "m = 3: beta0, the time of a pass that touches no expert in no context, is negative: the line holds only near "
        "the experts and contexts that were measured, and what a change of experts or context saves is overstated"
    )


def test_an_m_measured_in_one_cluster_has_no_errors_and_no_held_out_prediction():
    frame = simulated(rounds_per_k=90, questions=12, ks=(1, 2, 3))
    alone = frame[(frame["draft_length"] != 3) | (frame["cluster"] == "q005")]
    result = fit_latency(rounds_of(alone))
    row = result.joint.rows[-1]
    assert row.beta0_ms.error_cr1 is None
    assert "m = 4: measured in a single cluster, so there are no errors" in result.warnings
    said = f"m = 4: {row.rounds} held-out rounds have no verification prediction, since no other fold measured that m"
    assert said in result.warnings
    assert result.joint.held_out[-1].rmse_ms.pooled is None
    assert None in [v for line in result.model.fit["coefficients"]["covariance_cr3"] for v in line]


def test_fewer_clusters_than_folds_and_one_cluster():
    frame = simulated(rounds_per_k=60, questions=3, ks=(1, 2))
    result = fit_latency(rounds_of(frame))
    assert result.folds == 3
    assert "3 clusters: held-out metrics use 3 folds, not 5" in result.warnings
    result = fit_latency(rounds_of(frame.assign(cluster="q")))
    assert (result.folds, result.joint.held_out) == (0, ())
    assert result.joint.rows[0].alpha_ms_per_expert.error_cr1 is None
    assert "one cluster only: no errors, intervals or held-out metrics; record more generations" in result.warnings


def test_generations_are_the_clusters_when_there_is_no_cluster_column():
    frame = simulated(rounds_per_k=60, questions=6, ks=(1, 2)).drop(columns="cluster")
    counts = fit_latency(rounds_of(frame)).counts
    assert counts.clusters == counts.generations == frame["generation"].nunique()


def test_reject_time_is_the_mean_of_its_column():
    frame = simulated(rounds_per_k=60, questions=12, ks=(1, 2))
    frame["reject_ms"] = np.where(frame["draft_length"] == 1, 0.2, 0.4)
    assert close(fit_latency(rounds_of(frame)).model.reject_ms, 0.3)
    assert fit_latency(rounds_of(frame), reject_ms=0.5).model.reject_ms == 0.5


def test_the_model_file_keeps_the_whole_fit(tmp_path):
    frame = with_k0(simulated(rounds_per_k=60, questions=12, ks=(1, 2)))
    result = fit_latency(rounds_of(frame), kind="separate", draft="table", provenance={"rounds": ["rounds.parquet"]})
    result.model.save(tmp_path / "model.json")
    read = LatencyModel.load(tmp_path / "model.json")
    assert read == result.model
    assert read.context_ms_per_token == tuple(row.context_ms_per_token.value for row in result.separate.rows)
    assert isinstance(read.draft, DraftTable)
    fit = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))["fit"]
    assert fit["kind"] == "separate"
    assert fit["provenance"] == {"rounds": ["rounds.parquet"]}
    assert fit["per_m"][0]["mean_unique_experts"] == 8.0
    assert fit["coefficients"]["names"] == list(result.separate.estimates.names)
    assert np.array(fit["coefficients"]["covariance_cr3"]).shape == (9, 9)
    assert fit["coefficients"]["error_cr1"][4] == result.separate.rows[1].alpha_ms_per_expert.error_cr1
    assert fit["metrics"]["held_out"][0]["r2"]["mean"] == result.separate.held_out[0].r2.mean
    assert fit["warnings"] == list(result.warnings)


def test_draft_times_that_are_missing():
    frame = simulated(rounds_per_k=60, questions=12, ks=(1, 2)).assign(draft_ms=0.0)
    with pytest.raises(InputError, match="draft_ms is not positive in any round with draft length 1 or more"):
        fit_latency(rounds_of(frame))
    assert fit_latency(rounds_of(frame), draft="free").model.draft == DraftLine(0.0, 0.0)
    frame.loc[frame["draft_length"] == 1, "draft_ms"] = 0.5
    result = fit_latency(rounds_of(frame))
    assert result.model.draft_lengths == (1,)
    assert "k = 2: no draft time was recorded, so the model cannot price these draft lengths" in result.warnings
    only = simulated(rounds_per_k=60, questions=12, ks=(1,)).assign(draft_length=0, unique_experts=0.0)
    assert fit_latency(rounds_of(only)).draft.reason == "no rounds with draft length 1 or more"


def refusal(frame, **options):
    with pytest.raises(InputError) as fault:
        fit_latency(rounds_of(frame), **options)
    return str(fault.value)


def test_refusals_in_words():
    frame = simulated(rounds_per_k=40, questions=12, ks=(1,))
    assert refusal(frame.assign(unique_experts=8.0)) == (
        "unique_experts varies at no m (measured: m = 2), so alpha, the cost of one more expert, cannot be identified; "
        "record rounds with draft length 1 or more"
    )
    assert refusal(frame.assign(context_len=2 * frame["unique_experts"])) == (
        "context length moves exactly with unique experts at every m, so alpha and c cannot be told apart; record "
        "rounds "
        "of more generations, with different context lengths"
    )
    assert refusal(frame.iloc[:3]) == "no m can be fitted: m = 2: 3 rounds; coefficients of an m need at least 4"
    assert refusal(frame.assign(target_ms=0.0)) == (
        "rounds: target_ms is 0 or less in all 40 verification rounds; check how it was timed"
    )
    assert refusal(frame.assign(phase="prefill")) == (
        "rounds: no verification rounds among 40 rows (40 of them prefill); record decoding"
    )
    assert refusal(frame, kind="both", folds=1, draft="curve") == (
        "1. kind is 'both'; it is 'joint' or 'separate'\n"
        "2. draft is 'curve'; it is 'auto', 'line', 'table' or 'free'\n"
        "3. folds is 1; held-out metrics need at least 2 folds"
    )
    with pytest.raises(
        InputError, match="rounds: an iterator can be walked only once; give a list of batches or RoundF"
    ):
        fit_latency(iter([rounds_of(frame)]))


def test_an_m_where_experts_follow_context_has_no_fit_of_its_own():
    frame = simulated(rounds_per_k=60, questions=12, ks=(1, 2))
    tied = frame.assign(context_len=frame["context_len"].where(frame["draft_length"] == 1, 3 * frame["unique_experts"]))
    result = fit_latency(rounds_of(tied))
    assert [row.m for row in result.separate.rows] == [2]
    assert (
        "m = 3 has no fit of its own: unique experts and context length move exactly together, so alpha and c "
        "cannot be "
        "told apart"
    ) in result.warnings
    only_tied = with_k0(tied[tied["draft_length"] == 2].assign(draft_length=1))
    only_tied.loc[only_tied["draft_length"] == 0, "context_len"] = np.arange(60) + 5
    result = fit_latency(rounds_of(only_tied))
    assert result.separate is None
    assert any(said.startswith("no separate fit for each m: unique_experts varies at no m") for said in result.warnings)
