"""A crossover in sentences: exits, what they hang on, what the schedule leaves out."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracle.crossover.answer import Crossover
from oracle.crossover.costs import BASES, NOT_AVAILABLE
from oracle.crossover.pays import ON, STATES, TIE, UNKNOWN
from oracle.crossover.readings import Reading
from oracle.intervals import FEW_CLUSTERS
from oracle.summaries.shares import several

MOST_RANGES = 4  # of batch sizes that a sentence names one by one
_TAKES = {"token": "a further token", "context": "a token of context of a further request"}


def ends_seen(answer: Crossover, last: int) -> bool:
    """Whether speculation is known not to pay at the batch size after the last of an interval."""
    return last < answer.most and STATES[answer.states[last]] == "off"


def exits(answer: Crossover | None) -> str:
    """Say the first and the last exit, or the one that there is."""
    if answer is None:
        return "no answer, a round would take no time or less"
    found = answer.crossings
    if not found.intervals:
        known = " is known to pay" if (answer.states == UNKNOWN).any() else " pays"
        return f"no K ≥ 1{known} at any batch size up to {answer.most:,}"
    ends = ((found.intervals[0][1], found.first_exit), (found.intervals[-1][1], found.last_exit))
    first, last = (f"exit {end:,}" if end is not None else f"exit not seen (on to {on:,})" for on, end in ends)
    return first if len(found.intervals) == 1 else f"first {first}, last {last}"


def reading_exits(answer: Crossover, readings: Sequence[Reading]) -> list[str]:
    """Say the exits at other prices; once where all of a price agree, and none that `contested` says."""
    said = []
    for price, what in _TAKES.items():
        ends = bool(_ends(answer, readings, price))
        of = [(each.takes, exits(each.answer)) for each in readings if each.price == price and not (ends and each.end)]
        if len(of) > 1 and len({exit_ for _, exit_ in of}) == 1:
            said.append(f"whether {what} takes {of[0][0]} or {of[-1][0]}: {of[0][1]}")
        else:
            said += [f"if {what} takes {takes}: {exit_}" for takes, exit_ in of]
    return said


def contested(answer: Crossover, readings: Sequence[Reading]) -> list[str]:
    """Say the exits at both ends of each price that leaves them open; none where its ends agree with the answer."""
    said = []
    for price, what in _TAKES.items():
        ends = _ends(answer, readings, price)
        if ends:
            said.append(f"if {what} takes {', if '.join(f'{takes}, {exit_}' for takes, exit_ in ends)}")
    return said


def other_lengths(answer: Crossover, readings: Sequence[Reading]) -> list[str]:
    """Say where another K would be set at an end of a price, of prices whose ends leave the exits as they are."""
    said = []
    for each in readings:
        if not each.end or each.answer is None or _ends(answer, readings, each.price):
            continue
        other = each.answer.scheduled != answer.scheduled
        if other.any():
            said.append(f"if {_TAKES[each.price]} takes {each.takes}, another K would be set at {sizes_said(other)}")
    return said


def as_priced(answer: Crossover) -> str:
    """Say the exits at the prices taken, and where the schedule sets K = 0 before the last of them."""
    drafts = np.flatnonzero(answer.scheduled)
    first = int(drafts[-1]) + 2 if len(drafts) else 1  # batch size from which on K = 0 is set
    found = answer.crossings.intervals
    if not found or first > found[-1][1]:
        return f"as priced, {exits(answer)}"
    return f"as priced, {exits(answer)} (K = 0 set from {first:,} on: not faster {what_is_claimed(answer)} there)"


def reservation(answer: Crossover) -> str:
    """Say that traces are too few for what is set to be more than provisional; "" where they are not."""
    clusters = answer.traffic.clusters
    if clusters is None:
        return ""
    if clusters < FEW_CLUSTERS:
        return f"not enough data: {several(clusters, 'cluster')}, fewer than {FEW_CLUSTERS}: provisional"
    bare = np.asarray((np.isfinite(answer.speed_up) & np.isnan(answer.half_width))[:, 1:].any(axis=1))
    return f"not enough data: no intervals at {sizes_said(bare)}: provisional" if bare.any() else ""


def _ends(answer: Crossover, readings: Sequence[Reading], price: str) -> list[tuple[str, str]]:
    """Give both ends of a price and the exits there; nothing where they are those of the answer."""
    ends = [(each.takes, exits(each.answer)) for each in readings if each.price == price and each.end]
    return ends if {exit_ for _, exit_ in ends} - {exits(answer)} else []


def exit_notes(answer: Crossover) -> list[str]:
    """Say where speculation stops paying, and what cannot be said."""
    found = answer.crossings
    said = [exits(answer) + ("; every batch size was looked at, since cost is not monotone" if found.intervals else "")]
    if found.intervals and found.intervals[-1][1] == answer.most:
        beyond = large_batches(answer)
        said.append(f"censored: it still pays at {answer.most:,}, and where it stops was not seen; {beyond}")
    if answer.clipped:
        said.append(
            f"the KV cache holds no more than {answer.most:,} requests without drafts: that ends the batch sizes"
        )
    full = np.asarray([STATES[state] == "does not fit" for state in answer.states])
    if full.any():
        said.append(
            f"does not fit at {sizes_said(full)}: the KV cache holds drafts of fewer requests; those that run are "
            "compared with all without drafts, and the schedule takes the faster"
        )
    return [*said, *unknown(answer)]


def unknown(answer: Crossover) -> list[str]:
    """Say where it is not known whether speculation pays, and why."""
    said = []
    if answer.untold.any():
        said.append(
            f"unknown at {sizes_said(answer.untold)}: the price of a further token cannot be told from the latency "
            f"model; time longer drafts or larger batches, or state it with --token-ms{_off_too(answer)}"
        )
    rest = (answer.states == UNKNOWN) & ~answer.untold
    if rest.any():
        said.append(
            f"unknown at {sizes_said(rest)}: K = 0 or every K ≥ 1 has no price there; time rounds with draft length 0 "
            "and of such batch sizes, or assume a base time with --off-ms"
        )
    return said


def _off_too(answer: Crossover) -> str:
    """Say where K = 0 has no price, so that the price of a further token alone would not do; "" if nowhere."""
    off = answer.costs.basis[:, 0] == NOT_AVAILABLE
    return f", and the base time of K = 0, which has no price at {sizes_said(off)}, with --off-ms" if off.any() else ""


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
            f"K = 0 is set too at {sizes_said(off)} where some K ≥ 1 pays, but not {what_is_claimed(answer)} "
            f"(speed-up at most {most:.3f})"
        )
    if on.any():
        said.append(
            f"drafts go on at {sizes_said(on)} where none is faster {what_is_claimed(answer)}, as a further range "
            "would cost more than it saves"
        )
    return "; ".join(said)


def ranges_said(which: NDArray[np.bool_]) -> str:
    """Say batch sizes as ranges: all of them where there are few, else how many and the ends."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], which, [False]]).astype(np.int8)))
    ends = list(zip(edges[::2] + 1, edges[1::2], strict=True))
    ranges = [f"{a:,}" if a == b else f"{a:,} … {b:,}" for a, b in ends]
    if len(ranges) > MOST_RANGES:
        return f"{int(which.sum()):,} between {edges[0] + 1:,} and {edges[-1]:,}"
    return ", ".join(ranges)


