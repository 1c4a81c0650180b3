import numpy as np
import pandas as pd
import pytest
from latency_simulation import arrays, simulated

from oracle.latency.moments import MomentsBuilder, merged, moments_of

NAMES = ("unique_experts", "context_len", "target_ms")


def of_frame(frame):
    a = arrays(frame)
    return moments_of(NAMES, a.columns, m=a.m, cluster=a.cluster, clusters=a.clusters)


def naive(frame):
    """Cells from the definition, with pandas."""
    groups = frame.groupby(["cluster", frame["draft_length"] + 1])[list(NAMES)]
    return {key: (len(g), g.mean().to_numpy(), len(g) * g.cov(ddof=0).to_numpy()) for key, g in groups}


@pytest.fixture(scope="module")
def frame():
    return simulated(rounds_per_k=200, questions=12)


def test_cells_are_count_mean_and_centred_products(frame):
    moments, expected = of_frame(frame), naive(frame)
    assert len(moments.n) == len(expected)
    for i in range(len(moments.n)):
        n, mean, comoment = expected[moments.clusters[moments.cluster[i]], moments.m[i]]
        assert moments.n[i] == n
        np.testing.assert_allclose(moments.mean[i], mean, rtol=1e-14)
        np.testing.assert_allclose(moments.comoment[i], comoment, rtol=1e-11, atol=1e-9)


def test_batches_in_any_order_give_the_moments_of_the_whole(frame):
    whole = of_frame(frame)
    shuffled = frame.sample(frac=1, random_state=1)
    parts = [of_frame(shuffled.iloc[i : i + 97]) for i in range(0, len(frame), 97)]
    together = merged(parts).at_pivot(whole.pivot)
    assert together.clusters == whole.clusters
    np.testing.assert_array_equal(together.cluster, whole.cluster)
    np.testing.assert_array_equal(together.m, whole.m)
    np.testing.assert_array_equal(together.n, whole.n)
    np.testing.assert_allclose(together.mean, whole.mean, rtol=1e-14)
    np.testing.assert_allclose(together.comoment, whole.comoment, rtol=1e-11, atol=1e-9)


def test_builder_merges_while_it_gathers_and_lists_clusters_without_rounds(frame, monkeypatch):
    monkeypatch.setattr("oracle.latency.moments.CELLS_BEFORE_MERGING", 50)
    builder = MomentsBuilder(NAMES)
    for i in range(0, len(frame), 150):
        a = arrays(frame.iloc[i : i + 150])
        builder.add(a.columns, a.m, a.cluster, a.clusters)
    result = builder.result(["a question without rounds"])
    assert result.clusters[0] == "a question without rounds"
    assert result.cluster_sizes()[0] == 0
    assert result.rounds == len(frame)
    np.testing.assert_allclose(result.by_m().mean, of_frame(frame).by_m().mean, rtol=1e-13)


def test_a_builder_without_rounds_has_no_cells():
    assert MomentsBuilder(NAMES).result(["q1"]).rounds == 0


def test_joining_clusters_equals_moments_of_the_rows(frame):
    moments = of_frame(frame)
    for cells, label in ((moments.by_m(), "draft_length"), (moments.by_cluster(), "cluster")):
        grouped = frame.groupby(label)[list(NAMES)]
        np.testing.assert_allclose(cells.mean, grouped.mean().to_numpy(), rtol=1e-14)
        np.testing.assert_allclose(cells.spread(), grouped.std(ddof=0).to_numpy(), rtol=1e-12)


def test_folds_and_left_out_clusters_follow_from_the_same_cells(frame):
    moments = of_frame(frame)
    fold = np.arange(len(moments.clusters)) % 3
    by_fold = moments.by_group(fold, ("0", "1", "2"))
    codes = arrays(frame).cluster
    for f in range(3):
        rows = frame[fold[codes] == f]
        np.testing.assert_allclose(by_fold.of_clusters(np.arange(3) == f).mean, of_frame(rows).by_m().mean, rtol=1e-13)
    rest = moments.of_clusters(fold != 1)
    np.testing.assert_allclose(rest.by_m().comoment, of_frame(frame[fold[codes] != 1]).by_m().comoment, rtol=1e-10)


def test_weights_count_clusters_as_often_as_rows_repeated(frame):
    moments = of_frame(frame)
    weights = np.arange(len(moments.clusters)) % 3.0
    repeated = pd.concat([frame[weights[arrays(frame).cluster] >= 1], frame[weights[arrays(frame).cluster] >= 2]])
    weighted, expected = moments.by_m(weights), of_frame(repeated).by_m()
    np.testing.assert_array_equal(weighted.n, expected.n)
    np.testing.assert_allclose(weighted.mean, expected.mean, rtol=1e-13)
    np.testing.assert_allclose(weighted.comoment, expected.comoment, rtol=1e-10)


def test_a_tiny_spread_on_a_huge_level_keeps_its_digits():
    rng = np.random.default_rng(3)
    spread = rng.integers(-1000, 1000, 5000) / 2.0**20  # about 3e-4; exact on a level of 2**20
    m, cluster = rng.integers(1, 4, 5000), rng.integers(0, 7, 5000)
    clusters = tuple("abcdefg")
    low = moments_of(("x",), [spread], m=m, cluster=cluster, clusters=clusters)
    high = moments_of(("x",), [spread + 2.0**20], m=m, cluster=cluster, clusters=clusters)
    np.testing.assert_allclose(high.by_m().comoment, low.by_m().comoment, rtol=1e-12)


def test_whole_numbers_of_experts_stay_whole(frame):
    whole = frame.assign(unique_experts=frame["unique_experts"].where(frame["draft_length"] > 1, 8.0))
    totals = of_frame(whole).by_m()
    assert totals.mean[0, 0] == 8.0
    assert totals.comoment[0, 0, 0] == 0.0


def test_moments_of_different_variables_do_not_merge(frame):
    moments = of_frame(frame)
    with pytest.raises(ValueError, match="moments of different variables cannot be merged"):
        merged([moments, moments.of(("target_ms",))])
    with pytest.raises(ValueError, match="nothing to merge: give at least one set of moments"):
        merged([])
