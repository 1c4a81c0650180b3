import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from latency_simulation import close, simulated

from oracle.errors import InputError
from oracle.latency.diagnostics.diagnose import diagnose
from oracle.latency.diagnostics.regime_tables import Boundary
from oracle.latency.diagnostics.residuals import residual_diagnostics
from oracle.latency.diagnostics.robustness import robustness
from oracle.latency.diagnostics.weak_spots import compare_columns, weak_spots
from oracle.latency.estimates import Estimate
from oracle.latency.evidence import gather_evidence
from oracle.rounds import Rounds

FOLDER = Path(__file__).parents[1] / "cases" / "tiny-moe"
REFERENCE = "unique_experts_reference"


def evidence_of(frame, *further):
    return gather_evidence(Rounds.from_pandas(frame), further=further)


def said(spots, topic):
    return [f"{spot.severity}: {spot.sentence}" for spot in spots if spot.topic == topic]


def spots_of(frame, *further, **options):
    evidence = evidence_of(frame, *further)
    options.setdefault("robust", robustness(evidence, resamples=20)[1])
    return weak_spots(evidence, **options)


@pytest.fixture(scope="module", params=["rounds", "rounds-grouped_mm", "rounds-batched_mm"])
def recorded(request):
    frame = pd.read_parquet(FOLDER / f"{request.param}.parquet")
    return request.param, frame, spots_of(frame, REFERENCE, boundaries=())


def test_the_worst_comes_first(recorded):
    _, _, spots = recorded
    order = [("high", "medium", "low").index(spot.severity) for spot in spots]
    assert order == sorted(order)
    assert all(spot.sentence and not spot.sentence.endswith(".") for spot in spots)


def test_tiny_moe_alpha_is_used_or_not(recorded):
    name, _, spots = recorded
    if name == "rounds-batched_mm":
        sentence = said(spots, "alpha")[0]
        assert sentence.startswith(
            "high: the target's time does not use unique experts as far as these rounds can tell"
        )
        assert "9 of 10 intervals of alpha hold 0" in sentence
        assert said(spots, "regimes") == []
    else:
        assert said(spots, "alpha") == []
        assert said(spots, "regimes")[0].startswith("low: no boundary between regimes was found: alpha runs from 0.")
        assert " without a jump over m = 2 … 11; the largest step is +0.0" in said(spots, "regimes")[0]
        assert " (95 %, all steps together) ms from m = " in said(spots, "regimes")[0]


def test_tiny_moe_block_drift(recorded):
    name, _, spots = recorded
    sentence = said(spots, "drift")[0]
    if name == "rounds-batched_mm":
        assert "a block holds few texts, so drift and texts cannot be told apart" in sentence
    else:
        assert sentence.split(": ")[1] == "drift over the run"
    share = int(sentence.split(" % of the residual variance is common to rounds recorded together")[0].split()[-1])
    assert abs(share - {"rounds": 63, "rounds-grouped_mm": 45, "rounds-batched_mm": 20}[name]) <= 3
    assert sentence.startswith("medium")
    assert sentence.endswith("but K were interleaved here") == (name != "rounds-batched_mm")


def test_tiny_moe_draft_times_are_concave(recorded):
    _, _, spots = recorded
    assert said(spots, "draft")[0].startswith("medium: draft times are concave in k (-0.0")
    assert "at k = 1; use a table of times" in said(spots, "draft")[0]


def test_tiny_moe_context_is_weak_and_grows(recorded):
    _, _, spots = recorded
    grows, weak = said(spots, "context")
    assert grows.startswith("medium: c grows with m: 0.")
    assert weak.startswith("low: c is weakly identified: 1.")


def test_tiny_moe_reference_path(recorded):
    name, frame, spots = recorded
    swapped = frame.rename(columns={"unique_experts": "unique_experts_verified", REFERENCE: "unique_experts"})
    wrong = said(spots_of(swapped, "unique_experts_verified"), "columns")
    if name == "rounds-batched_mm":
        assert said(spots, "columns") == wrong == []  # time uses neither
        return
    (right,) = said(spots, "columns")
    assert right.startswith(f"low: {REFERENCE} behaves like unique_experts with errors")
    assert right.endswith("so never fit on it")
    assert wrong[0].startswith("high: unique_experts behaves like unique_experts_verified with errors")
    assert wrong[0].endswith("fit on unique_experts_verified")


