"""The three hypotheses: their numbers against refits on the rows, and verdicts that the data have earned."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from fold_referee import clustered, column, designed, drawn, evidence_of, held_out, numbers, recorded, summary
from latency_simulation import close
from scipy import stats
from test_diagnostics_ladder import categorical

from oracle.errors import InputError
from oracle.latency.diagnostics.constant_increment import constant_increment
from oracle.latency.diagnostics.growing_association import growing_association, standardised_under
from oracle.latency.diagnostics.hypotheses import judge_hypotheses
from oracle.latency.diagnostics.routing_signal import routing_predicts_best
from oracle.latency.diagnostics.verdicts import percent

SIMULATED = drawn(rounds_per_k=400, questions=39)
REGIMES = ((2, 3, 4), range(5, 12))


@pytest.fixture(scope="module")
def source():
    return evidence_of(SIMULATED)


def dummies_of(frame):
    m = column(frame, "verified_positions")
    return (m[:, None] == np.unique(m)).astype(float)


@pytest.mark.parametrize("name", ["rounds", "rounds-batched_mm", "simulated"])
def test_h1_compares_paired_held_out_errors(name):
    frame = SIMULATED if name == "simulated" else recorded(name)
    found = routing_predicts_best(evidence_of(frame))
    experts = held_out(frame, designed(frame, "unique_experts")).rmse
    for row in found.comparisons:
        other = held_out(frame, designed(frame, row.factor)).rmse
        assert close(numbers(row.difference_ms), summary(other - experts), experts.mean())
        assert close(row.p, stats.ttest_rel(other, experts).pvalue, 1.0)
    level = dummies_of(frame)
    both = np.column_stack([level, column(frame, "unique_experts")])
    gain = held_out(frame, level).rmse - held_out(frame, both).rmse
    assert close(numbers(found.beyond_m_ms), summary(gain), experts.mean())


def test_h1_on_real_kernels():
    eager = routing_predicts_best(evidence_of(recorded()))
    assert eager.verdict == "supported"
    assert eager.sentence.startswith(
        "Unique experts alone predict verification time better than each other factor recorded (verified_positions "
        "and context_len); the next best, verified_positions, has a held-out RMSE higher by 0.215 ms [0.157; 0.27"
    )
    assert eager.not_compared["kv_usage"] == "not recorded"
    grouped = routing_predicts_best(evidence_of(recorded("rounds-grouped_mm")))
    assert grouped.verdict == "not supported by these data"
    assert grouped.sentence == "Unique experts alone do not predict clearly better than verified_positions alone."
    control = routing_predicts_best(evidence_of(recorded("rounds-batched_mm")))
    assert control.verdict == "contradicted"
    assert control.sentence.startswith("verified_positions alone predicts verification time better than unique experts")
    assert control.beyond_m_ms.low < 0 < control.beyond_m_ms.high


def test_h1_is_not_supported_by_experts_that_only_stand_for_m():
    """Time follows the mean of U at each m, a curve in m: U beats the line in m, but adds nothing to levels."""
    frame = SIMULATED.assign(max_unique_experts=lambda f: 8.0 * (f["draft_length"] + 1), graph_bucket=16)
    curve = frame.groupby("draft_length")["unique_experts"].transform("mean")
    noise = np.random.default_rng(2).normal(0, 0.3, (2, len(frame)))
    frame = frame.assign(unique_experts=curve + noise[0], target_ms=5 + 0.25 * curve + noise[1])
    found = routing_predicts_best(evidence_of(frame))
    assert all(row.difference_ms.low > 0 for row in found.comparisons)
    assert found.verdict == "not supported by these data"
    assert "but only because they grow with m: on top of a level for each m they take" in found.sentence


def test_h1_that_cannot_be_tested_says_why():
    frame = SIMULATED
    dense = routing_predicts_best(evidence_of(frame.assign(unique_experts=0.0)))
    assert (dense.verdict, dense.sentence) == (
        "cannot be tested",
        "H1 cannot be tested: unique_experts: does not vary.",
    )
    alone = routing_predicts_best(evidence_of(frame.assign(cluster="only")))
    assert alone.sentence == ("H1 cannot be tested: one cluster only: no held-out error; record more generations.")
    nothing = frame[frame["draft_length"] == 4].assign(context_len=9)
    nothing = nothing.drop(columns=["kv_usage", "graph_bucket", "max_unique_experts"])
    assert routing_predicts_best(evidence_of(nothing)).sentence == (
        "H1 cannot be tested: no other factor was recorded and varies."
    )


@pytest.mark.parametrize("name", ["rounds", "simulated"])
def test_h2_numbers_equal_refits_on_the_rows(name):
    frame = SIMULATED if name == "simulated" else recorded(name)
    frame = frame[frame["draft_length"] > 0].reset_index(drop=True)
    m, U, y = (column(frame, x) for x in ("verified_positions", "unique_experts", "target_ms"))
    regime = (5, 6, 7, 8)
    found = constant_increment(evidence_of(frame), [regime]).regimes[0].increments
    level = dummies_of(frame)
    M, inside = level.shape[1], np.isin(np.unique(m), regime)
    free, slopes = categorical(frame), level * U[:, None]
    tied = np.column_stack([level, slopes[:, ~inside], slopes[:, inside].sum(axis=1), column(frame, "context_len")])
    theirs, cr3 = clustered(y, free, frame["cluster"])
    common, common_cr3 = clustered(y, tied, frame["cluster"])
    at = M + np.flatnonzero(inside)
    assert close([a.value for a in found.alphas], theirs.params[at], theirs.bse[at])
    assert close([a.error_cr3 for a in found.alphas], np.sqrt(np.diagonal(cr3))[at])
    assert close([found.common.value, found.common.error_cr1], [common.params[-2], common.bse[-2]])
    assert close(found.common.error_cr3, np.sqrt(common_cr3[-2, -2]))

    q, G = len(regime) - 1, min(frame.loc[m == each, "cluster"].nunique() for each in regime)
    contrast = np.hstack([-np.ones((q, 1)), np.eye(q)])
    difference = contrast @ theirs.params[at]
    statistic = difference @ np.linalg.inv(contrast @ cr3[np.ix_(at, at)] @ contrast.T) @ difference
    F = statistic * (G - q) / (q * (G - 1))
    assert found.freedom == (q, G - q)
    assert found.wald_f == pytest.approx(F, rel=1e-7)
    assert found.p == pytest.approx(stats.f.sf(F, q, G - q), rel=1e-6)

    weights = np.array([((U[m == each] - U[m == each].mean()) ** 2).sum() for each in regime])
    weights /= weights.sum()
    mean = weights @ theirs.params[at]
    t = stats.t.ppf(0.975, G - 1)
    for i, share in enumerate(found.deviations):
        row = np.eye(len(regime))[i] - weights
        half = t * np.sqrt(row @ cr3[np.ix_(at, at)] @ row) / mean
        value = row @ theirs.params[at] / mean
        assert close([share.value, share.low, share.high], [value, value - half, value + half], half)

    rows = np.isin(m, regime)
    centre = np.array([U[m == each].mean() for each in np.unique(m)])[level.argmax(axis=1)]
    squares = np.column_stack([free, level * ((U - centre) ** 2)[:, None]])
    ours = [held_out(frame, design, rows).rmse for design in (tied, free, squares)]
    assert close(numbers(found.rmse_ms), summary(ours[0]))
    assert close(numbers(found.free_rmse_ms), summary(ours[1]))
    assert close(numbers(found.free_gain_ms), summary(ours[0] - ours[1]), ours[0].mean())
    assert close(numbers(found.square_gain_ms), summary(ours[1] - ours[2]), ours[0].mean())
    bent = sm.OLS(y, squares).fit().params[-M:][inside]
    sd = np.array([U[m == each].std() for each in regime])
    assert found.bend.value == pytest.approx(2 * (weights * sd * bent).sum() / mean, rel=1e-7)


def test_h2_holds_inside_the_regimes_of_the_source_and_not_across_them(source):
    across = constant_increment(source)
    assert across.verdict == "contradicted"
    assert across.sentence.startswith("In m = 2 to 11 one more expert costs 0.25")
    assert "on average, but not at every m: at m = 2 it is -7" in across.sentence
    inside = constant_increment(evidence_of(drawn(rounds_per_k=6000, questions=39)), REGIMES)
    assert inside.verdict == "supported"
    assert [each.verdict for each in inside.regimes] == ["supported", "supported"]
    assert inside.regimes[1].sentence.startswith("In m = 5 to 11 one more expert costs 0.26")


def test_h2_is_not_supported_by_too_few_rounds_to_know():
    found = constant_increment(evidence_of(drawn(rounds_per_k=40, questions=39)), [(2, 3, 4)])
    assert found.verdict == "not supported by these data"
    assert "is not known to lie within 10 % of that" in found.sentence
    assert "no difference between the m is shown either (p = " in found.sentence


def test_h2_on_real_kernels():
    eager = constant_increment(evidence_of(recorded()))
    assert eager.verdict == "not supported by these data"
    assert eager.regimes[0].untested == {1: "unique experts do not vary"}
    assert "alpha at m = 2, 3, 4 is not known to lie within 10 % of that" in eager.sentence
    assert constant_increment(evidence_of(recorded()), [range(5, 12)]).verdict == "supported"
    control = constant_increment(evidence_of(recorded("rounds-batched_mm")))
    assert control.verdict == "not supported by these data"
    assert "no increment is measured" in control.sentence


def test_h2_is_contradicted_by_an_increment_that_falls_with_their_number():
    frame = SIMULATED
    m, U = column(frame, "verified_positions"), column(frame, "unique_experts")
    centre = frame.groupby("draft_length")["unique_experts"].transform("mean").to_numpy()
    noise = np.random.default_rng(3).normal(0, 0.1, len(frame))
    bent = frame.assign(target_ms=3 + 0.2 * m + 0.25 * U - 0.02 * (U - centre) ** 2 + noise)
    found = constant_increment(evidence_of(bent), [(8, 9, 10, 11)])
    assert found.verdict == "contradicted"
    assert "but the increment changes with their number: -" in found.sentence
    assert found.regimes[0].increments.bend.high < -0.1


def test_h2_squares_of_two_values_are_not_asked_for():
    frame = SIMULATED[SIMULATED["draft_length"].isin([5, 6])]
    U = column(frame, "unique_experts")
    two = 30.0 + 10 * (np.median(U) < U)
    found = constant_increment(evidence_of(frame.assign(unique_experts=two))).regimes[0].increments
    assert found.bend is None
    assert numbers(found.square_gain_ms) == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)


def test_h2_that_cannot_be_tested_says_why(source):
    one = constant_increment(source, [(5,), (6, 7)])
    assert one.regimes[0].sentence == (
        "In m = 5 fewer than two m have an alpha of their own, so H2 cannot be tested there."
    )
    assert one.verdict == one.regimes[1].verdict
    assert one.sentence.endswith(" The verdict rests on one run of m alone: the rest cannot be tested.")
    few = constant_increment(evidence_of(SIMULATED[SIMULATED["cluster"] < "q004"]))
    assert few.verdict == "cannot be tested"
    assert few.sentence == ("In m = 2 to 11 there are too few clusters for 10 alphas, so H2 cannot be tested there.")
    assert constant_increment(evidence_of(SIMULATED.assign(cluster="only"))).sentence == (
        "H2 cannot be tested: one cluster only: no held-out error; record more generations."
    )
    stuck = constant_increment(evidence_of(SIMULATED.assign(unique_experts=8.0)))
    assert stuck.verdict == "cannot be tested"
    assert stuck.sentence.startswith("H2 cannot be tested: unique_experts varies at no m")


def test_h2_refuses_regimes_that_make_no_sense(source):
    with pytest.raises(InputError) as fault:
        constant_increment(source, [(2, 3), (3, 14), ()], tolerance=0.0)
    for sentence in (
        "regimes: m = 14 was not measured (measured: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)",
        "regimes: m = 3 stands twice; an m belongs to one regime",
        "regimes: one holds no m; leave it out",
        "tolerance is 0.0; it is a positive share of alpha, such as 0.1",
    ):
        assert sentence in str(fault.value)


def test_h3_resamples_as_repeated_rows_do():
    frame = drawn(rounds_per_k=60, questions=6, ks=(1, 4, 7))
    evidence = evidence_of(frame)
    weights = np.random.default_rng(4).multinomial(6, np.full(6, 1 / 6), size=5).astype(float)
    names = ("unique_experts", "context_len", "target_ms")
    ours = standardised_under(evidence.moments.of(names), [2, 5, 8], weights)
    cluster = pd.factorize(frame["cluster"], sort=True)[0]
    for b, draw in enumerate(weights.astype(int)):
        for i, k in enumerate((1, 4, 7)):
            rows = np.flatnonzero(frame["draft_length"] == k)
            rows = np.repeat(rows, draw[cluster[rows]])
            z = [stats.zscore(column(frame, name)[rows]) for name in names]
            theirs = sm.OLS(z[2], np.column_stack(z[:2])).fit()
            assert close(ours[b, i], theirs.params, theirs.bse)
    assert np.isnan(standardised_under(evidence.moments.of(names), [2], np.zeros((1, 6)))).all()


def test_h3_verdicts(source):
    found = growing_association(source)
    assert found.verdict == "supported"
    assert found.ks == tuple(range(1, 11))
    assert 0.10 < found.low < found.trend < found.high < 0.15
    assert (found.draws, found.undefined) == (999, 0)
    assert found == growing_association(source)
    difference = [row.unique_experts.value - row.context_len.value for row in found.rows]
    assert found.trend == pytest.approx(np.polyfit(found.ks, difference, 1)[0], rel=1e-9)

    eager = growing_association(evidence_of(recorded()))
    assert eager.verdict == "supported"
    assert eager.ks == tuple(range(1, 11))
    assert eager.sentence.startswith(
        "From K = 1 to 10 the standardised coefficient of unique experts goes from 0.44 to 0.83 and that of context "
        "length from 0.29 to 0.22; their difference changes by +0.0464 ["
    )
    control = growing_association(evidence_of(recorded("rounds-batched_mm")))
    assert control.verdict == "not supported by these data"
    assert control.sentence.endswith("but at K = 10 unique experts have no association to speak of.")


def test_h3_is_contradicted_where_experts_lose():
    frame = SIMULATED
    k, U, L = (column(frame, name) for name in ("draft_length", "unique_experts", "context_len"))
    noise = np.random.default_rng(5).normal(0, 0.3, len(frame))
    lost = frame.assign(target_ms=5 + (0.5 / k**1.5) * U + 2e-4 * k * L + noise)
    found = growing_association(evidence_of(lost))
    assert found.verdict == "contradicted"
    assert found.sentence.endswith("unique experts lose on context length as the budget grows.")


def test_h3_a_context_coefficient_below_zero_is_not_a_weaker_one():
    frame = SIMULATED
    k, U, L = (column(frame, name) for name in ("draft_length", "unique_experts", "context_len"))
    noise = np.random.default_rng(6).normal(0, 0.3, len(frame))
    spread = frame.groupby("draft_length")["unique_experts"].transform("std").to_numpy()
    found = growing_association(evidence_of(frame.assign(target_ms=20 + 0.3 * U / spread - 2e-4 * k * L + noise)))
    assert found.low > 0 > found.trend_of_sizes
    assert found.verdict == "not supported by these data"
    assert found.sentence.endswith("the coefficient of context length falls below 0, not because it weakens.")


def test_h3_that_cannot_be_tested_says_why():
    two = growing_association(evidence_of(SIMULATED[SIMULATED["draft_length"].isin([1, 8])]))
    assert two.sentence == "H3 cannot be tested: both coefficients are identified at 2 budgets; a trend needs 3."
    few = growing_association(evidence_of(SIMULATED[SIMULATED["cluster"] < "q009"]))
    assert few.verdict == "cannot be tested"
    assert few.sentence == "H3 cannot be tested: 9 clusters; resampling needs at least 10."
    lone = SIMULATED[(SIMULATED["draft_length"] != 5) | (SIMULATED["cluster"] == "q003")]
    thin = growing_association(evidence_of(lone))
    assert thin.verdict == "cannot be tested"
    assert thin.sentence.endswith("of 999 resamples of clusters do not identify every coefficient.")
    dense = growing_association(evidence_of(SIMULATED.assign(unique_experts=0.0)))
    assert dense.sentence == "H3 cannot be tested: unique_experts does not vary."
    alike = growing_association(evidence_of(SIMULATED.assign(context_len=700)))
    assert (alike.verdict, alike.sentence) == (
        "cannot be tested",
        "H3 cannot be tested: context_len does not vary.",
    )
    one = growing_association(evidence_of(SIMULATED[SIMULATED["draft_length"] == 3]))
    assert one.sentence == "H3 cannot be tested: both coefficients are identified at 1 budget; a trend needs 3."


def test_shares_are_written_with_a_space_and_no_minus_before_nothing():
    assert [percent(0.1), percent(-0.004), percent(-0.004, "+"), percent(-0.12, "+")] == [
        "10 %",
        "0 %",
        "+0 %",
        "-12 %",
    ]


def test_all_three_together(source):
    found = judge_hypotheses(source, [(2, 3, 4), (5, 6, 7, 8, 9, 10, 11)])
    assert found.h1.verdict == found.h3.verdict == "supported"
    assert [each.regime for each in found.h2.regimes] == [(2, 3, 4), (5, 6, 7, 8, 9, 10, 11)]
