"""Realised scores as they are shown: by decoding, beside held-out policies, bounds told apart, and in pictures."""

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from policy_inputs import random_inputs, with_columns
from test_condition import well_formed
from test_realised import tiny_realised
from traces_factory import lists

from oracle import scores
from oracle.figures.pareto import pareto_by, pareto_view
from oracle.figures.policies import calibration_curve
from oracle.policies import lengths_of
from oracle.realised.calibration import calibrate
from oracle.realised.problem import with_clairvoyant
from oracle.realised.scores import near_fastest, realised_scores, undominated
from oracle.summaries.realised import by_decoding, realised_rows

pytestmark = pytest.mark.filterwarnings("ignore::oracle.errors.InputWarning")


def test_pareto_view_leaves_bounds_out() -> None:
    online = (False, True, True, True, False, True)
    ms, wasted = np.array([1.0, 2, 3, 3, 1, 2]), np.array([0.0, 2, 1, 2, 0, 2])
    assert undominated(online, ms, wasted) == [None, True, True, False, None, True]  # equals do not beat each other


def test_what_is_far_from_the_fastest_is_named_and_nothing_is_lost() -> None:
    scored = realised_scores(tiny_realised().totals)
    near, rest = near_fastest(scored)
    fastest = min(s.ms_per_token for s in scored if s.policy.startswith("static:"))
    assert [s.policy for s in rest] == [s.policy for s in scored if s.ms_per_token > 1.5 * fastest] != []
    assert sorted(s.policy for s in (*near, *rest)) == sorted(s.policy for s in scored)
    bounds = [s for s in scored if s.undominated is None]
    assert near_fastest(bounds) == (bounds, [])


def test_what_no_engine_is_known_to_run_is_told_by_the_policies_themselves() -> None:
    inputs = random_inputs(2, (9, 7))
    names = ("oracle@max=3", "goodput!", "slope!:2.0@max=3", "blind", "goodput", "static:0", "confidence:0.6@max=2")
    lengths = pa.array(np.zeros(16, np.int16))
    laid = lengths_of([*names, "column:mine"], with_columns(inputs, mine=lists((9, 7), lengths)))
    assert laid.bounds == {*names[:4], "column:mine"}
    actual = with_clairvoyant(inputs.problem, inputs.costs, laid)
    assert actual.bounds == {*laid.bounds, "clairvoyant"}
    totals = scores.total(inputs.problem, inputs.costs, actual, ("a", "b"), ("a", "b"))
    assert {s.policy for s in realised_scores(totals) if s.undominated is None} == actual.bounds


def test_held_out_policies_stand_beside_the_others() -> None:
    whole = tiny_realised()
    other = dataclasses.replace(whole.totals, policies=tuple(f"{name}'" for name in whole.totals.policies))
    both = whole.with_held_out(other, dataclasses.replace(whole.expected, policies=other.policies[:-1]))
    assert both.totals.policies == (*whole.totals.policies, *other.policies)
    assert both.held_out == frozenset(other.policies)
    assert np.array_equal(both.totals.sums[:, -len(other.policies) :], other.sums)
    assert whole.with_held_out(whole.totals, whole.expected).totals.policies == whole.totals.policies
    rows = {(r["decoding"], r["policy"]): r for r in realised_rows(both)}
    assert rows["greedy", "static:1'"]["held_out"]
    assert not rows["greedy", "static:1"]["held_out"]
    assert [p for d, p in rows if d == "greedy"][-1] == "clairvoyant"


def test_rows_are_those_of_one_decoding_and_speed_ups_are_over_its_own_off() -> None:
    whole = tiny_realised()
    greedy = [g for g, name in enumerate(whole.decoding) if name == "greedy"]
    ms = {p: whole.totals.total_ms[greedy, i].sum() for i, p in enumerate(whole.totals.policies)}
    for row in realised_rows(whole):
        if row["decoding"] == "greedy":
            assert row["ms_per_token"] == pytest.approx(ms[row["policy"]] / whole.totals.tokens[greedy].sum())
            assert row["speedup"] == pytest.approx(ms["static:0"] / ms[row["policy"]])
            gain = (ms["static:0"] - ms[row["policy"]]) / (ms["static:0"] - ms["oracle"])
            assert row["gain_captured"] == pytest.approx(gain, abs=1e-12)
        else:  # the oracle gains nothing there that could be told from chance
            assert row["gain_captured"] is None


def test_pictures_of_realised_scores(tmp_path: Path) -> None:
    realised = tiny_realised()
    text = well_formed(pareto_view(realised_scores(realised.totals), tmp_path / "p.svg"))
    assert "expected, held out" in text
    assert "clairvoyant" in text
    assert "undominated" in text
    outside = text.split("outside, more than 1.5 times as slow as the fastest that an engine can run:")[1]
    for k in range(11):
        assert (f"static:{k} (" in outside) == (k > 2), k
    both = {name: realised_scores(part) for name, part in by_decoding(realised).items()}
    text = well_formed(pareto_by(both, tmp_path / "d.svg"))
    assert text.count("clairvoyant") == 2
    assert "greedy" in text
    text = well_formed(calibration_curve(calibrate(realised.calibration), tmp_path / "c.svg"))
    assert "greedy" in text
    assert "sample" in text
