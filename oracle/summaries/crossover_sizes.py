"""A crossover by batch size: what is fastest and what is set, and the prices at which that turns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from oracle.crossover.answer import Crossover
from oracle.crossover.costs import BASES, EXTRAPOLATED
from oracle.crossover.pays import OFF, ON, STATES, UNKNOWN
from oracle.crossover.readings import Reading
from oracle.intervals import Interval
from oracle.tables import NOT_AVAILABLE, Column, Row, Table, interval_cells, number, show, with_interval, words

BANDS = "of acceptance, experts and context alone (clusters left out one at a time, prices taken as exact)"


def around(value: float, half: float) -> Interval | None:
    """Give the interval of a value and its half-width; None where there is none."""
    return Interval(value - half, value + half) if np.isfinite(value + half) else None


def finite(value: float) -> float | None:
    """Give a number; None where there is none or it has no end."""
    return float(value) if np.isfinite(value) else None


def sizes_table(answer: Crossover, sizes: Sequence[int], readings: Sequence[Reading] = ()) -> Table:
    """Show batch sizes one by one."""
    tokens = [each.answer for each in readings if each.price == "token"]
    ends = [] if None in tokens else [each for each in tokens if each is not None]
    rows = [_size_row(answer, B) | _at_ends(answer, B, ends) for B in sizes]
    columns = [
        number("batch\nsize", "batch_size"),
        words("speculation", "verdict"),
        number("best\nK", "best_length"),
        number("K\nset", "set_length"),
        with_interval("speed-up over K = 0\n[of the traffic alone]", "speed_up", ".3f"),
        number("ms/token\nK = 0", "off_ms_per_token", ".3f"),
        number("best K", "best_ms_per_token", ".3f"),
        number("experts\nK = 0", "off_unique_experts", ".1f"),
        number("best K", "best_unique_experts", ".1f"),
        number("pays from match\nprobability", "acceptance_needed", ".3f"),
        words("prices", "rests_on"),
    ]
    notes = [
        "ms/token is of the whole batch: a round divided by the tokens all its requests emit",
        "pays from: the least probability, the same at all positions, with which some K ≥ 1 pays; – is never",
    ]
    if ends:
        columns.insert(5, Column("at both ends of the\nprice of a token", _ends_cell))
        notes.append(
            "at both ends: the speed-up of the best K were the price of a further token at an end of its interval"
        )
    if np.isfinite(answer.half_width).any():
        notes.append(
            f"speed-ups are expected and in-sample; their 95 % intervals are {BANDS}; those of the best K do not count "
            "that it was picked"
        )
    return Table("batch_sizes", "Speculation by batch size", columns, rows, notes)


def _size_row(answer: Crossover, B: int) -> dict[str, Any]:
    i, k = B - 1, int(answer.best[B - 1])
    up = float(answer.speed_up[i, k]) if k else float("nan")
    half = float(answer.half_width[i, k]) if k else float("nan")
    a_token = answer.round_ms[i] / answer.traffic.mean_length / answer.running[i]
    off, best = BASES[answer.costs.basis[i, 0]], BASES[answer.best_basis[i]] if k else None
    return {
        "batch_size": B,
        "state": STATES[answer.states[i]],
        "verdict": _verdict(answer, i),
        "running": int(answer.running[i, k]),
        "best_length": k or None,
        "set_length": int(answer.scheduled[i]),
        **interval_cells("speed_up", finite(up), around(up, half)),
        "off_ms_per_token": finite(a_token[0]),
        "best_ms_per_token": finite(a_token[k]) if k else None,
        "off_unique_experts": float(answer.traffic.unique_experts[i, 0]),
        "best_unique_experts": float(answer.traffic.unique_experts[max(int(answer.running[i, k]), 1) - 1, k]),
        "acceptance_needed": finite(answer.acceptance_needed[i]),
        "off_rests_on": off,
        "best_rests_on": best,
        "rests_on": off if best in (None, off) else f"K = 0 {off}, best K {best}",
    }


def _verdict(answer: Crossover, i: int) -> str:
    """Say whether some K >= 1 pays at a batch size, and why K = 0 is set where it does."""
    state, k = answer.states[i], int(answer.best[i])
    drafts_on = "; drafts go on" if answer.filled[i] else ""
    if state == UNKNOWN:
        return "unknown: price of a further token" if answer.untold[i] else "unknown: no price"
    if state != ON:
        return ("does not pay" if state == OFF else STATES[state]) + drafts_on
    if not answer.unclaimed[i] and not drafts_on:
        made_up = EXTRAPOLATED in (answer.costs.basis[i, 0], answer.best_basis[i])
        rests = f" if the {'extrapolation' if made_up else 'assumption'} holds" if answer.extrapolated[i] else ""
        return f"pays{rests}"
    significant = not np.isfinite(answer.half_width[i, k]) or answer.settled[i]
    small = f"pays by no more than {100 * answer.noise:g} %"
    return (small if significant else "pays, not significantly") + (drafts_on or "; not set")


def _at_ends(answer: Crossover, B: int, ends: Sequence[Crossover]) -> dict[str, float | None]:
    """Speed-ups of the best K at both ends of the price of a further token, the lower speed-up first."""
    if not ends:
        return {}
    k = int(answer.best[B - 1])
    ups = [float(end.speed_up[B - 1, k]) for end in ends] if k else [float("nan")]
    return {"speed_up_at_ends_least": finite(min(ups)), "speed_up_at_ends_most": finite(max(ups))}


def _ends_cell(row: Row) -> str:
    least, most = row["speed_up_at_ends_least"], row["speed_up_at_ends_most"]
    return show(least) if least == most else f"{show(least)} … {show(most)}"


def break_evens_table(answer: Crossover, sizes: Sequence[int]) -> Table:
    """Show the prices up to which some K >= 1 pays, where they were not measured."""
    shown = [B for B in sizes if answer.extrapolated[B - 1] or answer.untold[B - 1]]
    columns = (
        number("batch\nsize", "batch_size"),
        words("some K ≥ 1\nnow", "state"),
        _bound("pays while a further\ntoken takes up to", "token_ms_most"),
        _bound("drafting a token for\none more request up to", "draft_request_ms_most"),
        _bound("reading a token of context of\none more request at least", "kv_read_ms_least"),
        _bound("the compute of a\ntoken up to", "floor_ms_most"),
    )
    notes = (
        "milliseconds, each with the other prices as they are; any: it pays whatever this takes; none: it pays at no "
        "such price; –: nothing rests on it, or another price is missing",
        "context is read once for all rows of a round, so dear reading favours drafts; the others are against them",
    )
    title = "Prices at which speculation turns, where they were not measured"
    return Table("break_evens", title, columns, [_break_even_row(answer, B) for B in shown], notes)


def _break_even_row(answer: Crossover, B: int) -> dict[str, Any]:
    i, found = B - 1, answer.break_evens
    draft = float(answer.draft_request_most_ms[i])
    rows: dict[str, Any] = {"batch_size": B, "state": STATES[answer.states[i]]}
    for key, value, at_any, at_none in (
        ("token_ms_most", found.token_most_ms[i], np.inf, -np.inf),
        ("draft_request_ms_most", -np.inf if draft < 0 else draft, np.inf, -np.inf),
        ("kv_read_ms_least", found.kv_read_needed_ms[i], 0.0, np.inf),
        ("floor_ms_most", found.floor_most_ms[i], np.inf, -np.inf),
    ):
        rows[key] = finite(value)
        rows[f"{key}_is"] = "any" if value == at_any else "none" if value == at_none else None
    return rows


def _bound(head: str, key: str) -> Column:
    """Give a column of break-evens: a number, or in a word that every price or none will do."""

    def cell(row: Row) -> str:
        word = row[f"{key}_is"]
        return word or (NOT_AVAILABLE if row[key] is None else show(row[key], ".3g"))

    return Column(head, cell)
