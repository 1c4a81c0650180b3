import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from latency_simulation import close, simulated

from oracle.costs import length_costs
from oracle.errors import InputError
from oracle.latency.fit import fit_latency
from oracle.latency.model import DraftLine, DraftTable, LatencyModel, ModelByBatchSize
from oracle.latency.tables import FitByBatchSize
from oracle.rounds import Rounds

pytestmark = pytest.mark.filterwarnings("ignore::oracle.errors.InputWarning")

BLOCKS = """
{"format": "draft-oracle/latency-model", "version": 1,
 "verify": [
   {"batch_size": 1, "m": [1, 2], "beta0_ms": [5, 6], "alpha_ms_per_expert": [0.1, 0.1], "context_ms_per_token": 0.001},
   {"batch_size": 8, "m": [2], "beta0_ms": [9], "alpha_ms_per_expert": [0.3], "context_ms_per_token": [0.002],
    "draft": {"k": [1], "ms": [2.5]}, "reject_ms": 0.5}],
 "draft": {"ms_per_token": 0.4, "base_ms": 0.1}}
"""


def faults_of(tree):
    with pytest.raises(InputError) as fault:
        LatencyModel.from_json(json.dumps(tree), "model.json")
    return list(fault.value.faults)


def said_by(call, *arguments):
    with pytest.raises(InputError) as fault:
        call(*arguments)
    return str(fault.value)


def test_a_file_of_several_batch_sizes_gives_a_model_for_each():
    model = LatencyModel.from_json(BLOCKS, "model.json")
    assert isinstance(model, ModelByBatchSize)
    assert model.batch_sizes == (1, 8)
    one, eight = model.blocks
    assert model.at_batch_size(1) is one
    assert (one.m, one.draft, one.reject_ms, one.batch_size) == ((1, 2), DraftLine(0.4, 0.1), 0.0, 1)
    assert (eight.coefficients(2), eight.draft, eight.reject_ms) == ((9.0, 0.3, 0.002), DraftTable((1,), (2.5,)), 0.5)
    assert length_costs(eight, 0, 1).allowed.tolist() == [False, True]


def test_another_batch_size_is_never_made_up():
    model = LatencyModel.from_json(BLOCKS)
    assert said_by(model.at_batch_size, 4) == (
        "the latency model has no batch size 4; measured: 1, 8; record rounds at batch size 4 and fit again, or take a "
        "measured one (nothing is interpolated)"
    )
    hand_typed = replace(model.at_batch_size(1), batch_size=None)
    assert hand_typed.at_batch_size(None) is hand_typed
    assert said_by(hand_typed.at_batch_size, 8) == (
        "the latency model says no batch size, so there is none to pick for --batch-size 8; leave the option out, or "
        "fit rounds that have a column batch_size"
    )


def test_several_batch_sizes_price_nothing_until_one_is_picked():
    model = LatencyModel.from_json(BLOCKS)
    said = (
        "the latency model holds several batch sizes (1, 8) and each has its own costs; say which one with --batch-size"
    )
    for name in ("m", "beta0_ms", "alpha_ms_per_expert", "context_ms_per_token", "draft", "reject_ms", "batch_size"):
        assert said_by(getattr, model, name) == said
    assert said_by(model.at_batch_size, None) == said
    assert said_by(model.draft_ms, 1) == said
    assert said_by(length_costs, model, 0, 1) == said
    with pytest.raises(AttributeError):
        model.m = (1,)


def test_one_block_in_a_list_is_a_model_with_a_batch_size():
    tree = json.loads(BLOCKS)
    tree["verify"] = tree["verify"][1:]
    del tree["draft"]
    model = LatencyModel.from_json(json.dumps(tree))
    assert (model.m, model.batch_sizes, model.blocks) == ((2,), (8,), (model,))
    assert model.at_batch_size(8) is model.at_batch_size(None) is model
    assert LatencyModel.from_json(model.to_json()) == model


def test_what_is_written_reads_back_the_same(tmp_path):
    model = LatencyModel.from_json(BLOCKS)
    model = ModelByBatchSize(model.blocks, {"by_batch_size": {"1": {"rounds": 3}}, "note": "x"})
    model.save(tmp_path / "model.json")
    read = LatencyModel.load(tmp_path / "model.json")
    assert (read, hash(read)) == (model, hash(model))
    assert read.to_json() == model.to_json()
    assert (read.at_batch_size(1).fit, read.at_batch_size(8).fit) == ({"rounds": 3}, None)
    assert '"batch_size": 8,\n      "m": [2],' in read.to_json()
    assert "ModelByBatchSize((LatencyModel(m=(1, 2)" in repr(read)
    tree = json.loads(
        ModelByBatchSize([replace(b, draft=DraftLine(1, 0), reject_ms=0) for b in model.blocks]).to_json()
    )
    assert tree["draft"] == {"ms_per_token": 1, "base_ms": 0}
    assert [set(block) & {"draft", "reject_ms"} for block in tree["verify"]] == [set(), set()]


