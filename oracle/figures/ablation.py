"""The figure of an ablation: which boundaries move, and how often."""

from collections.abc import Sequence
from pathlib import Path

from oracle.ablation import Prevalence
from oracle.figures.drawing import BLUE, MARKS, ORANGE, panels, save, with_bars
from oracle.intervals import Interval

_WIDE = 0.14  # between the two weights at one boundary
_MANY = 16  # lengths from which only every fourth is named on the axis


def boundaries_moved(prevalence: Sequence[Prevalence], path: Path) -> Path:
    """Share of all decisions that get longer and shorter by k*, each position once and by rounds."""
    with panels(2, width=3.7, height=2.8, sharey=True) as (figure, axes):
        for ax, word in zip(axes, ("longer", "shorter"), strict=True):
            rows = {p.boundary: p for p in prevalence if p.boundary.endswith(f"→ {word}")}
            at = [float(boundary.split(" ")[0]) for boundary in rows]
            each = [_bar(p.share, p.interval) for p in rows.values()]
            visited = [_bar(p.visit_share, p.visit_interval) for p in rows.values()]
            with_bars(ax, [x - _WIDE for x in at], each, color=BLUE, mark=MARKS[0], label="each position once")
            with_bars(ax, [x + _WIDE for x in at], visited, color=ORANGE, mark=MARKS[1], label="by rounds")
            ax.set_xticks(at if len(at) <= _MANY else at[::4])
            ax.set_title(f"get {word}")
            ax.set_xlabel("k* under the full cost")
        axes[0].set_ylabel("% of all decisions")
        axes[0].set_ylim(bottom=0)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return save(figure, path)


def _bar(share: float, interval: Interval | None) -> tuple[float, float | None, float | None]:
    return (100 * share, *((None, None) if interval is None else (100 * interval.low, 100 * interval.high)))
