"""Figures of draft lengths side by side: the plateau, the terms of a round, how often each is chosen."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oracle.by_length import ByLength, Value, limits, round_terms, shares
from oracle.figures.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, panels, save, with_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MANY = 16  # lengths from which only every fourth is named on the axis
_PARTS = (
    ("beta0", BLUE, ""),
    ("experts", ORANGE, "//"),
    ("context", GREEN, ".."),
    ("draft", PURPLE, "\\\\"),
    ("rejection", GREY, "xx"),
)


def speedup_by_limit(found: ByLength, path: Path) -> Path:
    """Speed-up of the oracle by its maximum draft length, and of every static length."""
    rows = limits(found)
    k = [float(one.draft_length) for one in rows]
    with panels(1, width=6.4, height=3.3) as (figure, (ax,)):
        ax.axhline(1.0, color=GREY, linewidth=0.8, linestyle="--")
        with_bars(ax, k, [_bar(o.capped_speedup) for o in rows], color=BLUE, label="oracle, at most k", line=True)
        with_bars(
            ax, k, [_bar(o.static_speedup) for o in rows], color=ORANGE, mark="s", label="static, K = k", line=True
        )
        _lengths_below(ax, k, "maximum draft length k")
        ax.set_ylabel(f"speed-up over k = {rows[0].draft_length}")
        ax.legend()
        return save(figure, path)


def terms_by_length(found: ByLength, path: Path) -> Path:
    """Mean cost of a round by draft length, its terms stacked; terms that are 0 everywhere are left out."""
    rows = round_terms(found)
    k = np.array([one.draft_length for one in rows])
    parts = np.array([one.terms_ms for one in rows])
    under = np.zeros(len(k))
    with panels(1, width=6.4, height=3.3) as (figure, (ax,)):
        for i, (name, colour, hatch) in enumerate(_PARTS):
            if parts[:, i].any():
                ax.bar(
                    k, parts[:, i], 0.72, under, label=name, color=colour + "AA", hatch=hatch, edgecolor="white",
                    linewidth=0.3,
                )  # fmt: skip
                under = under + parts[:, i]
        _lengths_below(ax, k, "draft length k")
        ax.set_ylabel("mean cost of a round, ms")
        ax.grid(axis="x", visible=False)
        handles, labels = ax.get_legend_handles_labels()
        ax.legend(handles[::-1], labels[::-1], loc="upper left")
        return save(figure, path)


def chosen_lengths(found: ByLength, path: Path) -> Path:
    """Shares of decisions by k*, of positions and of rounds, with intervals."""
    rows = shares(found)
    k = np.array([float(one.draft_length) for one in rows])
    with panels(1, width=6.4, height=3.0) as (figure, (ax,)):
        for name, values, colour, hatch, beside in (
            ("each position once", [one.positions for one in rows], BLUE, "", -0.2),
            ("by rounds", [one.rounds for one in rows], ORANGE, "//", 0.2),
        ):
            bars = [_bar(value, 100) for value in values]
            ax.bar(k + beside, [bar[0] or 0.0 for bar in bars], 0.4, label=name, color=colour + "66", hatch=hatch,
                   edgecolor=colour, linewidth=0.5)  # fmt: skip
            with_bars(ax, k + beside, bars, color=colour, mark="none")
        _lengths_below(ax, k, "cost-optimal draft length k*")
        ax.set_ylabel("% of decisions")
        ax.set_ylim(bottom=0)
        ax.grid(axis="x", visible=False)
        ax.legend()
        return save(figure, path)


def _lengths_below(ax: "Axes", k: Sequence[float] | NDArray[Any], name: str) -> None:
    """Name the lengths on the axis below, every fourth where there are many."""
    ax.set_xticks(k if len(k) <= _MANY else k[::4])
    ax.set_xlabel(name)


def _bar(value: Value, scale: float = 1.0) -> tuple[float | None, float | None, float | None]:
    around = value.interval
    ends = (None, None) if around is None else (scale * around.low, scale * around.high)
    return (scale * value.value if np.isfinite(value.value) else None, *ends)
