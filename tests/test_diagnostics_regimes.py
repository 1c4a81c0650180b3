"""The search for regimes: every partition against least squares on rows, and what it says of known rounds."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from latency_simulation import close, published_rounds, simulated
from sklearn.model_selection import GroupKFold

from oracle.errors import InputError
from oracle.latency.diagnostics.regime_form import fit_partition
from oracle.latency.diagnostics.regimes import find_regimes, within_one_error
from oracle.latency.diagnostics.runs import candidates, search
from oracle.latency.evidence import gather_evidence
from oracle.rounds import Rounds, load_rounds

TINY = Path(__file__).parents[1] / "cases" / "tiny-moe"


def evidence_of(frame, folds=5):
    return gather_evidence(Rounds.from_pandas(frame), folds=folds)


def design(frame, partition, levels):
    """Columns of one partition, written from the definition."""
    m, U = frame["draft_length"].to_numpy() + 1, frame["unique_experts"].to_numpy(dtype=float)
    columns = []
    for run in partition:
        inside = np.isin(m, run).astype(float)
        if levels == "free":
            columns += [(m == one).astype(float) for one in run]
        else:
            columns.append(inside)
            if len(run) > 1:
                columns.append(inside * m)
        columns.append(inside * U)
    return np.column_stack([*columns, frame["context_len"].to_numpy(dtype=float)])


def small(ks=(0, 1, 2, 4, 5), rounds=90, questions=11, seed=3):
    """A few rounds, with a k = 0 whose U does not vary."""
    frame = simulated(rounds_per_k=rounds, questions=questions, ks=[k for k in ks if k], seed=seed)
    if 0 not in ks:
        return frame
    zero = frame.iloc[:rounds].copy()
    zero["draft_length"], zero["unique_experts"], zero["draft_ms"] = 0, 8.0, 0.0
    zero["target_ms"] = 6.0 + 1e-3 * zero["context_len"] + np.random.default_rng(seed).normal(0, 0.1, rounds)
    return pd.concat([zero, frame], ignore_index=True)


@pytest.mark.parametrize("levels", ["line", "free"])
@pytest.mark.parametrize("ks", [(0, 1, 2, 4, 5), (1, 2, 3, 7)])
def test_every_partition_has_the_residual_sum_of_least_squares_on_rows(levels, ks):
    frame = small(ks)
    evidence = evidence_of(frame)
    found = candidates(evidence.moments.by_m())
    assert len(found.members) == 2 ** (len(found.atoms) - 1)
    T = frame["target_ms"].to_numpy()
    sums = {}
    for index in range(len(found.members)):
        partition = found.partition(index)
        X = design(frame, partition, levels)
        left = sm.OLS(T, X).fit().resid
        sums[index] = float(left @ left)
    ours = search(evidence.moments, found, np.ones((1, len(evidence.clusters))), levels=levels)
    for row, number in enumerate(found.numbers):
        of_number = {index: s for index, s in sums.items() if found.regimes[index] == number}
        assert close(ours.sse[row, 0], min(of_number.values()))
        assert ours.best[row, 0] == min(of_number, key=of_number.get)


@pytest.mark.parametrize("levels", ["line", "free"])
def test_held_out_errors_are_those_of_least_squares_on_the_same_folds(levels):
    frame = small()
    evidence = evidence_of(frame, folds=4)
    result = find_regimes(evidence, levels=levels, draws=3)
    T, groups = frame["target_ms"].to_numpy(), frame["cluster"].to_numpy(dtype=str)
    errors = {row.regimes: [] for row in result.by_number}
    percent = {row.regimes: [] for row in result.by_number}
    folds = sorted(GroupKFold(4).split(T, groups=groups), key=lambda split: evidence.fold_of_round[split[1][0]])
    for f, (train, test) in enumerate(folds):
        for row in result.by_number:
            X = design(frame, row.by_fold[f], levels)
            left = T[test] - X[test] @ sm.OLS(T[train], X[train]).fit().params
            errors[row.regimes].append(np.sqrt((left**2).mean()))
            percent[row.regimes].append(100 * np.abs(left / T[test]).mean())
    for row in result.by_number:
        assert close(row.held_out_rmse_ms.by_fold, errors[row.regimes])
        assert close(row.held_out_mape_percent.by_fold, percent[row.regimes])


def test_weights_are_copies_of_clusters():
    frame = small()
    evidence = evidence_of(frame)
    found = candidates(evidence.moments.by_m())
    counts = np.random.default_rng(1).multinomial(11, np.full(11, 1 / 11))
    copies = pd.concat(
        [frame[frame["cluster"] == c] for c, n in zip(evidence.clusters, counts, strict=True) for _ in range(n)]
    )
    T = copies["target_ms"].to_numpy()
    ours = search(evidence.moments, found, counts[None].astype(float))
    for row in range(len(found.numbers)):
        X = design(copies, found.partition(int(ours.best[row, 0])), "line")
        assert close(ours.sse[row, 0], sm.OLS(T, X).fit().ssr)


def test_coefficients_and_errors_of_a_partition_equal_statsmodels():
    frame = small()
    partition = ((1, 2, 3), (5, 6))
    fit = fit_partition(partition, evidence_of(frame).moments, "line")
    X = design(frame, partition, "line")
    theirs = sm.OLS(frame["target_ms"].to_numpy(), X).fit(
        cov_type="cluster", cov_kwds={"groups": pd.factorize(frame["cluster"])[0]}
    )
    first, second = fit.regimes
    ours = [first.beta0_ms, first.beta0_slope_ms, first.alpha_ms_per_expert]
    ours += [second.beta0_ms, second.beta0_slope_ms, second.alpha_ms_per_expert, fit.context]
    assert close([e.value for e in ours], theirs.params, theirs.bse)
    assert close([e.error_cr1 for e in ours], theirs.bse)
    change = theirs.t_test([0, 0, -1, 0, 0, 1, 0])
    assert close(fit.alpha_changes[0].value, change.effect[0], change.sd[0, 0])
    assert close(fit.alpha_changes[0].error_cr1, change.sd[0, 0])
    U = frame.loc[frame["draft_length"] == 4, "unique_experts"].mean()
    step = theirs.t_test([-1, -5, -U, 1, 5, U, 0])
    assert close(fit.steps[0].value, step.effect[0], step.sd[0, 0])
    assert close(fit.steps[0].error_cr1, step.sd[0, 0])


def test_an_m_without_an_alpha_of_its_own_joins_the_next():
    found = candidates(evidence_of(small()).moments.by_m())
    assert found.atoms == ((1, 2), (3,), (5,), (6,))
    assert found.numbers == (1, 2, 3, 4)
    assert found.partition(0) == ((1, 2, 3, 5, 6),)
    last = small((1, 2))
    last.loc[last["draft_length"] == 2, "unique_experts"] = 16.0
    assert candidates(evidence_of(last).moments.by_m()).atoms == ((2, 3),)


def test_an_m_with_three_rounds_takes_no_part():
    frame = small((1, 2, 3))
    few = pd.concat([frame[frame["draft_length"] < 3], frame[frame["draft_length"] == 3].head(3)])
    result = find_regimes(evidence_of(few), draws=0)
    assert result.places == ((2,), (3,))
    assert result.left_out == {4: "3 rounds; a regime's m needs at least 4"}


def test_many_m_are_searched_for_few_regimes():
    frame = simulated(rounds_per_k=12, questions=3, ks=[1])
    frame = pd.concat([frame.assign(draft_length=k) for k in range(1, 38)])
    found = candidates(evidence_of(frame).moments.by_m())
    assert found.numbers == (1, 2, 3, 4, 37)
    assert len(found.members) == sum(math.comb(36, r) for r in range(4)) + 1


def test_the_one_standard_error_rule_takes_the_fewest_regimes_that_are_as_good():
    folds = np.array([[3.0, 3.0, 3.0], [1.0, 1.2, 0.8], [0.9, 1.0, 1.0]])
    index, mean, error = within_one_error(folds)
    assert index == 1  # 0.0333 above the best, standard error 0.1202
    assert close(mean, [3 - 2.9 / 3, 0.1 / 3, 0.0])
    assert close(error[1], np.std([0.1, 0.2, -0.2], ddof=1) / math.sqrt(3))
    assert within_one_error(np.array([[1.0, 1.0], [0.5, 0.5]]))[0] == 1


def test_the_published_boundary_is_found_everywhere():
    evidence = gather_evidence(published_rounds(20_000, 39, seed=5))
    for levels in ("line", "free"):
        result = find_regimes(evidence, levels=levels)
        assert result.partition == ((2, 3, 4), (5, 6, 7, 8, 9, 10, 11))
        boundary = next(row for row in result.boundaries if row.chosen)
        assert (boundary.before, boundary.after) == (4, 5)
        assert (result.folds, boundary.share_of_folds) == (5, 1.0)
        assert result.resamples == 999
        assert boundary.share_of_resamples > 0.99
        assert boundary.jump
        assert boundary.settled
        assert result.by_number[1].share_chosen > 0.6
        assert "boundary between m = 4 and 5: found in 100 % of training folds" in result.said[1]
        assert "its place is settled; alpha jumps (+0.18" in result.said[1]
        first, second = (regime.alpha_ms_per_expert for regime in result.regimes)
        assert first.low < 0.081 < first.high
        assert second.low < 0.266 < second.high
        assert result.context_ms_per_token.low < 1.1e-3 < result.context_ms_per_token.high


@pytest.mark.parametrize("name", ["rounds", "rounds-grouped_mm", "rounds-batched_mm"])
def test_real_rounds_have_no_jump_of_alpha(name):
    evidence = gather_evidence(load_rounds(TINY / f"{name}.parquet"))
    free = find_regimes(evidence, levels="free", draws=199)
    assert free.partition == (tuple(range(1, 12)),)
    assert free.said[0].startswith("one regime with beta0 free at every m: one alpha, ")
    line = find_regimes(evidence, draws=199)
    assert not any(boundary.jump for boundary in line.boundaries)
    if name == "rounds-batched_mm":
        assert (
            "alpha jumps at none of these boundaries (a jump: the larger alpha is at least 1.25 times the smaller, and "
            "the interval of the change leaves out 0); they follow bends of beta0, not the cost of an expert"
            in line.said
        )
    else:
        assert not line.found
        assert line.said[0].endswith("none holds three m, and two always lie on a line: beta0 bends everywhere")


def test_none_are_found_where_every_m_has_an_alpha_of_its_own():
    frame = simulated(rounds_per_k=600, questions=30, ks=range(1, 7))
    frame["target_ms"] += frame["unique_experts"] * frame["draft_length"].map(
        {1: 0, 2: 0.3, 3: 0.1, 4: 0.5, 5: 0.2, 6: 0}
    )
    for levels in ("line", "free"):
        result = find_regimes(evidence_of(frame), levels=levels, draws=49)
        assert not result.found
        assert (result.number, result.regimes) == (6, ())
        assert result.by_number[-1].share_chosen == 1.0
        assert result.said == (
            "no regimes found: alpha and beta0 of their own at every m predict held-out rounds better than any "
            "regimes do",
        )


def test_one_cluster_cannot_choose():
    frame = small().assign(cluster="q", generation="q")
    result = find_regimes(evidence_of(frame))
    assert (result.found, result.number, result.resamples, result.boundaries) == (False, None, 0, ())
    assert result.said == (
        "no regimes found: not searched: held-out errors need two folds whose complements hold every m",
    )


def test_context_that_does_not_vary_leaves_c_out():
    frame = small((1, 2, 4)).assign(context_len=500)
    result = find_regimes(evidence_of(frame), draws=9)
    assert result.context_ms_per_token is None
    T, X = frame["target_ms"].to_numpy(), design(frame, result.by_number[0].runs, "line")[:, :-1]
    assert close(result.by_number[0].rmse_ms, np.sqrt(sm.OLS(T, X).fit().ssr / len(T)))


def test_a_dense_target_is_refused():
    with pytest.raises(InputError, match="regimes: unique_experts varies at no m, so there is no alpha that could"):
        find_regimes(evidence_of(small().assign(unique_experts=0.0)))
    constant = small((1, 2)).assign(unique_experts=lambda frame: 8.0 + frame["draft_length"])
    with pytest.raises(InputError, match="regimes: no m has rounds enough and unique experts that vary"):
        find_regimes(evidence_of(constant))


def test_small_steps_of_alpha_do_not_follow_bends_of_a_free_beta0():
    frame = simulated(rounds_per_k=600, questions=40, ks=(4, 5, 6, 7), noise_ms=0.05)
    frame["target_ms"] += 0.03 * frame["unique_experts"] * (frame["draft_length"] > 5)
    free = find_regimes(evidence_of(frame), levels="free", draws=49)
    assert free.partition == ((5, 6), (7, 8))
    assert (
        "alpha jumps at none of these boundaries (a jump: the larger alpha is at least 1.25 times the smaller, and the "
        "interval of the change leaves out 0)" in free.said
    )


@pytest.mark.parametrize("levels", ["line", "free"])
def test_rounds_without_noise_have_one_regime(levels):
    frame = simulated(rounds_per_k=200, questions=40, ks=(1, 2, 3, 4, 5, 6))
    frame["target_ms"] = 5 + 0.3 * frame["draft_length"] + 0.2 * frame["unique_experts"] + 1e-3 * frame["context_len"]
    result = find_regimes(evidence_of(frame), levels=levels, draws=49)
    assert result.partition == (tuple(range(2, 8)),)
    assert not any(boundary.jump for boundary in result.boundaries)


def test_a_difference_below_the_floor_is_none():
    rounding = np.array([[1e-8, 2e-8, 1e-8], [1e-9, 1e-9, 1e-9]])
    assert (within_one_error(rounding)[0], within_one_error(rounding, 1e-6)[0]) == (1, 0)


def test_no_share_is_said_where_few_resamples_hold_every_m_in_every_fold():
    frame = simulated(rounds_per_k=60, questions=30, ks=(1, 2, 3))
    frame = frame[(frame["draft_length"] != 3) | frame["cluster"].isin(["q001", "q007"])]
    result = find_regimes(evidence_of(frame[frame["cluster"] < "q012"]), draws=99)
    assert 0 <= result.resamples_with_folds < 50
    assert all(row.share_chosen is None for row in result.by_number)
    assert "the whole procedure" not in " ".join(result.said)
