"""What is shown of a crossover: intervals, batch sizes, draft lengths, the schedule, limits."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from oracle.crossover.answer import Crossover
from oracle.crossover.costs import BASES
from oracle.crossover.pays import STATES, UNKNOWN
from oracle.crossover.readings import Reading
from oracle.summaries.crossover_headline import headline
from oracle.summaries.crossover_sizes import BANDS, around, break_evens_table, finite, sizes_table
from oracle.summaries.crossover_texts import (
    ends_seen,
    exit_notes,
    floor_bound,
    memory,
    off_base,
    reading_exits,
    unclaimed,
    what_is_claimed,
)
from oracle.summaries.shares import counted
from oracle.tables import NOT_AVAILABLE, Column, Row, Table, interval_cells, number, words


def crossover_tables(
    answer: Crossover,
    shown: Sequence[int],
    assumptions: Sequence[str],
    notes: Sequence[str] = (),
    readings: Sequence[Reading] = (),
) -> list[Table]:
    """Show a crossover: where speculation pays, batch sizes one by one, the schedule, and what it all rests on.

    Parameters
    ----------
    readings
        The same at other prices of further tokens and of reading context.
    """
    sizes = [size for size in shown if size <= answer.most]
    first = [*headline(answer, readings), unclaimed(answer), *exit_notes(answer), floor_bound(answer)]
    more = [*reading_exits(answer, readings), *notes, *assumptions]
    return [
        intervals_table(answer, [*(said for said in first if said), *more]),
        sizes_table(answer, sizes, readings),
        break_evens_table(answer, sizes),
        lengths_table(answer, sizes),
        schedule_table(answer),
        limits_table(answer),
    ]


def intervals_table(answer: Crossover, notes: Sequence[str]) -> Table:
    """Show every interval of batch sizes at which some K >= 1 pays."""
    rows = []
    settled, extrapolated = answer.settled, answer.extrapolated
    for first, last in answer.crossings.intervals:
        at = slice(first - 1, last)
        ups = answer.speed_up[at][np.arange(last - first + 1), answer.best[at]]
        peak = int(np.argmax(ups))
        rows.append(
            {
                "from": first,
                "to": last,
                "censored": not ends_seen(answer, last),
                "lengths": ", ".join(map(str, sorted(set(answer.best[at].tolist())))),
                "top_speed_up": float(ups[peak]),
                "top_at": first + peak,
                "settled": float(settled[at].mean()) if np.isfinite(answer.half_width).any() else None,
                "extrapolated": float(extrapolated[at].mean()),
                "to_is": _end_is(answer, last),
            }
        )
    columns = (
        number("from\nbatch size", "from"),
        number("to", "to"),
        words("", "to_is"),
        words("best K", "lengths"),
        number("highest\nspeed-up", "top_speed_up", ".3f"),
        number("at batch\nsize", "top_at"),
        Column("interval leaves\n1 out, sizes", lambda row: _of_sizes(row, "settled")),
        Column("extrapolated,\nsizes", lambda row: _of_sizes(row, "extrapolated")),
    )
    return Table(
        "crossover",
        f"Batch sizes at which some K ≥ 1 pays, of 1 … {answer.most:,}",
        columns,
        rows,
        notes,
    )


def _of_sizes(row: Row, key: str) -> str:
    """Say of how many batch sizes of an interval something holds."""
    sizes = row["to"] - row["from"] + 1
    return NOT_AVAILABLE if row[key] is None else counted(round(row[key] * sizes), sizes)


def _end_is(answer: Crossover, last: int) -> str | None:
    """Say what ends an interval whose end was not seen."""
    if ends_seen(answer, last):
        return None
    if last == answer.most:
        return "still on at the largest"
    return "no draft fits for all beyond" if STATES[answer.states[last]] == "does not fit" else "no price beyond"


def lengths_table(answer: Crossover, sizes: Sequence[int]) -> Table:
    """Show the speed-up of every draft length over batch sizes; rows hold round times and experts too."""
    lengths = answer.lengths[1:]
    rows = []
    for B in sizes:
        row: dict[str, Any] = {"batch_size": B}
        for k in answer.lengths:
            up, half = float(answer.speed_up[B - 1, k]), float(answer.half_width[B - 1, k])
            row |= interval_cells(f"speed_up_k{k}", finite(up), around(up, half)) if k else {}
            row[f"round_ms_k{k}"] = finite(answer.round_ms[B - 1, k])
            row[f"unique_experts_k{k}"] = float(answer.traffic.unique_experts[B - 1, k])
            row[f"rests_on_k{k}"] = BASES[answer.costs.basis[B - 1, k]]
        rows.append(row)
    columns = [number("batch size", "batch_size"), *(number(f"K = {k}", f"speed_up_k{k}", ".3f") for k in lengths)]
    tokens = ", ".join(f"{answer.traffic.mean_length[k]:.3f}" for k in lengths)
    notes = [f"mean acceptance length of these K, bonus token included: {tokens}"]
    if np.isfinite(answer.half_width).any():
        notes.append(f"95 % intervals stand in the JSON form: {BANDS}")
    return Table("lengths", "Speed-up over K = 0 by batch size and draft length", columns, rows, notes)


def schedule_table(answer: Crossover) -> Table:
    """Show the draft length for each range of batch sizes, what it gains there, and what is not known of them."""
    rows = []
    for first, end, last, k in _parts(answer):
        part = slice(first - 1, end)
        ups = answer.speed_up[part, k] if k else np.ones(1)
        rows.append(
            {
                "from": first,
                "to": last,
                "draft_length": k,
                "speed_up_least": finite(np.nanmin(ups)),
                "speed_up_most": finite(np.nanmax(ups)),
                "pays_unclaimed": int(answer.unclaimed[part].sum()),
                "off_filled": int(answer.filled[part].sum()),
                "unknown": bool(answer.states[first - 1] == UNKNOWN),
                "why": _why(answer, part, k),
            }
        )
    columns = (
        number("from\nbatch size", "from"),
        number("to", "to"),
        number("K", "draft_length"),
        number("speed-up,\nleast", "speed_up_least", ".3f"),
        number("most", "speed_up_most", ".3f"),
        words("", "why"),
    )
    claim = what_is_claimed(answer)
    notes = [
        f"K ≥ 1 only where it is faster than K = 0 {claim}; of such schedules the fewest ranges within "
        f"{100 * answer.noise:g} % of the fastest K that is, and of those the one that loses least; – has no end",
    ]
    if unclaimed(answer):
        notes.append(unclaimed(answer))
    return Table("schedule", "Draft length by batch size", columns, rows, notes)


def _parts(answer: Crossover) -> list[tuple[int, int, int | None, int]]:
    """Ranges of the schedule cut where unknown batch sizes begin or end: first, last looked at, last, K."""
    unknown = answer.states == UNKNOWN
    found: list[tuple[int, int, int | None, int]] = []
    for ((first, last), k), ((_, end), _) in zip(answer.ends(), answer.ranges, strict=True):
        cuts = [first - 1, *(first + np.flatnonzero(np.diff(unknown[first - 1 : end]))).tolist(), end]
        for a, b in pairwise(cuts):
            found.append((a + 1, b, last if b == end else b, k))
    return found


def _why(answer: Crossover, part: slice, k: int) -> str | None:
    """Say why K = 0 is set; None where drafts are."""
    if k:
        return None
    states = answer.states[part]
    if states[0] == UNKNOWN:
        return "unknown, written as K = 0"
    small = answer.unclaimed[part]
    return (
        "does not pay" if not small.any() else f"{'' if small.all() else 'does not pay, or '}not enough to be claimed"
    )


def limits_table(answer: Crossover) -> Table:
    """Show the limit of large batches, what memory allows, and what an unmeasured K = 0 would have to be."""
    endless = int(np.iinfo(np.int64).max)
    rows = [
        {
            "draft_length": k,
            "large_batch_speed_up": finite(answer.limit[k]),
            "most_requests": int(answer.most_requests[k]) if answer.most_requests[k] < endless else None,
            "growth_ms_per_request": finite(
                answer.costs.growth_ms[0, k] + answer.costs.growth_ms[1, k] * answer.traffic.context_len[k]
            ),
        }
        for k in answer.lengths
    ]
    columns = (
        number("K", "draft_length"),
        number("speed-up\nin large batches", "large_batch_speed_up", ".3f"),
        number("ms a further request\nadds to a round", "growth_ms_per_request", ".4f"),
        number("requests\nthat fit", "most_requests"),
    )
    notes = ["large batches: all experts are touched, and only the time of further tokens and contexts still grows"]
    if np.isnan(answer.costs.token_ms).any():
        notes.append("–: rests on the price of a further token, which cannot be told (--token-ms)")
    notes += [said for said in (off_base(answer), memory(answer)) if said]
    return Table("limits", "Large batches and memory", columns, rows, notes)
