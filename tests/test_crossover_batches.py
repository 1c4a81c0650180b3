"""Unique experts of batches: the kernel against sets, paths against their promises, windows against the solver."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import naive_crossover
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import traces_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.batch_union import batch_unions, window_masks
from oracle.columns import frozen
from oracle.crossover import unique_experts as measured
from oracle.crossover import windows as windows_of
from oracle.crossover.formulas import mixed_unique_experts, uniform_unique_experts
from oracle.crossover.jackknife import half_widths
from oracle.crossover.sampling import comparable_tenants, sample_paths
from oracle.crossover.unique_experts import cluster_groups, measure, popularity_of
from oracle.crossover.windows import Windows, read_windows
from oracle.errors import InputError
from oracle.traces import TraceFiles


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_unions_are_those_of_sets(data: st.DataObject) -> None:
    layers, top_k = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    num_experts = data.draw(st.sampled_from([4, 64, 65, 300]))
    count, deep = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    rows, most, groups = data.draw(st.integers(1, deep)), data.draw(st.integers(1, 6)), data.draw(st.integers(0, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    ids = rng.integers(0, num_experts, (count, deep, layers, top_k))
    paths = rng.integers(0, count, (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 8)))).astype(np.int32)
    group = rng.integers(0, max(groups, 1), count).astype(np.int32)
    width = -(-num_experts // 64) * layers
    sums, reached = np.zeros((2, groups + 1, most), np.int64)
    dtype = np.uint8 if num_experts <= 256 else np.uint16
    experts = frozen(ids.reshape(count, deep, -1).astype(dtype))
    masks, joined = np.empty((count, width), np.uint64), np.empty((groups + 1, width), np.uint64)
    window_masks(experts, frozen(np.arange(count, dtype=np.int32)), rows, (0,) * top_k, masks)
    batch_unions(frozen(masks), frozen(paths), frozen(group), joined, sums, reached)
    for variant in range(groups + 1):
        without = {w for w in range(count) if variant and group[w] == variant - 1}
        twin = naive_crossover.unions_of_paths(ids.tolist(), paths.tolist(), rows, most, without)
        assert (sums[variant].tolist(), reached[variant].tolist()) == twin


def write(folder: Path, generations: int = 12, length: int = 9, tenants: int = 3, **more: object) -> TraceFiles:
    names = [f"t{g % tenants}" for g in range(generations)]
    clusters = [f"c{g % tenants}-{g // tenants // 2}" for g in range(generations)]
    given = {"tenant": names, "cluster": clusters} | more
    drop = [name for name, value in given.items() if value is None]
    table = traces_factory.trace_table([length] * generations, K=3, **{k: v for k, v in given.items() if v is not None})
    path = folder / "traces.parquet"
    pq.write_table(table.drop_columns([name for name in drop if name in table.column_names]), path)
    return TraceFiles([path], columns=windows_of.COLUMNS)


@pytest.fixture
def windows(tmp_path: Path) -> Windows:
    return read_windows(write(tmp_path), 3)


def test_windows_hold_every_start_and_its_weight(windows: Windows, tmp_path: Path) -> None:
    assert windows.experts.shape == (12 * 6, 4, 4)
    assert windows.visit[:, 0].tolist() == [1.0] * 72  # without drafts a round starts everywhere
    whole = windows.rounds.sum(axis=0)
    assert windows.visit.sum(axis=0) == pytest.approx(whole, rel=1e-12)  # all starts were kept
    table = pq.read_table(tmp_path / "traces.parquet")
    match = np.array(table.column("match_prob").to_pylist())
    visit = np.zeros((12, 9))  # K = 2: a round starts where one before it ended
    visit[:, 0] = 1.0
    emitted = np.zeros((12, 9))
    for t in range(9):
        p1 = match[:, t]
        p2 = match[:, t + 1] if t + 1 < 9 else 0.0
        for advance, chance in ((1, 1 - p1), (2, p1 * (1 - p2)), (3, p1 * p2)):
            if t + advance < 9:
                visit[:, t + advance] += visit[:, t] * chance
        emitted[:, t] = 1 + p1 + p1 * p2
    assert windows.visit[:, 2].reshape(12, 6) == pytest.approx(visit[:, :6], rel=1e-6)
    assert windows.tokens[:, 2] == pytest.approx((visit * emitted)[:, :6].sum(axis=1), rel=1e-6)
    context = 10 + np.arange(12)[:, None] + np.arange(6)
    assert windows.context[:, 2] == pytest.approx((visit[:, :6] * context).sum(axis=1), rel=1e-6)


def test_a_batch_of_one_touches_what_the_solver_prices(windows: Windows) -> None:
    groups, count = cluster_groups(windows)
    paths = sample_paths(windows, 1, groups[windows.pooled], paths=6000)
    found = measure(windows, paths, 1, groups, count, shown=(1,))
    exact = windows.unique.sum(axis=0) / windows.rounds.sum(axis=0)
    assert found.mean[0] == pytest.approx(exact, rel=0.02)
    assert found.mean[0, 0] == 2.0


def test_paths_keep_their_promises(windows: Windows) -> None:
    groups, _ = cluster_groups(windows)
    pooled = groups[windows.pooled]
    owner = np.repeat(windows.pooled, np.diff(windows.first))
    one, two, any_, again = (sample_paths(windows, 8, pooled, tenants=n, paths=30, seed=5) for n in (1, 2, None, None))
    assert np.array_equal(any_.windows, again.windows)
    assert (one.distinct_to, two.distinct_to, any_.distinct_to) == (2, 4, 6)
    for k in range(4):
        for s in range(30):
            tenants = windows.tenant[owner[one.windows[k, s]]]
            assert set(tenants.tolist()) == {int(one.tenants[s, 0])}
            first = windows.tenant[owner[two.windows[k, s, :8]]]
            assert Counter(first.tolist()) == dict.fromkeys(two.tenants[s].tolist(), 4)
            assert int(two.tenants[s, 0]) == int(one.tenants[s, 0])
            generations = owner[any_.windows[k, s, :12]]
            assert len(set(generations.tolist())) == 12  # all others come before one comes again
            assert len(set(windows.cluster[generations[:6]].tolist())) == 6
    assert Counter(one.tenants[:, 0].tolist()) == {0: 10, 1: 10, 2: 10}
    assert not np.array_equal(any_.windows, sample_paths(windows, 8, pooled, paths=30, seed=6).windows)


def test_leaving_a_cluster_out_is_measuring_without_it(windows: Windows) -> None:
    groups, count = cluster_groups(windows)
    paths = sample_paths(windows, 3, groups[windows.pooled], paths=40)
    found = measure(windows, paths, 3, groups, count)
    ids = windows.experts.reshape(72, 4, 2, 2).tolist()
    owner = np.repeat(windows.pooled, np.diff(windows.first))
    for c in range(count):
        without = set(np.flatnonzero(groups[owner] == c).tolist())
        sums, reached = naive_crossover.unions_of_paths(ids, paths.windows[1].tolist(), 2, 3, without)
        assert reached == [40, 40, 40]
        assert found.left_out[c, :, 1] == pytest.approx(np.array(sums) / 80, rel=1e-12)


def test_few_masks_at_a_time_give_the_same(windows: Windows, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many paths at once as masks fit: all, five, one although its own do not fit."""
    groups, count = cluster_groups(windows)
    paths = sample_paths(windows, 3, groups[windows.pooled], paths=12)
    whole = measure(windows, paths, 3, groups, count)
    length, mask = paths.windows.shape[2], 8 * windows.layers
    assert 5 * length < len(windows.experts)
    for held in (5 * length, 1):
        monkeypatch.setattr(measured, "_MASK_BYTES", held * mask)
        parts = measure(windows, paths, 3, groups, count)
        assert (parts.mean.tobytes(), parts.left_out.tobytes()) == (whole.mean.tobytes(), whole.left_out.tobytes())


