"""Tuning: choices against brute force on the folds of scikit-learn, held-out data never seen, optimism, intervals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from policy_inputs import INFORMED, ONLINE, random_inputs, with_columns
from sklearn.model_selection import GroupKFold
from traces_factory import lists

from oracle import scores, tuning
from oracle.costs import choose_range, length_costs
from oracle.engines import NAMES
from oracle.errors import InputError
from oracle.intervals import Interval
from oracle.latency.fit import fit_latency
from oracle.policies import Inputs, Training, inputs_of, lengths_of
from oracle.policies.candidates import candidates
from oracle.rounds import RoundFiles
from oracle.summaries.tuning import category_table
from oracle.tables import render
from oracle.traces import load_traces
from oracle.tuning import Compared, HeldOutBatch, Tuned, hold_out, learn, scored, scored_by_category, tune

TINY = Path(__file__).parents[1] / "cases" / "tiny-moe"
SIZES = (40, 25, 31, 18, 52, 44, 9, 37)


@pytest.fixture(scope="module")
def eager() -> Inputs:
    traces = load_traces(TINY / "traces.parquet")
    model = fit_latency(RoundFiles(TINY / "rounds.parquet")).model
    lengths = choose_range(model, traces.max_draft_length)
    return inputs_of(traces, length_costs(model, lengths.k_min, lengths.k_max))


def ms_of(policy: str, inputs: Inputs) -> np.ndarray:
    names = inputs.traces.generation
    return scores.total(inputs.problem, inputs.costs, lengths_of([policy], inputs), names, names).total_ms[:, 0]


def folds_by_sklearn(inputs: Inputs, folds: int) -> np.ndarray:
    sizes = np.diff(inputs.problem.offsets)
    groups = np.repeat(np.array(inputs.traces.cluster_of), sizes)
    fold = np.empty(len(groups), dtype=int)
    for f, (_, test) in enumerate(GroupKFold(folds).split(groups, groups=groups)):
        fold[test] = f
    return fold[inputs.problem.offsets[:-1]]


def test_choices_and_scores_equal_brute_force_on_the_folds_of_scikit_learn() -> None:
    inputs = random_inputs(11, SIZES)
    fold = folds_by_sklearn(inputs, 3)
    families = ("static", "confidence", "survival@keep", "slope", "slope!", "goodput", "budget")
    found = {f.family: f for f in tune([inputs], families, folds=3, points=7).families}
    tokens = np.diff(inputs.problem.offsets)
    category = np.array([str(c) for c in inputs.traces.category or ()])
    for family in families:
        held = np.zeros(len(SIZES))
        for f in range(3):
            train = fold != f
            inside = tokens[train]
            rows = np.repeat(train, tokens)
            left = np.repeat(inputs.problem.offsets[1:], tokens) - np.arange(sum(SIZES))
            mean = [inputs.problem.unique_experts[rows & (left > k), k].mean() for k in range(6)]
            static_ms = np.column_stack([ms_of(f"static:{k}", inputs) for k in range(6)])
            by = {c: int(static_ms[train & (category == c)].sum(axis=0).argmin()) for c in set(category[train])}
            by.pop("None", None)
            training = Training(np.array(mean), int(static_ms[train].sum(axis=0).argmin()), by)
            taught = replace(inputs, training=training)
            tried = [str(p) for p in candidates(family, inputs.costs, 7)]
            ms = [ms_of(p, taught) for p in tried]
            best = int(np.argmin([m[train].sum() for m in ms]))
            assert found[family].chosen[f] == tried[best]
            held[~train] = ms[best][~train]
            assert inside.sum() > 0
        assert found[family].ms_per_token == pytest.approx(held.sum() / tokens.sum(), rel=1e-12)
        optimum = inputs.optimum.value_ms(inputs.problem.offsets).sum() / tokens.sum()
        assert found[family].regret_ms_per_token == pytest.approx(held.sum() / tokens.sum() - optimum, abs=1e-12)


def test_scores_of_a_category_are_those_of_its_generations() -> None:
    """Sums, differences and the exact intervals over resamples of two clusters, from the policies' own totals."""
    inputs = random_inputs(11, SIZES)
    category = np.array([str(c) for c in inputs.traces.category or ()])
    families = ("static", "confidence@keep", "survival!")
    batches: list[HeldOutBatch] = []
    held = hold_out([inputs], families, folds=3, points=7, on_batch=batches.append)
    found = scored_by_category(held)
    assert list(found) == ["code", None, "prose"]
    tokens, optimum = np.diff(inputs.problem.offsets), inputs.optimum.value_ms(inputs.problem.offsets)
    ms = np.zeros((len(families), len(SIZES)))
    for p, family in enumerate(held.families):
        for g, f in enumerate(batches[0].fold):
            ms[p, g] = ms_of(str(family.chosen[f]), inputs)[g]
    np.testing.assert_allclose(batches[0].expected.total_ms, ms.T, rtol=1e-12)
    for name, those in found.items():
        of = category == str(name)
        clusters = [[c == other for c in inputs.traces.cluster_of] for other in set(inputs.traces.cluster_of)]
        members = [np.array(c) & of for c in clusters if (np.array(c) & of).any()]
        assert (those.clusters, those.tokens) == (len(members), tokens[of].sum())
        assert those.oracle_ms_per_token == pytest.approx(optimum[of].sum() / tokens[of].sum(), rel=1e-12)
        for p, one in enumerate(those.families):
            assert one.ms_per_token == pytest.approx(ms[p, of].sum() / tokens[of].sum(), rel=1e-12)
            assert one.regret_ms_per_token == pytest.approx((ms[p] - optimum)[of].sum() / tokens[of].sum(), abs=1e-12)
            difference = (ms[p] - ms[0])[of].sum() / tokens[of].sum()
            assert one.against_static.ms_per_token == pytest.approx(difference, abs=1e-12)
            interval = one.against_static.interval
            assert one.against_static.verdict == "few clusters"
            if len(members) == 1:
                assert interval is None
            else:
                assert interval is not None
                each = [(ms[p] - ms[0])[c].sum() / tokens[c].sum() for c in members]
                assert interval.low >= min(each) - 1e-12
                assert interval.high <= max(each) + 1e-12
    whole = scored(held).families[1]
    parts = sum(t.families[1].ms_per_token * t.tokens for t in found.values())
    assert whole.ms_per_token == pytest.approx(parts / tokens.sum(), rel=1e-12)


