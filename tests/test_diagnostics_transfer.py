"""Predictions of an m from other m: against least squares on rows, and the published pattern."""

import numpy as np
import pytest
import statsmodels.api as sm
from latency_simulation import close, published_rounds, simulated
from scipy.special import stdtrit

from oracle.errors import InputError
from oracle.latency.diagnostics.transfer import transfer
from oracle.latency.evidence import gather_evidence
from oracle.rounds import Rounds

PARTITION = ((2, 3, 4), (5, 6, 7, 8))


@pytest.fixture(scope="module")
def frame():
    return simulated(rounds_per_k=150, questions=13, ks=range(1, 8), seed=8)


@pytest.fixture(scope="module")
def result(frame):
    return transfer(gather_evidence(Rounds.from_pandas(frame)), PARTITION)


def rows_of(frame, partition):
    m, U = frame["draft_length"].to_numpy() + 1, frame["unique_experts"].to_numpy()
    columns = []
    for run in partition:
        inside = (m >= run[0]) & (m <= run[-1])
        columns += [inside, inside * m, inside * U] if len(run) > 1 else [inside, inside * U]
    return np.column_stack([*columns, frame["context_len"]]).astype(float)


def mape(actual, predicted):
    return 100 * np.mean(np.abs(actual - predicted) / actual)


@pytest.mark.parametrize(("m", "inside"), [(2, False), (3, True), (6, True), (8, False)])
def test_leaving_an_m_out_equals_least_squares_without_it(frame, result, m, inside):
    rest = frame[frame["draft_length"] != m - 1]
    theta = sm.OLS(rest["target_ms"].to_numpy(), rows_of(rest, PARTITION)).fit().params
    out = frame[frame["draft_length"] == m - 1]
    row = next(row for row in result.left_out if row.m == m)
    assert row.inside is inside
    assert m not in row.from_ms
    assert close(row.error.percent, mape(out["target_ms"].to_numpy(), rows_of(out, PARTITION) @ theta))


def test_across_the_boundary_both_ways(frame, result):
    theta = sm.OLS(frame["target_ms"].to_numpy(), rows_of(frame, PARTITION)).fit().params
    a, b, alpha, c = theta[0], theta[1], theta[2], theta[-1]
    fifth, fourth = (frame[frame["draft_length"] == k] for k in (4, 3))
    forward, backward = result.across
    assert (forward.m, forward.from_ms, backward.m, backward.from_ms) == (5, (2, 3, 4), 4, (5, 6, 7, 8))
    for error, m in ((forward.extended, 5), (forward.nearest, 4)):
        predicted = a + b * m + alpha * fifth["unique_experts"] + c * fifth["context_len"]
        assert close(error.percent, mape(fifth["target_ms"], predicted))
    a, b, alpha = theta[3:6]
    for error, m in ((backward.extended, 4), (backward.nearest, 5)):
        predicted = a + b * m + alpha * fourth["unique_experts"] + c * fourth["context_len"]
        assert close(error.percent, mape(fourth["target_ms"], predicted))


def test_anchors_are_fitted_as_if_nothing_else_had_been_timed(frame, result):
    row = next(row for row in result.anchors if row.regime == (5, 6, 7, 8) and row.picked == "ends")
    assert row.anchors == (5, 8)
    some = frame[frame["draft_length"].isin([4, 7])]
    theta = sm.OLS(some["target_ms"].to_numpy(), rows_of(some, ((5, 6, 7, 8),))).fit().params
    errors = {}
    for m in (6, 7):
        out = frame[frame["draft_length"] == m - 1]
        errors[m] = mape(out["target_ms"].to_numpy(), rows_of(out, ((5, 6, 7, 8),)) @ theta)
    assert row.worst_m == max(errors, key=errors.get)
    assert close(row.worst.percent, errors[row.worst_m])
    assert {(row.picked, len(row.anchors)) for row in result.anchors if row.regime == (2, 3, 4)} == {
        ("ends", 2), ("best", 1), ("best", 2),
    }  # fmt: skip


def test_the_interval_is_that_of_a_ratio_over_clusters(frame, result):
    out = frame[frame["draft_length"] == 2]
    rest = frame[frame["draft_length"] != 2]
    theta = sm.OLS(rest["target_ms"].to_numpy(), rows_of(rest, PARTITION)).fit().params
    errors = 100 * np.abs(out["target_ms"] - rows_of(out, PARTITION) @ theta) / out["target_ms"]
    codes = out["cluster"].astype("category").cat.codes.to_numpy()
    theirs = sm.OLS(errors.to_numpy(), np.ones(len(out))).fit(
        cov_type="cluster", cov_kwds={"groups": codes, "use_correction": False}
    )
    G = codes.max() + 1
    half = stdtrit(G - 1, 0.975) * theirs.bse[0] * np.sqrt(G / (G - 1))
    row = next(row for row in result.left_out if row.m == 3)
    assert close([row.error.low, row.error.high], [theirs.params[0] - half, theirs.params[0] + half])


def test_the_published_pattern():
    evidence = gather_evidence(published_rounds(40_000, 39))
    result = transfer(evidence, ((2, 3, 4), tuple(range(5, 12))))
    inside = [row.error.percent for row in result.left_out]
    assert max(inside) < 0.65  # the source: 0.26–0.65 %
    over = [error.percent for row in result.across for error in (row.extended, row.nearest)]
    assert min(over) > 8.8  # the source: 8.8–15.5 %
    assert "every prediction across a boundary is more than 3 times as far off as any inside a regime" in result.said
    assert all(row.enough for row in result.anchors if row.picked == "ends")


def test_an_m_whose_experts_do_not_vary_is_no_anchor_on_its_own(frame):
    zero = frame[frame["draft_length"] == 1].assign(draft_length=0, unique_experts=8.0)
    evidence = gather_evidence(Rounds.from_pandas(zero)), gather_evidence(Rounds.from_pandas(frame))
    together = gather_evidence([Rounds.from_pandas(zero), Rounds.from_pandas(frame)])
    assert evidence[0].left_out["unique_experts"] == "does not vary"
    result = transfer(together, ((1, 2, 3, 4),))
    single = [row.anchors for row in result.anchors if len(row.anchors) == 1]
    assert single
    assert single[0] != (1,)
    assert transfer(together, ((1, 2), (3, 4))).left_out[1].error is None  # m = 2 left out: m = 1 has no alpha


def test_an_m_that_was_not_measured_is_refused(frame):
    evidence = gather_evidence(Rounds.from_pandas(frame))
    with pytest.raises(
        InputError, match=r"transfer: m = 12 was not measured; give regimes of the measured m \(2, 3, 4"
    ):
        transfer(evidence, ((2, 3), (12,)))
    with pytest.raises(InputError, match="transfer: no regimes are given"):
        transfer(evidence, ())
