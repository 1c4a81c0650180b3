"""Naive twins of the crossover: Python sets, loops and sums from the definitions; nothing here imports the project."""

import itertools
from collections.abc import Sequence

Ids = Sequence[Sequence[Sequence[int]]]  # rows, layers, ids


def union_size(windows: Sequence[Ids], rows: int) -> int:
    """Experts, summed over layers, that the first rows of some windows touch together."""
    layers = len(windows[0][0]) if windows else 0
    return sum(len({e for w in windows for row in w[:rows] for e in row[layer]}) for layer in range(layers))


def unions_of_paths(
    windows: Sequence[Ids], paths: Sequence[Sequence[int]], rows: int, most: int, without: set[int]
) -> tuple[list[int], list[int]]:
    """Sums over paths of the union of the first 1 … most windows that are not left out, and how many paths had them."""
    sums, reached = [0] * most, [0] * most
    for path in paths:
        kept = [w for w in path if w not in without]
        for size in range(1, min(most, len(kept)) + 1):
            sums[size - 1] += union_size([windows[w] for w in kept[:size]], rows)
            reached[size - 1] += 1
    return sums, reached


def intervals(on: Sequence[bool]) -> list[tuple[int, int]]:
    """First and last number, from 1 on, of every run of True."""
    found: list[tuple[int, int]] = []
    for i, state in enumerate(on, 1):
        if state and found and found[-1][1] == i - 1:
            found[-1] = (found[-1][0], i)
        elif state:
            found.append((i, i))
    return found


def schedule_key(
    speed_up: Sequence[Sequence[float]], half: Sequence[Sequence[float]], noise: float, chosen: Sequence[int]
) -> tuple[int, float, int] | None:
    """Ranges, share of the rate lost and draft tokens of a schedule; None where it is not allowed."""
    lengths = range(len(speed_up[0]))
    claims = [
        {k for k in lengths if k and ups[k] * (1 - noise) > 1 and not ups[k] - halves[k] <= 1}  # NaN: no interval
        for ups, halves in zip(speed_up, half, strict=True)
    ]
    lost = 0.0
    for b, k in enumerate(chosen):
        if claims[b]:
            best = max(speed_up[b][j] for j in claims[b])
            if k not in claims[b] or not speed_up[b][k] >= best * (1 - noise):
                return None
            lost += 1 - speed_up[b][k] / best
        elif k:
            if not (any(claims[:b]) and any(claims[b:]) and speed_up[b][k] >= 1 - noise):
                return None
            lost += max(0.0, 1 - speed_up[b][k])
    return 1 + sum(a != b for a, b in itertools.pairwise(chosen)), lost, sum(chosen)


def best_schedule_key(
    speed_up: Sequence[Sequence[float]], half: Sequence[Sequence[float]], noise: float
) -> tuple[int, float, int]:
    """The least of `schedule_key` over every schedule there is."""
    tried = itertools.product(range(len(speed_up[0])), repeat=len(speed_up))
    return min(key for each in tried if (key := schedule_key(speed_up, half, noise, each)) is not None)


def published_round_ms(m: int, batch: int, context: float, off_ms: float = 5.7, overlap: float = 0.0) -> float:
    """A verification round of the published target, with the stated assumptions, as one writes it down.

    128 experts, 8 a token; .042 ms of compute a token; 98,304 bytes of KV a token at 2 TB/s.
    """
    n = m * batch
    touched = 128 * (1 - (1 - 8 / 128) ** (batch * (1 + (m - 1) * (1 - overlap))))
    base = {1: off_ms, 2: 7.3, 3: 8.9, 4: 10.5}.get(n, 4.7)
    alpha = 0.081 if n <= 4 else 0.266
    kv = 98304 / 2e12 * 1e3
    return base + max(alpha * touched, 0.042 * n) + (1.1e-3 - kv) * context + kv * context * batch


def published_speed_up(k: int, batch: int, context: float, match: float) -> float:
    """Speed-up over K = 0 of K = k where each draft token matches with one probability."""
    length = sum(match**j for j in range(k + 1))
    draft = 0.459 * k + 0.073
    return length * published_round_ms(1, batch, context) / (published_round_ms(k + 1, batch, context) + draft)