def test_a_table_by_category_gives_no_verdict_on_few_clusters(eager: Inputs) -> None:
    found = scored_by_category(hold_out([eager], ("confidence", "confidence@keep")))
    table = category_table(found)
    text = render([table], "text")
    assert {row["few_clusters"] for row in table.rows} == {True}
    assert [row["category"] for row in table.rows[::3]] == ["code", "prose", "html", "russian", "mixed_ru"]
    assert (
        "few clusters: fewer than 10, so intervals are too narrow to call anything faster or slower: code (8), "
        "prose (7)"
    ) in text
    assert "differences at 95 % each" not in text, "none of them is called anything"
    assert "lowest that an engine can run in html: " in text
    assert {row["family"]: row["engines"] for row in table.rows[:3]} == {
        "static": list(NAMES),
        "confidence": ["llama.cpp"],
        "confidence@keep": ["transformers"],
    }
    takers = {row["family"]: table.columns[-1].show(row) for row in table.rows}
    assert takers == {"static": "all", "confidence": "llama.cpp", "confidence@keep": "transformers"}
    slower = next(row for row in table.rows if (row["category"], row["family"]) == ("code", "confidence"))
    assert slower["against_static_ms_low"] > 0
    assert slower["verdict"] == "few clusters"
    assert {row["verdict"] for row in table.rows} == {None, "few clusters"}


def test_a_fold_is_never_looked_at_when_its_own_parameter_is_chosen() -> None:
    inputs = random_inputs(12, SIZES)
    fold = folds_by_sklearn(inputs, 4)
    before = tune([inputs], folds=4, points=9)
    rows = np.repeat(fold == 2, SIZES)
    rng = np.random.default_rng(0)
    assert inputs.traces.match_prob is not None
    assert inputs.traces.draft_prob is not None
    match = np.where(rows, rng.random(sum(SIZES)), inputs.traces.match_prob).astype(np.float32)
    draft = np.where(rows, rng.random(sum(SIZES)), inputs.traces.draft_prob).astype(np.float32)
    after = tune(
        [with_columns(inputs, match_prob=lists(SIZES, match), draft_prob=lists(SIZES, draft))], folds=4, points=9
    )
    for one, other in zip(before.families, after.families, strict=True):
        assert one.chosen[2] == other.chosen[2]
    assert any(one.chosen != other.chosen for one, other in zip(before.families, after.families, strict=True))


def test_held_out_is_never_better_than_in_sample_for_a_parameter_chosen_by_cost() -> None:
    """For each fold, total(chosen) >= total(best) and training(chosen) <= training(best): so held-out >= in-sample."""
    for seed in range(8):
        inputs = random_inputs(seed, SIZES)
        for one in tune([inputs], ("confidence", "survival", "survival!", "slope!"), folds=4, points=15).families:
            assert one.optimism_ms_per_token >= -1e-12


