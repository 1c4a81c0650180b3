import numpy as np
import pytest
import statsmodels.api as sm
from latency_simulation import ALPHA, arrays, close, simulated

from oracle.errors import InputError
from oracle.latency.estimates import estimates_of
from oracle.latency.forms import verification_form
from oracle.latency.linear_form import LinearForm, residual_sums, square_roots
from oracle.latency.moments import moments_of
from oracle.latency.regression import fit_form

NAMES = ("unique_experts", "context_len", "target_ms")


def of_frame(frame):
    a = arrays(frame)
    return moments_of(NAMES, a.columns, m=a.m, cluster=a.cluster, clusters=a.clusters)


def joint_design(frame):
    """Dummies, U by m, L: the columns of the joint form in its order of reported names."""
    m = frame["draft_length"].to_numpy() + 1
    dummies = (m[:, None] == np.unique(m)).astype(float)
    return np.column_stack([dummies, dummies * frame[["unique_experts"]].to_numpy(), frame["context_len"]])


def referee(design, frame):
    return sm.OLS(frame["target_ms"].to_numpy(), design).fit(
        cov_type="cluster", cov_kwds={"groups": arrays(frame).cluster}
    )


def left_out_covariance(design, frame):
    """CR3 from its definition: refit without each cluster."""
    y, cluster = frame["target_ms"].to_numpy(), arrays(frame).cluster
    every = sm.OLS(y, design).fit().params
    G = cluster.max() + 1
    moved = [sm.OLS(y[cluster != g], design[cluster != g]).fit().params - every for g in range(G)]
    return (G - 1) / G * np.array(moved).T @ np.array(moved)


def reported(frame, kind):
    moments = of_frame(frame)
    chosen = verification_form(moments.by_m(), kind)
    fit = fit_form(moments, chosen.form)
    return fit, estimates_of(fit, chosen.names, chosen.report)


@pytest.fixture(scope="module")
def frame():
    return simulated(rounds_per_k=150, questions=9, ks=range(1, 7))


def test_joint_fit_equals_statsmodels(frame):
    fit, ours = reported(frame, "joint")
    theirs = referee(joint_design(frame), frame)
    error = theirs.bse
    assert close([e.value for e in ours.each], theirs.params, error)
    assert close(ours.covariance_cr1, theirs.cov_params(), np.outer(error, error))
    assert close(fit.sse, theirs.ssr)


def test_separate_fits_equal_an_ols_for_each_m(frame):
    fit, ours = reported(frame, "separate")
    for m, sse in fit.residual_by_m().items():
        rows = frame[frame["draft_length"] == m - 1]
        design = sm.add_constant(rows[["unique_experts", "context_len"]].to_numpy())
        theirs = referee(design, rows)
        names = [f"{name}[{m}]" for name in ("beta0_ms", "alpha_ms_per_expert", "context_ms_per_token")]
        assert close([ours[n].value for n in names], theirs.params, theirs.bse)
        assert close([ours[n].error_cr1 for n in names], theirs.bse)
        assert close(sse, theirs.ssr)
        at = [ours.names.index(n) for n in names]
        outer = np.sqrt(np.outer(theirs.bse, theirs.bse))
        assert close(ours.covariance_cr3[np.ix_(at, at)], left_out_covariance(design, rows), outer**2)


def test_cr3_is_leaving_each_cluster_out(frame):
    _, ours = reported(frame, "joint")
    expected = left_out_covariance(joint_design(frame), frame)
    error = np.sqrt(np.diagonal(expected))
    assert close(ours.covariance_cr3, expected, np.outer(error, error))


def test_contrasts_between_m_of_separate_fits_use_the_cross_terms(frame):
    fit, ours = reported(frame, "separate")
    refits = fit.weighted(1.0 - np.eye(9))
    chosen = verification_form(of_frame(frame).by_m(), "separate")
    contrast = np.zeros(len(ours.names))
    contrast[ours.names.index("alpha_ms_per_expert[5]")] = 1
    contrast[ours.names.index("alpha_ms_per_expert[4]")] = -1
    moved = (refits - fit.theta) @ chosen.report.T @ contrast
    assert close(contrast @ ours.covariance_cr3 @ contrast, 8 / 9 * (moved**2).sum())


def test_weights_refit_as_repeated_rows_do(frame):
    fit, _ = reported(frame, "joint")
    cluster = arrays(frame).cluster
    weights = np.random.default_rng(5).multinomial(9, np.full(9, 1 / 9), size=6).astype(float)
    design, chosen = joint_design(frame), verification_form(of_frame(frame).by_m(), "joint")
    for draw, theta in zip(weights, fit.weighted(weights), strict=True):
        rows = np.repeat(np.arange(len(frame)), draw[cluster].astype(int))
        theirs = sm.OLS(frame["target_ms"].to_numpy()[rows], design[rows]).fit()
        assert close(chosen.report @ theta, theirs.params, theirs.bse)


def test_a_draw_that_identifies_nothing_is_nan_not_a_number(frame):
    fit, _ = reported(frame, "joint")
    assert np.isnan(fit.weighted(np.zeros((1, 9)))).all()


def test_a_pooled_form_with_k_is_only_another_matrix(frame):
    ms = range(2, 8)
    pooled = {m: np.array([[1.0, 0, 0, m - 1.0], [0, 1.0, 0, 0], [0, 0, 1.0, 0]]) for m in ms}
    form = LinearForm(NAMES[:2], NAMES[2], ("beta0", "alpha", "c", "gamma"), pooled)
    fit = fit_form(of_frame(frame), form)
    design = sm.add_constant(frame[["unique_experts", "context_len", "draft_length"]].to_numpy(dtype=float))
    theirs = referee(design, frame)
    assert close(fit.theta, theirs.params, theirs.bse)
    error = theirs.bse
    assert close(fit.covariance_cr1(), theirs.cov_params(), np.outer(error, error))
    assert close(fit.covariance_cr3(), left_out_covariance(design, frame), np.outer(error, error))


