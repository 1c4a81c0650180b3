"""Naive twins of the contrasts: plain Python loops over records, written from the definitions and nothing else.

A record is one observation: in generation `generation`, at step `step` of a continuation (0 where there are no steps),
on one of two sides, with a weight. Conventions:

    X(t, j) = U(t, j) − U(t, j−1)           new experts of row t + j, j ≥ 1
    pooled  = Σ_j n_j (a_j − b_j) / Σ_j n_j  over steps that hold both; n_j: weight of the group at step j
    within  = Σ w (a − b) / Σ w              over (generation, step) that hold both; w = n_a n_b / (n_a + n_b)
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

Table = Sequence[Sequence[float]]


class Record(NamedTuple):
    generation: int
    step: int
    inside: bool
    weight: float
    value: float


class Levels(NamedTuple):
    mean: float
    against: float
    difference: float
    weight: float  # of the group, where there is something to compare it with
    generations: int


def mean(records: Sequence[Record]) -> float:
    return sum(r.weight * r.value for r in records) / sum(r.weight for r in records)


def compared(
    records: Sequence[Record],
    stratum: Callable[[Record], object],
    weight_of: Callable[[float, float], float],
) -> Levels | None:
    """Levels of both sides and their difference over the strata that hold both."""
    records = [r for r in records if r.weight > 0]
    total = a_sum = b_sum = held = 0.0
    generations = set()
    for one in {stratum(r) for r in records}:
        here = [r for r in records if stratum(r) == one]
        a, b = [r for r in here if r.inside], [r for r in here if not r.inside]
        if not a or not b:
            continue
        n_a, n_b = sum(r.weight for r in a), sum(r.weight for r in b)
        w = weight_of(n_a, n_b)
        total += w
        a_sum += w * mean(a)
        b_sum += w * mean(b)
        held += n_a
        generations |= {r.generation for r in a}
    if not total:
        return None
    return Levels(a_sum / total, b_sum / total, (a_sum - b_sum) / total, held, len(generations))


def pooled(records: Sequence[Record]) -> Levels | None:
    return compared(records, lambda r: r.step, lambda n_a, _: n_a)


def within(records: Sequence[Record]) -> Levels | None:
    return compared(records, lambda r: (r.generation, r.step), lambda n_a, n_b: n_a * n_b / (n_a + n_b))


def length_records(
    lengths: Sequence[Sequence[int]],
    weights: Sequence[Sequence[float]],
    member: Sequence[Sequence[bool]],
    of: Callable[[int], float],
) -> Iterator[Record]:
    """One record a decision: the decision at t belongs to the token at t."""
    for g, ks in enumerate(lengths):
        for t, k in enumerate(ks):
            yield Record(g, 0, member[g][t], weights[g][t], of(k))


def step_records(unique: Sequence[Table], member: Sequence[Sequence[bool]], K: int) -> Iterator[Record]:
    """One record an anchor and step j ≥ 1 inside the text: it belongs to the token that row t + j emits."""
    for g, table in enumerate(unique):
        for t in range(len(table)):
            for j in range(1, K + 1):
                if t + j < len(table):
                    yield Record(g, j, member[g][t + j], 1.0, table[t][j] - table[t][j - 1])


def mismatch_records(
    unique: Sequence[Table],
    match: Callable[[int, int, int], float],
    K: int,
    *,
    rows_on: int,
    change: bool,
    depth: int,
) -> Iterator[Record]:
    """Records of the row `rows_on` after position t + i, for drafts that first differ at t + i or still match there.

    `match(g, t, i)` is the probability (or 0 and 1) that draft token i of anchor t matches, those before having
    matched; drafts hold `depth` tokens.
    """
    for g, table in enumerate(unique):
        N = len(table)
        for t in range(N):
            chance = 1.0
            for i in range(min(K, depth)):
                if t + i >= N:
                    break
                p = match(g, t, i)
                row = i + rows_on
                if row >= (2 if change else 1) and row <= K and t + row < N:
                    value = table[t][row] - table[t][row - 1]
                    if change:
                        value -= table[t][row - 1] - table[t][row - 2]
                    yield Record(g, i, True, chance * (1 - p), value)
                    yield Record(g, i, False, chance * p, value)
                chance *= p