def test_batches_give_what_one_batch_gives() -> None:
    whole = random_inputs(13, SIZES)
    table = whole.traces.table
    parts = [
        inputs_of(type(whole.traces).from_arrow(part), whole.costs) for part in (table.slice(0, 3), table.slice(3))
    ]
    one, several = tune([whole], folds=3, points=8), tune(parts, folds=3, points=8)
    for a, b in zip(one.families, several.families, strict=True):
        assert (a.family, a.chosen, a.chosen_on_all) == (b.family, b.chosen, b.chosen_on_all)
        assert a.ms_per_token == pytest.approx(b.ms_per_token, rel=1e-12)
    assert learn(parts).best_static == learn([whole]).best_static


def test_mean_unique_experts_are_those_of_windows_inside_the_text() -> None:
    inputs = random_inputs(14, (7, 3))
    unique, mean = inputs.problem.unique_experts, learn([inputs]).mean_unique
    assert mean is not None
    for k in range(6):
        inside = [first + t for first, size in ((0, 7), (7, 3)) for t in range(size) if t + k < size]
        assert mean[k] == pytest.approx(np.mean([unique[t, k] for t in inside]), rel=1e-12)
    short = learn([random_inputs(14, (2, 1))]).mean_unique
    assert short is not None
    assert (short[1:] == short[1]).all(), "no window that long: as for the nearest length"


def test_a_sweep_is_one_call_of_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    rounds_of = scores.rounds_of
    monkeypatch.setattr(scores, "rounds_of", lambda problem, k: calls.append(k.shape[1]) or rounds_of(problem, k))
    tune([random_inputs(1, SIZES)], ("confidence", "slope!"), folds=3, points=100)
    assert calls == [6, 6, 100, 100, 3, 3, 3, 3]  # static lengths twice, the two sweeps, the choices by fold and on all


def test_differences_say_whether_they_mean_something() -> None:
    assert Compared(-0.1, Interval(-0.2, -0.01), 10).verdict == "faster"
    assert Compared(0.1, Interval(0.01, 0.2), 10).verdict == "slower"
    assert Compared(-0.1, Interval(-0.2, 0.0), 10).verdict == "not significant"
    assert Compared(-0.1, None, 10).verdict == "not significant"
    assert Compared(-0.1, Interval(-0.2, -0.01), 9).verdict == "few clusters"
    assert Compared(-0.1, None, 1).verdict == "few clusters"


def test_refusals() -> None:
    inputs = random_inputs(1, SIZES)
    for call, said in [
        (
            lambda: tune([inputs], folds=9),
            "folds is 9, and 5 clusters have positions: held-out scores need 2 to 5 folds",
        ),
        (lambda: tune([random_inputs(1, (9,))]), "there is one cluster with positions only"),
        (lambda: tune([random_inputs(1, (0, 0))]), "there is no position to learn from"),
        (lambda: tune([inputs], ("confidnce",), folds=3), "policy 'confidnce': no such form; known forms: static:K"),
        (
            lambda: tune([inputs], ("slope",), folds=3, points=1),
            "points is 1; a parameter is tried at 2 points or more",
        ),
    ]:
        with pytest.raises(InputError) as error:
            call()
        assert said in str(error.value)


def test_oracle_costs_no_more_than_any_policy_on_real_generations(eager: Inputs) -> None:
    taught = replace(eager, training=learn([eager]))
    laid = lengths_of(["oracle", "blind", "budget", *ONLINE, *INFORMED, *(f"static:{k}" for k in range(11))], taught)
    ms = scores.total(eager.problem, eager.costs, laid, eager.traces.generation, eager.traces.cluster_of).total_ms
    assert (ms[:, [0]] <= ms * (1 + 1e-12)).all()
    assert len(ms) == 78


def test_held_out_tuning_on_real_traces(eager: Inputs) -> None:
    found: dict[str, Tuned] = {f.family: f for f in tune([eager]).families}
    assert list(found) == list(tuning.FAMILIES)
    assert found["static"].chosen == ("static:0",) * 5
    assert found["static"].against_static.verdict == "not significant"
    # bounds on the idea, from above and below: informed forms beat static, and no form beats the oracle
    assert found["slope!"].against_static.verdict == "faster"
    assert all(f.regret_ms_per_token > 0 and (f.gain_captured or 0) < 1 for f in found.values())
    # a draft step costs 1.4 ms here: looking before one leaps is what makes the threshold too dear
    assert found["confidence"].against_static.verdict == "slower"
    assert found["confidence@keep"].ms_per_token < found["confidence"].ms_per_token
    for one in found.values():
        interval = one.ms_per_token_interval
        assert interval is not None
        assert interval.low < one.ms_per_token < interval.high
