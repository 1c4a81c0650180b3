import numpy as np
import pytest
import statsmodels.api as sm
from latency_simulation import close

from oracle.errors import InputError
from oracle.latency.draft import choose, fit_draft, fold_differences, line_by_m, table_by_m
from oracle.latency.moments import moments_of


def drawn(times_of_k, rounds=60, noise=0.02, seed=0):
    """k, cluster and draft_ms of rounds at each k, and their moments."""
    rng = np.random.default_rng(seed)
    k = np.repeat(list(times_of_k), rounds)
    cluster = rng.integers(0, 8, len(k))
    level = rng.normal(0, noise, 8)
    ms = np.array([times_of_k[int(x)] for x in k]) + level[cluster] + rng.normal(0, noise, len(k))
    names = tuple(f"q{i}" for i in range(8))
    return k, cluster, ms, moments_of(("draft_ms",), [ms], m=k + 1, cluster=cluster, clusters=names)


def held_out_differences(moments):
    fold = np.arange(8) % 4
    by_fold = moments.by_group(fold, tuple("0123"))
    rest = [moments.of_clusters(fold != f) for f in range(4)]
    return fold_differences(by_fold, [line_by_m(r) for r in rest], [table_by_m(r) for r in rest])


def test_line_and_table_equal_statsmodels():
    k, cluster, ms, moments = drawn({1: 1.4, 2: 2.5, 3: 3.4, 5: 4.9})
    fit = fit_draft(moments, "auto", held_out_differences(moments))
    for design, ours in (
        (sm.add_constant(k.astype(float))[:, ::-1], fit.line.each),
        ((k[:, None] == np.unique(k)).astype(float), [row.mean_ms for row in fit.rows]),
    ):
        theirs = sm.OLS(ms, design).fit(cov_type="cluster", cov_kwds={"groups": cluster})
        assert close([e.value for e in ours], theirs.params, theirs.bse)
        if ours is fit.line.each:
            assert close([e.error_cr1 for e in ours], theirs.bse)


def test_table_errors_are_those_of_each_k_alone():
    k, cluster, ms, moments = drawn({1: 1.4, 2: 2.5})
    rows = fit_draft(moments, "table", np.zeros(0)).rows
    for row in rows:
        at = k == row.k
        theirs = sm.OLS(ms[at], np.ones(at.sum())).fit(cov_type="cluster", cov_kwds={"groups": cluster[at]})
        assert row.rounds == at.sum()
        assert close([row.mean_ms.value, row.mean_ms.error_cr1], [theirs.params[0], theirs.bse[0]])


def test_straight_times_keep_the_line_and_concave_times_take_the_table():
    straight = drawn({k: 0.459 * k + 0.073 for k in range(1, 9)})[3]
    fit = fit_draft(straight, "auto", held_out_differences(straight))
    assert fit.choice == "line"
    assert fit.reason.endswith("the line is kept")
    assert close(fit.line["ms_per_token"].value, 0.459, 1e7)
    concave = drawn({k: 1.4 * k**0.8 for k in range(1, 9)})[3]
    fit = fit_draft(concave, "auto", held_out_differences(concave))
    assert fit.choice == "table"
    assert fit.reason.endswith("the table is better")
    assert fit.rows[0].deviation_percent > 5
    assert fit.mean_deviation_percent == pytest.approx(np.mean([abs(r.deviation_percent) for r in fit.rows]))


def test_the_rule_of_one_standard_error():
    assert choose(np.array([0.3, 0.1, 0.2]))[0] == "table"
    assert choose(np.array([0.3, -0.2, 0.05]))[0] == "line"
    assert choose(np.array([0.0, 0.0]))[0] == "line"
    assert choose(np.array([0.5])) == ("line", "fewer than two folds to compare line and table")


def test_one_draft_length_gives_a_table_and_no_line():
    moments = drawn({3: 2.0})[3]
    fit = fit_draft(moments, "auto", held_out_differences(drawn({3: 2.0, 4: 2.5})[3]))
    assert (fit.choice, fit.line) == ("table", None)
    assert fit.reason == "only draft length 3 was measured, and one point gives no line"
    assert fit.rows[0].deviation_percent is None
    with pytest.raises(InputError) as fault:
        fit_draft(moments, "line", np.zeros(0))
    assert str(fault.value) == (
        "draft = 'line': only draft length 3 was measured, and one point gives no line; use draft = 'table' or 'auto' "
        "(--draft)"
    )


def test_a_line_through_negative_times_is_not_used():
    moments = drawn({1: 0.01, 2: 0.02, 3: 3.0}, noise=1e-4)[3]
    fit = fit_draft(moments, "auto", np.zeros(2))
    assert fit.choice == "table"
    assert fit.reason.startswith("the line gives -0.48")
    assert fit.reason.endswith(" ms at k = 1, and a time is positive")
    with pytest.raises(InputError, match=r"draft = 'line': the line gives -0\.48"):
        fit_draft(moments, "line", np.zeros(2))


def test_negative_slope_and_intercept_are_said():
    falling = drawn({1: 3.0, 2: 2.5, 3: 2.0}, noise=1e-3)[3]
    assert (
        fit_draft(falling, "line", np.zeros(0))
        .warnings[0]
        .endswith("ms per token is negative: drafting more would cost less time; check how draft_ms was recorded")
    )
    below = drawn({1: 0.9, 2: 1.9, 3: 2.9}, noise=1e-3)[3]
    assert (
        fit_draft(below, "line", np.zeros(0))
        .warnings[0]
        .endswith("ms is negative; it is the line's intercept, not a time: at every measured k the line is positive")
    )
    assert fit_draft(below, "table", np.zeros(0)).warnings == ()


def test_without_draft_times_only_a_free_draft_can_be_fitted():
    nothing = drawn({1: 1.0})[3].of_clusters(np.zeros(8, dtype=bool))
    with pytest.raises(InputError) as fault:
        fit_draft(nothing, "auto", np.zeros(0))
    assert str(fault.value) == (
        "draft_ms is not positive in any round with draft length 1 or more; record the draft's time, or say that "
        "drafting "
        "costs nothing with draft = 'free' (--draft free)"
    )
    assert fit_draft(nothing, "free", np.zeros(0)).choice == "free"
