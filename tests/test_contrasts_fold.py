"""Contrasts folded by unit of resampling: groups of clusters, batches, groups of tokens that occur late, memory."""

from collections.abc import Sequence

import numpy as np
import pytest

from oracle import unit_sums
from oracle.contrasts.comparisons import Comparison, comparisons, group_means
from oracle.contrasts.groups import ALL, OTHER_CODE, PROSE, Group
from oracle.contrasts.steps import step_sums
from oracle.contrasts.sums import GroupFold, GroupSums, GroupTotals, folded

LATE = Group("mode", "code")
GROUPS = (ALL, PROSE, LATE)
K = 3


def batch(rng: np.random.Generator, clusters: Sequence[str], *, late: bool) -> GroupSums:
    """Generations of random tokens; without `late` no token is of the last group, and it is not named."""
    lengths = rng.integers(2, 9, len(clusters))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n = int(offsets[-1])
    member = np.column_stack([np.ones(n, bool), rng.random(n) < 0.4, rng.random(n) < 0.3])
    count = 3 if late else 2
    new = {"routing": rng.normal(2, 1, (n, K))}
    return step_sums(new, GROUPS[:count], member[:, :count], offsets, tuple(clusters))


def total(parts: Sequence[GroupSums]) -> GroupTotals:
    found = folded(parts, (None, PROSE))
    assert found is not None
    return found


def one_by_one(parts: Sequence[GroupSums]) -> list[GroupSums]:
    """Every generation a batch of its own, the groups of its batch."""
    return [
        GroupSums((name,), part.groups, part.measures, part.sums[g : g + 1])
        for part in parts
        for g, name in enumerate(part.cluster)
    ]


def made(clusters: int = 30) -> list[GroupSums]:
    rng = np.random.default_rng(5)
    names = [f"c{i}" for i in rng.integers(0, clusters, 60)]
    return [batch(rng, names[:25], late=False), batch(rng, names[25:], late=True)]


@pytest.mark.parametrize("most", [7, 2_000])
def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(unit_sums, "MOST_UNITS", most)
    parts = made()
    whole, other = total(parts), total(one_by_one(parts))
    assert whole.groups == other.groups == GROUPS
    assert whole.cluster == other.cluster
    assert whole.sums.tobytes() == other.sums.tobytes()
    assert whole.steps == other.steps
    for against in (None, PROSE):
        assert whole.within[against].tobytes() == other.within[against].tobytes()
        assert whole.within_held[against].tolist() == other.within_held[against].tolist()


def naive_within(parts: Sequence[GroupSums], group: Group, against: Group | None) -> tuple[float, int]:
    """Sum of w (a - b) over that of w, generation by generation and step by step; generations that hold both."""
    top = bottom = 0.0
    generations = 0
    for part in parts:
        at = {name: i for i, name in enumerate(part.groups)}
        for g in range(len(part.cluster)):
            both = False
            for j in range(K):
                if group not in at or (against is not None and against not in at):
                    continue
                n_a, x_a = part.sums[g, at[group], j, 0]
                n_b, x_b = part.sums[g, at[group], j, 1] if against is None else part.sums[g, at[against], j, 0]
                if n_a > 0 and n_b > 0:
                    both = True
                    w = n_a * n_b / (n_a + n_b)
                    top, bottom = top + w * (x_a / n_a - x_b / n_b), bottom + w
            generations += both
    return top / bottom, generations


def test_within_generations_stays_a_comparison_of_generations() -> None:
    """Not of units: several generations of a cluster are no one generation."""
    parts = made(clusters=12)
    found = total(parts)
    for against in (None, PROSE):
        for row in comparisons(found, [LATE] if against else [PROSE, LATE], against):
            difference, generations = naive_within(parts, row.group, against)
            assert row.within.difference.value == pytest.approx(difference, rel=1e-12)
            assert row.within.generations == generations
            assert row.within.clusters <= 12


def test_generations_that_hold_a_group_are_counted_by_step() -> None:
    parts = made()
    for mean in group_means(total(parts), GROUPS):
        held = 0
        for part in parts:
            if mean.group in part.groups:
                held += int((part.sums[:, part.groups.index(mean.group), mean.step, 0, 0] > 0).sum())
        assert mean.generations == held


def numbers(found: Sequence[Comparison]) -> list[float]:
    values = []
    for row in found:
        for one in (row.pooled, row.within):
            assert one.difference.interval is not None
            values += [one.difference.value, one.difference.interval.low, one.difference.interval.high, one.weight]
    return [float(value or 0) for value in values]


def test_groups_of_clusters_are_resampled_like_clusters_of_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 7)
    parts = made()
    renamed = [
        GroupSums(tuple(map(unit_sums.unit_beyond, part.cluster)), part.groups, part.measures, part.sums)
        for part in parts
    ]
    one, other = total(parts), total(renamed)
    assert len(one.cluster) <= 7
    assert one.cluster == other.cluster
    assert numbers(comparisons(one, GROUPS)) == pytest.approx(numbers(comparisons(other, GROUPS)), rel=1e-9, abs=1e-12)


def test_what_is_kept_does_not_grow_with_the_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_sums, "MOST_UNITS", 10)
    rng = np.random.default_rng(0)
    fold = GroupFold((None, OTHER_CODE))
    sizes = []
    for b in range(12):
        fold.add(batch(rng, [f"b{b} {i}" for i in range(40)], late=True))
        found = fold.totals()
        assert found is not None
        sizes.append((found.sums.nbytes, len(found.cluster), sum(map(len, found.steps.values()))))
        assert sizes[-1][1] <= 10
    assert sizes[1][:2] == sizes[-1][:2]
    assert max(size[2] for size in sizes) <= len(GROUPS) * 2**K


def test_batches_of_other_measures_are_refused() -> None:
    parts = made()
    other = GroupSums(parts[1].cluster, parts[1].groups, ("recorded",), parts[1].sums)
    with pytest.raises(ValueError, match="batches hold other measures"):
        folded([parts[0], other])
