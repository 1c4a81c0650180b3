"""Recommendations at several batch sizes as one schedule, and which batch sizes were not measured."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from oracle.recommendation.answers import Recommendation

Ranges = list[tuple[tuple[int, int | None], int]]


def ranges_of(answers: Sequence[Recommendation]) -> Ranges:
    """Let each recommended draft length hold from its batch size up to the next; the first from 1, the last on and on.

    Parameters
    ----------
    answers
        Of one setting, each with a recommended length, at batch sizes that differ; in any order.
    """
    by_size = sorted(answers, key=lambda answer: answer.batch_size)
    starts = [1, *(answer.batch_size for answer in by_size[1:])]
    ends = [*(start - 1 for start in starts[1:]), None]
    return [((start, end), answer.recommended or 0) for start, end, answer in zip(starts, ends, by_size, strict=True)]


def remarks_on(answers: Sequence[Recommendation]) -> Iterator[str]:
    """Say which batch sizes were measured, which draft lengths are extrapolated, and which are provisional."""
    sizes = sorted(answer.batch_size for answer in answers)
    first, last = sizes[0], sizes[-1]
    if len(sizes) == 1:
        yield f"measured at batch size {first} only; at every other one this K is extrapolated"
    else:
        gaps = [(1, first - 1, first)] if first > 1 else []
        gaps += [(a + 1, b - 1, a) for a, b in pairwise(sizes) if b > a + 1]
        spans = [f"{a if a == b else f'{a} to {b}'} (K of {size})" for a, b, size in gaps]
        yield (
            f"measured at batch sizes {', '.join(map(str, sizes))}; extrapolated: "
            f"{', '.join([*spans, f'above {last} (K of {last})'])}"
        )
    for answer in sorted(answers, key=lambda answer: answer.batch_size):
        if answer.undecided:
            yield f"batch size {answer.batch_size}: not enough data, K = {answer.recommended} is provisional"
