"""Where rules stop: the kernel against a naive twin, and the work in pieces against the work at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_inputs import INFORMED, ONLINE, K, random_inputs

from kernels.stopping import stop
from oracle.columns import frozen
from oracle.policies import lengths, lengths_of


def stops_at(cost: list[float], gain: list[float], price: float) -> int:
    """Naive twin: the first step that is not worth its price, or their number."""
    for s, (c, g) in enumerate(zip(cost, gain, strict=True)):
        if not c <= price * g:
            return s
    return len(cost)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**16),
    steps=st.integers(0, 5),
    positions=st.integers(0, 9),
    rules=st.integers(1, 7),
    alike=st.booleans(),
)
def test_each_rule_stops_where_its_naive_twin_does(
    seed: int, steps: int, positions: int, rules: int, alike: bool
) -> None:
    """Few different numbers, so that ties are many; costs and prices below 0 (turned thresholds), gains of 0, NaN."""
    rng = np.random.default_rng(seed)
    cost = rng.choice([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0, np.nan], (steps, positions))
    gain = rng.choice([0.0, 0.25, 0.5, 1.0], (steps, 1 if alike else positions))
    price = np.sort(rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0, 4.0], rules))[::-1]
    column = rng.permutation(rules + 2)[:rules]
    verified, drafted = (np.sort(rng.integers(0, 9, steps + 1)).astype(np.int16) for _ in range(2))
    k, made = (np.full((positions, rules + 2), -7, dtype=np.int16) for _ in range(2))
    stop(*map(frozen, (cost, gain, price, column, verified, drafted)), k, made)
    for t in range(positions):
        for p in range(rules):
            s = stops_at(cost[:, t].tolist(), gain[:, 0 if alike else t].tolist(), float(price[p]))
            assert (k[t, column[p]], made[t, column[p]]) == (verified[s], drafted[s])
        others = [c for c in range(rules + 2) if c not in column]
        assert (k[t, others] == -7).all()
        assert (made[t, others] == -7).all()


@pytest.mark.parametrize("at_once", [1, 7, 64])
@pytest.mark.parametrize("allowed", [range(K + 1), (1, 3, 4), (2,)])
def test_pieces_of_positions_give_what_all_at_once_give(
    monkeypatch: pytest.MonkeyPatch, at_once: int, allowed: tuple[int, ...]
) -> None:
    inputs = random_inputs(6, (13, 1, 0, 50), allowed)
    whole = lengths_of([*ONLINE, *INFORMED], inputs)
    monkeypatch.setattr(lengths, "_AT_ONCE", at_once)
    pieces = lengths_of([*ONLINE, *INFORMED], inputs)
    assert whole.drafted is not None
    assert pieces.drafted is not None
    assert (pieces.draft_length == whole.draft_length).all()
    assert (pieces.drafted == whole.drafted).all()
    assert len(np.unique(whole.draft_length)) == len(allowed)


def test_prices_in_any_order_find_their_own_columns() -> None:
    slopes, grown = [f"slope:{x}" for x in (2.0, 0.25, 8.0, 0.0, 4.0, 1.0)], 0
    for seed in range(10):
        inputs = random_inputs(seed, (30, 20))
        mixed = lengths_of(slopes, inputs).draft_length
        for p, text in enumerate(slopes):
            assert (mixed[:, p] == lengths_of([text], inputs).draft_length[:, 0]).all()
        dearer = mixed[:, np.argsort([float(text.partition(":")[2]) for text in slopes])]
        assert (np.diff(dearer, axis=1) >= 0).all(), "a higher price never drafts less"
        grown += int((np.diff(dearer, axis=1) > 0).sum())
    assert grown > 50
