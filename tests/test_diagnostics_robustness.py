from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from latency_simulation import ALPHA, close, simulated
from scipy import stats

from oracle.errors import InputError
from oracle.latency.diagnostics.robustness import robustness
from oracle.latency.evidence import gather_evidence
from oracle.rounds import Rounds

RECORDED = Path(__file__).parents[1] / "cases" / "tiny-moe" / "rounds.parquet"


def simulated_frame():
    frame = simulated(rounds_per_k=150, questions=24, seed=3, ks=(1, 2, 4))
    rng = np.random.default_rng(5)
    frame["target_ms"] += rng.standard_t(2, len(frame)) * 0.05
    frame["category"] = np.where(frame["cluster"].str[1:].astype(int) % 3 == 0, "code", "prose")
    frame["category"] = frame["category"].where(~frame["cluster"].isin(["q004", "q005"]), "html")
    frame["round_index"] = rng.permutation(len(frame))
    return frame


@pytest.fixture(scope="module", params=["recorded", "simulated"])
def examined(request):
    frame = pd.read_parquet(RECORDED) if request.param == "recorded" else simulated_frame()
    return frame, robustness(gather_evidence(Rounds.from_pandas(frame)))


def designs(frame, robust):
    """Rows, design matrix and places of (alphas…, c) for one m, or for the joint fit."""
    if robust.m is not None:
        rows = frame[frame["draft_length"] == robust.m - 1]
        design = sm.add_constant(rows[["unique_experts", "context_len"]].to_numpy(dtype=float))
        return rows, design, [1, 2]
    ms = np.unique(frame["draft_length"]) + 1
    dummies = (frame["draft_length"].to_numpy()[:, None] == ms - 1).astype(float)
    own = np.isin(ms, robust.ms)
    experts = dummies[:, own] * frame[["unique_experts"]].to_numpy(dtype=float)
    design = np.column_stack([dummies, experts, frame["context_len"].to_numpy(dtype=float)])
    return frame, design, [*range(len(ms), design.shape[1])]


def of(robust, name, which=""):
    return next(check for check in robust.checks if (check.name, check.of) == (name, which))


def values(check):
    return [shift.value for shift in (*check.alpha, check.context)]


def errors(robust):
    """CR3 errors, read back from the intervals of the full fit."""
    full = [*robust.full.alpha, robust.full.context]
    return np.array([shift.high - shift.low for shift in full]) / 4


def refit(design, y, keep, at):
    return np.linalg.lstsq(design[keep], y[keep], rcond=None)[0][at]


def test_huber_regression_equals_statsmodels(examined):
    frame, both = examined
    for robust in both:
        rows, design, at = designs(frame, robust)
        model = sm.RLM(rows["target_ms"].to_numpy(), design, M=sm.robust.norms.HuberT())
        theirs = model.fit(conv="coefs", tol=1e-13, maxiter=300)
        assert robust.huber_steps is not None
        assert close(values(of(robust, "Huber")), theirs.params[at], errors(robust))


def test_trimming_halves_and_categories_equal_refits_of_the_rows(examined):
    frame, both = examined
    for robust in both:
        rows, design, at = designs(frame, robust)
        y = rows["target_ms"].to_numpy()
        residual = np.abs(y - design @ np.linalg.lstsq(design, y, rcond=None)[0])
        kept = residual <= np.sort(residual)[len(y) - round(0.01 * len(y)) - 1]
        assert of(robust, "trimmed").rounds == kept.sum()
        assert close(values(of(robust, "trimmed")), refit(design, y, kept, at), errors(robust))
        middle = rows.groupby("draft_length")["round_index"].transform("median")
        second = (rows["round_index"] >= middle).to_numpy()
        assert robust.order == "round_index"
        for name, half in (("first half", ~second), ("second half", second)):
            assert of(robust, name).rounds == half.sum()
            assert close(values(of(robust, name)), refit(design, y, half, at), errors(robust))
        for category in np.unique(rows["category"]):
            rest = (rows["category"] != category).to_numpy()
            check = of(robust, "without category", category)
            assert check.rounds == rest.sum()
            assert close(values(check), refit(design, y, rest, at), errors(robust))


def test_leaving_each_cluster_out_equals_refits_of_the_rows(examined):
    frame, both = examined
    for robust in both:
        rows, design, at = designs(frame, robust)
        y, clusters = rows["target_ms"].to_numpy(), rows["cluster"].to_numpy(dtype=str)
        names = np.unique(clusters)
        refits = np.array([refit(design, y, clusters != name, at) for name in names])
        by_name = {check.of: values(check) for check in robust.without_cluster}
        assert set(by_name) == {names[g] for g in (*refits.argmin(axis=0), *refits.argmax(axis=0))}
        for name, found in by_name.items():
            assert close(found, refits[list(names).index(name)], errors(robust))
        full = np.array(values(robust.full))
        moved = refits - full
        share = moved**2 / (moved**2).sum(axis=0)
        for i, pull in enumerate(robust.pulls):
            g = np.abs(moved[:, i]).argmax()
            assert pull.cluster == names[g]
            assert pull.share_of_variance == pytest.approx(share[g, i])
            assert abs(pull.shift.errors) <= np.sqrt(len(names) / (len(names) - 1))
        assert [pull.coefficient for pull in robust.pulls] == ["alpha"] * len(robust.ms) + ["c"]


