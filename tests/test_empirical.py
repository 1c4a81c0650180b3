"""Match probabilities from accepted tokens: censoring, contexts, shrinkage and intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.acceptance.requests import counts_of
from oracle.empirical.risk_sets import (
    AFTER_REJECTION,
    AFTER_WHOLE,
    OTHERWISE,
    RiskSets,
    RiskTable,
    states_of,
    step_counts,
)
from oracle.empirical.shrinkage import shrunk
from oracle.errors import Faults, InputError

STEPS = st.lists(st.integers(0, 5).flatmap(lambda d: st.tuples(st.integers(0, d), st.just(d))), min_size=1, max_size=12)


def naive_counts(steps: list[tuple[int, int]], depth: int) -> tuple[list[int], list[int]]:
    """At risk and matched, token by token: the draft token j is looked at only if it exists and all before matched."""
    risk, hits = [0] * depth, [0] * depth
    for accepted, drafted in steps:
        for j in range(1, drafted + 1):
            risk[j - 1] += 1
            if j > accepted:
                break  # rejected; what follows was never looked at
            hits[j - 1] += 1
    return risk, hits


@given(steps=STEPS)
def test_risk_sets_token_by_token(steps):
    accepted, drafted = np.array(steps).T
    depth = 5
    found = step_counts(accepted, drafted, depth)
    assert [part.tolist() for part in found] == list(naive_counts(steps, depth))
    longest = int(drafted.max())
    if longest:
        metrics = {"per_step_accepted": accepted.tolist(), "per_step_drafted": drafted.tolist()}
        read = counts_of(metrics, "here", Faults(), {})
        assert read is not None
        assert [part.tolist() for part in read[0]] == [part[:longest].tolist() for part in found]


@given(steps=STEPS)
def test_states_follow_the_steps(steps):
    accepted, drafted = np.array(steps).T
    expected, before = [], None
    for a, d in steps:
        expected.append(OTHERWISE if before is None or before[1] == 0 else before[2])
        before = (a, d, AFTER_REJECTION if a < d else AFTER_WHOLE)
    assert states_of(accepted, drafted) == expected


def test_drafts_of_different_lengths_tell_one_hazard():
    """A static K and a K that varies without looking give one answer, a lower count at depth taken for rejection "
    "not."""
    rng = np.random.default_rng(5)
    p = np.array([0.8, 0.5, 0.7, 0.9])
    rounds = 200_000
    drafted = rng.integers(0, 5, rounds)
    matches = rng.random((rounds, 4)) < p
    accepted = np.minimum(np.logical_and.accumulate(matches, axis=1).sum(axis=1), drafted)
    risk, hits = step_counts(accepted, drafted, 4)
    assert hits / risk == pytest.approx(p, abs=0.01)
    assert hits[3] / (accepted >= 3).sum() < 0.75  # not drafted counted as rejected


def table(context: str, at_risk: list[list[int]], matched: list[list[int]]) -> RiskTable:
    names = tuple(f"{context}{g}" for g in range(len(at_risk)))
    return RiskTable((context,), names, np.array(at_risk, float), np.array(matched, float))


def test_one_context_gets_half_a_match_and_half_a_rejection():
    rates = shrunk([table("all", [[10, 4], [10, 4]], [[7, 0], [7, 0]])])
    assert rates.rate == pytest.approx(np.array([[14.5 / 21, 0.5 / 9]]))
    assert (rates.low < rates.rate).all()
    assert (rates.rate < rates.high).all()
    assert rates.low.min() > 0  # nothing of eight is not never


def test_contexts_that_do_not_differ_are_pooled():
    half = [[1000], [1000]], [[500], [500]]
    rates = shrunk([table("a", *half), table("b", *half), table("c", [[10]], [[5]])])
    assert rates.rate.ravel() == pytest.approx([0.5] * 3, abs=1e-6)
    alone = [shrunk([one]) for one in (table("a", *half), table("c", [[10]], [[5]]))]
    width = (rates.high - rates.low).ravel()
    own = [float(each.high[0, 0] - each.low[0, 0]) for each in alone]
    assert own[0] / np.sqrt(2) < width[0] < own[0]  # never narrower than all rounds together would make it
    assert own[0] < width[2] < own[1] / 4  # the small context borrows


