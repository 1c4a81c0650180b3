"""Which policy to deploy: the rule against made-up scores, its sentences, and the real traces."""

from dataclasses import replace

import numpy as np
import pytest
from policy_inputs import K, random_inputs
from test_realised import tiny_realised
from test_tuning import SIZES, TINY, eager  # noqa: F401  # a fixture

from oracle.intervals import Interval
from oracle.policies import Inputs
from oracle.summaries.deployment import deployment_sentence, deployment_table, greedy_difference
from oracle.summaries.tuning import tuning_table
from oracle.tuning import Compared, Tuned, Tuning, deployment, hold_out, scored, tune


def difference(low: float, high: float) -> Compared:
    return Compared((low + high) / 2, Interval(low, high), 20)


FASTER, SLOWER, UNSURE = difference(-0.4, -0.2), difference(0.2, 0.4), difference(-0.3, 0.1)


def one(family: str, policy: str, ms: float, static: Compared, off: Compared | None, *, online: bool = True) -> Tuned:
    interval = Interval(ms - 0.1, ms + 0.1)
    return Tuned(family, online, False, (policy,), policy, ms, interval, ms, 0.1, None, 0.46, Interval(0.4, 0.5),
                 static, off, ())  # fmt: skip


def found(*families: Tuned, off: float | None = 4.0, clusters: int = 20) -> Tuning:
    return Tuning(families, 3.0, off, 5, clusters, 1000, None)


SAME = Compared(0.0, Interval(0.0, 0.0), 20)


def test_a_policy_takes_the_place_of_a_static_length_only_if_it_is_significantly_faster() -> None:
    fixed = one("static", "static:3", 3.6, SAME, FASTER)
    for against, setting in ((FASTER, "confidence:0.4@keep"), (UNSURE, "static:3"), (SLOWER, "static:3")):
        adaptive = one("confidence@keep", "confidence:0.4@keep", 3.5, against, FASTER)
        answer = deployment(found(fixed, adaptive))
        assert answer.setting == setting
        assert answer.against == ("static" if against is FASTER else "static:0")
        assert (answer.runner_up is None) == (against is FASTER)
    adaptive = one("confidence@keep", "confidence:0.4@keep", 3.5, FASTER, FASTER)
    assert deployment_sentence(found(fixed, adaptive)) == (
        "deploy confidence:0.4@keep (taken by transformers; on vLLM, SGLang, TensorRT-LLM, llama.cpp, MLX, which take "
        "static lengths: static:3): -0.300 ms/token [-0.400; -0.200] against the best static length, static:3; "
        "captures 46.0 % [40.0; 50.0] of the oracle's gain"
    )
    assert deployment(found(fixed, replace(adaptive, online=False))).setting == "static:3", "no engine can run it"
    few = Compared(-0.3, Interval(-0.4, -0.2), 9)
    nine = found(replace(fixed, against_off=few), replace(adaptive, against_static=few, against_off=few), clusters=9)
    assert deployment(nine).off, "nine clusters carry no verdict, against off neither"
    assert deployment_sentence(found(fixed, replace(adaptive, against_static=UNSURE))) == (
        "deploy static:3: -0.300 ms/token [-0.400; -0.200] against k = 0; captures 46.0 % [40.0; 50.0] of the oracle's "
        "gain; nothing else that an engine can run is significantly faster; the fastest of the others, "
        "confidence@keep: -0.100 ms/token [-0.300; +0.100]"
    )


def test_off_wins_unless_something_is_significantly_faster() -> None:
    fixed = one("static", "static:1", 3.9, SAME, UNSURE)
    answer = deployment(found(fixed))
    assert answer.off
    assert deployment_sentence(found(fixed)) == (
        "deploy static:0, drafting off: nothing that an engine can run is significantly faster; static:1: "
        "-0.100 ms/token [-0.300; +0.100]"
    )
    adaptive = one("slope", "slope:2.0", 3.7, UNSURE, FASTER)
    answer = deployment(found(fixed, adaptive))
    assert (answer.setting, answer.static_setting, answer.against) == ("slope:2.0", "static:0", "static:0")
    assert deployment_sentence(found(fixed, adaptive)).startswith(
        "deploy slope:2.0 (no engine takes it as it stands; on vLLM, SGLang, TensorRT-LLM, llama.cpp, transformers, "
        "MLX, which take static lengths: static:0, off): -0.300 ms/token"
    )
    assert "against k = 0, -0.100 ms/token [-0.300; +0.100] against the best static length, static:1; captures" in (
        deployment_sentence(found(fixed, adaptive))
    )
    slow = one("slope", "slope:2.0", 4.2, SLOWER, SLOWER)
    table = deployment_table(found(replace(fixed, chosen_on_all="static:0", against_off=SAME), slow))
    assert [(row["policy"], row["deploy"]) for row in table.rows] == [
        ("static:0 (off), the best static length", True),
        ("slope:2.0", False),
    ]
    table = deployment_table(found(fixed, slow))
    assert [row["policy"] for row in table.rows] == ["static:0 (off)", "static:1, the best static length", "slope:2.0"]
    assert table.rows[0]["speedup"] == 1
    assert table.rows[2]["speedup"] == pytest.approx(4.0 / 4.2)


