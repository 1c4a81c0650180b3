"""The figure of a schedule: the day's requests in flight, where levers flip, when each is on, and caps to consider."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oracle.figures.drawing import BLUE, GREEN, GREY, LONGEST, ORANGE, PURPLE, label, panels, save
from oracle.figures.levers import STATED
from oracle.figures.narrow import is_narrow
from oracle.levers.advised import Advised, advised_in_slots
from oracle.levers.answer import Planned
from oracle.levers.break_even import critical_concurrency

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROOM = 1.35  # of the busiest slot: a critical concurrency farther up is not drawn
_BAR = 0.7
_TICKS, _NARROW_TICKS = 12, 5


def schedule_over_slots(found: Planned, path: Path) -> Path:
    """Draw requests in flight over the slots, critical concurrencies with their band, and when each lever is on."""
    made, traffic = found.schedule, found.traffic
    T = len(traffic.slots)
    advised = advised_in_slots(found.deployment, made.precision, traffic.regime)
    with panels(1, 2, width=7.6, height=2.4, sharex=True, height_ratios=(2.4, 1.2)) as (figure, (upper, lower)):
        _draw_requests(upper, found, advised)
        _draw_levers(lower, found, advised)
        name = label(found.deployment.precisions[made.precision].name)
        upper.set_title(
            f"Schedule at {name}: {made.mean_ms:.4f} ms a token, {made.static_ms:.4f} if nothing is ever switched\n"
            f"{STATED}",
            loc="left",
        )
        step = max(1, -(-T // (_NARROW_TICKS if is_narrow() else _TICKS)))
        lower.set_xticks(np.arange(T)[::step], [label(s)[: LONGEST // 2] for s in traffic.slots[::step]])
        lower.set_xlim(0, T)
        handles, names = (
            a + b for a, b in zip(*(ax.get_legend_handles_labels() for ax in (upper, lower)), strict=True)
        )
        figure.legend(handles, names, loc="outside right center", fontsize=8)
        return save(figure, path)


def _draw_requests(ax: "Axes", found: Planned, advised: Advised) -> None:
    made, slots = found.schedule, found.traffic.regime
    edges = np.arange(len(slots.concurrency) + 1)
    ax.stairs(slots.concurrency, edges, baseline=None, color=BLUE, linewidth=1.4, label="requests in flight")
    top = _ROOM * float(slots.concurrency.max())
    for lever, critical, color in critical_lines(found):
        seen = np.where(critical <= top, critical, np.nan)
        if np.isnan(seen).all():
            continue
        percent = f" ± {100 * made.band:g} %" if made.band else ""
        ax.stairs(seen, edges, baseline=None, color=color, linestyle=":", label=f"{lever}:\npays below{percent}")
        low, high = (np.repeat(seen * (1 + sign * made.band), 2) for sign in (-1, 1))
        ax.fill_between(np.repeat(edges, 2)[1:-1], low, high, color=color, alpha=0.15, linewidth=0)
        first = {True: True, False: True}
        for each in (each for each in made.switches if each.lever == lever):
            ends = (0.5, 1.0) if lever == "speculation" else (0.0, 0.5)  # both may switch at once
            said = f"{lever}\nswitched {'on' if each.on else 'off'}" if first[each.on] else None
            first[each.on] = False
            ax.axvline(each.slot, *ends, color=color, linewidth=1.1, linestyle="-" if each.on else "--", label=said)
    if advised.capped.any():
        cap = np.where(advised.capped, advised.decided.batch, np.nan)
        ax.stairs(
            cap, edges, baseline=None, color=PURPLE, linewidth=1.4, label="cap that would pay\n(not in the schedule)"
        )
    ax.set_ylabel("requests")
    ax.set_ylim(0, top)


def critical_lines(found: Planned) -> tuple[tuple[str, NDArray[np.float64], str], ...]:
    """Give name, critical concurrency in every slot (inf: none) and colour of each lever."""
    made = found.schedule
    precision = found.deployment.precisions[made.precision]
    spec, prefix = critical_concurrency(found.deployment, precision, found.traffic.regime)
    return (("speculation", spec, ORANGE), ("prefix cache", prefix, GREEN))


def _draw_levers(ax: "Axes", found: Planned, advised: Advised) -> None:
    made, T = found.schedule, len(found.traffic.slots)
    rows: list[tuple[str, NDArray[np.bool_], Sequence[str], str]] = [
        ("prefix cache\non", made.cache_on, found.prefix, GREEN),
        ("speculation\non", made.speculation_on, found.speculation, ORANGE),
    ]
    hatched = "left open by intervals\nor the count of experts"
    for row, (_, states, verdicts, color) in enumerate(rows):
        place = (row + (1 - _BAR) / 2, _BAR)
        ax.broken_barh([(t, 1.0) for t in range(T) if states[t]], place, color=color)
        unsure = [(t, 1.0) for t in range(T) if verdicts[t] == "undecided"]
        said = hatched if unsure and not any(hatched == each for each in ax.get_legend_handles_labels()[1]) else None
        ax.broken_barh(unsure, place, facecolor="none", edgecolor=GREY, hatch="////", linewidth=0, label=said)
        if not states.any():
            ax.text(T / 2, row + 0.5, "never on", ha="center", va="center", color=GREY, fontsize=8)
    names = [name for name, *_ in rows]
    if advised.capped.any():
        place = (len(rows) + (1 - _BAR) / 2, _BAR)
        ax.broken_barh([(t, 1.0) for t in range(T) if advised.capped[t]], place, color=PURPLE)
        names.append("a cap\nwould pay")
    ax.set_yticks(np.arange(len(names)) + 0.5, names)
    ax.set_ylim(0, len(names))
    ax.grid(visible=False)