def test_all_faults_of_the_blocks_are_said_at_once():
    tree = json.loads(BLOCKS)
    first, second = tree["verify"]
    del tree["draft"], first["batch_size"]
    first |= {"m": [2, 1], "gamma": 1, "reject_ms": -1}
    second |= {"batch_size": 0.5, "draft": "fast", "beta0_ms": [9, 9]}
    assert faults_of(tree) == [
        "model.json: verify[0].gamma is not a key of a latency model; known here: batch_size, m, beta0_ms, "
        "alpha_ms_per_expert, context_ms_per_token, draft, reject_ms",
        "model.json: verify[0].batch_size is missing; add it",
        "model.json: verify[0].m[1] is 1 after 2; values rise strictly",
        "model.json: verify[0].draft is missing, and so is a draft for all batch sizes; add one of them",
        "model.json: verify[0].reject_ms is -1; it is at least 0",
        "model.json: verify[1].beta0_ms has 2 values and verify[1].m has 1; they go together one by one",
        "model.json: verify[1].draft is text; it is an object",
        "model.json: verify[0].batch_size is 0.5; it is a whole number",
    ]


def test_each_fault_of_the_list_in_words():
    tree = json.loads(BLOCKS)
    assert faults_of(tree | {"verify": []}) == [
        "model.json: verify is an empty list; give one block for each batch size"
    ]
    assert faults_of(tree | {"verify": [*tree["verify"], 3]}) == ["model.json: verify[2] is a number; it is an object"]
    same = [tree["verify"][1], tree["verify"][1]]
    assert faults_of(tree | {"verify": same}) == [
        "model.json: verify[1].batch_size is 8 after 8; batch sizes rise strictly"
    ]
    below = {"ms_per_token": -0.5, "base_ms": 0.1}
    assert faults_of(tree | {"draft": below})[0].startswith("model.json: draft.ms_per_token and base_ms give -0.4 ms")
    single = tree | {"verify": tree["verify"][0]}
    assert faults_of(single)[0] == (
        "model.json: verify.batch_size is not a key of a latency model; known here: m, beta0_ms, alpha_ms_per_expert, "
        "context_ms_per_token"
    )
    block = LatencyModel.from_json(BLOCKS).at_batch_size(1)
    assert said_by(ModelByBatchSize, [block]) == (
        "latency model: 1 batch sizes; a model by batch size holds at least two"
    )


@pytest.fixture(scope="module")
def three_sizes():
    """Rounds at batch sizes 1, 4 and 16 of the same questions; m = 4 at batch size 4 only."""
    parts = []
    for i, (size, ks) in enumerate(((1, (1, 2)), (4, (1, 2, 3)), (16, (1, 2)))):
        frame = simulated(rounds_per_k=150, questions=20, seed=i, ks=ks).assign(batch_size=size)
        frame["target_ms"] += 0.2 * size
        frame["draft_ms"] *= 1 + size / 16
        parts.append(frame)
    frame = pd.concat(parts).sample(frac=1, random_state=0)
    return frame, fit_latency([Rounds.from_pandas(frame.iloc[i : i + 400]) for i in range(0, len(frame), 400)])


def test_each_batch_size_is_fitted_as_if_it_were_alone(three_sizes):
    frame, result = three_sizes
    assert isinstance(result, FitByBatchSize)
    assert result.model.batch_sizes == (1, 4, 16)
    assert [block.m for block in result.model.blocks] == [(2, 3), (2, 3, 4), (2, 3)]
    for each in result.each:
        rows = frame[frame["batch_size"] == each.batch_size]
        alone = fit_latency(Rounds.from_pandas(rows.drop(columns="batch_size")))
        assert each.counts == alone.counts
        for ours, theirs in ((each.joint, alone.joint), (each.separate, alone.separate)):
            errors = [e.error_cr3 for e in theirs.estimates.each]
            assert close([e.value for e in ours.estimates.each], [e.value for e in theirs.estimates.each], errors)
            assert close([e.error_cr3 for e in ours.estimates.each], errors)
            assert close(ours.held_out[0].medape_percent.by_fold, theirs.held_out[0].medape_percent.by_fold)
        assert close(each.draft.line["ms_per_token"].value, alone.draft.line["ms_per_token"].value)
    assert result.counts.rows == len(frame)
    assert result.counts.clusters == frame["cluster"].nunique()
    assert result.counts.generations == frame["generation"].nunique()


def test_the_model_file_keeps_the_record_of_each_batch_size(three_sizes, tmp_path):
    _, result = three_sizes
    result.model.save(tmp_path / "model.json")
    read = LatencyModel.load(tmp_path / "model.json")
    assert read == result.model
    assert read.at_batch_size(4) == result.each[1].model
    assert read.at_batch_size(4).fit["per_m"][2]["m"] == 4
    assert said_by(getattr, result, "joint") == (
        "the rounds hold several batch sizes (1, 4, 16), and each has its own tables: take one of `each`"
    )
    assert result.each[0].each == (result.each[0],)