def test_tiny_moe_alpha_at_m_1_is_borrowed(recorded):
    _, _, spots = recorded
    assert said(spots, "borrowed alpha") == [
        "low: m = 1: unique experts are 4 in every round, so alpha is borrowed from m = 2; only beta0 + alpha U is "
        "measured there, and the cost of an expert between this m and the next is not"
    ]


def test_clean_rounds_raise_no_alarm():
    frame = simulated(rounds_per_k=600, questions=60, ks=range(4, 8), noise_ms=0.1)
    frame["target_ms"] += 0.5  # levels differ by m as in the source; nothing else is wrong
    rng = np.random.default_rng(0)
    spots = spots_of(frame.assign(round_index=rng.permutation(len(frame))))
    assert {spot.topic for spot in spots} <= {"collinearity"}
    assert all(spot.severity == "low" for spot in spots)


def test_few_clusters():
    frame = simulated(rounds_per_k=200, questions=8, ks=(1, 2))
    assert said(spots_of(frame), "clusters") == [
        "high: only 8 clusters: clustered errors and intervals are not to be trusted below 10; record more texts"
    ]
    assert said(spots_of(frame.assign(cluster="q")), "clusters") == [
        "high: one cluster only: there are no errors, intervals or held-out metrics; record more texts"
    ]
    (sentence,) = said(spots_of(simulated(rounds_per_k=200, questions=20, ks=(1, 2))), "clusters")
    assert sentence.startswith("medium: 20 clusters: below 40 intervals made of CR1 errors cover less than they say")


def test_an_m_with_little_spread_in_unique_experts():
    frame = simulated(rounds_per_k=200, questions=40, ks=(1, 2, 3, 4))
    at, level = frame["draft_length"] == 3, frame.loc[frame["draft_length"] == 3, "unique_experts"].mean()
    frame["unique_experts"] = frame["unique_experts"].where(~at, level + (frame["unique_experts"] - level) / 20)
    (sentence,) = said(spots_of(frame), "spread of U")
    assert sentence.startswith(
        "low: m = 4: unique experts vary little there (sd 0.097, 0.41 % of their mean), so alpha = "
    )
    assert sentence.endswith("times the median of all m")


def test_collinearity_with_context_and_with_m():
    frame = simulated(rounds_per_k=200, questions=40, ks=(1, 2, 6))
    mixed = frame["unique_experts"] * 20 + np.random.default_rng(0).normal(0, 5, len(frame))
    tied = frame.assign(context_len=frame["context_len"].where(frame["draft_length"] != 6, mixed.round().abs()))
    sentences = said(spots_of(tied), "collinearity")
    assert sentences[0].startswith("medium: m = 7: unique experts and context length move together (variance inflation")
    assert sentences[1].startswith("low: unique experts rise with m (variance inflation ")


def test_a_category_and_a_cluster_that_pull():
    frame = simulated(rounds_per_k=400, questions=30, ks=(1, 2), seed=1)
    number = frame["cluster"].str[1:].astype(int)
    frame["category"] = np.where(number < 15, "code", "prose")
    alone = frame["cluster"] == "q020"
    pulled = frame.assign(target_ms=frame["target_ms"] + 2 * alone * (frame["unique_experts"] - 14))
    sentences = said(spots_of(pulled), "cluster")
    assert sentences[0].startswith(
        "medium: one cluster of 30, q020, makes more than half of the variance of alpha at m"
    )
    leaning = frame["category"] == "code"
    frame["target_ms"] += (
        leaning * 0.5 * (frame["unique_experts"] - frame.groupby("draft_length")["unique_experts"].transform("mean"))
    )
    sentences = said(spots_of(frame), "category")
    assert sentences[0].startswith("medium: without category ")
    assert sentences[0].endswith("the category pulls it")