def sizes_said(which: NDArray[np.bool_]) -> str:
    """Say batch sizes with the word before them."""
    ranges = ranges_said(which)
    if " between " in ranges:
        return ranges.replace(" between ", " batch sizes between ")
    return f"batch size{'s' if which.sum() > 1 else ''} {ranges}"


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


def floor_bound(answer: Crossover) -> str:
    """Say up to which compute floor the answer holds wherever some K >= 1 pays; "" where nothing rests on it."""
    floor = answer.break_evens.floor_most_ms[answer.extrapolated & (answer.states == ON)]
    floor = floor[np.isfinite(floor)]
    if not len(floor):
        return ""
    return (
        "some K ≥ 1 still pays wherever it does now as long as the compute floor of a token is no more than "
        f"{floor.min():.3g} ms"
    )


def large_batches(answer: Crossover) -> str:
    """Say what becomes of the best K >= 1 as batches grow without end."""
    drafted = answer.limit[1:]
    if not np.isfinite(drafted).any():
        why = "the price of a further token cannot be told" if np.isnan(answer.costs.token_ms[0]) else "no price"
        return f"what becomes of it as batches grow without end is not known: {why}"
    k = 1 + int(np.argmax(np.nan_to_num(drafted, nan=-np.inf) >= np.nanmax(drafted) * (1 - TIE)))
    where, limit = "as batches grow without end and touch all experts,", float(answer.limit[k])
    if abs(limit - 1) <= TIE:
        return f"{where} no K ≥ 1 pays: the best is as fast as K = 0, no faster"
    pays = "pays" if limit > 1 else "does not pay"
    return f"{where} K = {k} is the best K ≥ 1, with a speed-up of {limit:.3f}: it {pays} there"


def memory(answer: Crossover) -> str:
    """Say whether the KV cache ends the batch sizes."""
    if answer.kv_tokens is None:
        return "no KV cache was stated (--kv-tokens), so memory ends no batch size here"
    held = ", ".join(f"{int(answer.most_requests[k]):,} of K = {k}" for k in sorted({0, answer.lengths[-1]}))
    return f"the KV cache of {answer.kv_tokens:,} tokens holds {held} requests"
