"""Naive twins of the crossover: Python sets, loops and sums from the definitions; nothing here imports the project."""

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


def fewest(fine: Sequence[Sequence[bool]]) -> int:
    """Least number of ranges so that one choice is fine all over each, by trying every first range."""
    best = [0] + [len(fine) + 1] * len(fine)
    for end in range(1, len(fine) + 1):
        for start in range(end):
            if any(all(row[k] for row in fine[start:end]) for k in range(len(fine[0]))):
                best[end] = min(best[end], best[start] + 1)
    return best[-1]


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