def test_without_k_0_the_best_static_length_is_the_least() -> None:
    fixed = one("static", "static:2", 3.9, SAME, None)
    answer = deployment(found(fixed, off=None, clusters=2))
    assert (answer.setting, answer.difference) == ("static:2", None)
    assert deployment_sentence(found(fixed, off=None)) == (
        "deploy static:2: k = 0 has no price (not measured, or left out); nothing else that an engine can run is "
        "significantly faster"
    )
    assert deployment_sentence(found(fixed, off=None), "k = 0 was not measured").startswith(
        "deploy static:2: k = 0 was not measured; nothing else"
    )
    assert all(row["speedup"] is None for row in deployment_table(found(fixed, off=None)).rows)


def test_on_real_traces_off_wins(eager: Inputs) -> None:  # noqa: F811
    tuning = scored(hold_out([eager], ("confidence@keep", "slope!")))
    assert deployment(tuning).off, "a draft step costs 1.4 ms here"
    assert deployment_sentence(tuning).startswith("deploy static:0, drafting off: nothing that an engine can run is")
    static = tuning.families[0]
    assert tuning.without_ms_per_token is not None
    for family in tuning.families:
        assert family.against_off is not None
        assert family.against_off.ms_per_token == pytest.approx(family.ms_per_token - tuning.without_ms_per_token)
        assert family.against_off.ms_per_token == pytest.approx(family.against_static.ms_per_token)
    assert static.against_off == replace(SAME, clusters=39)


def test_folds_are_as_many_as_there_are_clusters_if_not_said() -> None:
    inputs = random_inputs(1, SIZES[:5])
    clusters = len(set(inputs.traces.cluster_of))
    assert clusters < 5
    assert tune([inputs], ("static",)).folds == clusters
    assert f"{clusters} folds (not 5: there are no more clusters)" in str(
        tuning_table(tune([inputs], ("static",))).notes
    )


def test_choices_at_an_end_of_what_was_tried_are_named() -> None:
    inputs = random_inputs(3, SIZES)
    nothing = np.zeros(K + 1)
    free = replace(inputs.costs, verify_ms=nothing + 1, alpha_ms=nothing, context_ms=nothing, draft_ms=nothing)
    cheap = replace(inputs, costs=free)
    tuning = scored(hold_out([cheap], ("static", "survival", "goodput"), folds=3, points=9))
    edges = {family.family: family.at_edge for family in tuning.families}
    assert edges["static"] == ("static:5",)
    assert edges["survival"] == ("survival:0.0",)
    assert edges["goodput"] == (), "nothing was tried"
    [note] = [note for note in tuning_table(tuning).notes if note.startswith("at an end of what was tried")]
    assert "static:5, survival:0.0" in note
    dear = replace(cheap, costs=replace(free, draft_ms=1e3 * (np.arange(K + 1) > 0)))
    assert scored(hold_out([dear], ("static",), folds=3)).families[0].at_edge == (), "nothing is shorter than k = 0"


def test_the_share_of_decisions_near_an_end_is_counted_where_it_matters() -> None:
    inputs = random_inputs(3, (40, 25, 31, 2, 4))
    late = sum(min(n, 4) for n in (40, 25, 31, 2, 4)) / 102
    assert scored(hold_out([inputs], ("confidence",), folds=3)).late_share == pytest.approx(late)
    assert scored(hold_out([inputs], ("static", "slope!"), folds=3)).late_share is None


def test_recorded_matches_of_greedy_texts_bear_the_answer_out_or_speak_against_it() -> None:
    whole = tiny_realised()
    fixed = one("static", "static:3", 3.6, SAME, FASTER)
    renamed = dict(zip(("static:1", "static:2"), ("static", "slope"), strict=True))
    names = tuple(renamed.get(name, name) for name in whole.totals.policies)
    held = replace(whole, totals=replace(whole.totals, policies=names))
    notes = deployment_table(found(fixed, one("slope", "slope:2.0", 3.5, FASTER, FASTER)), held).notes
    apart = greedy_difference(held, "slope", "static")
    assert apart is not None
    assert apart.ms_per_token == pytest.approx(4.409 - 4.050, abs=2e-3)
    assert notes[1].startswith(f"on recorded matches of greedy texts, held out: {apart.ms_per_token:+.3f} ms/token [")
    assert notes[1].endswith("against the best static length, which speaks against it: measure before deploying")
    swapped = replace(held, totals=replace(held.totals, policies=tuple(
        {"static": "slope", "slope": "static"}.get(name, name) for name in names)))  # fmt: skip
    notes = deployment_table(found(fixed, one("slope", "slope:2.0", 3.5, FASTER, FASTER)), swapped).notes
    assert notes[1].endswith("which bears it out")
    assert greedy_difference(held, "budget", "static") is None
    assert greedy_difference(replace(held, decoding=("sample",) * 78), "slope", "static") is None
