"""What reading the context of a further request takes, told by several measured batch sizes."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from test_cli import succeeded

from oracle.crossover.answer import crossover
from oracle.crossover.context_growth import ContextGrowth, context_growth
from oracle.crossover.costs import Scaling, draft_request
from oracle.crossover.readings import readings
from oracle.crossover.traffic import by_formula, equal_match_lengths
from oracle.latency.fit import fit_latency
from oracle.latency.model import DraftLine, LatencyModel, ModelByBatchSize
from oracle.rounds import Rounds

pytestmark = pytest.mark.filterwarnings("ignore::oracle.errors.InputWarning")

TRUTH = 2e-4  # ms a token of context and further request
SIZES = (1, 4, 16)


def simulated(seed, sizes=SIZES, rounds=150):
    """Rounds of several batch sizes in which each further request reads its own context."""
    rng = np.random.default_rng(seed)
    frames = []
    for B in sizes:
        for k in (0, 1, 2):
            question = np.sort(rng.integers(0, 30, rounds))
            L = rng.integers(200, 3000, rounds)
            U = np.round((4 + 3 * k) * np.sqrt(B) * (1 + rng.normal(0, 0.1, rounds)) * 16) / 16
            target = 5 + 0.5 * k + 0.2 * U + (1e-3 + TRUTH * (B - 1)) * L + rng.normal(0, 0.15, rounds)
            frames.append(
                pd.DataFrame(
                    {
                        "generation": [f"g{B}-{k}-{q}" for q in question],
                        "cluster": [f"q{q}" for q in question],
                        "draft_length": k,
                        "target_ms": target,
                        "draft_ms": 0.4 * k,
                        "unique_experts": U,
                        "context_len": L,
                        "batch_size": B,
                    }
                )
            )
    return pd.concat(frames, ignore_index=True)


def typed(*context):
    """A model typed by hand, without errors: c by batch size 1, 4, 16 …"""

    def block(size, c):
        return LatencyModel((1, 2), (5.0 + size, 6.0 + size), (0.1, 0.1), c, DraftLine(0.4, 0.1), batch_size=size)

    return ModelByBatchSize([block(4**i, c) for i, c in enumerate(context)])


def test_the_interval_of_fitted_rounds_holds_the_truth():
    found = [context_growth(fit_latency(Rounds.from_pandas(simulated(seed))).model, 1) for seed in range(10)]
    assert sum(each.interval.low <= TRUTH <= each.interval.high for each in found) >= 9
    assert all(each.interval.high - each.interval.low < TRUTH / 20 for each in found)
    assert np.mean([each.slope_ms for each in found]) == pytest.approx(TRUTH, rel=0.003)


def test_the_slope_weighs_by_the_errors_of_the_fit():
    fitted = fit_latency(Rounds.from_pandas(simulated(3))).model
    found = context_growth(fitted, 2)
    c, errors = [], []
    for block in fitted.blocks:
        record = block.fit["coefficients"]
        at = record["names"].index("context_ms_per_token")
        c.append(record["values"][at])
        errors.append(record["error_cr3"][at])
    line = sm.WLS(c, sm.add_constant(SIZES), weights=np.power(errors, -2.0)).fit()
    assert found.slope_ms == pytest.approx(line.params[1], rel=1e-9)
    spread = np.sqrt(np.linalg.inv(line.model.wexog.T @ line.model.wexog)[1, 1])
    clusters = min(block.fit["clusters"] for block in fitted.blocks)
    assert found.interval.high - found.slope_ms == pytest.approx(spread * 2.045, rel=0.01)  # t of 29 degrees of freedom
    assert clusters == 30


def test_without_errors_three_batch_sizes_give_an_interval_and_two_give_none():
    context = (0.001, 0.0017, 0.0039)
    found = context_growth(typed(*context), 1)
    line = sm.OLS(context, sm.add_constant(SIZES)).fit()
    assert found.slope_ms == pytest.approx(line.params[1], rel=1e-9)
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(line.conf_int()[1]), rel=1e-9)
    two = context_growth(typed(*context[:2]), 0)
    assert two == ContextGrowth(pytest.approx(0.0007 / 3), None, (1, 4), context[:2])
    assert context_growth(typed(*context).blocks[0], 1) is None


def test_where_m_is_measured_at_one_batch_size_only():
    one, four = typed(0.001, 0.002).blocks
    shared = ModelByBatchSize(
        [one, replace(four, m=(2,), beta0_ms=(9.0,), alpha_ms_per_expert=(0.1,), context_ms_per_token=0.004)]
    )
    assert context_growth(shared, 0).slope_ms == pytest.approx(0.001)  # the block's one c
    own = ModelByBatchSize(
        [replace(one, context_ms_per_token=(0.001, 0.001)), replace(four, context_ms_per_token=(0.002, 0.003))]
    )
    assert [context_growth(own, k).slope_ms for k in (0, 1)] == pytest.approx([0.001 / 3, 0.002 / 3])
    assert context_growth(own, 2) is None


def test_beyond_the_largest_measured_batch_size_context_grows_on():
    traffic = by_formula(equal_match_lengths(0.8, 1), 1000.0, num_experts=32, top_k=2, most=24)
    model = typed(0.001, 0.0016, 0.004)
    found = crossover(traffic, model, [1])
    assert found.costs.context_ms[23] == pytest.approx([0.004 + 8 * TRUTH] * 2)
    assert found.costs.growth_ms[1] == pytest.approx([TRUTH] * 2)
    assert found.extrapolated.tolist() == [False] * 16 + [True] * 8
    stated = crossover(traffic, model, [1], scaling=Scaling(kv_read_ms=0.0))
    assert stated.costs.context_ms[23] == pytest.approx([0.004] * 2)
    assert np.array_equal(stated.round_ms[:16], found.round_ms[:16])  # what was measured stays


def test_reading_takes_no_negative_time():
    found = context_growth(typed(0.004, 0.002), 1)
    assert found.slope_ms < 0
    assert found.ms == 0.0
    said = asked(typed(0.004, 0.002).to_json())
    assert "a token of context of a further request takes nothing: c falls over the batch sizes measured (1, 4)" in said


def asked(model, *more):
    by_formula = ("--match-prob", "0.8", "--context-len", "1000", "--num-experts", "32", "--top-k", "2")
    return succeeded("crossover", "-m", "-", *by_formula, "--max-batch-size", "24", *more, stdin=model)


def test_what_a_user_reads(tmp_path):
    said = asked(typed(0.001, 0.0016).to_json())
    assert (
        "takes 0.0002 ms, the slope of c over the batch sizes measured (1, 4), no interval: the model file keeps no "
        "errors"
    ) in said
    fitted = fit_latency(Rounds.from_pandas(simulated(0))).model.to_json()
    said = asked(fitted)
    assert "takes 0.000199 ms [0.000198; 0.000201], the slope of c over the batch sizes measured (1, 4, 16);" in said
    assert (
        "whether a token of context of a further request takes 0 ms or as much as for the first request: exit" in said
    )
    stated = asked(fitted, "--kv-read-ms", "0.0003")
    assert "a token of context of a further request takes 0.0003 ms;" in stated
    assert "end of what the measured" not in stated
    table = json.loads(asked(fitted, "--json"))["tables"]["crossover"]
    assert table["rows"][-1]["extrapolated"] > 0


def test_the_ends_of_its_interval_are_answered():
    model = fit_latency(Rounds.from_pandas(simulated(0))).model
    traffic = by_formula(equal_match_lengths(0.8, 2), 1000.0, num_experts=32, top_k=2, most=24)
    again = [each for each in readings(crossover(traffic, model, [1, 2]), model) if each.price == "context"]
    assert [(each.takes, each.end) for each in again] == [
        ("0 ms", False),
        ("0.000198 ms (lower end of what the measured batch sizes tell)", True),
        ("0.000201 ms (upper end of what the measured batch sizes tell)", True),
        ("as much as for the first request", False),
    ]
    told = context_growth(model, 1).interval
    growths = [each.answer.costs.growth_ms[1, 1] for each in again[1:3]]
    assert growths == [told.low, told.high]


def drafted(*times):
    """A model by batch size 1, 4, 16 … whose drafts of one token take these times."""
    blocks = typed(*(0.001 for _ in times)).blocks
    return ModelByBatchSize([replace(block, draft=DraftLine(ms, 0.0)) for block, ms in zip(blocks, times, strict=True)])


def test_drafting_for_further_requests_grows_as_the_two_largest_batch_sizes_tell():
    traffic = by_formula(equal_match_lengths(0.8, 1), 1000.0, num_experts=32, top_k=2, most=24)
    model = drafted(0.4, 0.5, 1.1)
    found = crossover(traffic, model, [1])
    assert found.costs.draft_ms[[0, 3, 15, 23], 1] == pytest.approx([0.4, 0.5, 1.1, 1.1 + 8 * 0.05])
    assert draft_request(model, 1, Scaling()) == pytest.approx(0.05)
    assert crossover(traffic, model, [1], scaling=Scaling(draft_request_ms=0.0)).costs.draft_ms[23, 1] == 1.1
    assert draft_request(drafted(0.4, 0.3), 1, Scaling()) == 0.0  # no negative time
    assert draft_request(model.blocks[0], 1, Scaling()) == 0.0
    most = found.draft_request_most_ms[23]
    flips = [
        crossover(traffic, model, [1], scaling=Scaling(draft_request_ms=most * factor)).speed_up[23, 1]
        for factor in (1 - 1e-6, 1 + 1e-6)
    ]
    assert flips[0] > 1 > flips[1]
    assert "drafting takes 0.05 ms a token for each further request (the two largest batch sizes measured) more" in (
        asked(model.to_json())
    )
    assert "drafting takes no longer for more requests, as far as was measured" in asked(drafted(0.4, 0.4).to_json())


def test_a_schedule_does_not_speak_of_batch_sizes_that_were_not_looked_at():
    said = asked(typed(0.001, 0.0016).to_json(), "--engine", "vllm", "--method", "mtp")
    assert "the schedule sets K = 1 from 1 on (nothing beyond 24 was looked at)" in said
    assert "# no batch size beyond 24 was looked at: the last draft length goes on there" in said
