"""Sums by unit of resampling: bounded, and the same to the last bit however generations are batched."""

import tracemalloc

import numpy as np
import pytest

from oracle import resampling, unit_sums
from oracle.traces.schema import AVERAGES
from oracle.unit_sums import ArraySums, DistinctNames, UnitSums, add_rows


def batched(values: np.ndarray, clusters: list[str], categories: list[str], sizes: list[int]) -> UnitSums:
    sums, begin = UnitSums(values.shape[1]), 0
    for size in sizes:
        part = slice(begin, begin + size)
        sums.add(values[part], clusters[part], categories[part])
        begin += size
    assert begin == len(values)
    return sums


def made(generations: int, clusters: int, categories: int) -> tuple[np.ndarray, list[str], list[str]]:
    rng = np.random.default_rng(3)
    values = rng.lognormal(0, 5, (generations, 3))
    names = [f"c{i}" for i in rng.integers(0, clusters, generations)]
    return values, names, [f"k{i}" for i in rng.integers(0, categories, generations)]


def test_few_clusters_keep_their_exact_sums() -> None:
    values, clusters, categories = made(500, 40, 3)
    sums = batched(values, clusters, categories, [500])
    twin: dict[tuple[str, str], np.ndarray] = {}
    for value, cluster, category in zip(values, clusters, categories, strict=True):
        twin[category, cluster] = twin.get((category, cluster), np.zeros(3)) + value
    assert list(zip(sums.categories, sums.units, strict=True)) == list(twin)
    assert sums.sums.tolist() == [row.tolist() for row in twin.values()]


@pytest.mark.parametrize(("clusters", "categories"), [(30, 2), (90, 2), (30, 20), (400, 30)])
def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch, clusters: int, categories: int) -> None:
    """Also where clusters or categories become too many in the middle of a batch."""
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 50)
    monkeypatch.setattr(unit_sums, "MOST_CATEGORIES", 10)
    given = made(600, clusters, categories)
    whole = batched(*given, [600])
    for sizes in ([1] * 600, [7] * 85 + [5], [599, 1]):
        other = batched(*given, sizes)
        assert (other.categories, other.units) == (whole.categories, whole.units)
        assert other.sums.tobytes() == whole.sums.tobytes()
    assert whole.categories_apart == (categories <= 10)
    assert len(whole.units) <= 50 * (categories if categories <= 10 else 1)
    np.testing.assert_allclose(whole.sums.sum(axis=0), given[0].sum(axis=0), rtol=1e-12)


def test_groups_of_clusters_hold_whole_clusters_and_give_the_same_interval() -> None:
    """20,000 clusters of two generations each: the interval of a mean against the normal approximation."""
    rng = np.random.default_rng(1)
    values = np.repeat(rng.gamma(2.0, size=20_000), 2)
    sums = UnitSums(2)
    sums.add(np.column_stack([values, np.ones(40_000)]), [f"c{i // 2}" for i in range(40_000)], [""] * 40_000)
    assert len(sums.units) == resampling.MOST_UNITS
    assert set(sums.sums[:, 1] % 2) == {0.0}, "no cluster is torn apart"
    [interval] = resampling.bootstrap(sums.sums, lambda s: s[:, :1] / s[:, 1:], draws=4_000)
    assert interval is not None
    half = 1.96 * values.std(ddof=1) / np.sqrt(20_000)
    assert interval.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_group_of_a_cluster_is_the_same_in_every_process() -> None:
    assert unit_sums.digest_of("q17") == 2_360_386_351_608_889_644  # printf q17 | b2sum -l 64, little-endian


def test_averages_stay_one_unit_among_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 5)
    sums = UnitSums(1)
    sums.add(np.ones((12, 1)), [AVERAGES, *(f"c{i}" for i in range(10)), AVERAGES], [""] * 12)
    assert sums.sums[sums.units.index(AVERAGES)] == [2.0]


def test_names_are_counted_once() -> None:
    names = DistinctNames()
    assert len(names) == 0
    for begin in range(0, 1000, 90):
        names.add(f"n{i % 700}" for i in range(begin, begin + 200))
    assert len(names) == 700


