"""Early exit in lockstep: closed forms equal enumeration and simulation, laws of the batch size, limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_pool import rows_that_leave, simulated_savings

from oracle.pool.early_exit import MOST_BATCH, EarlyExit, largest_batch_saving, savings


@st.composite
def exits(draw, most=8):
    layers = draw(st.integers(1, most))
    at = sorted(draw(st.sets(st.integers(1, layers), min_size=1, max_size=3)))
    raw = [draw(st.floats(0.01, 1.0)) for _ in at]
    whole = draw(st.sampled_from([1.0, sum(raw), sum(raw) + 1.0]))
    scale = max(sum(raw), whole)
    rows = draw(st.sampled_from([None, 0.5, 4.0, 640.0]))
    return EarlyExit(layers, tuple(at), tuple(p / scale for p in raw), rows, draw(st.sampled_from([0.0, 0.5])))


def chances(found):
    return [(layer + 1, float(p)) for layer, p in enumerate(found.leaving)]


@settings(deadline=None)
@given(exits(), st.integers(1, 4))
def test_closed_forms_equal_enumeration(found, batch):
    ways = list(rows_that_leave(found.layers, chances(found), batch, found.row_time, found.compaction_layers))
    assert sum(p for p, _ in ways) == pytest.approx(1.0)
    whole = ways[0][1][0]
    expected = [1 - sum(p * times[i] for p, times in ways) / whole for i in (1, 2, 3)]
    got = savings(found, batch)
    assert [float(got.lockstep), float(got.compaction), float(got.refilling)] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("batch", [1, 3, 16])
def test_closed_forms_equal_simulation(batch):
    found = EarlyExit(48, (16, 24, 32, 40), (0.1, 0.2, 0.2, 0.1), 640.0, 0.5)
    means, errors = simulated_savings(48, chances(found), batch, 1 / 640, 0.5, 20_000, seed=5)
    got = savings(found, batch)
    for value, mean, error in zip((got.lockstep, got.compaction, got.refilling), means, errors, strict=True):
        assert abs(float(value) - mean) <= 4.5 * error + 1e-12


@given(exits())
def test_a_larger_batch_never_saves_more_in_lockstep(found):
    got = savings(found, np.arange(1, 60))
    assert np.all(np.diff(got.lockstep) <= 1e-12)
    assert np.all(got.lockstep <= got.refilling + 1e-12)
    if found.compaction_layers == 0:
        assert np.all(got.compaction >= got.lockstep - 1e-12)
        assert np.all(got.compaction <= got.refilling + 1e-12)


def test_the_saving_falls_geometrically_where_some_tokens_need_every_layer():
    """Half leave after 20 of 48 layers: everybody must, so each further row halves the saving."""
    got = savings(EarlyExit(48, (20,), (0.5,)), np.arange(1, 11))
    assert got.lockstep.tolist() == pytest.approx([0.5**b * 28 / 48 for b in range(1, 11)], rel=1e-12)


def test_the_saving_is_inversely_proportional_where_depths_are_uniform():
    layers = 1000
    got = savings(EarlyExit(layers, tuple(range(1, layers + 1)), (1 / layers,) * layers), np.array([1, 4, 16, 64]))
    assert (got.lockstep * (got.batch + 1)).tolist() == pytest.approx([1, 1, 1, 1], rel=0.04)


def test_compaction_saves_rows_not_weights():
    B = np.array([1, 8, 64, 4096])
    reads_only = savings(EarlyExit(48, (20,), (0.5,)), B)
    assert reads_only.compaction.tolist() == reads_only.lockstep.tolist()
    rows_only = savings(EarlyExit(48, (20,), (0.5,), rows_that_double=1e-9), B)
    assert rows_only.compaction.tolist() == pytest.approx(rows_only.refilling.tolist(), abs=1e-9)


@given(exits(), st.sampled_from([0.01, 0.1, 0.5]))
def test_the_largest_batch_that_saves_equals_a_scan(found, share):
    last = largest_batch_saving(found, share)
    scanned = savings(found, np.arange(1, 2001)).lockstep >= share
    assert min(last, 2000) == scanned.sum()
    assert bool(scanned[: min(last, 2000)].all())


def test_everybody_leaves_early():
    assert largest_batch_saving(EarlyExit(48, (20,), (1.0,)), 0.5) == MOST_BATCH
    assert largest_batch_saving(EarlyExit(48, (48,), (1.0,)), 0.01) == 0
