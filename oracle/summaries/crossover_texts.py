"""A crossover in sentences: the schedule, the exits, and what they hang on."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracle.crossover.answer import Crossover
from oracle.crossover.costs import BASES
from oracle.crossover.pays import ON, STATES

_MOST_RANGES = 4  # of batch sizes that a sentence names one by one


def ends_seen(answer: Crossover, last: int) -> bool:
    """Whether speculation is known not to pay at the batch size after the last of an interval."""
    return last < answer.most and STATES[answer.states[last]] == "off"


def headline(answer: Crossover) -> str:
    """Say the schedule in one sentence, and what it hangs on."""
    said = []
    for (first, last), k in answer.ends():
        where = f"up to {last:,}" if last is not None else "at every batch size" if first == 1 else "beyond"
        if last is None and k:
            where += f" up to {answer.most:,}, the largest looked at"
        said.append(f"{f'K = {k}' if k else 'no drafts (K = 0)'} {where}")
    if not answer.extrapolated.any():
        return ", ".join(said)
    first = int(np.argmax(answer.extrapolated)) + 1
    floor = answer.floor_most_ms[answer.extrapolated & (answer.states == ON)]
    floor = floor[np.isfinite(floor)]
    hangs = ""
    if len(floor):
        hangs = (
            f"; some K ≥ 1 still pays wherever it does now as long as the compute floor of a token is no more than "
            f"{floor.min():.3g} ms"
        )
    return f"{', '.join(said)}, if prices from batch size {first:,} on are what they are extrapolated to be{hangs}"


def exits(answer: Crossover) -> str:
    """Say the first and the last exit."""
    found = answer.crossings
    if not found.intervals:
        return f"no K ≥ 1 pays at any batch size up to {answer.most:,}"
    ends = ((found.intervals[0][1], found.first_exit), (found.intervals[-1][1], found.last_exit))
    first, last = (f"{end:,}" if end is not None else f"not seen, on to {on:,}" for on, end in ends)
    return f"first exit: {first}; last exit: {last}"


def reading_exits(readings: Sequence[tuple[str, Crossover]]) -> list[str]:
    """Say the exits for other times to read the context of further requests."""
    return [f"if a token of context of a further request takes {name}: {exits(each)}" for name, each in readings]


def exit_notes(answer: Crossover) -> list[str]:
    """Say where speculation stops paying, and what cannot be said."""
    found = answer.crossings
    said = [exits(answer) + ("; every batch size was looked at, since cost is not monotone" if found.intervals else "")]
    if found.intervals and found.intervals[-1][1] == answer.most:
        limit = float(np.nanmax(answer.limit[1:], initial=-np.inf))
        said.append(
            f"censored: it still pays at {answer.most:,}, and where it stops was not seen; as batches grow without end "
            f"it {'goes on' if limit > 1 else 'stops'} (speed-up {limit:.3f})"
        )
    if answer.clipped:
        said.append(
            f"the KV cache holds no more than {answer.most:,} requests without drafts: that ends the batch sizes"
        )
    full = [i + 1 for i, state in enumerate(answer.states) if STATES[state] == "does not fit"]
    if full:
        said.append(
            f"does not fit at {len(full):,} of them (first {full[0]}, last {full[-1]}): the KV cache holds drafts of "
            "fewer requests; those that run are compared with all without drafts, and the schedule takes the faster"
        )
    unknown = [i + 1 for i, state in enumerate(answer.states) if STATES[state] == "unknown"]
    if unknown:
        said.append(
            f"unknown at {len(unknown):,} of them (first {unknown[0]}, last {unknown[-1]}): K = 0 or every K ≥ 1 has "
            "no price there; time rounds with draft length 0, or assume a base time with --off-ms"
        )
    return said


def what_is_claimed(answer: Crossover) -> str:
    """Say from when on the schedule drafts."""
    beyond = f"by more than {100 * answer.noise:g} %" if answer.noise else ""
    significantly = "significantly" if np.isfinite(answer.half_width).any() else ""
    return " and ".join(word for word in (beyond, significantly) if word) or "at all"


def unclaimed(answer: Crossover) -> str:
    """Say where the schedule sets K = 0 although some K >= 1 pays, and where drafts only go on; "" if nowhere."""
    said = []
    off, on = answer.unclaimed, answer.filled
    if off.any():
        most = float(answer.speed_up[np.arange(answer.most), answer.best][off].max())
        said.append(
            f"K = 0 is set too at {_sizes(off)} where some K ≥ 1 pays, but not {what_is_claimed(answer)} "
            f"(speed-up at most {most:.3f})"
        )
    if on.any():
        said.append(
            f"drafts go on at {_sizes(on)} where none is faster {what_is_claimed(answer)}, as a further range would "
            "cost more than it saves"
        )
    return "; ".join(said)


def _sizes(which: NDArray[np.bool_]) -> str:
    """Say batch sizes as ranges: all of them where there are few, else how many and the ends."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], which, [False]]).astype(np.int8)))
    ends = list(zip(edges[::2] + 1, edges[1::2], strict=True))
    ranges = [f"{a:,}" if a == b else f"{a:,} … {b:,}" for a, b in ends]
    if len(ranges) > _MOST_RANGES:
        return f"{int(which.sum()):,} batch sizes between {edges[0] + 1:,} and {edges[-1]:,}"
    return f"batch size{'s' if which.sum() > 1 else ''} {', '.join(ranges)}"


def off_base(answer: Crossover) -> str:
    """Say how far the answer at batch size 1 hangs on the round without drafts; "" where nothing can be said."""
    used, needed = float(answer.off_base_ms[0]), float(answer.off_base_needed_ms[0])
    if not np.isfinite(needed):
        return ""
    said = "it was not measured; time rounds with draft length 0"
    if np.isfinite(used):
        basis = BASES[answer.costs.basis[0, 0]]
        said = f"{used:.2f} ms is {basis}, {abs(used / needed - 1) * 100:.1f} % {'above' if used > needed else 'below'}"
    return f"at batch size 1 some K ≥ 1 pays if the base time of a K = 0 round is above {needed:.2f} ms; {said}"


def large_batches(answer: Crossover) -> str:
    """Say what becomes of the best K >= 1 as batches grow without end; "" where that is not known."""
    if not np.isfinite(answer.limit[1:]).any():
        return ""
    k = 1 + int(np.nanargmax(answer.limit[1:]))
    return (
        f"as batches grow without end and touch all experts, K = {k} is the best K ≥ 1, with a speed-up of "
        f"{answer.limit[k]:.3f}: it {'pays' if answer.limit[k] > 1 else 'does not pay'} there"
    )


def memory(answer: Crossover) -> str:
    """Say whether the KV cache ends the batch sizes."""
    if answer.kv_tokens is None:
        return "no KV cache was stated (--kv-tokens), so memory ends no batch size here"
    held = ", ".join(f"{int(answer.most_requests[k]):,} of K = {k}" for k in sorted({0, answer.lengths[-1]}))
    return f"the KV cache of {answer.kv_tokens:,} tokens holds {held} requests"