def test_a_single_batch_size_that_is_recorded_is_kept(three_sizes):
    frame, _ = three_sizes
    result = fit_latency(Rounds.from_pandas(frame[frame["batch_size"] == 4]))
    assert (result.batch_size, result.model.batch_sizes, result.model.m) == (4, (4,), (2, 3, 4))
    assert fit_latency(Rounds.from_pandas(frame.drop(columns="batch_size"))).model.batch_sizes == ()


def test_warnings_and_faults_name_their_batch_size(three_sizes):
    frame, _ = three_sizes
    frame = frame.assign(draft_ms=frame["draft_ms"].where(frame["batch_size"] != 16, 0.0))
    assert said_by(fit_latency, Rounds.from_pandas(frame)).startswith(
        "batch size 16: draft_ms is not positive in any round with draft length 1 or more"
    )
    few = frame[(frame["batch_size"] == 1) | (frame["cluster"].isin(["q001", "q002", "q003"]))]
    few = few.assign(draft_ms=1.0, target_ms=few["target_ms"].where(few["batch_size"] != 16, 0.0))
    assert said_by(fit_latency, Rounds.from_pandas(few)).startswith("batch size 16: rounds: target_ms is 0 or less")
    said = fit_latency(Rounds.from_pandas(few[few["batch_size"] < 16])).warnings
    assert "batch size 4: 3 clusters: held-out metrics use 3 folds, not 5" in said


def test_batch_sizes_that_cannot_be_used(three_sizes):
    frame, _ = three_sizes
    odd = frame.assign(batch_size=np.where(np.arange(len(frame)) < 3, np.nan, 2.5))
    assert said_by(fit_latency, Rounds.from_pandas(odd, "rounds.parquet")) == (
        "1. rounds.parquet: 3 verification rounds have no batch_size; give every round one, or leave the column out\n"
        "2. rounds.parquet: batch_size is 2.5 in a verification round; it is a whole number of requests, at least 1"
    )
    mixed = [Rounds.from_pandas(frame), Rounds.from_pandas(frame.drop(columns="batch_size"))]
    assert said_by(fit_latency, mixed) == (
        "rounds: some batches have a column batch_size and others have not; give every round one, or fit them apart"
    )


def test_prefill_rows_are_counted_at_their_batch_size(three_sizes):
    frame, _ = three_sizes
    extra = frame.iloc[:5].assign(phase="prefill", batch_size=[4, 4, 16, 99, None])
    whole = pd.concat([frame.assign(phase="decode"), extra])
    result = fit_latency(Rounds.from_pandas(whole))
    assert [each.counts.prefill for each in result.each] == [2, 2, 1]
    assert (result.counts.prefill, result.counts.rows) == (5, len(whole))


def test_reject_time_has_clustered_errors_and_a_row_for_each_k():
    frame = simulated(rounds_per_k=80, questions=15, ks=(1, 2, 3))
    rng = np.random.default_rng(0)
    frame["reject_ms"] = 0.3 + rng.normal(0, 0.02, len(frame))
    frame.loc[frame.index[:7], "reject_ms"] = np.nan
    result = fit_latency(Rounds.from_pandas(frame))
    used = frame.dropna(subset=["reject_ms"])
    theirs = sm.OLS(used["reject_ms"], np.ones(len(used))).fit(
        cov_type="cluster", cov_kwds={"groups": pd.factorize(used["cluster"])[0]}
    )
    assert close(result.reject.mean_ms.value, theirs.params.iloc[0])
    assert close(result.reject.mean_ms.error_cr1, theirs.bse.iloc[0])
    assert close([row.mean_ms.value for row in result.reject.rows], used.groupby("draft_length")["reject_ms"].mean())
    assert [row.k for row in result.reject.rows] == [1, 2, 3]
    assert (result.reject.differs_at, result.reject.remarks) == ((), ())
    assert result.model.fit["reject"]["table"][2]["rounds"] == result.reject.rows[2].rounds


def test_reject_time_that_grows_with_k_is_said():
    frame = simulated(rounds_per_k=80, questions=15, ks=(1, 2, 3))
    frame["reject_ms"] = 0.1 * frame["draft_length"] + np.random.default_rng(0).normal(0, 0.02, len(frame))
    result = fit_latency(Rounds.from_pandas(frame))
    assert result.reject.differs_at == (1, 3)
    said = [
        w for w in result.warnings if w.startswith("reject_ms varies with draft length by more than its error: 0.1")
    ]
    assert said[0].endswith(f"the model carries the mean over all rounds, {result.model.reject_ms:.4g} ms")
    assert fit_latency(Rounds.from_pandas(frame), reject_ms=0.2).model.reject_ms == 0.2
    assert fit_latency(Rounds.from_pandas(frame.drop(columns="reject_ms"))).reject is None
    sparse = frame.assign(reject_ms=frame["reject_ms"].where(np.arange(len(frame)) == 0))
    assert fit_latency(Rounds.from_pandas(sparse)).reject.rows == ()
