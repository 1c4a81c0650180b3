"""Figures of policies: the condition a longer draft must meet, calibration."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oracle.condition.costs import Condition
from oracle.condition.extensions import ACCEPTED, COST_EDGES, EDGES, PROMISE_EDGES, REFUSED, VISITS
from oracle.condition.separation import Separation, quantiles
from oracle.errors import printable
from oracle.figures.drawing import BLUE, GREY, MARKS, ORANGE, RED, panels, save, with_bars
from oracle.realised.calibration import CalibrationRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMES = ((ACCEPTED, "made (k < k*)", BLUE), (REFUSED, "refused (k = k*)", ORANGE))
_MERGED = 8  # bins joined to one step of the drawing
_TAIL = 0.005  # share of the weight that may lie beyond the axes on either side
_ROWS = 36  # bins of dC in the density
_DEEPEST = 300.0  # densities so many times thinner than the thickest look alike


def ratio_distributions(found: Condition, path: Path) -> Path:
    """How dC / dE[A] is distributed over extensions made and refused by the oracle, with the best slope."""
    titles = {VISITS: "counted by rounds of the oracle", 0: "each position once"}
    with panels(2, width=4.0, height=2.8, sharey=True) as (figure, axes):
        for ax, weight, best in zip(axes, (VISITS, 0), (found.by_rounds, found.by_positions), strict=True):
            counts = found.tally.counts[:, weight].sum(axis=0)
            _steps(ax, counts)
            if best is not None:
                _best_slope(ax, best)
            ax.set_title(titles[weight])
            ax.set_xlabel("dC / dE[A], ms an expected token")
        axes[0].set_ylabel("% of all extensions a bin")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)
        return save(figure, path)


def _steps(ax: "Axes", counts: NDArray[np.float64]) -> None:
    """Two step lines on one logarithmic axis; what lies beyond it is said in words."""
    whole = counts.sum()
    inside = counts[:, 1:-1]
    joined = inside.reshape(2, -1, _MERGED).sum(axis=2)
    edges = EDGES[::_MERGED]
    for what, name, color in _NAMES:
        if whole > 0:
            ax.stairs(100 * joined[what] / whole, edges, color=color, label=name, fill=True, alpha=0.25)
            ax.stairs(100 * joined[what] / whole, edges, color=color, linewidth=1.2)
    ax.set_xscale("log")
    low, high = quantiles(inside_only(counts.sum(axis=0)), (_TAIL, 1 - _TAIL))
    if np.isfinite(low) and 0 < low < high:
        ax.set_xlim(low / 1.3, high * 1.3)
    ax.set_ylim(bottom=0.0, top=None if joined.any() else 1.0)
    plain_ticks(ax)
    free, hopeless = (100 * float(counts[:, i].sum() / whole) if whole else 0.0 for i in (0, -1))
    said = [
        f"{share:.1f} % {where}"
        for share, where in ((free, "cost nothing"), (hopeless, "promise next to nothing"))
        if share
    ]
    if said:
        ax.text(0.98, 0.97, "\n".join(said), transform=ax.transAxes, ha="right", va="top", fontsize=7, color=GREY)


def inside_only(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The counts without those below the lowest edge and above the highest."""
    kept = counts.copy()
    kept[[0, -1]] = 0.0
    return kept


