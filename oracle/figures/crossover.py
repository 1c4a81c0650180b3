"""Figures of a crossover: speed-up by batch size with the schedule, and the match probability that is needed."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oracle.crossover.answer import Crossover
from oracle.crossover.pays import UNKNOWN
from oracle.crossover.readings import Reading
from oracle.figures.batch_axis import LEFT, batch_axis
from oracle.figures.drawing import BLUE, GREEN, GREY, ORANGE, panels, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = (BLUE, ORANGE, GREEN)
_DASHED = (0, (4, 2))  # what rests on extrapolated prices
_MADE_UP = "#F3F3F3"


def speed_up_by_batch(answer: Crossover, path: Path, readings: Sequence[Reading] = ()) -> Path:
    """Speed-up over K = 0 of some draft lengths over batch size, with intervals, and the schedule in a strip below.

    The ground is grey where prices are extrapolated. A second, lighter band goes from one end of the price of a further
    token to the other, where `readings` hold them, for the length that is best most often.
    """
    B = np.arange(1, answer.most + 1)
    with panels(1, rows=2, width=6.6, height=2.6, sharex=True, height_ratios=(5, 1)) as (figure, (ax, strip)):
        _ground(ax, answer)
        for k, color in zip(curves(answer), _COLORS, strict=False):
            up, half = answer.speed_up[:, k], answer.half_width[:, k]
            if k == most_often(answer):
                _at_ends(ax, k, color, readings)
            ax.plot(B, up, color=color, label=f"K = {k}")
            if np.isfinite(half).any():
                ax.fill_between(B, up - half, up + half, color=color, alpha=0.25, linewidth=0)
        ax.axhline(1.0, color=GREY, linewidth=0.8)
        _measured_sizes(ax, answer)
        ax.set_ylabel("speed-up over K = 0")
        batch_axis(ax, answer.most)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        _strip(strip, answer)
        strip.set_xlabel("batch size (log scale)")
        return save(figure, path)


def _at_ends(ax: "Axes", k: int, color: str, readings: Sequence[Reading]) -> None:
    """Draw a light band between the speed-ups at both ends of the price of a further token."""
    ends = [each.answer.speed_up[:, k] for each in readings if each.price == "token" and each.answer is not None]
    if len(ends) < 2:
        return
    low, high = ends
    B = np.arange(1, len(low) + 1)
    ax.fill_between(B, low, high, color=color, alpha=0.1, linewidth=0, label=f"K = {k}, price of a token at its ends")
    for each in ends:
        ax.plot(B, each, color=color, linewidth=0.7, linestyle=":")


def _ground(ax: "Axes", answer: Crossover) -> None:
    """Lay grey under the batch sizes at which the best length rests on extrapolated prices."""
    made_up = np.concatenate([[False], answer.extrapolated, [False]])
    edges = np.flatnonzero(made_up[1:] != made_up[:-1])
    for i, (a, b) in enumerate(zip(edges[::2], edges[1::2], strict=True)):
        label = "extrapolated" if i == 0 else None
        ax.axvspan(max(a + 0.5, LEFT), b + 0.5, facecolor=_MADE_UP, linewidth=0, zorder=0, label=label)


def acceptance_by_batch(answer: Crossover, path: Path) -> Path:
    """Match probability from which on some K >= 1 pays, over batch size, with the batch sizes at which it does."""
    B = np.arange(1, answer.most + 1)
    with panels(1, width=6.6, height=2.6) as (figure, (ax,)):
        for i, (first, last) in enumerate(answer.crossings.intervals):
            label = "speculation pays on this traffic" if i == 0 else None
            ax.axvspan(max(first - 0.5, LEFT), last + 0.5, color=GREEN, alpha=0.15, linewidth=0, label=label)
        needed = np.where(np.isfinite(answer.acceptance_needed), answer.acceptance_needed, np.nan)
        style = _DASHED if answer.extrapolated.any() else "-"
        said = "needed, prices extrapolated" if answer.extrapolated.any() else "needed"
        ax.plot(B, needed, color=BLUE, linestyle=style, label=said)
        sure = np.where(answer.extrapolated, np.nan, needed)
        if np.isfinite(sure).any() and answer.extrapolated.any():
            ax.plot(B, sure, "o-", color=BLUE, label="needed, not extrapolated")
        ax.set_ylim(0, 1.02)
        ax.set_ylabel("match probability")
        ax.set_xlabel("batch size (log scale)")
        batch_axis(ax, answer.most)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return save(figure, path)


def curves(answer: Crossover) -> list[int]:
    """Draft lengths to draw: the two shortest, and the one that is best most often."""
    return sorted({*answer.lengths[1:3], most_often(answer)})


def most_often(answer: Crossover) -> int:
    """The draft length that is best at most batch sizes, where any is known; the shortest of equals."""
    best = [int(k) for k in answer.best if k]
    return max(sorted(set(best)), key=best.count) if best else answer.lengths[1]


def _measured_sizes(ax: "Axes", answer: Crossover) -> None:
    """Mark the batch sizes whose prices are not extrapolated."""
    at = np.flatnonzero(~answer.extrapolated & (answer.states != UNKNOWN))
    if len(at):
        best = answer.best[at]
        ax.plot(at + 1, answer.speed_up[at, best], "o", color="black", label="best K, not extrapolated", zorder=5)


def _strip(ax: "Axes", answer: Crossover) -> None:
    """Bars of the schedule, grey where speculation is off, with K written where there is room."""
    chosen = np.zeros(answer.most, np.int64)
    for (first, last), k in answer.ranges:
        chosen[first - 1 : last] = k
    chosen = np.where(answer.states == UNKNOWN, -1, chosen)
    starts = np.flatnonzero(np.diff(chosen, prepend=-2))
    ends = np.append(starts[1:], answer.most)
    wide = np.log(answer.most + 0.5) - np.log(LEFT)
    longest = max(answer.lengths[-1], 1)
    for a, b in zip(starts, ends, strict=True):
        k, unknown = max(int(chosen[a]), 0), int(chosen[a]) < 0
        left, right = max(a + 0.5, LEFT), b + 0.5
        shade = "#F2F2F2" if unknown else "#D9D9D9" if k == 0 else BLUE
        ax.axvspan(left, right, color=shade, alpha=1.0 if k == 0 else 0.2 + 0.6 * k / longest, linewidth=0)
        if (np.log(right) - np.log(left)) / wide > 0.05:
            said = "?" if unknown else "off" if k == 0 else f"{k}"
            ax.text((left * right) ** 0.5, 0.5, said, ha="center", va="center", fontsize=8)
    ax.set_ylim(0, 1)
    ax.set_yticks([])
    ax.grid(visible=False)
    ax.set_ylabel("schedule,\nK set", fontsize=8)
    batch_axis(ax, answer.most)