def test_halves_that_disagree_and_draft_lengths_recorded_in_turn():
    frame = simulated(rounds_per_k=400, questions=40, ks=(1, 2, 4)).assign(round_index=lambda f: np.arange(len(f)))
    assert said(spots_of(frame), "order") == [
        "medium: the draft lengths were recorded one after another (m explains 89 % of the recording order): a "
        "difference between two m may be a drift, and no boundary between regimes can be laid to m"
    ]
    mixed = frame.sample(frac=1, random_state=0).assign(round_index=np.arange(len(frame)))
    assert said(spots_of(mixed), "order") == []
    late = np.arange(len(mixed)) > len(mixed) / 2
    changed = mixed.assign(target_ms=mixed["target_ms"] + late * 5e-4 * mixed["context_len"])
    sentences = said(spots_of(changed), "halves")
    assert sentences[0].endswith("the halves of the run disagree")
    rising = mixed.assign(target_ms=mixed["target_ms"] * (1 + 0.05 * np.arange(len(mixed)) / len(mixed)))
    sentences = said(spots_of(rising), "drift")
    assert any(s.startswith("medium: times rise by 4.") and "(round_index)" in s for s in sentences)


def test_negative_and_unclear_alpha():
    frame = simulated(rounds_per_k=300, questions=40, ks=(1, 2, 3))
    falls = frame["draft_length"] == 2
    spots = spots_of(frame.assign(target_ms=frame["target_ms"] - falls * 0.3 * frame["unique_experts"]))
    assert said(spots, "alpha") == [
        "high: m = 3: alpha is negative beyond its error; more experts cannot take less time, so something that moves "
        "with them is missing from the model"
    ]
    spots = spots_of(frame.assign(target_ms=frame["target_ms"] - falls * 0.081 * frame["unique_experts"]))
    assert said(spots, "alpha") == ["medium: m = 3: alpha cannot be told from 0 (its 95 % interval holds 0)"]
    dense = weak_spots(evidence_of(frame.assign(unique_experts=0.0)))
    assert said(dense, "alpha") == [
        "low: unique experts are 0 in every round: a dense target, for which the model has no alpha"
    ]


def test_context_that_cannot_be_told_from_0():
    frame = simulated(rounds_per_k=200, questions=40, ks=(1, 2))
    spots = spots_of(frame.assign(target_ms=frame["target_ms"] - 1.1e-3 * frame["context_len"]))
    assert "cannot be told from 0 (95 % interval [" in said(spots, "context")[0]
    assert said(spots_of(frame.assign(context_len=700)), "context") == [
        "medium: context_len is 700 in every round: c is not identified and taken as 0, so the model holds at the "
        "recorded context only"
    ]


def test_uneven_spread_and_heavy_tails():
    frame = simulated(rounds_per_k=500, questions=40, ks=(1, 4, 8))
    rng = np.random.default_rng(0)
    wide = frame.assign(target_ms=frame["target_ms"] + rng.normal(0, 0.1, len(frame)) * frame["draft_length"])
    (sentence,) = said(spots_of(wide), "heteroscedasticity")
    assert sentence.startswith("low: residuals spread ")
    assert "times as wide in the slowest tenth of rounds as in the fastest" in sentence
    heavy = frame.assign(target_ms=frame["target_ms"] + 0.3 * rng.standard_t(2, len(frame)).clip(-30, 30))
    (sentence,) = said(spots_of(heavy), "heavy tails")
    assert "Huber regression moves" in sentence


def test_draft_times_that_are_zero():
    frame = simulated(rounds_per_k=200, questions=40, ks=(1, 2, 3))
    zero = frame.assign(draft_ms=frame["draft_ms"].where(np.arange(len(frame)) % 200 != 3, 0.0))
    assert said(spots_of(zero), "draft") == [
        "low: 0.5 % of the rounds that draft have a draft_ms of 0 or less: left out"
    ]


def boundary(settled, jump, share=1.0):
    change = Estimate(0.1835, 0.01, 0.01, 0.16, 0.21, 40)
    return Boundary(4, 5, True, 1.0, share, change, None, jump, settled)


def test_boundaries_that_were_found():
    frame = simulated(rounds_per_k=300, questions=40, ks=(2, 3, 4, 5))
    elsewhere = Boundary(3, 4, False, 0.0, 0.1, None, None, None, None)
    assert said(spots_of(frame, boundaries=(elsewhere, boundary(True, True))), "regimes") == [
        "medium: a boundary between regimes lies between m = 4 and 5: nothing may be interpolated across it; alpha "
        "steps by +0.183 ms [0.16; 0.21] there"
    ]
    for unsure in (boundary(False, True, 0.63), boundary(True, False, 0.63)):
        assert said(spots_of(frame, boundaries=(elsewhere, unsure)), "regimes") == [
            "medium: a boundary between regimes may lie between m = 4 and 5, found in 63 % of resamples; alpha steps "
            "by +0.183 ms [0.16; 0.21] there"
        ]
    assert "without a jump" not in said(spots_of(frame, boundaries=(elsewhere,)), "regimes")[0]  # its step is certain
    assert said(spots_of(frame), "regimes") == []
    assert said(spots_of(frame[frame["draft_length"] == 3], boundaries=()), "regimes") == []