def test_bootstrap_equals_refits_of_resampled_rows():
    frame = simulated_frame()
    robust = robustness(gather_evidence(Rounds.from_pandas(frame)), m=3, resamples=40, seed=7)[0]
    rows, design, at = designs(frame, robust)
    names, codes = np.unique(rows["cluster"].to_numpy(dtype=str), return_inverse=True)
    draws = np.random.default_rng(7).multinomial(len(names), np.full(len(names), 1 / len(names)), 40)
    root = np.sqrt(draws[:, codes])
    y = rows["target_ms"].to_numpy()
    refits = np.array([np.linalg.lstsq(design * w[:, None], y * w, rcond=None)[0][at] for w in root])
    check = of(robust, "bootstrap")
    assert close(values(check), refits.mean(axis=0), errors(robust))
    n = len(names)
    tail = 100 * stats.norm.cdf(stats.t.ppf(0.025, n - 1) * np.sqrt(n / (n - 1)))
    low, high = np.percentile(refits, (tail, 100 - tail), axis=0)
    assert close([s.low for s in (*check.alpha, check.context)], low, errors(robust))
    assert close([s.high for s in (*check.alpha, check.context)], high, errors(robust))
    assert (robust.resamples, robust.failed) == (40, 0)


def test_shifts_are_relative_to_the_full_fit(examined):
    _, both = examined
    for robust in both:
        for i, shift in enumerate(robust.full.alpha):
            assert (shift.percent, shift.errors) == (0.0, 0.0)
            moved = of(robust, "Huber").alpha[i]
            assert moved.percent == pytest.approx(100 * (moved.value / shift.value - 1))
            assert (moved.low, moved.high) == (None, None)


def test_the_published_coefficients_stay_where_they_are():
    frame = simulated(rounds_per_k=1500, questions=60, noise_ms=0.05)
    at_k8, joint = robustness(gather_evidence(Rounds.from_pandas(frame)))
    assert (at_k8.m, joint.m, joint.ms) == (9, None, tuple(ALPHA))
    assert at_k8.order == "row order"
    for check in (at_k8.full, *at_k8.checks):
        assert check.alpha[0].value == pytest.approx(ALPHA[9], rel=0.01)
        assert check.context.value == pytest.approx(1.1e-3, rel=0.05)
    assert at_k8.checks[0].alpha[0].low < ALPHA[9] < at_k8.checks[0].alpha[0].high


def test_the_one_m_that_is_examined():
    frame = pd.read_parquet(RECORDED)
    evidence = gather_evidence(Rounds.from_pandas(frame[frame["draft_length"].isin([0, 1, 9, 10])]))
    assert robustness(evidence, resamples=9)[0].m == 2
    assert robustness(evidence, m=11, resamples=9)[0].m == 11
    with pytest.raises(InputError) as fault:
        robustness(evidence, m=5)
    assert str(fault.value) == "rounds: none with m = 5 (draft length 4); measured: m = 1, 2, 10, 11"
    with pytest.raises(InputError, match="unique_experts varies at no m"):
        robustness(evidence, m=1)
    with pytest.raises(InputError) as fault:
        robustness(gather_evidence(Rounds.from_pandas(frame.assign(unique_experts=0.0))))
    assert str(fault.value) == (
        "unique_experts varies at no m (a dense target): there is no alpha whose robustness could fail"
    )


def test_what_cannot_be_checked_is_said():
    frame = simulated_frame()
    alone = robustness(gather_evidence(Rounds.from_pandas(frame.assign(cluster="q"))), resamples=9)[1]
    assert alone.notes == ("one cluster: nothing to resample or to leave out",)
    assert (alone.full.alpha[0].low, alone.without_cluster, alone.pulls) == (None, (), ())
    assert "bootstrap" not in [check.name for check in alone.checks]
    two = frame.loc[frame["draft_length"] == 4, "cluster"].value_counts().index[:2]
    frame["category"] = np.where(frame["cluster"].isin(two), "html", "prose")
    only = frame[(frame["draft_length"] != 4) | (frame["category"] == "html")]
    robust = robustness(gather_evidence(Rounds.from_pandas(only)), resamples=50)[1]
    assert of(robust, "without category", "html").alpha[0].value is None
    assert "without category html: the rounds left do not identify the coefficients" in robust.notes
    assert f"{robust.failed} of 50 resamples do not identify the coefficients and are left out" in robust.notes
    assert robust.failed > 0
    flat = frame.assign(context_len=700, target_ms=frame["target_ms"] - 1.1e-3 * frame["context_len"])
    assert robustness(gather_evidence(Rounds.from_pandas(flat)), resamples=9)[1].full.context is None