def test_intervals_are_those_of_the_jackknife() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=20)
    left_out = (x.sum() - x) / 19
    t_975 = 2.093024054408263  # Student's t, 19 degrees of freedom
    assert half_widths(left_out[:, None])[0] == pytest.approx(t_975 * x.std(ddof=1) / np.sqrt(20), rel=1e-12)
    assert np.isnan(half_widths(np.zeros((1, 2)))).all()


@given(st.integers(1, 5), st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_formulas_order_tenants(tenants: int, seed: int, tokens: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.random((tenants, 2, 16)) ** 4 + 1e-9
    pi = np.minimum(1.0, 2 * weights / weights.sum(axis=2, keepdims=True))
    pi[..., 0] += 2 - pi.sum(axis=2)  # two experts a token
    pi = np.clip(pi, 0.0, 1.0)
    alone = [float(mixed_unique_experts([float(tokens)], pi[[t]])) for t in range(tenants)]
    mixed = float(mixed_unique_experts(np.full(tenants, tokens / tenants), pi))
    assert mixed >= np.mean(alone) - 1e-9  # mixing in equal parts touches no fewer
    routed = pi.sum(axis=2).max()
    assert max(alone) <= float(uniform_unique_experts(tokens, 16, 2)) * max(1.0, routed / 2) + 1e-9


def test_popularity_counts_tokens(windows: Windows) -> None:
    found = popularity_of(windows, None)
    assert found.sum(axis=2) == pytest.approx(np.full((1, 2), 2.0))
    owner = windows.tenant[np.repeat(windows.pooled, np.diff(windows.first))]
    rows = windows.experts[owner == 1].reshape(-1, 2, 2)
    share = (rows[:, 1] == 3).any(axis=1).mean()
    assert popularity_of(windows, [1])[0, 1, 3] == pytest.approx(share)


def test_tenants_are_categories_where_none_are_named(tmp_path: Path) -> None:
    found = read_windows(write(tmp_path, tenant=None), 3)
    assert (found.tenant_is, found.tenants) == ("category", ("code", "", "prose"))
    assert [found.tenants[t] for t in comparable_tenants(found)] == ["code"]


def test_memory_is_bounded_by_fewer_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path)
    monkeypatch.setattr(windows_of, "MOST_GENERATIONS", 5)
    monkeypatch.setattr(windows_of, "MOST_BYTES", 5 * 2 * 16)
    found = read_windows(files, 3, seed=1)
    assert (len(found.pooled), found.experts.nbytes, len(found.cluster)) == (5, 160, 12)
    whole = read_windows(files, 3)
    assert np.array_equal(found.rounds, whole.rounds)
    assert np.array_equal(found.experts, read_windows(files, 3, seed=1).experts)


def test_how_traces_are_batched_moves_no_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report reads in other batches than the command: both must choose the same windows."""
    monkeypatch.setattr(windows_of, "MOST_WINDOWS", 2)
    whole = read_windows(write(tmp_path), 3, seed=3)
    table = pq.read_table(tmp_path / "traces.parquet")
    parts = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, part in zip(parts, (table.slice(0, 5), table.slice(5)), strict=True):
        pq.write_table(part, path)
    apart = read_windows(TraceFiles(parts, columns=windows_of.COLUMNS), 3, seed=3)
    assert len(whole.visit) == 24
    assert np.array_equal(whole.experts, apart.experts)
    assert np.array_equal(whole.visit, apart.visit)


def test_refusals(tmp_path: Path) -> None:
    files = write(tmp_path, length=3)
    with pytest.raises(InputError, match=r"no generation has 4 positions, so no round of K = 3 fits; lower --k-max"):
        read_windows(files, 3)
    (tmp_path / "dense").mkdir()
    table = traces_factory.trace_table([5, 5], drop=traces_factory.DENSE)
    assert isinstance(table, pa.Table)
    pq.write_table(table, tmp_path / "dense" / "traces.parquet")
    dense = TraceFiles([tmp_path / "dense"], columns=windows_of.COLUMNS)
    with pytest.raises(InputError, match=r"has no column experts; .* give --num-experts and --top-k for the formula"):
        read_windows(dense, 3)


def test_generations_with_more_rounds_join_sooner(windows: Windows) -> None:
    """The first to join is drawn in proportion to its rounds, for every draft length by those of that length."""
    G = len(windows.pooled)
    rounds = windows.rounds.copy()
    rounds[windows.pooled] = np.arange(1.0, G + 1)[:, None] ** np.array([2.0, 1.0, 0.0, -1.0])
    paths = 3000
    drawn = sample_paths(replace(windows, rounds=rounds), 1, np.arange(G, dtype=np.int32), paths=paths, seed=1)
    owner = np.repeat(np.arange(G), np.diff(windows.first))
    for k in range(4):
        share = rounds[windows.pooled, k] / rounds[windows.pooled, k].sum()
        found = np.bincount(owner[drawn.windows[k, :, 0]], minlength=G) / paths
        assert (np.abs(found - share) < 5 * np.sqrt(share * (1 - share) / paths)).all(), k