def stalled(rounds, seed=3):
    """Every two-hundredth pass takes twenty times as long."""
    frame = simulated(rounds_per_k=rounds, questions=40, seed=seed)
    far = np.random.default_rng(9).random(len(frame)) < 0.005
    return frame.assign(target_ms=frame["target_ms"] * np.where(far, 20, 1))


def test_a_few_stalled_passes_are_named_and_do_not_make_alpha_unused():
    spots = spots_of(stalled(2000))
    assert spots[0].topic == "heavy tails"
    assert re.match(
        r"heavy tails: 1\.\d % of the residuals lie beyond 3 robust sd \(2\.\d ms; normal: 0\.27 %\), the farthest at "
        r"\+4\d\d ms; the plain sd is 20 ms, the robust one 0\.\d+; they decide alpha at m = 2, 3, ",
        spots[0].sentence,
    )
    assert spots[0].severity == "high"
    (sentence,) = said(spots, "alpha")
    assert sentence.startswith("medium: these rounds cannot tell whether the target's time uses unique experts: ")
    assert "a few far rounds decide alpha, and robust refits disagree" in sentence
    few = said(spots_of(stalled(400)), "heavy tails")
    assert few[0].startswith("medium: heavy tails: ")
    assert "by Huber regression; look at these rounds" in few[0]
    assert said(spots_of(stalled(400), boundaries=()), "regimes") == []


def test_that_experts_are_not_used_is_said_only_where_the_rounds_could_tell():
    frame = simulated(rounds_per_k=60, questions=40, ks=(1, 2, 3))
    rng = np.random.default_rng(0)
    vague = frame.assign(target_ms=50 + rng.normal(0, 15, len(frame)))
    (sentence,) = said(spots_of(vague), "alpha")
    assert sentence.startswith("medium: these rounds cannot tell whether the target's time uses unique experts: the ")
    assert "% of the mean time for one standard deviation of U; one alpha for all m is " in sentence
    still = frame.assign(target_ms=50 + rng.normal(0, 0.5, len(frame)))
    assert said(spots_of(still), "alpha")[0].startswith("high: the target's time does not use unique experts")
    mixed = still["unique_experts"] * 100 + rng.normal(0, 10, len(still))
    (sentence,) = said(spots_of(still.assign(context_len=mixed.round())), "alpha")
    assert sentence.startswith("medium: these rounds cannot tell whether the target's time uses unique experts: ")
    assert "unique experts and context length move together within m (variance inflation " in sentence


def test_an_inflation_beyond_measure_is_said_in_words():
    frame = simulated(rounds_per_k=200, questions=40, ks=(1, 2, 6))
    tied = (frame["unique_experts"] * 480_000).round() + np.random.default_rng(0).integers(0, 1000, len(frame))
    spots = spots_of(frame.assign(context_len=frame["context_len"].where(frame["draft_length"] != 6, tied)))
    assert (
        "m = 7: unique experts and context length move together (the one all but gives the other)"
        in (said(spots, "collinearity")[0])
    )
    assert "inf" not in " ".join(spot.sentence for spot in spots).replace("inflation", "")


