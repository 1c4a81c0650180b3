"""Figures of a crossover: speed-up by batch size with the best K, unique experts against formulas, tenants mixed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.crossover.answer import Crossover
from oracle.crossover.costs import ASSUMED, EXTRAPOLATED
from oracle.crossover.formulas import uniform_unique_experts
from oracle.crossover.jackknife import half_widths
from oracle.crossover.mixing import MixingCost
from oracle.crossover.pays import UNKNOWN
from oracle.crossover.unique_experts import BatchExperts
from oracle.figures.drawing import BLUE, GREEN, GREY, MARKS, ORANGE, PURPLE, RED, panels, save, with_bars

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
        _batch_axis(ax, answer.most)
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
            ax.axvspan(first - 0.5, last + 0.5, color=GREEN, alpha=0.15, linewidth=0, label=label)
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
        _batch_axis(ax, answer.most)
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
    wide = np.log(answer.most + 0.5) - np.log(0.5)
    longest = max(answer.lengths[-1], 1)
    for a, b in zip(starts, ends, strict=True):
        k, unknown = max(int(chosen[a]), 0), int(chosen[a]) < 0
        left, right = a + 0.5, b + 0.5
        shade = "#F2F2F2" if unknown else "#D9D9D9" if k == 0 else BLUE
        ax.axvspan(left, right, color=shade, alpha=1.0 if k == 0 else 0.2 + 0.6 * k / longest, linewidth=0)
        if (np.log(right) - np.log(left)) / wide > 0.05:
            said = "?" if unknown else "off" if k == 0 else f"{k}"
            ax.text((left * right) ** 0.5, 0.5, said, ha="center", va="center", fontsize=8)
    ax.set_ylim(0, 1)
    ax.set_yticks([])
    ax.grid(visible=False)
    allowed = f"\n(≤ {100 * answer.noise:g} % off\nthe best)" if answer.noise else ""
    ax.set_ylabel(f"schedule, K{allowed}", fontsize=7)
    _batch_axis(ax, answer.most)


def _batch_axis(ax: "Axes", most: int) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: PLC0415  # slow to import

    ax.set_xscale("log", base=2)
    ax.set_xlim(0.5, most + 0.5)
    ax.xaxis.set_major_locator(FixedLocator([2**i for i in range(most.bit_length())]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.xaxis.set_minor_locator(NullLocator())


def unique_experts_by_batch(
    experts: Mapping[int, BatchExperts],
    shown: Sequence[int],
    lengths: Sequence[int],
    num_experts: int,
    top_k: int,
    path: Path,
) -> Path:
    """Unique experts over batch size, one panel a draft length: measured by make of batch, and by formula."""
    makes = [make for make in (0, 1) if make in experts]
    with panels(len(lengths), width=3.3, height=2.7, sharey=True, squeeze=False) as (figure, axes):
        for ax, k in zip(axes, lengths, strict=True):
            for i, make in enumerate(makes):
                each = experts[make]
                B = np.arange(1, len(each.mean) + 1)
                half = half_widths(each.left_out)[:, k]
                ax.plot(B, each.mean[:, k], color=_COLORS[i], label=_name(make))
                ax.fill_between(
                    B, each.mean[:, k] - half, each.mean[:, k] + half, color=_COLORS[i], alpha=0.2, linewidth=0
                )
                if each.distinct_to < len(each.mean):
                    last = each.distinct_to
                    ends = "texts recur beyond" if i == len(makes) - 1 else None
                    ax.plot([last], [each.mean[last - 1, k]], MARKS[3], color=_COLORS[i], label=ends)
            whoever = experts[makes[0]]
            ax.plot(shown, whoever.popularity[:, k], MARKS[4], color=GREY, label=f"by popularity, {_name(makes[0])}")
            ax.plot(
                B, uniform_unique_experts(B * (k + 1), num_experts, top_k), ":", color="black", label="uniform formula"
            )
            ax.set_title(f"K = {k}")
            ax.set_ylim(0, num_experts * 1.04)
            ax.set_xlabel("batch size (log scale)")
            _batch_axis(ax, len(whoever.mean))
        axes[0].set_ylabel("unique experts a layer")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, path)


def _name(make: int) -> str:
    return "at random" if not make else "1 tenant" if make == 1 else f"{make} tenants"


def tenants_mixed(mixing: Sequence[MixingCost], length: int, path: Path) -> Path:
    """Experts that more tenants add at the same batch size, and what they cost."""
    several = [each for each in mixing if each.tenants > 1]
    distinct = [each for each in several if each.distinct]
    sizes = sorted({each.batch_size for each in distinct or several})
    sizes = sizes if len(sizes) <= _MOST_CURVES else sizes[:: -(-len(sizes) // _MOST_CURVES)]
    with panels(2, width=3.6, height=2.8) as (figure, axes):
        for i, B in enumerate(sizes):
            rows = [each for each in mixing if each.batch_size == B and each.draft_length == length]
            color, mark = _COLORS[i % len(_COLORS)], MARKS[i % len(MARKS)]
            x = np.array([each.tenants for each in rows]) * (1 + 0.02 * (i - len(sizes) / 2))
            recurs = "" if rows[0].distinct else ", texts recur"
            for ax, name, scale in ((axes[0], "extra", 1.0), (axes[1], "share", 100.0)):
                cells = [_cells(each, name, scale) for each in rows]
                with_bars(ax, x, cells, color=color, mark=mark, line=True, label=f"batch size {B}{recurs}")
        most = max((each.tenants for each in mixing), default=1)
        for ax, said in zip(axes, ("unique experts a layer, more", "cost per token, % more"), strict=True):
            ax.axhline(0.0, color=GREY, linewidth=0.8)
            ax.set_xlabel("tenants in a batch (against 1)")
            ax.set_ylabel(said)
            ax.set_xticks(sorted({each.tenants for each in mixing}))
            ax.set_xlim(0.8, most * 1.1)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, title=f"K = {length}")
        return save(figure, path)


def _cells(each: MixingCost, name: str, scale: float) -> tuple[float | None, float | None, float | None]:
    value, half = scale * getattr(each, name), scale * getattr(each, f"{name}_half")
    bars: Any = (value - half, value + half) if np.isfinite(half) else (None, None)
    return (value, *bars)
