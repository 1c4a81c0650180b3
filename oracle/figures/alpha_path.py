"""The figure of the path along a scale on all alpha: how many decisions take each draft length."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oracle.alpha_path.scales import ScaleTally
from oracle.alpha_path.static import still_recommended
from oracle.figures.drawing import panels, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_THICK = 4.0  # percent: a thinner area has no room for its name
_TALLEST = 16  # lengths a column of the legend holds
_DARK = 0.5  # luminance below which a name on an area is white


def decisions_by_scale(found: ScaleTally, path: Path) -> Path:
    """Share of decisions by k* as a function of the scale, stacked, with s = 1 and the best static lengths marked.

    The colours run from light to dark with k*, so that they keep their order in print and with any colour vision.
    """
    import matplotlib as mpl  # noqa: PLC0415  # slow to import

    used = np.flatnonzero(found.by_length.any(axis=0))
    total = found.by_length.sum(axis=1, keepdims=True)
    shares = 100 * found.by_length[:, used] / np.where(total > 0, total, 1.0)
    colors = mpl.colormaps["cividis_r"](np.linspace(0.0, 1.0, max(len(used), 2)))[: len(used)]
    with panels(1, width=6.0, height=3.8) as (figure, (ax,)):
        ax.axvline(1.0, color="black", linestyle="--", linewidth=1.2)
        ax.annotate("alpha as fitted", (1.0, 100), (0, 3), textcoords="offset points", ha="center", fontsize=8)
        _static(ax, found)
        ax.set_xlim(0, found.s_max)
        ax.set_ylim(0, 100)
        ax.set_xlabel("scale s on all alpha (0: without the expert cost)")
        ax.set_ylabel("% of positions")
        if len(used):
            drawn = ax.stackplot(found.grid, shares.T, colors=colors, edgecolor="white", linewidth=0.6)
            _names(ax, used, found.grid, shares, colors)
            names, columns = [f"k* = {k}" for k in used], 1 + (len(used) > _TALLEST)
            figure.legend(drawn[::-1], names[::-1], loc="outside right center", ncols=columns)
        return save(figure, path)


def _names(
    ax: "Axes",
    used: NDArray[np.intp],
    grid: NDArray[np.float64],
    shares: NDArray[np.float64],
    colors: NDArray[np.float64],
) -> None:
    """Write k* into its area where that is thickest, a little inside the frame."""
    middle = np.cumsum(shares, axis=1) - shares / 2
    inside = (grid > 0.04 * grid[-1]) & (grid < 0.96 * grid[-1]) & (np.abs(grid - 1) > 0.03 * grid[-1])
    for i, k in enumerate(used):
        at = int(np.argmax(np.where(inside, shares[:, i], 0.0)))
        if shares[at, i] >= _THICK:
            color = "white" if float(colors[i, :3] @ (0.299, 0.587, 0.114)) < _DARK else "black"
            ax.text(grid[at], middle[at, i], str(k), ha="center", va="center", fontsize=8, color=color)


def _static(ax: "Axes", found: ScaleTally) -> None:
    """Mark the range of each best static length in a strip above the areas."""
    across = ax.get_xaxis_transform()
    for r in still_recommended(found):
        for s in (r.s_from, r.s_to):
            ax.plot([s, s], [1.09, 1.15], color="black", linewidth=0.8, transform=across, clip_on=False)
        ax.plot([r.s_from, r.s_to], [1.12, 1.12], color="black", linewidth=0.8, transform=across, clip_on=False)
        middle = (r.s_from + r.s_to) / 2
        ax.text(middle, 1.16, str(r.draft_length), ha="center", va="bottom", fontsize=8, transform=across)
    ax.text(-0.02, 1.12, "best static\nlength", ha="right", va="center", fontsize=8, transform=ax.transAxes)