def test_drift_is_high_only_where_draft_lengths_follow_the_recording():
    frame = simulated(rounds_per_k=800, questions=40, ks=(1, 3, 5))
    rng = np.random.default_rng(0)
    level = 1 + rng.normal(0, 0.05, len(frame) // 40)[np.arange(len(frame)) // 40]
    for order, start, end in (
        (frame.sample(frac=1, random_state=0), "medium: drift", "but K were interleaved here"),
        (
            frame.sample(frac=1, random_state=0).sort_values("draft_length", kind="stable"),
            "high: drift",
            "of the recording order: a difference between K may be drift",
        ),
    ):
        drifting = order.assign(round_index=np.arange(len(frame)), target_ms=order["target_ms"].to_numpy() * level)
        sentence = said(spots_of(drifting), "drift")[0]
        assert sentence.startswith(start)
        assert sentence.endswith(end)


def test_factors_that_cannot_be_told_apart_share_a_sentence():
    frame = simulated(rounds_per_k=200, questions=40, ks=(1, 2, 6))
    paged = frame.assign(kv_usage=np.ceil(frame["context_len"] / 16) * 16 / 40_960)
    (sentence,) = said(spots_of(paged), "factors")
    assert "kv_usage" in sentence
    assert "context_len" in sentence
    assert sentence.endswith("(r = 1.000) move together: they cannot be told apart, whichever of them the time follows")
    assert said(spots_of(frame), "factors") == []


def test_one_cluster_of_few_is_no_news():
    frame = simulated(rounds_per_k=400, questions=30, ks=(1, 2), seed=1)
    frame["target_ms"] += 2 * (frame["cluster"] == "q005") * (frame["unique_experts"] - 14)
    assert said(spots_of(frame), "cluster")
    assert said(spots_of(frame[frame["cluster"] < "q009"]), "cluster") == []


def test_rounds_without_noise_raise_no_alarm():
    frame = simulated(rounds_per_k=200, questions=40, ks=(1, 2, 3, 4))
    frame["target_ms"] = 5 + 0.3 * frame["draft_length"] + 0.2 * frame["unique_experts"] + 1e-3 * frame["context_len"]
    assert {spot.topic for spot in diagnose(evidence_of(frame)).weak_spots} <= {"collinearity", "regimes"}
    constant = diagnose(evidence_of(frame.assign(target_ms=7.0)))
    assert constant.residuals is not None
    assert constant.weak_spots is not None
    assert constant.hypotheses.h2.sentence == "H2 cannot be tested: target_ms does not vary."


def test_what_failed_is_passed_on_and_not_tried_again(monkeypatch):
    def fails(*arguments, **options):
        raise InputError("no reason")

    for name in ("robustness", "residual_diagnostics"):
        for module in ("diagnose", "weak_spots"):
            monkeypatch.setattr(f"oracle.latency.diagnostics.{module}.{name}", fails)
    found = diagnose(evidence_of(simulated(rounds_per_k=200, questions=20, ks=(1, 2))))
    assert found.untested["robustness"] == found.untested["residuals"] == "no reason"
    assert said(found.weak_spots, "residuals") == [
        "medium: residuals could not be examined (no reason): drift, tails and draft times are not judged"
    ]
    assert said(found.weak_spots, "robustness")
    assert said(found.weak_spots, "clusters")


def test_a_diagnosis_hands_its_boundaries_and_comparisons_on(monkeypatch):
    frame = simulated(rounds_per_k=300, questions=40, ks=(1, 2, 3, 4, 5, 6))
    frame["unique_experts_seen"] = frame["unique_experts"] + np.random.default_rng(0).normal(0, 3, len(frame))
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return compare_columns(*arguments)

    monkeypatch.setattr("oracle.latency.diagnostics.column_comparison.compare_columns", counted)
    found = diagnose(evidence_of(frame, "unique_experts_seen"))
    assert (len(calls), len(found.columns), len(said(found.weak_spots, "columns"))) == (1, 1, 1)
    (sentence,) = said(found.weak_spots, "regimes")
    assert sentence.startswith(
        "medium: a boundary between regimes lies between m = 4 and 5: nothing may be interpolated"
    )
    assert "alpha steps by +0.18" in sentence


def test_results_at_hand_are_used():
    frame = simulated(rounds_per_k=200, questions=20, ks=(1, 2))
    evidence = evidence_of(frame)
    robust, residuals = robustness(evidence)[1], residual_diagnostics(evidence)
    assert weak_spots(evidence, robust=robust, residuals=residuals) == weak_spots(evidence)


def slopes(frame, response, names):
    ms = np.unique(frame["draft_length"])
    dummies = (frame["draft_length"].to_numpy()[:, None] == ms).astype(float)
    design = np.column_stack([frame[list(names)].to_numpy(dtype=float), frame["context_len"], dummies])
    return sm.OLS(frame[response].to_numpy(dtype=float), design).fit(
        cov_type="cluster", cov_kwds={"groups": pd.factorize(frame["cluster"])[0]}
    )


def test_two_columns_equal_statsmodels():
    frame = pd.read_parquet(FOLDER / "rounds.parquet")
    found = compare_columns(evidence_of(frame, REFERENCE), "unique_experts", REFERENCE)
    later = frame[frame["draft_length"] > 0]
    assert (found.ms, found.rounds) == (tuple(range(2, 12)), len(later))
    a, b = "unique_experts", REFERENCE
    for ours, names, i in (
        (found.alpha_a, (a,), 0),
        (found.alpha_b, (b,), 0),
        (found.alpha_a_given_b, (a, b), 0),
        (found.alpha_b_given_a, (a, b), 1),
    ):
        theirs = slopes(later, "target_ms", names)
        assert close([ours.value, ours.error_cr1], [theirs.params[i], theirs.bse[i]], theirs.bse[i])
    expected = slopes(later, a, (b,))
    assert close(found.expected_if_b_errs, expected.params[0], expected.bse[0])
    assert close(found.rmse_a_ms, np.sqrt(np.mean(slopes(later, "target_ms", (a,)).resid ** 2)))
    inside = later[[a, b]].astype(float) - later.groupby("draft_length")[[a, b]].transform("mean").astype(float)
    assert close(found.correlation, np.corrcoef(inside.T)[0, 1], 1e3)
    difference = later[b].astype(float) - later[a].astype(float)
    assert close([found.mean_difference, found.sd_difference], [difference.mean(), difference.std(ddof=0)], 1e3)
    assert [row.m for row in found.by_m] == list(range(2, 12))
    one = later[later["draft_length"] == 10]
    assert close(found.by_m[-1].alpha_b, slopes(one, "target_ms", (b,)).params[0], 1.0)
    assert found.by_m[-1].correlation == pytest.approx(np.corrcoef(one[a], one[b])[0, 1], abs=1e-6)
    assert found.noisier == REFERENCE
    assert found.ratio == pytest.approx(found.expected_if_b_errs, rel=0.05)


def test_error_that_was_put_in_shrinks_alpha_as_expected():
    frame = simulated(rounds_per_k=400, questions=40, ks=(4, 5, 6), noise_ms=0.05)
    rng = np.random.default_rng(0)
    frame["unique_experts_seen"] = frame["unique_experts"] + rng.normal(0, 3, len(frame))
    found = compare_columns(evidence_of(frame, "unique_experts_seen"), "unique_experts", "unique_experts_seen")
    assert found.noisier == "unique_experts_seen"
    assert found.ratio == pytest.approx(found.expected_if_b_errs, rel=0.1)
    assert found.alpha_b_given_a.spans_zero()
    other = compare_columns(evidence_of(frame, "unique_experts_seen"), "unique_experts_seen", "unique_experts")
    assert (other.noisier, other.alpha_a) == ("unique_experts_seen", found.alpha_b)


def test_columns_that_say_the_same_or_cannot_be_compared():
    frame = simulated(rounds_per_k=100, questions=40, ks=(1, 2))
    frame["unique_experts_twice"] = 2 * frame["unique_experts"]
    found = compare_columns(evidence_of(frame, "unique_experts_twice"), "unique_experts", "unique_experts_twice")
    assert (found.alpha_a_given_b, found.noisier) == (None, None)
    assert found.ratio == pytest.approx(0.5)
    with pytest.raises(InputError) as fault:
        compare_columns(evidence_of(frame), "unique_experts", "other")
    assert str(fault.value) == (
        "rounds: no column other to compare: it was not gathered; name it among the further factors"
    )
    frame["unique_experts_flat"] = 3.0
    with pytest.raises(InputError, match="do not both vary at any m, so they cannot be compared"):
        compare_columns(evidence_of(frame, "unique_experts_flat"), "unique_experts", "unique_experts_flat")
    frame.loc[3, "unique_experts_flat"] = np.nan
    with pytest.raises(InputError, match="unique_experts_flat is missing in some rounds; compare columns that every"):
        compare_columns(evidence_of(frame, "unique_experts_flat"), "unique_experts", "unique_experts_flat")
    (sentence,) = said(spots_of(frame, "unique_experts_flat"), "columns")
    assert sentence.startswith("low: unique_experts_flat could not be compared with unique_experts: rounds: ")
