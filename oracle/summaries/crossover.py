"""What is shown of a crossover: intervals, batch sizes, draft lengths, the schedule, limits."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from oracle.crossover.answer import Crossover
from oracle.crossover.costs import BASES
from oracle.crossover.pays import STATES
from oracle.resampling import Interval
from oracle.tables import Table, interval_cells, number, with_interval, words


def around(value: float, half: float) -> Interval | None:
    """Give the interval of a value and its half-width; None where there is none."""
    return Interval(value - half, value + half) if np.isfinite(value + half) else None


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def crossover_tables(
    answer: Crossover, shown: Sequence[int], assumptions: Sequence[str], notes: Sequence[str] = ()
) -> list[Table]:
    """Show a crossover: where speculation pays, batch sizes one by one, the schedule, and what it all rests on."""
    sizes = [size for size in shown if size <= answer.most]
    return [
        intervals_table(answer, [*notes, *assumptions]),
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
                "censored": last == answer.most,
                "lengths": ", ".join(map(str, sorted(set(answer.best[at].tolist())))),
                "top_speed_up": float(ups[peak]),
                "top_at": first + peak,
                "settled": float(settled[at].mean()) if np.isfinite(answer.half_width).any() else None,
                "extrapolated": float(extrapolated[at].mean()),
                "to_is": "still on at the largest" if last == answer.most else None,
            }
        )
    columns = (
        number("from\nbatch size", "from"),
        number("to", "to"),
        words("", "to_is"),
        words("best K", "lengths"),
        number("highest\nspeed-up", "top_speed_up", ".3f"),
        number("at batch\nsize", "top_at"),
        number("interval leaves\n1 out, % of sizes", "settled", ".0f", 100),
        number("extrapolated,\n% of sizes", "extrapolated", ".0f", 100),
    )
    return Table(
        "crossover",
        f"Batch sizes at which some K ≥ 1 pays, of 1 … {answer.most:,}",
        columns,
        rows,
        [*_exits(answer), *notes],
    )


def _exits(answer: Crossover) -> list[str]:
    """Say where speculation stops paying, and what cannot be said."""
    found = answer.crossings
    if not found.intervals:
        said = [f"no K ≥ 1 pays at any batch size up to {answer.most:,}"]
    else:
        ends = (found.first_exit, found.last_exit)
        first, last = (f"beyond {answer.most:,}" if end is None else f"{end:,}" for end in ends)
        said = [f"first exit: {first}; last exit: {last}; every batch size was looked at, since cost is not monotone"]
    if found.censored:
        limit = float(np.nanmax(answer.limit[1:], initial=-np.inf))
        said.append(
            f"censored: it still pays at {answer.most:,}, and where it stops was not seen; as batches grow without end "
            f"it {'goes on' if limit > 1 else 'stops'} (speed-up {limit:.3f})"
        )
    if answer.clipped:
        said.append(
            f"the KV cache holds no more than {answer.most:,} requests without drafts: that ends the batch sizes"
        )
    unknown = [i + 1 for i, state in enumerate(answer.states) if STATES[state] == "unknown"]
    if unknown:
        said.append(
            f"unknown at {len(unknown):,} of them (first {unknown[0]}, last {unknown[-1]}): K = 0 or every K ≥ 1 has "
            "no price there; time rounds with draft length 0, or assume a base time with --off-ms"
        )
    return said


def _size_row(answer: Crossover, B: int) -> dict[str, Any]:
    i, k = B - 1, int(answer.best[B - 1])
    up = float(answer.speed_up[i, k]) if k else float("nan")
    half = float(answer.half_width[i, k]) if k else float("nan")
    a_token = answer.round_ms[i] / answer.traffic.mean_length / B
    state = STATES[answer.states[i]]
    unsure = np.isfinite(half) and not answer.settled[i]
    return {
        "batch_size": B,
        "state": state,
        "verdict": f"{state}, not significant" if unsure else state,
        "best_length": k or None,
        **interval_cells("speed_up", _finite(up), around(up, half)),
        "off_ms_per_token": _finite(a_token[0]),
        "best_ms_per_token": _finite(a_token[k]) if k else None,
        "off_unique_experts": float(answer.traffic.unique_experts[i, 0]),
        "best_unique_experts": float(answer.traffic.unique_experts[i, k]),
        "acceptance_needed": _finite(answer.acceptance_needed[i]),
        "draft_request_ms_most": _finite(answer.draft_request_most_ms[i]) if answer.extrapolated[i] else None,
        "off_rests_on": BASES[answer.costs.basis[i, 0]],
        "best_rests_on": BASES[answer.costs.basis[i, k]] if k else None,
    }


def sizes_table(answer: Crossover, sizes: Sequence[int]) -> Table:
    """Show batch sizes one by one."""
    columns = (
        number("batch\nsize", "batch_size"),
        words("speculation", "verdict"),
        number("best\nK", "best_length"),
        with_interval("speed-up\nover K = 0", "speed_up", ".3f"),
        number("ms/token\nK = 0", "off_ms_per_token", ".3f"),
        number("best K", "best_ms_per_token", ".3f"),
        number("experts\nK = 0", "off_unique_experts", ".1f"),
        number("best K", "best_unique_experts", ".1f"),
        number("pays from match\nprobability", "acceptance_needed", ".3f"),
        number("a draft token may take\na further request, ms", "draft_request_ms_most", ".3f"),
        words("K = 0\nrests on", "off_rests_on"),
        words("best K\nrests on", "best_rests_on"),
    )
    notes = [
        "a draft token may take: for each further request, where that was not measured, so that some K ≥ 1 pays; "
        "negative: it does not even if drafting for others takes nothing",
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
    """Show the draft length for each range of batch sizes."""
    rows = [{"from": a, "to": b, "draft_length": k} for (a, b), k in answer.ends()]
    columns = (number("from\nbatch size", "from"), number("to", "to"), number("K", "draft_length"))
    notes = ("the fewest ranges that stay within the noise of the best K everywhere; – has no end",)
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
    used, needed = float(answer.off_base_ms[0]), float(answer.off_base_needed_ms[0])
    basis = BASES[answer.costs.basis[0, 0]]
    if np.isfinite(needed):
        said = f"{used:.2f} ms is {basis}" if np.isfinite(used) else "it was not measured"
        notes.append(
            f"at batch size 1 some K ≥ 1 pays if the base time of a K = 0 round is above {needed:.2f} ms; {said}"
        )
    return Table("limits", "Large batches and memory", columns, rows, notes)
