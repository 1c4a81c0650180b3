"""What stands behind a contrast: planted differences are recovered, intervals cover them, steps are aligned."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from oracle.contrasts.comparisons import Comparison, Difference, comparisons, group_means
from oracle.contrasts.estimates import Estimate, estimates, holm
from oracle.contrasts.findings import DOES_NOT, SHOWS, UNDECIDED, verdict
from oracle.contrasts.groups import ALL, Group
from oracle.contrasts.steps import AFTER, AT, AT_CHANGE, mismatch_sums, step_sums
from oracle.contrasts.sums import GroupSums, GroupTotals, folded
from oracle.intervals import Interval

A = Group("label", "script_change")
PLANTED = 0.4
RUNS = 300


def simulated(rng: np.random.Generator, *, clusters: int, confounded: bool, groups: int = 1) -> GroupSums:
    """New experts that fall with the step, differ between texts, and are `PLANTED` more at tokens of the first group.

    Each cluster has its own share of such tokens. Confounded: texts with many of them need more experts anyway.
    """
    K, lengths = 3, rng.integers(10, 40, clusters)
    share = rng.uniform(0.05, 0.5, clusters)
    effect = 2.0 * share if confounded else rng.normal(0, 0.5, clusters)
    of, offsets = np.repeat(np.arange(clusters), lengths), np.concatenate([[0], np.cumsum(lengths)])
    member = np.ones((len(of), 1 + groups), bool)
    member[:, 1:] = rng.random((len(of), groups)) < share[of, None]
    new = rng.normal(3.0 - 0.7 * np.arange(K), 0.6, (len(of), K)) + effect[of, None]
    for j in range(1, K + 1):
        at = np.minimum(np.arange(len(of)) + j, len(of) - 1)
        new[:, j - 1] += (PLANTED if groups == 1 else 0.0) * member[at, 1]
    names = (ALL, *(Group("label", f"group {i}") for i in range(groups)))
    return step_sums({"routing": new}, names, member, offsets, tuple(f"c{i}" for i in range(clusters)))


def total(*parts: GroupSums) -> GroupTotals:
    found = folded(parts)
    assert found is not None
    return found


def coverage(found: list[Difference]) -> float:
    intervals = [one.difference.interval for one in found]
    return float(np.mean([i is not None and i.low <= PLANTED <= i.high for i in intervals]))


def test_intervals_cover_the_planted_difference() -> None:
    """95 % nominally; 40 clusters cover 94 %, 10 clusters 95 % (1,000 runs). 300 runs have a standard error of 1.3
    points: 0.905 is three of them below, and 0.985 three above."""
    rng = np.random.default_rng(1)
    runs = [comparisons(s := total(simulated(rng, clusters=40, confounded=False)), s.groups)[0] for _ in range(RUNS)]
    for how in ("pooled", "within"):
        found = [getattr(run, how) for run in runs]
        assert 0.905 <= coverage(found) <= 0.985
        values = np.array([one.difference.value for one in found])
        assert abs(values.mean() - PLANTED) < 4 * values.std() / np.sqrt(RUNS)


def test_within_generations_recovers_what_pooling_confounds() -> None:
    rng = np.random.default_rng(2)
    runs = [comparisons(s := total(simulated(rng, clusters=40, confounded=True)), s.groups)[0] for _ in range(RUNS)]
    assert 0.905 <= coverage([run.within for run in runs]) <= 0.985
    assert coverage([run.pooled for run in runs]) < 0.2
    assert np.mean([run.pooled.difference.value for run in runs]) > PLANTED + 0.1


def test_one_family_rarely_claims_what_is_not_there() -> None:
    """Eight groups without any difference: uncorrected, a third of the families claim one; with Holm 4 % do (600 runs).
    200 runs have a standard error of 1.5 points at 5 %."""
    rng = np.random.default_rng(3)
    runs = [
        comparisons(s := total(simulated(rng, clusters=40, confounded=False, groups=8)), s.groups) for _ in range(200)
    ]
    claimed = np.mean([any(one.within.word == "" for one in run) for run in runs])
    uncorrected = np.mean([any((one.within.difference.p or 1) < 0.05 for one in run) for run in runs])
    assert claimed < 0.05 + 2 * 0.015
    assert uncorrected > 0.2


def test_ignoring_the_step_would_give_the_wrong_sign() -> None:
    """Token 1 can only be reached by step 1, where every token needs more; it needs less than others there."""
    K, N = 3, 6
    new = np.tile(3.0 - np.arange(K), (N, 1))  # 3, 2, 1 new experts at steps 1, 2, 3
    new[0, 0] = 2.5  # step 1 of anchor 0 emits token 1
    member = np.zeros((N, 2), bool)
    member[:, 0], member[1, 1] = True, True
    sums = step_sums({"routing": new}, (ALL, A), member, np.array([0, N]), ("q",))
    cells = sums.sums[0, 1].sum(axis=0)  # all steps thrown together
    assert cells[0, 1] / cells[0, 0] - cells[1, 1] / cells[1, 0] == pytest.approx(2.5 - 23 / 11)  # more
    (found,) = comparisons(total(sums), sums.groups)
    assert found.pooled.difference == Estimate(-0.5)  # fewer, and one cluster has no interval
    assert found.within.difference.value == pytest.approx(-0.5)
    assert (found.pooled.mean.value, found.pooled.against.value) == (2.5, 3.0)
    assert [m.mean.value for m in group_means(total(sums), [ALL])] == pytest.approx([14.5 / 5, 2.0, 1.0])


def test_the_row_of_a_first_mismatch_and_the_row_after() -> None:
    """Two anchors, drafts of two tokens: anchor 0 differs first at token 1, anchor 1 matches token 1 and then ends."""
    new = {"recorded": np.array([[3.0, 5.0], [2.0, 7.0], [9.0, 9.0]])}
    matched = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, np.nan]])
    sums = mismatch_sums(new, matched, np.array([0, 3]), ("q",))
    of = {group: sums.of([group])[0, 0] for group in (AT, AT_CHANGE, AFTER)}
    assert of[AT][1].tolist() == [[1.0, 3.0], [1.0, 2.0]]  # i = 1, row t + 1: X(0, 1) and X(1, 1)
    assert of[AT][0].tolist() == [[0.0, 0.0], [0.0, 0.0]]  # row 0 is no step
    assert not of[AT_CHANGE].any()  # no step before step 1
    assert of[AFTER][1].tolist() == [[1.0, 5.0], [0.0, 0.0]]  # row t + 2; of anchor 1 it lies past the end
    assert of[AFTER][0].tolist() == [[0.0, 0.0], [2.0, 5.0]]  # both still match at i = 0: X(0, 1), X(1, 1)


def test_a_group_that_a_batch_lacks_leaves_all_its_tokens_outside() -> None:
    one = GroupSums(("a",), (ALL,), ("x",), np.array([[[[[3.0, 6.0], [0.0, 0.0]]]]]))
    two = GroupSums(("b",), (ALL, A), ("x",), np.array([[[[[2.0, 2.0], [0.0, 0.0]]], [[[1.0, 2.0], [1.0, 0.0]]]]]))
    joined = total(one, two)
    assert joined.groups == (ALL, A)
    assert joined.of([A])[:, 0, 0].tolist() == [[[0.0, 0.0], [3.0, 6.0]], [[1.0, 2.0], [1.0, 0.0]]]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12))
def test_holm_equals_statsmodels(p: list[float | None]) -> None:
    tested = [one for one in p if one is not None]
    expected = iter(multipletests(tested, method="holm")[1] if tested else [])
    assert holm(p) == [None if one is None else pytest.approx(next(expected)) for one in p]


def ratio(totals: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return totals[:, :1] / totals[:, 1:]


def test_what_few_clusters_hold_is_as_unsure_as_they_are_few() -> None:
    """40 clusters of which 10 hold what is compared: the others add nothing, and no certainty either."""
    rng = np.random.default_rng(5)
    totals = np.zeros((40, 2))
    totals[:10] = np.column_stack([rng.normal(0.3, 1, 10), np.ones(10)])
    (among_all,), (among_ten,) = estimates(totals, ratio), estimates(totals, ratio, [10])
    widths = [found.interval.high - found.interval.low for found in (among_all, among_ten)]
    assert widths[1] > 1.05 * widths[0]
    assert among_ten.p > among_all.p
    assert estimates(totals, ratio, [1])[0].interval is None


def test_a_clear_difference_can_be_claimed_by_few_clusters_in_a_large_family() -> None:
    """However few draws there are: the least share of them would be too much for Holm's correction."""
    rng = np.random.default_rng(6)
    (found,) = estimates(np.column_stack([rng.normal(1.0, 0.1, 10), np.ones(10)]), ratio)
    assert 0 < found.p < 0.05 / 100


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**16), st.integers(6, 40), st.floats(-1, 1))
def test_p_and_interval_say_the_same(seed: int, clusters: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    totals = np.column_stack([rng.normal(shift, 1, clusters), np.ones(clusters)])
    (found,) = estimates(totals, ratio)
    assert found.value == pytest.approx(totals[:, 0].mean())
    if found.p < 0.048:  # between the two bounds the percentile lies between two draws
        assert found.interval.low > 0 or found.interval.high < 0
    elif found.p > 0.052:
        assert found.interval.low <= 0 <= found.interval.high


def test_no_interval_where_most_clusters_hold_nothing() -> None:
    holds = np.zeros((40, 2))
    holds[:2] = 1.0
    assert estimates(holds, ratio) == [Estimate(1.0)]  # one resample in seven holds neither
    holds[:6] = 1.0
    (found,) = estimates(holds, ratio)
    assert found.interval == Interval(1.0, 1.0)
    assert estimates(holds[:1], ratio) == [Estimate(1.0)]
    assert estimates(np.zeros((5, 2)), ratio) == [Estimate(None)]
    assert estimates(holds, lambda totals: totals[:, :1] * 0)[0].p == 1.0


def difference(low: float, high: float, clusters: int = 39) -> Difference:
    one = Estimate((low + high) / 2, Interval(low, high), 0.01)
    return Difference(one, one, one, 100.0, 50, clusters, 0.04)


@pytest.mark.parametrize(
    ("sign", "effect", "interval", "word"),
    [
        (1, 0.5, (0.1, 0.2), SHOWS),
        (1, 0.5, (-0.1, 0.2), DOES_NOT),  # holds 0, leaves the source's effect out
        (1, 0.5, (-0.1, 0.6), UNDECIDED),  # holds both
        (1, 0.5, (-0.2, -0.1), DOES_NOT),
        (1, None, (-0.1, 0.2), UNDECIDED),
        (1, None, (-0.2, -0.1), DOES_NOT),
        (-1, -0.5, (-0.2, -0.1), SHOWS),
        (-1, -0.5, (-0.2, 0.1), DOES_NOT),
        (-1, -0.5, (-0.6, 0.1), UNDECIDED),
        (-1, -0.5, (0.1, 0.2), DOES_NOT),
        (0, 0.2, (-0.1, 0.1), SHOWS),
        (0, 0.2, (-0.3, -0.1), SHOWS),
        (0, 0.2, (-0.1, 0.3), UNDECIDED),  # holds 0 and the spike
        (0, 0.2, (0.05, 0.1), DOES_NOT),
        (0, None, (-0.1, 0.1), UNDECIDED),
    ],
)
def test_verdicts(sign: int, effect: float | None, interval: tuple[float, float], word: str) -> None:
    assert verdict(sign, effect, difference(*interval)) == word
    assert verdict(sign, effect, difference(*interval, clusters=9)) == UNDECIDED
    assert verdict(sign, effect, None) == UNDECIDED


def test_words_for_what_may_not_be_claimed() -> None:
    one = difference(0.1, 0.2)
    assert one.word == ""
    assert difference(0.1, 0.2, clusters=9).word == "few clusters"
    assert Difference(one.mean, one.mean, one.mean, 1.0, 1, 39, 0.06).word == "not significant"
    assert Difference(one.mean, one.mean, Estimate(0.1), 1.0, 1, 39).word == "no interval"


def test_each_kind_and_measure_is_a_family_of_its_own() -> None:
    rng = np.random.default_rng(4)
    sums = simulated(rng, clusters=30, confounded=False, groups=3)
    flagged = GroupSums(sums.cluster, (*sums.groups[:3], Group("flag", "comment")), sums.measures, sums.sums)
    found: list[Comparison] = comparisons(total(flagged), flagged.groups)
    for kind, family in itertools.groupby(found, key=lambda one: one.group.kind):
        rows = list(family)
        assert len(rows) == (1 if kind == "flag" else 2)
        assert [r.within.p_holm for r in rows] == holm([r.within.difference.p for r in rows])
        assert [r.pooled.p_holm for r in rows] == holm([r.pooled.difference.p for r in rows])
