import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold

from oracle.errors import InputError
from oracle.latency.folds import fold_of_cluster


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=60), st.integers(2, 8))
def test_the_assignment_is_that_of_scikit_learn(sizes, folds):
    folds = min(folds, len(sizes))
    names = np.array([f"q{i:03d}" for i in range(len(sizes))])
    rows = np.repeat(names, sizes)
    rows = rows[np.random.default_rng(len(rows)).permutation(len(rows))]
    expected = np.full(len(sizes), -1)
    for fold, (_, test) in enumerate(GroupKFold(folds).split(rows, groups=rows)):
        expected[np.unique(np.searchsorted(names, rows[test]))] = fold
    np.testing.assert_array_equal(fold_of_cluster(np.array(sizes), folds), expected)


def test_clusters_without_rounds_do_not_disturb_the_others():
    sizes = np.array([5, 3, 8, 2])
    with_empty = fold_of_cluster(np.array([0, 5, 3, 0, 8, 2]), 2)
    np.testing.assert_array_equal(with_empty[[1, 2, 4, 5]], fold_of_cluster(sizes, 2))


def test_too_many_or_too_few_folds_are_refused_in_words():
    with pytest.raises(InputError) as fault:
        fold_of_cluster(np.array([4, 0, 2]), 3)
    assert str(fault.value) == (
        "folds is 3, but only 2 clusters have rounds; a fold holds at least one cluster: use at most 2 folds or record "
        "more generations"
    )
    with pytest.raises(InputError, match="folds is 1; held-out metrics need at least 2 folds"):
        fold_of_cluster(np.array([4, 2]), 1)
