"""Recommendations at several batch sizes as one schedule, and which batch sizes were not measured."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from oracle.recommendation.answers import Recommendation

Ranges = list[tuple[tuple[int, int | None], int]]


def ranges_of(answers: Sequence[Recommendation]) -> Ranges:
    """Give each batch size its recommended draft length, and the sizes between two the shorter of theirs.

    A draft that is too short forgoes a gain, one that is too long costs: a gap is bridged by what neither end speaks
    against. The first length holds from 1, the last on and on.

    Parameters
    ----------
    answers
        Of one setting, each with a recommended length, at batch sizes that differ; in any order.
    """
    by_size = sorted(answers, key=lambda answer: answer.batch_size)
    found: Ranges = []
    for here, after in pairwise(by_size):
        start, between = here.batch_size if found else 1, here.batch_size + 1
        found.append(((start, here.batch_size), here.recommended or 0))
        if between < after.batch_size:
            found.append(((between, after.batch_size - 1), _cautious(here, after).recommended or 0))
    last = by_size[-1]
    found.append(((last.batch_size if found else 1, None), last.recommended or 0))
    return found


def _cautious(here: Recommendation, after: Recommendation) -> Recommendation:
    """Whichever sets the shorter draft; the smaller batch size where they set the same."""
    return min(here, after, key=lambda answer: answer.recommended or 0)


def remarks_on(answers: Sequence[Recommendation]) -> Iterator[str]:
    """Say which batch sizes were measured, which draft lengths are extrapolated, and which are provisional."""
    by_size = sorted(answers, key=lambda answer: answer.batch_size)
    sizes = [answer.batch_size for answer in by_size]
    first, last = sizes[0], sizes[-1]
    if len(sizes) == 1:
        yield f"measured at batch size {first} only; at every other one this K is extrapolated"
    else:
        gaps = [(1, first - 1, first)] if first > 1 else []
        gaps += [
            (a.batch_size + 1, b.batch_size - 1, _cautious(a, b).batch_size)
            for a, b in pairwise(by_size)
            if b.batch_size > a.batch_size + 1
        ]
        spans = [f"{a if a == b else f'{a} to {b}'} (K of {size})" for a, b, size in gaps]
        yield (
            f"measured at batch sizes {', '.join(map(str, sizes))}; extrapolated: "
            f"{', '.join([*spans, f'above {last} (K of {last})'])}"
        )
    for answer in by_size:
        if answer.provisional:
            yield f"batch size {answer.batch_size}: not enough data, K = {answer.recommended} is provisional"
