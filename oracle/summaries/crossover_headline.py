"""What a crossover says first: of measured batch sizes, of extrapolated ones, and what the schedule sets."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracle.crossover.answer import Crossover
from oracle.crossover.costs import BETWEEN
from oracle.crossover.pays import FULL, OFF, ON, UNKNOWN
from oracle.crossover.readings import Reading
from oracle.summaries.crossover_texts import (
    as_priced,
    contested,
    other_lengths,
    ranges_said,
    reservation,
    sizes_said,
)
from oracle.summaries.shares import counted

Sizes = NDArray[np.bool_]


def headline(answer: Crossover, readings: Sequence[Reading] = ()) -> list[str]:
    """Say a sentence each of few data, measured batch sizes, extrapolated ones and their prices, the schedule."""
    known = answer.states != UNKNOWN
    measured, made_up = known & ~answer.extrapolated, known & answer.extrapolated
    said = ["at no batch size were all prices measured"]
    if measured.any():
        between = " or between such" if (answer.costs.basis[measured] == BETWEEN).any() else ""
        said = [f"at {sizes_said(measured)}, measured{between}, {_verdicts(answer, measured)}"]
    if made_up.any():
        said.append(
            f"at {sizes_said(made_up)}, if prices are what they are extrapolated to be, {_verdicts(answer, made_up)}"
        )
    hangs = contested(answer, readings)
    if hangs:
        said.append(f"the exit rests on prices that were not timed: {'; '.join(hangs)}")
    turns = other_lengths(answer, readings)
    if turns:
        said.append(f"the draft lengths rest on prices that were not timed: {'; '.join(turns)}")
    few = reservation(answer)
    return [*([few] if few else []), *said, scheduled(answer)]


def _verdicts(answer: Crossover, which: Sizes) -> str:
    """Say where of some batch sizes speculation pays, where not, and where not significantly."""
    on, off, full = (which & (answer.states == state) for state in (ON, OFF, FULL))
    unsure = on & ~answer.settled & np.isfinite(answer.half_width[np.arange(answer.most), answer.best])
    if which.sum() == 1:
        verdict = "drafts do not fit" if full.any() else f"{'some' if on.any() else 'no'} K ≥ 1 pays"
        return f"{verdict}{', not significantly' if unsure.any() else ''}{_at(answer, which)}"
    said = []
    if on.any():
        where = "all of them" if (on == which).all() else ranges_said(on)
        doubt = " (not significantly)" if (unsure == on).all() else f" (not significantly at {ranges_said(unsure)})"
        said.append(f"some K ≥ 1 pays at {where}{doubt if unsure.any() else ''}")
    if off.any():
        where = "any of them" if (off == which).all() else ranges_said(off)
        said.append(f"{'none' if said else 'no K ≥ 1 pays'} at {where}")
    if full.any():
        said.append(f"drafts of all requests do not fit at {ranges_said(full)}")
    return " and ".join(said)


def _at(answer: Crossover, which: Sizes) -> str:
    """Say the speed-up at the one batch size."""
    i = int(np.argmax(which))
    k = int(answer.best[i])
    if not k:
        return ""
    up, half = float(answer.speed_up[i, k]), float(answer.half_width[i, k])
    interval = f" [{up - half:.3f}; {up + half:.3f}]" if np.isfinite(half) else ""
    return f" (K = {k}: speed-up {up:.3f}{interval})"


def scheduled(answer: Crossover) -> str:
    """Say the draft length for each range of batch sizes, and which of them are unknown."""
    said = []
    for (first, last), k in answer.ends():
        sizes = f"{first:,} … {last:,}" if last not in (first, None) else f"{first:,}"
        where = f"at {sizes}" if last is not None else f"from {first:,} on"
        if last is None and k:
            where += f" (nothing beyond {answer.most:,} was looked at)"
        said.append(f"K = {k} {where}")
    unknown = written_off(answer)
    return f"the schedule sets {', '.join(said)}" + (f"; {unknown}" if unknown else "")


def written_off(answer: Crossover) -> str:
    """Say which batch sizes get K = 0 because nothing is known of them; "" where there are none."""
    unknown = answer.states == UNKNOWN
    return f"{sizes_said(unknown)} {'are' if unknown.sum() > 1 else 'is'} unknown, written as K = 0" * bool(
        unknown.any()
    )


def engine_remarks(answer: Crossover, readings: Sequence[Reading]) -> str:
    """Comments that go above an engine's configuration, one a line: what the schedule rests on."""
    said = [few] if (few := reservation(answer)) else []
    made_up = int((answer.extrapolated & (answer.states != UNKNOWN)).sum())
    if made_up:
        said.append(f"{counted(made_up, answer.most)} batch sizes rest on extrapolated prices: time them first")
    if written_off(answer):
        said.append(f"{written_off(answer)}: that is no finding that drafts do not pay there")
    hangs = contested(answer, readings)
    said += [as_priced(answer), *hangs] if hangs else []
    said += other_lengths(answer, readings)
    if answer.ranges[-1][1] and not answer.clipped:
        said.append(f"no batch size beyond {answer.most:,} was looked at: the last draft length goes on there")
    return "".join(f"# {line}\n" for line in said)
