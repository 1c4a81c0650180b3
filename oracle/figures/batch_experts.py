"""Figures of recorded traffic in batches: unique experts against the formulas, and what mixing tenants costs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.crossover.formulas import uniform_unique_experts
from oracle.crossover.jackknife import half_widths
from oracle.crossover.mixing import MixingCost, measured_and_beyond
from oracle.crossover.study import Studied
from oracle.figures.batch_axis import batch_axis
from oracle.figures.drawing import BLUE, GREEN, GREY, MARKS, ORANGE, PURPLE, RED, panels, save, with_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE)
_MOST_CURVES = 5


def unique_experts_by_batch(studied: Studied, path: Path) -> Path:
    """Unique experts over batch size, one panel a draft length: measured by make of batch, and by formula."""
    makes = [make for make in (0, 1) if make in studied.experts]
    lengths = studied.shown_lengths
    with panels(len(lengths), width=3.3, height=2.7, sharey=True, squeeze=False) as (figure, axes):
        for ax, k in zip(axes, lengths, strict=True):
            for i, make in enumerate(makes):
                _measured(ax, studied, make, k, _COLORS[i])
            whoever = studied.experts[makes[0]]
            said = f"by popularity, {_name(makes[0])}"
            ax.plot(studied.shown, whoever.popularity[:, k], MARKS[4], color=GREY, label=said)
            B = np.arange(1, len(whoever.mean) + 1)
            uniform = uniform_unique_experts(B * (k + 1), studied.num_experts, studied.top_k)
            ax.plot(B, uniform, ":", color="black", label="uniform formula")
            ax.set_title(f"K = {k}")
            ax.set_ylim(0, studied.num_experts * 1.04)
            ax.set_xlabel("batch size (log scale)")
            batch_axis(ax, len(whoever.mean))
        axes[0].set_ylabel("unique experts a layer")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, path)


def _measured(ax: "Axes", studied: Studied, make: int, k: int, color: str) -> None:
    """Draw what was measured with its interval, and mark from where on texts recur."""
    each = studied.experts[make]
    B, mean, half = np.arange(1, len(each.mean) + 1), each.mean[:, k], half_widths(each.left_out)[:, k]
    ax.plot(B, mean, color=color, label=_name(make))
    ax.fill_between(B, mean - half, mean + half, color=color, alpha=0.2, linewidth=0)
    if each.distinct_to < len(mean):
        last = each.distinct_to
        ax.plot([last], [mean[last - 1]], MARKS[3], color=color, label=f"texts recur beyond, {_name(make)}")


def _name(make: int) -> str:
    return "at random" if not make else "1 tenant" if make == 1 else f"{make} tenants"


def mixed_length(studied: Studied) -> int:
    """Draft length at which tenants are drawn: the one that is best at most batch sizes."""
    return studied.shown_lengths[min(1, len(studied.shown_lengths) - 1)]


def tenants_mixed(studied: Studied, path: Path) -> Path:
    """What more tenants at the same batch size add: measured beside the popularity formula, and beyond by it alone."""
    length = mixed_length(studied)
    measured, beyond = measured_and_beyond(studied.mixing, [length])
    with panels(2 + bool(beyond), width=3.4, height=2.8) as (figure, axes):
        for i, B in enumerate(_some_sizes(measured)):
            rows = [each for each in measured if each.batch_size == B]
            color, mark = _COLORS[i % len(_COLORS)], MARKS[i % len(MARKS)]
            x = np.array([each.tenants for each in rows]) * (1 + 0.02 * (i - 1))
            recurs = "" if rows[0].distinct else ", texts recur"
            for ax, name, scale in ((axes[0], "extra", 1.0), (axes[1], "share", 100.0)):
                cells = [_cells(each, name, scale) for each in rows]
                with_bars(ax, x, cells, color=color, mark=mark, line=True, label=f"batch size {B}{recurs}")
                _by_formula(ax, rows, name, scale, color, mark)
        axes[0].plot([], [], ":", color=GREY, marker="o", markerfacecolor="white", label="by the popularity formula")
        for i, B in enumerate(_some_sizes(beyond)):
            rows = [each for each in beyond if each.batch_size == B]
            shade = 0.15 + 0.6 * i / max(1, len(_some_sizes(beyond)) - 1)
            _by_formula(axes[2], rows, "share", 100.0, str(shade), MARKS[i % len(MARKS)], f"batch size {B}")
        said = ("unique experts a layer, more", "cost per token, % more", "cost per token, % more")
        titles = ("measured and by formula",) * 2 + ("larger batches: formula only",)
        for ax, label, title in zip(axes, said, titles, strict=False):
            ax.axhline(0.0, color=GREY, linewidth=0.8)
            ax.set_title(title)
            ax.set_xlabel("tenants in a batch (against 1)")
            ax.set_ylabel(label)
            ax.set_xticks(sorted({each.tenants for each in measured}))
        if beyond:
            axes[2].set_ylim(top=1.5 * axes[2].get_ylim()[1])  # room for the legend
            axes[2].legend(fontsize=8, loc="upper left")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, title=f"K = {length}")
        return save(figure, path)


def _some_sizes(rows: Sequence[MixingCost]) -> list[int]:
    sizes = sorted({each.batch_size for each in rows})
    return sizes if len(sizes) <= _MOST_CURVES else sizes[:: -(-len(sizes) // _MOST_CURVES)]


def _by_formula(
    ax: "Axes", rows: Sequence[MixingCost], name: str, scale: float, color: str, mark: str, label: str | None = None
) -> None:
    """Draw what the formula says, dotted and hollow."""
    x, y = zip(*((each.tenants, scale * getattr(each, f"{name}_formula")) for each in rows), strict=True)
    ax.plot(x, y, ":", color=color, marker=mark, markerfacecolor="white", label=label)


def _cells(each: MixingCost, name: str, scale: float) -> tuple[float | None, float | None, float | None]:
    value, half = scale * getattr(each, name), scale * getattr(each, f"{name}_half")
    bars: Any = (value - half, value + half) if np.isfinite(half) else (None, None)
    return (value, *bars)