def test_experts_of_tiny_spread_on_a_huge_level_keep_alpha(frame):
    rng = np.random.default_rng(8)
    small = rng.integers(-2000, 2000, len(frame)) / 2.0**10
    y = 3 + 0.25 * small + 1e-3 * frame["context_len"] + rng.normal(0, 0.1, len(frame))
    low = frame.assign(unique_experts=small, target_ms=y)
    high = low.assign(unique_experts=small + 2.0**20)  # exact; spread over level is 1e-6
    for kind in ("joint", "separate"):
        (_, at_low), (_, at_high) = reported(low, kind), reported(high, kind)
        for name, a, b in zip(at_low.names, at_low.each, at_high.each, strict=True):
            if not name.startswith("beta0"):
                assert close(b.value, a.value, a.error_cr1)
                assert close([b.error_cr1, b.error_cr3], [a.error_cr1, a.error_cr3])


def test_residual_sums_of_any_coefficients(frame):
    moments = of_frame(frame)
    beta = {m: np.array([5.0, 0.2, 1e-3]) for m in (2, 3)}
    sums = residual_sums(moments, NAMES[:2], NAMES[2], beta)
    residual = frame["target_ms"] - 5.0 - 0.2 * frame["unique_experts"] - 1e-3 * frame["context_len"]
    expected = (residual**2).groupby([frame["cluster"], frame["draft_length"] + 1]).sum()
    for i, value in enumerate(sums):
        key = (moments.clusters[moments.cluster[i]], moments.m[i])
        assert np.isnan(value) if key[1] > 3 else close(value, expected[key])


def test_square_roots_of_singular_matrices():
    matrix = np.array([[[4.0, 2, 0], [2, 1, 0], [0, 0, 9]], [[0.0, 0, 0], [0, 2, 2], [0, 2, 5]]])
    roots = square_roots(matrix)
    np.testing.assert_allclose(np.swapaxes(roots, 1, 2) @ roots, matrix, atol=1e-14)


def test_a_parameter_that_one_cluster_alone_knows_has_no_cr3(frame):
    alone = frame[(frame["draft_length"] != 3) | (frame["cluster"] == "q004")]
    _, ours = reported(alone, "joint")
    for name, estimate in zip(ours.names, ours.each, strict=True):
        lost = name in ("beta0_ms[4]", "alpha_ms_per_expert[4]")
        assert (estimate.error_cr3 is None) == lost
        assert (estimate.low is None) == lost
        assert estimate.clusters == (1 if lost else 9)


def test_intervals_have_one_degree_of_freedom_less_than_clusters(frame):
    _, ours = reported(frame, "joint")
    alpha = ours["alpha_ms_per_expert[5]"]
    assert alpha.clusters == 9
    assert close((alpha.high - alpha.low) / 2 / alpha.error_cr3, 2.306004135204166)  # t(8) at 97.5 %


def test_what_the_rounds_do_not_identify_is_refused_by_name(frame):
    flat = frame.assign(context_len=2.0 * frame["unique_experts"])
    chosen = verification_form(of_frame(frame).by_m(), "joint")
    with pytest.raises(InputError) as fault:
        fit_form(of_frame(flat), chosen.form)
    assert str(fault.value).startswith("target_ms: the rounds do not identify c: its regressor does not vary, or moves")
    few = frame.iloc[:3]
    form = LinearForm(NAMES[:2], NAMES[2], ("beta0", "alpha", "c"), {2: np.eye(3)})
    with pytest.raises(InputError, match="target_ms: 3 rounds for 3 coefficients; record more rounds"):
        fit_form(of_frame(few), form)


def test_cr3_intervals_cover_what_is_true():
    """39 clusters of unequal length: the interval of alpha(5) - alpha(4) holds the truth about 95 times in 100."""
    inside = 0
    for seed in range(120):
        _, ours = reported(simulated(rounds_per_k=120, questions=39, seed=seed, ks=(3, 4)), "joint")
        high, low = (ours.names.index(f"alpha_ms_per_expert[{m}]") for m in (5, 4))
        V = ours.covariance_cr3
        difference = ours.each[high].value - ours.each[low].value
        error = np.sqrt(V[high, high] + V[low, low] - 2 * V[high, low])
        inside += abs(difference - (ALPHA[5] - ALPHA[4])) < 2.0244 * error  # t(38) at 97.5 %
    assert 106 <= inside <= 119  # 114 expected, 2.4 standard deviation


def test_more_coefficients_than_the_measured_m_can_tell_apart_are_refused() -> None:
    rng = np.random.default_rng(0)
    U, T = rng.uniform(4, 12, 50), rng.uniform(5, 9, 50)
    moments = moments_of(
        ("unique_experts", "target_ms"),
        [U, T],
        m=np.full(50, 3, dtype=np.int64),
        cluster=np.arange(50, dtype=np.int64) % 5,
        clusters=tuple("abcde"),
    )
    form = LinearForm(("unique_experts",), "target_ms", ("a", "b", "c", "d"), {3: np.ones((2, 4))})
    with pytest.raises(InputError) as raised:
        fit_form(moments, form)
    assert str(raised.value) == (
        "target_ms: 4 coefficients cannot be told apart with rounds at m = 3 only; record rounds at more m"
    )
