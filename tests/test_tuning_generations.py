"""Scores by generation: realised ones against a simulation round by round, nulls, and sums that give the scores."""

from dataclasses import replace
from typing import Any

import naive
import numpy as np
import pytest
from numpy.typing import NDArray
from policy_inputs import K, random_inputs, with_columns
from traces_factory import lists

from oracle.costs import LengthCosts
from oracle.policies import Inputs, Training, inputs_of, lengths_of
from oracle.summaries.generations import generation_rows
from oracle.traces import Traces
from oracle.tuning import HeldOut, HeldOutBatch, hold_out, learn, scored

SIZES = (40, 25, 31, 18, 52, 0, 9, 37)
FAMILIES = ("static", "budget", "confidence", "survival!", "goodput")


def held_out(inputs: Inputs, families: tuple[str, ...], **more: Any) -> tuple[HeldOut, HeldOutBatch]:
    """Sums, and the one batch by generation."""
    batches: list[HeldOutBatch] = []
    found = hold_out([inputs], families, folds=3, points=9, on_batch=batches.append, **more)
    [batch] = batches
    return found, batch


def with_matches(inputs: Inputs, seed: int) -> Inputs:
    """The same batch with certain matches: what was realised."""
    matches = np.random.default_rng(seed).integers(0, 2, sum(SIZES)).astype(np.float32)
    return with_columns(inputs, match_prob=lists(SIZES, matches))


def naive_costs(costs: LengthCosts) -> naive.Costs:
    arrays = (costs.verify_ms, costs.draft_ms, costs.reject_ms, costs.alpha_ms, costs.context_ms)
    return naive.Costs(*(a.tolist() for a in arrays), list(costs.lengths))


def learn_without(inputs: Inputs, fold: NDArray[np.int64], f: int) -> Training:
    """Constants from the generations outside a fold, as traces of their own."""
    kept = inputs.traces.table.take(np.flatnonzero(fold != f))
    return learn([inputs_of(Traces.from_arrow(kept), inputs.costs)])


def test_sums_over_generations_give_the_scores() -> None:
    inputs = random_inputs(21, SIZES)
    held, batch = held_out(inputs, FAMILIES)
    table = generation_rows(batch)
    assert table.num_rows == len(SIZES) * len(FAMILIES)
    rows = table.to_pandas()
    assert rows["generation"].tolist() == np.repeat(inputs.traces.generation, len(FAMILIES)).tolist()
    assert rows["cluster"].tolist() == np.repeat(inputs.traces.cluster_of, len(FAMILIES)).tolist()
    tuning = scored(held)
    for one in tuning.families:
        of = rows[rows["family"] == one.family]
        assert of["tokens"].tolist() == list(SIZES)
        assert of["ms"].sum() / sum(SIZES) == pytest.approx(one.ms_per_token, rel=1e-12)
        assert (of["ms"] - of["oracle_ms"]).sum() / sum(SIZES) == pytest.approx(one.regret_ms_per_token, abs=1e-12)
        assert of["static0_ms"].sum() / sum(SIZES) == pytest.approx(tuning.without_ms_per_token, rel=1e-12)
        assert [one.chosen[f] for f in of["fold"]] == of["policy"].tolist()
    split = rows[["verify_ms", "expert_ms", "context_ms", "draft_ms", "reject_ms"]].sum(axis=1)
    np.testing.assert_allclose(split, rows["ms"], rtol=1e-12)
    assert (rows["drafted"] - rows["accepted"]).tolist() == rows["wasted"].tolist()
    assert all(table[name].null_count == table.num_rows for name in table.column_names if name.startswith("realised_"))


def test_realised_scores_are_those_of_simulated_rounds() -> None:
    """The lengths that the fold's policy chooses on the expected traces, walked through the matches."""
    inputs = random_inputs(22, SIZES)
    actual = with_matches(inputs, 5)
    _, held = held_out(inputs, FAMILIES, realised=lambda _: actual.problem)
    rows = generation_rows(held).to_pandas().set_index(["family", "generation"])
    _, without = held_out(inputs, FAMILIES)
    assert (without.expected.sums == held.expected.sums).all(), "matches change no choice and no expectation"
    assert actual.traces.match_prob is not None
    for g, f in enumerate(held.fold.tolist()):
        training = learn_without(inputs, held.fold, f)
        first, end = inputs.traces.offsets[g : g + 2]
        table = naive.by_depth(actual.traces.match_prob[first:end].tolist(), K)
        one = naive.Generation(table, inputs.problem.unique_experts[first:end].tolist(), 10 + g)
        for family in held.families:
            laid = lengths_of([family.chosen[f]], replace(inputs, training=training))
            k = laid.draft_length[first:end, 0].tolist()
            totals, rounds = naive.simulate(one, naive_costs(inputs.costs), k)
            row = rows.loc[(family.name, inputs.traces.generation[g])]
            looked = 0 if laid.drafted is None else sum(int(laid.drafted[first + t, 0]) - k[t] for t, _, _ in rounds)
            assert row["realised_rounds"] == len(rounds)
            assert row["realised_accepted"] == totals.accepted
            assert row["realised_drafted"] == totals.drafted + looked
            assert row["realised_wasted"] == totals.drafted + looked - totals.accepted
            price = inputs.costs.draft_ms
            steps = laid.draft_length if laid.drafted is None else laid.drafted
            extra = sum(price[steps[first + t, 0]] - price[k[t]] for t, _, _ in rounds)
            assert row["realised_ms"] == pytest.approx(totals.total_ms + extra, rel=1e-12)


def test_what_is_not_known_is_null() -> None:
    inputs = random_inputs(23, SIZES, (1, 2, 3, 4, 5))
    table = generation_rows(held_out(inputs, ("static",))[1])
    assert table["static0_ms"].null_count == len(SIZES)
    assert table["category"].to_pylist() == list(inputs.traces.category or ())
    assert table["oracle_ms"].null_count == 0