def test_rows_are_added_one_after_the_other() -> None:
    rows = np.random.default_rng(0).lognormal(0, 9, (200, 2, 3))
    twin, total = np.zeros((2, 3)), np.zeros((2, 3))
    for row in rows:
        twin = twin + row
    for part in (rows[:70], rows[70:70], rows[70:]):
        add_rows(total, part)
    assert total.tolist() == twin.tolist()


def test_further_labels_keep_sums_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_sums, "MOST_CATEGORIES", 3)
    values, clusters, categories = made(200, 5, 3)
    decoding = [f"d{i % 7}" for i in range(200)]
    apart, ended = UnitSums(3, labels=2), UnitSums(3, labels=2)
    apart.add(values, clusters, categories, [name if name < "d2" else "other" for name in decoding])
    ended.add(values, clusters, categories, decoding)
    assert set(apart.labels(1)) == {"d0", "d1", "other"}
    assert (apart.apart(0), apart.apart(1), ended.apart(0), ended.apart(1)) == (True, True, True, False)
    assert set(ended.labels(1)) == {""}
    row = list(zip(apart.labels(0), apart.labels(1), apart.units, strict=True)).index(("k1", "d1", "c2"))
    at = [g for g, key in enumerate(zip(categories, decoding, clusters, strict=True)) if key == ("k1", "d1", "c2")]
    np.testing.assert_allclose(apart.sums[row], values[at].sum(axis=0), rtol=1e-12)


def test_a_number_that_is_added_later_has_its_sums_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 50)
    values, clusters, categories = made(600, 90, 2)
    whole, later = UnitSums(3), UnitSums(2)
    later.add(values[:100, :2], clusters[:100], categories[:100])
    third = UnitSums(1)
    third.add(values[:100, 2:], clusters[:100], categories[:100])
    later.widen(third.sums)
    later.add(values[100:], clusters[100:], categories[100:])
    whole.add(values, clusters, categories)
    assert later.grouped
    assert later.sums.tobytes() == whole.sums.tobytes()


def test_sums_do_not_depend_on_how_much_is_copied_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 20)
    values, clusters, categories = made(300, 40, 3)
    found = []
    for at_once in (1, 200, 1 << 20):
        monkeypatch.setattr(unit_sums, "_AT_ONCE_BYTES", at_once)
        sums = ArraySums()
        sums.add({"a": values[:, :1], "b": values[:, 1:, None]}, clusters, categories)
        found.append((sums.units, sums.labels(0), {name: each.tolist() for name, each in sums.sums.items()}))
    assert found[0] == found[1] == found[2]


def test_wide_sums_are_taken_in_without_a_copy_of_the_batch() -> None:
    values, clusters = np.ones((2_000, 3_000)), ["c"] * 2_000
    sums = ArraySums()
    tracemalloc.start()
    try:
        sums.add({"a": values[:, :1_000], "b": values[:, 1_000:]}, clusters)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < values.nbytes / 4
    assert sums.sums["b"].sum() == 2_000 * 2_000


def test_too_many_rows_halve_the_units_whatever_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 48)
    monkeypatch.setattr(unit_sums, "FEWEST_UNITS", 6)
    for clusters, categories, most, left in ((40, 2, 60, 24), (400, 20, 300, 12), (400, 20, 30, 6), (40, 2, 80, None)):
        values, names, labels = made(900, clusters, categories)
        found = []
        for size in (900, 1, 7):
            sums = UnitSums(3, most_rows=most)
            for begin in range(0, 900, size):
                part = slice(begin, begin + size)
                sums.add(values[part], names[part], labels[part])
            found.append((sums.units, sums.categories, sums.sums.tobytes()))
        assert found[0] == found[1] == found[2]
        assert sums.groups == left
        twin: dict[tuple[str, str], np.ndarray] = {}
        for value, name, label in zip(values, names, labels, strict=True):
            unit = name if left is None else f"group {unit_sums.digest_of(name) % left}"
            twin[label, unit] = twin.get((label, unit), np.zeros(3)) + value
        rows = dict(zip(zip(sums.categories, sums.units, strict=True), sums.sums, strict=True))
        assert rows.keys() == twin.keys()
        for key, row in rows.items():
            np.testing.assert_allclose(row, twin[key], rtol=1e-12)
        assert left == 6 or len(rows) <= most