def test_contexts_that_differ_keep_their_own():
    rates = shrunk([table("a", [[500], [500]], [[450], [450]]), table("b", [[500], [500]], [[50], [50]])])
    assert rates.rate.ravel() == pytest.approx([0.9, 0.1], abs=0.005)


def test_a_context_never_at_risk_takes_what_the_others_say():
    rates = shrunk([table("a", [[100, 60]], [[60, 30]]), table("b", [[50, 0]], [[0, 0]])])
    assert rates.rate[1, 1] == pytest.approx(30.5 / 61, abs=0.01)
    assert rates.high[1, 1] - rates.low[1, 1] > rates.high[0, 1] - rates.low[0, 1]
    assert rates.of(("unseen",)) == pytest.approx([60.5 / 151, 30.5 / 61])


def test_requests_that_differ_do_not_pass_for_contexts_that_do():
    """Two contexts of the same requests' kind: rates vary between requests, not between contexts."""
    rng = np.random.default_rng(8)
    tables = []
    for name in "ab":
        p = rng.choice([0.2, 0.95], 60)
        tables.append(table(name, [[50]] * 60, rng.binomial(50, p)[:, None].tolist()))
    rates = shrunk(tables)
    assert rates.design_effect[0] > 20
    raw = [float(t.matched.sum() / t.at_risk.sum()) for t in tables]
    assert abs(rates.rate[0, 0] - rates.rate[1, 0]) < 0.6 * abs(raw[0] - raw[1])


@pytest.mark.parametrize("spread", [0.0, 0.08])
def test_intervals_cover(spread):
    """95 % intervals of contexts' rates, requests clustered, contexts alike or not: covered at least 90 %."""
    rng = np.random.default_rng(13)
    covered, of = 0, 0
    for _ in range(250):
        tables, truth = [], []
        for c in range(6):
            mean = float(np.clip(0.6 + spread * rng.standard_normal(), 0.05, 0.95))
            p = rng.beta(8 * mean, 8 * (1 - mean), 15 + 10 * c)
            tables.append(table(str(c), [[20]] * len(p), rng.binomial(20, p)[:, None].tolist()))
            truth.append(mean)
        rates = shrunk(tables)
        covered += int(((rates.low[:, 0] <= truth) & (truth <= rates.high[:, 0])).sum())
        of += 6
    assert covered / of > 0.90
    assert covered < of  # nor do they say nothing


def test_shrinking_is_closer_to_the_truth_than_raw_rates():
    rng = np.random.default_rng(21)
    raw_error = shrunk_error = 0.0
    for _ in range(200):
        truth = np.clip(0.6 + 0.1 * rng.standard_normal(8), 0.05, 0.95)
        counts = [rng.binomial(1, p, (12, 1)) for p in truth]
        rates = shrunk([table(str(c), [[1]] * 12, x.tolist()) for c, x in enumerate(counts)])
        raw_error += float(((np.array([x.mean() for x in counts]) - truth) ** 2).sum())
        shrunk_error += float(((rates.rate[:, 0] - truth) ** 2).sum())
    assert shrunk_error < 0.6 * raw_error


def test_risk_sets_join_clusters_and_cut_depths_never_at_risk():
    sets = RiskSets()
    assert not sets
    sets.add(("x",), "g", np.array([3, 1, 0]), np.array([1, 0, 0]))
    sets.add(("x",), "g", np.array([2]), np.array([2]))
    sets.add(("y",), "h", np.array([0, 0]), np.array([0, 0]))
    x, y = sets.tables()
    assert (x.at_risk.tolist(), x.matched.tolist()) == ([[5, 1]], [[3, 0]])
    assert y.at_risk.tolist() == [[0, 0]]


def test_the_largest_counts_keep_an_interval_and_larger_ones_are_refused():
    with np.errstate(all="raise"):
        rates = shrunk([table("a", [[10**12]], [[10**12]]), table("b", [[4]], [[2]])])
    assert 0 < rates.low[0, 0] < rates.high[0, 0] <= 1
    assert rates.low[1, 0] < rates.rate[1, 0] < rates.high[1, 0]
    with pytest.raises(InputError, match=r"1,000,000,000,001 rounds at one position of a draft cannot be"):
        shrunk([table("a", [[10**12], [1]], [[3], [1]])])


def test_nothing_at_risk():
    with pytest.raises(InputError) as caught:
        shrunk([])
    assert str(caught.value) == (
        "no request drafted anything, so nothing is known of its matches; is speculative decoding on?"
    )