def plain_ticks(ax: "Axes") -> None:
    """Write the numbers of a logarithmic axis as people do."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415  # slow to import

    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _best_slope(ax: "Axes", best: Separation) -> None:
    if best.slope_interval is not None:
        ax.axvspan(best.slope_interval.low, best.slope_interval.high, color=RED, alpha=0.2, linewidth=0)
    wrong = f"{100 * best.error:.1f} % on the wrong side"
    ax.axvline(best.slope_ms, color=RED, linestyle="--", label="best single slope λ")
    ax.text(
        0.98,
        0.80,
        f"λ = {best.slope_ms:.2f} ms\n{wrong}\nAUC {best.auc:.3f}",
        transform=ax.transAxes,
        ha="right",
        va="top",
        fontsize=8,
        color=RED,
    )


def extension_density(found: Condition, path: Path) -> Path:
    """DC against dE[A], as densities of extensions made and refused, with the line of the best slope."""
    from matplotlib.colors import LogNorm  # noqa: PLC0415
    from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: PLC0415

    picture = found.tally.picture[VISITS]
    whole = float(picture.sum()) or 1.0
    edges, cells = _linear(picture)
    density = cells / whole / (edges[1] * np.diff(PROMISE_EDGES))
    most = float(density.max()) or 1.0
    with panels(2, width=4.0, height=3.1, sharex=True, sharey=True) as (figure, axes):
        mesh: Any = None
        for ax, (what, name, _) in zip(axes, _NAMES, strict=True):
            shown = np.ma.masked_less_equal(density[what], 0.0)
            norm = LogNorm(most / _DEEPEST, most)
            mesh = ax.pcolormesh(PROMISE_EDGES, edges, shown, norm=norm, cmap="cividis_r", rasterized=True)
            if found.by_rounds is not None:
                slope = found.by_rounds.slope_ms
                ax.plot([0, 1], [0, slope], color=RED, linestyle="--", label=f"dC = λ · dE[A], λ = {slope:.2f} ms")
            ax.set_title(f"{name}: {100 * float(picture[what].sum()) / whole:.0f} % of extensions")
            ax.set_ylim(0, edges[-1])
            ax.set_xlim(0, 1)
        figure.supxlabel("dE[A], expected tokens that one more draft token adds", fontsize=9)
        axes[0].set_ylabel("dC, ms that it costs")
        bar = figure.colorbar(mesh, ax=axes, label="density, counted by rounds", extend="min")
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
        if found.by_rounds is not None:
            figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center")
        return save(figure, path)


def _linear(picture: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Equally wide bins of dC from 0 up to where a small share is left out, and the picture in them."""
    by_cost = picture.sum(axis=(0, 2))[1:-1]
    top = 1.0
    if by_cost.sum() > 0:
        top = float(COST_EDGES[np.searchsorted(np.cumsum(by_cost), (1 - _TAIL) * by_cost.sum()) + 1]) * 1.05
    edges = np.linspace(0.0, top, _ROWS + 1)
    at = np.searchsorted(edges, np.sqrt(COST_EDGES[1:] * COST_EDGES[:-1]), side="right") - 1
    cells = np.zeros((2, _ROWS, picture.shape[2]))
    for row in range(_ROWS):
        cells[:, row] = picture[:, 1:-1][:, at == row].sum(axis=1)
    return edges, cells


def calibration_curve(rows: Sequence[CalibrationRow], path: Path) -> Path:
    """Share of first draft tokens that match against the match probability said beforehand, one line a decoding."""
    groups = list(dict.fromkeys(row.group for row in rows))
    with panels(1, width=4.2, height=3.4) as (figure, (ax,)):
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle="--", label="as said")
        for i, group in enumerate(groups):
            bins = [r for r in rows if r.group == group and r.depth == 1 and (r.low, r.high) != (0.0, 1.0)]
            bars = [(r.realised, *((r.interval.low, r.interval.high) if r.interval else (None, None))) for r in bins]
            color, mark = (BLUE, ORANGE, RED, GREY)[i % 4], MARKS[i % len(MARKS)]
            with_bars(
                ax,
                [r.expected for r in bins],
                bars,
                color=color,
                mark=mark,
                label=printable(group, 28),
                line=True,
            )
        ax.set_xlabel("mean match probability of the first draft token")
        ax.set_ylabel("share that matches")
        ax.set_xlim(0, 1)
        ax.set_ylim(-0.02, 1.02)
        ax.legend()
        return save(figure, path)
