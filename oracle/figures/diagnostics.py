"""Figures of the diagnostics of a latency fit."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oracle.figures.drawing import BLUE, GREY, ORANGE, label, panels, save, with_bars
from oracle.latency.diagnostics.factors import FactorStrength, StandardisedRow
from oracle.latency.diagnostics.fold_errors import OverFolds
from oracle.latency.diagnostics.ladder import Ladder
from oracle.latency.diagnostics.pooled import BudgetForm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bar = tuple[float | None, float | None, float | None]


def _bar(values: OverFolds | None) -> Bar:
    return (None, None, None) if values is None else (values.mean, values.low, values.high)


def _sideways(axes: "Axes", names: Sequence[str], bars: Sequence[Bar], title: str) -> None:
    """Draw one value with its interval a line, from the top down."""
    for i, (value, low, high) in enumerate(bars):
        if value is not None:
            if low is not None and high is not None:
                axes.plot([low, high], [i, i], color=BLUE)
            axes.plot(value, i, "o", color=BLUE)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_title(title)


def factor_strengths(strengths: Sequence[FactorStrength], path: Path) -> Path:
    """How well each factor predicts alone, and what it adds on top of U."""
    names = [label(s.factor.replace("_", " ")) for s in strengths]
    with panels(2, width=3.6, height=0.6 + 0.28 * len(names)) as (figure, axes):
        _sideways(axes[0], names, [_bar(s.r2) for s in strengths], "alone: R², held out")
        _sideways(axes[1], names, [_bar(s.gain_ms) for s in strengths], "on top of U: RMSE saved, ms")
        axes[1].axvline(0, color=GREY, linewidth=0.8)
        axes[1].set_yticklabels([])
        return save(figure, path)


def standardised(rows: Sequence[StandardisedRow], path: Path) -> Path:
    """Standardised association of verification time with U and L within each K."""
    with panels(1, width=4.6, height=2.8) as (figure, [ax]):
        for name, color, mark in (("unique_experts", BLUE, "o"), ("context_len", ORANGE, "s")):
            there = [(row.k, getattr(row, name)) for row in rows if getattr(row, name) is not None]
            bars = [(e.value, e.low, e.high) for _, e in there]
            label = "unique experts, U" if name == "unique_experts" else "context length, L"
            with_bars(ax, [k for k, _ in there], bars, color=color, mark=mark, label=label, line=True)
        ax.axhline(0, color=GREY, linewidth=0.8)
        ax.set_xlabel("draft length, K")
        ax.set_title("standardised coefficient, standard deviations")
        ax.legend()
        return save(figure, path)


def specifications(ladder: Ladder, forms: Sequence[BudgetForm], path: Path) -> Path:
    """Held-out error along the ladder, and at a K that was left out."""
    with panels(2, width=3.8, height=2.8) as (figure, axes):
        rungs = ladder.rungs
        _sideways(axes[0], [r.name for r in rungs], [_bar(r.mape_percent) for r in rungs], "MAPE held out, %")
        axes[0].set_xlim(left=0)
        for name, color, mark in (("m", ORANGE, "s"), ("log m", BLUE, "o")):
            form = next((f for f in forms if f.name == name), None)
            if form is not None:
                points = [(k, e) for k, e in form.left_out_k_percent.items() if e is not None]
                _line(axes[1], points, mark + "-", color, f"smooth in {name}, that K left out")
        within = next((f for f in forms if f.name == "categorical"), None)
        if within is not None:
            points = [(k, e.mean) for k, e in within.mape_by_k.items() if e.mean is not None]
            _line(axes[1], points, "^--", GREY, "categorical, that K known")
        axes[1].set_title("MAPE at each K, %")
        axes[1].set_xlabel("draft length, K")
        axes[1].set_ylim(bottom=0)
        if axes[1].lines:
            figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower right", ncols=2)
        return save(figure, path)


def _line(axes: "Axes", points: Sequence[tuple[float, float]], form: str, color: str, label: str) -> None:
    """Draw a line through points; nothing without points (`plot` would take the format for a value)."""
    if points:
        axes.plot(*zip(*points, strict=True), form, color=color, label=label)
