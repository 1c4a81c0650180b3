"""What is shown of a crossover: intervals, batch sizes, draft lengths, the schedule, limits."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from oracle.crossover.answer import Crossover
from oracle.crossover.costs import BASES, EXTRAPOLATED
from oracle.crossover.pays import ON, STATES
from oracle.intervals import Interval
from oracle.summaries.crossover_texts import (
    ends_seen,
    exit_notes,
    headline,
    memory,
    off_base,
    reading_exits,
    unclaimed,
    what_is_claimed,
)
from oracle.summaries.shares import counted
from oracle.tables import NOT_AVAILABLE, Column, Row, Table, interval_cells, number, with_interval, words


def around(value: float, half: float) -> Interval | None:
    """Give the interval of a value and its half-width; None where there is none."""
    return Interval(value - half, value + half) if np.isfinite(value + half) else None


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def crossover_tables(
    answer: Crossover,
    shown: Sequence[int],
    assumptions: Sequence[str],
    notes: Sequence[str] = (),
    readings: Sequence[tuple[str, Crossover]] = (),
) -> list[Table]:
    """Show a crossover: where speculation pays, batch sizes one by one, the schedule, and what it all rests on.

    Parameters
    ----------
    readings
        The same with other times to read a token of context of a further request, by what that takes.
    """
    sizes = [size for size in shown if size <= answer.most]
    return [
        intervals_table(answer, [*reading_exits(readings), *notes, *assumptions]),
        sizes_table(answer, sizes),
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
        [headline(answer), *([unclaimed(answer)] if unclaimed(answer) else []), *exit_notes(answer), *notes],
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


def _if_extrapolated(answer: Crossover, i: int) -> str:
    if answer.states[i] != ON or not answer.extrapolated[i]:
        return ""
    made_up = EXTRAPOLATED in (answer.costs.basis[i, 0], answer.best_basis[i])
    return f" if the {'extrapolation' if made_up else 'assumption'} holds"


def _size_row(answer: Crossover, B: int) -> dict[str, Any]:
    i, k = B - 1, int(answer.best[B - 1])
    up = float(answer.speed_up[i, k]) if k else float("nan")
    half = float(answer.half_width[i, k]) if k else float("nan")
    a_token = answer.round_ms[i] / answer.traffic.mean_length / answer.running[i]
    state = STATES[answer.states[i]]
    unsure = np.isfinite(half) and not answer.settled[i]
    return {
        "batch_size": B,
        "state": state,
        "verdict": state + (", not significant" if unsure else _if_extrapolated(answer, i)),
        "running": int(answer.running[i, k]),
        "best_length": k or None,
        "set_length": int(answer.scheduled[i]),
        **interval_cells("speed_up", _finite(up), around(up, half)),
        "off_ms_per_token": _finite(a_token[0]),
        "best_ms_per_token": _finite(a_token[k]) if k else None,
        "off_unique_experts": float(answer.traffic.unique_experts[i, 0]),
        "best_unique_experts": float(answer.traffic.unique_experts[max(int(answer.running[i, k]), 1) - 1, k]),
        "acceptance_needed": _finite(answer.acceptance_needed[i]),
        "draft_request_ms_most": _finite(answer.draft_request_most_ms[i]) if answer.extrapolated[i] else None,
        "kv_read_ms_least": _finite(answer.kv_read_needed_ms[i]),
        "floor_ms_most": _finite(answer.floor_most_ms[i]),
        "off_rests_on": BASES[answer.costs.basis[i, 0]],
        "best_rests_on": BASES[answer.best_basis[i]] if k else None,
    }


def sizes_table(answer: Crossover, sizes: Sequence[int]) -> Table:
    """Show batch sizes one by one."""
    columns = (
        number("batch\nsize", "batch_size"),
        words("speculation", "verdict"),
        number("best\nK", "best_length"),
        number("K\nset", "set_length"),
        with_interval("speed-up\nover K = 0", "speed_up", ".3f"),
        number("ms/token\nK = 0", "off_ms_per_token", ".3f"),
        number("best K", "best_ms_per_token", ".3f"),
        number("experts\nK = 0", "off_unique_experts", ".1f"),
        number("best K", "best_unique_experts", ".1f"),
        number("pays from match\nprobability", "acceptance_needed", ".3f"),
        number("a draft token may take\na further request, ms", "draft_request_ms_most", ".3f"),
        number("pays if context\ntakes above, ms", "kv_read_ms_least", ".3g"),
        number("and a compute\nfloor up to, ms", "floor_ms_most", ".3g"),
        words("K = 0\nrests on", "off_rests_on"),
        words("best K\nrests on", "best_rests_on"),
    )
    notes = [
        "a draft token may take: for each further request, where that was not measured, so that some K ≥ 1 pays; "
        "negative: it does not even if drafting for others takes nothing",
        "pays if: break-evens of two prices, each with the other as it is: reading a token of context of a further "
        "request (0: whatever it takes), and the compute floor of a token; – where nothing rests on it, or no value "
        "decides",
        "ms/token is of the whole batch: a round divided by the tokens all its requests emit",
        "pays from: the least probability, the same at all positions, with which some K ≥ 1 pays; – is never",
    ]
    if np.isfinite(answer.half_width).any():
        notes.append(
            "speed-ups are expected and in-sample; 95 % intervals leave clusters out one at a time; those of the best "
            "K do not count that it was picked, and the latency model is taken as exact"
        )
    return Table("batch_sizes", "Speculation by batch size", columns, [_size_row(answer, B) for B in sizes], notes)


def lengths_table(answer: Crossover, sizes: Sequence[int]) -> Table:
    """Show the speed-up of every draft length over batch sizes; rows hold round times and experts too."""
    lengths = answer.lengths[1:]
    rows = []
    for B in sizes:
        row: dict[str, Any] = {"batch_size": B}
        for k in answer.lengths:
            up, half = float(answer.speed_up[B - 1, k]), float(answer.half_width[B - 1, k])
            row |= interval_cells(f"speed_up_k{k}", _finite(up), around(up, half)) if k else {}
            row[f"round_ms_k{k}"] = _finite(answer.round_ms[B - 1, k])
            row[f"unique_experts_k{k}"] = float(answer.traffic.unique_experts[B - 1, k])
            row[f"rests_on_k{k}"] = BASES[answer.costs.basis[B - 1, k]]
        rows.append(row)
    columns = [number("batch size", "batch_size"), *(number(f"K = {k}", f"speed_up_k{k}", ".3f") for k in lengths)]
    tokens = ", ".join(f"{answer.traffic.mean_length[k]:.3f}" for k in lengths)
    notes = (f"mean acceptance length of these K, bonus token included: {tokens}",)
    return Table("lengths", "Speed-up over K = 0 by batch size and draft length", columns, rows, notes)


def schedule_table(answer: Crossover) -> Table:
    """Show the draft length for each range of batch sizes, and what it gains there."""
    rows = []
    for ((first, last), k), (_, end) in zip(answer.ends(), (each for each, _ in answer.ranges), strict=True):
        ups = answer.speed_up[first - 1 : end, k] if k else np.ones(1)
        rows.append(
            {
                "from": first,
                "to": last,
                "draft_length": k,
                "speed_up_least": _finite(np.nanmin(ups)),
                "speed_up_most": _finite(np.nanmax(ups)),
                "pays_unclaimed": int(answer.unclaimed[first - 1 : end].sum()),
                "off_filled": int(answer.filled[first - 1 : end].sum()),
            }
        )
    columns = (
        number("from\nbatch size", "from"),
        number("to", "to"),
        number("K", "draft_length"),
        number("speed-up,\nleast", "speed_up_least", ".3f"),
        number("most", "speed_up_most", ".3f"),
    )
    claim = what_is_claimed(answer)
    notes = [
        f"K ≥ 1 only where it is faster than K = 0 {claim}; of such schedules the fewest ranges within "
        f"{100 * answer.noise:g} % of the fastest K that is, and of those the one that loses least; – has no end",
    ]
    if unclaimed(answer):
        notes.append(unclaimed(answer))
    return Table("schedule", "Draft length by batch size", columns, rows, notes)


def limits_table(answer: Crossover) -> Table:
    """Show the limit of large batches, what memory allows, and what an unmeasured K = 0 would have to be."""
    endless = int(np.iinfo(np.int64).max)
    rows = [
        {
            "draft_length": k,
            "large_batch_speed_up": _finite(answer.limit[k]),
            "most_requests": int(answer.most_requests[k]) if answer.most_requests[k] < endless else None,
            "growth_ms_per_request": _finite(
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
    notes += [said for said in (off_base(answer), memory(answer)) if said]
    return Table("limits", "Large batches and memory", columns, rows, notes)
