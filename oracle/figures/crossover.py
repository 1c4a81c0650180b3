"""Figures of a crossover: speed-up by batch size with the schedule, and the match probability that is needed."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oracle.crossover.answer import Crossover
from oracle.crossover.costs import ASSUMED, EXTRAPOLATED
from oracle.crossover.pays import UNKNOWN
from oracle.figures.batch_axis import LEFT, batch_axis
from oracle.figures.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, panels, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE)
_MOST_CURVES = 5
_DASHED = (0, (4, 2))  # what rests on extrapolated prices


def speed_up_by_batch(answer: Crossover, path: Path) -> Path:
    """Speed-up over K = 0 of some draft lengths over batch size, with intervals, and the schedule in a strip below.

    Curves are dashed where a price that they rest on is extrapolated.
    """
    B = np.arange(1, answer.most + 1)
    with panels(1, rows=2, width=6.6, height=2.4, sharex=True, height_ratios=(5, 1)) as (figure, (ax, strip)):
        for i, k in enumerate(_curves(answer)):
            up, half = answer.speed_up[:, k], answer.half_width[:, k]
            color = _COLORS[i % len(_COLORS)]
            _curve(ax, answer, k, color)
            if np.isfinite(half).any():
                ax.fill_between(B, up - half, up + half, color=color, alpha=0.15, linewidth=0)
        ax.axhline(1.0, color=GREY, linewidth=0.8)
        if answer.extrapolated.any():
            ax.plot([], [], color=GREY, linestyle=_DASHED, label="dashed: extrapolated")
        _measured_sizes(ax, answer)
        ax.set_ylabel("speed-up over K = 0")
        batch_axis(ax, answer.most)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        _strip(strip, answer)
        strip.set_xlabel("batch size (log scale)")
        return save(figure, path)


def _curve(ax: "Axes", answer: Crossover, k: int, color: str) -> None:
    """Draw one speed-up, solid where both prices are measured or between such, dashed where they are not."""
    B = np.arange(1, answer.most + 1)
    ran = np.maximum(answer.running[:, k], 1) - 1
    sure = ~np.isin(np.stack([answer.costs.basis[:, 0], answer.costs.basis[ran, k]]), (ASSUMED, EXTRAPOLATED)).any(
        axis=0
    )
    up = answer.speed_up[:, k]
    ax.plot(B, up, color=color, linestyle="-" if sure.all() else _DASHED, label=f"K = {k}")
    ax.plot(B, np.where(sure, up, np.nan), color=color)


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


def _curves(answer: Crossover) -> list[int]:
    """Draft lengths to draw: those that are best somewhere, most often first, else spread over all."""
    best = [int(k) for k in answer.best if k]
    often = sorted(set(best), key=lambda k: (-best.count(k), k))[:_MOST_CURVES]
    lengths = answer.lengths[1:]
    for i in np.linspace(0, len(lengths) - 1, _MOST_CURVES).round().astype(int):
        if len(often) < _MOST_CURVES and lengths[i] not in often:
            often.append(lengths[i])
    return sorted(often)


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
