"""The figure of stability: decisions by label for each k*, and how probable k* is to be the optimum."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oracle.figures.drawing import BLUE, GREY, ORANGE, RED, panels, save
from oracle.stability.decisions import LABELS, LEANING, STABLE
from oracle.stability.study import Stability
from oracle.stability.tally import BINS, POSITIONS, VISITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOOKS = ((BLUE, ""), (ORANGE, "//"), (RED, "xx"))  # hatched, so that none relies on colour alone


def stability_figure(found: Stability, path: Path) -> Path:
    """Share of decisions stable, leaning and open for each k*; how many decisions fall below each probability."""
    with panels(2, width=4.4, height=3.2) as (figure, (left, right)):
        _bars(left, found)
        _below(right, found)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3)
        figure.legend(*right.get_legend_handles_labels(), loc="outside upper right", ncols=2)
        return save(figure, path)


def _bars(ax: "Axes", found: Stability) -> None:
    """Stacked bars of the labels, all decisions first; above each the number of decisions."""
    rows = found.rows
    x, below = np.arange(len(rows)), np.zeros(len(rows))
    for i, (name, (color, hatch)) in enumerate(zip(LABELS, _LOOKS, strict=True)):
        share = np.array([100 * row.positions.labels[i] for row in rows])
        ax.bar(x, share, bottom=below, color=color, hatch=hatch, edgecolor="white", linewidth=0.4, label=name)
        below += share
    for at, row in enumerate(rows):
        ax.text(at, 101, f"{row.decisions:,}", ha="center", va="bottom", fontsize=6, color=GREY, rotation=45)
    ax.set_xticks(x, ["all" if row.draft_length is None else str(row.draft_length) for row in rows])
    ax.set_ylim(0, 118)
    ax.set_yticks(range(0, 101, 20))
    ax.set_xlabel("k* of the fitted coefficients; above: decisions")
    ax.set_ylabel("% of the decisions")
    ax.grid(axis="x", visible=False)


def shares_below(found: Stability) -> list[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
    """Name of each curve, the shares of draws x, and the share of decisions below each."""
    edges = np.linspace(0.0, 1.0, BINS + 1)[:-1]
    curves = []
    for weight, name in ((POSITIONS, "each position once"), (VISITS, "by rounds")):
        counts = found.histogram[weight]
        if counts.sum() > 0:
            curves.append((name, edges, np.concatenate([[0.0], np.cumsum(counts)[:-1]]) / counts.sum()))
    return curves


def _below(ax: "Axes", found: Stability) -> None:
    """Share of the decisions whose k* is optimal in fewer draws than x: at 0.5 the open ones."""
    looks = {"each position once": (GREY, "s"), "by rounds": (BLUE, "o")}
    for name, edges, below in shares_below(found):
        color, mark = looks[name]
        ax.plot(edges, 100 * below, color=color, marker=mark, markersize=3, label=name)
    for least in (LEANING, STABLE):
        ax.axvline(least, color=RED, linewidth=0.8, linestyle=":")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, max(1.0, ax.get_ylim()[1]))
    ax.set_xlabel(f"x, share of {len(found.draws.models)} draws in which k* is optimal")
    ax.set_ylabel("% of the decisions below x")
