"""The data behind a figure's link are what the figure draws: the marks, bars and lines of the canvas itself."""

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_traces import recorded

from oracle.pages import Figure, compose

ROUNDED = 9  # digits
DRAWS = {
    "wasted": "pareto",
    "wasted-realised": "pareto",
    "context-lengths": "contrasts",
    "context-experts": "contrasts",
    "stability": "stability",
    "coefficients": "latency",
    "time-by-experts": "latency",
}


def drawn(monkeypatch: pytest.MonkeyPatch, name: str) -> tuple[Figure, Any]:
    """A figure of the report on the recorded traces, and the canvas it is drawn on."""
    (figure,) = [one for one in compose(recorded(), "T").figures if one.name == name]
    kept: list[Any] = []

    def keep(canvas: Any, path: Path) -> Path:
        kept.append(canvas)
        return path

    monkeypatch.setattr(importlib.import_module(f"oracle.figures.{DRAWS[name]}"), "save", keep)
    figure.draw(Path("none.svg"))
    return figure, kept[0]


def rounded(values: Iterable[Any]) -> list[tuple[float, ...]]:
    return sorted(tuple(round(float(x), ROUNDED) for x in value) for value in values)


def marks(ax: Any, axis: Callable[[Any], Any]) -> list[tuple[float, ...]]:
    """Single marks with a label's series behind them: those without a line."""
    single = [line for line in ax.lines if line.get_linestyle() == "None" and len(line.get_xdata()) == 1]
    return rounded((axis(line)[0],) for line in single)


def bars_of(ax: Any) -> list[Any]:
    """Points with error bars, each series by itself: (x, y) and the ends of the bars along y."""
    found = []
    for container in ax.containers:
        line, _, collections = container.lines
        ends = [segment for one in collections for segment in one.get_segments()]
        found.append((np.column_stack(line.get_data()), ends))
    return found


@pytest.mark.parametrize("name", ["context-lengths", "context-experts"])
def test_both_panels_of_language_contexts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figure, canvas = drawn(monkeypatch, name)
    scale = 100 if name == "context-lengths" else 1
    for ax, panel in zip(canvas.axes, ("left", "right"), strict=True):
        rows = [row for row in figure.data.rows if row["panel"] == panel and row["value"] is not None]
        assert marks(ax, lambda line: line.get_xdata()) == rounded((scale * row["value"],) for row in rows)
        named = {label for label in ax.get_legend_handles_labels()[1] if "significant" not in label}
        assert named == {row["series"] for row in rows}
        spans = [line.get_xdata() for line in ax.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 2]
        intervals = [(scale * r["value_low"], scale * r["value_high"]) for r in rows if r["value_low"] is not None]
        assert set(rounded(intervals)) <= set(rounded(spans))
        white = [line for line in ax.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata()) == 1]
        assert len(white) == sum(row["hollow"] for row in rows)


def test_bars_and_curves_of_stability(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, canvas = drawn(monkeypatch, "stability")
    left, right = canvas.axes
    rows = [row for row in figure.data.rows if row["panel"] == "left"]
    heights = rounded((patch.get_height(),) for patch in left.patches)
    assert heights == rounded((100 * row["share"],) for row in rows)
    curves = {line.get_label(): line.get_xydata() for line in right.lines if not line.get_label().startswith("_")}
    for name, curve in curves.items():
        held = [(r["x"], 100 * r["share"]) for r in figure.data.rows if (r["panel"], r["series"]) == ("right", name)]
        assert rounded(held) == rounded(curve)
    assert len(curves) == 2


def test_both_series_of_coefficients(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, canvas = drawn(monkeypatch, "coefficients")
    series = list(dict.fromkeys(row["series"] for row in figure.data.rows))
    assert len(series) == 2
    for ax, key in zip(canvas.axes, ("beta0_ms", "alpha_ms_per_expert", "context_ms_per_token"), strict=True):
        assert len(bars_of(ax)) == 2
        for (points, ends), name in zip(bars_of(ax), series, strict=True):
            rows = [row for row in figure.data.rows if row["series"] == name]
            assert rounded(points[:, 1:]) == rounded((row[key],) for row in rows)
            known = [(r[f"{key}_low"], r[f"{key}_high"]) for r in rows if r[f"{key}_low"] is not None]
            assert set(rounded(known)) <= set(rounded(segment[:, 1] for segment in ends))


def test_points_and_lines_of_verification_time(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, canvas = drawn(monkeypatch, "time-by-experts")
    shown = [ax for ax in canvas.axes if ax.lines]
    ms = sorted({row["m"] for row in figure.data.rows})
    assert len(shown) == len(ms)
    for ax, m in zip(shown, ms, strict=True):
        points, line = ax.lines
        for part, name in ((points, "round"), (line, "line")):
            rows = [row for row in figure.data.rows if (row["m"], row["series"]) == (m, name)]
            assert rounded(part.get_xydata()) == rounded((row["unique_experts"], row["target_ms"]) for row in rows)


@pytest.mark.parametrize("name", ["wasted", "wasted-realised"])
def test_points_of_time_against_waste(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figure, canvas = drawn(monkeypatch, name)
    panels = list(dict.fromkeys(row["panel"] for row in figure.data.rows))
    assert len(canvas.axes) == len(panels)
    for ax, panel in zip(canvas.axes, panels, strict=True):
        rows = [row for row in figure.data.rows if row["panel"] == panel and not row["outside"]]
        points = np.concatenate([points for points, _ in bars_of(ax)])
        assert rounded(points) == rounded((row["wasted_per_token"], row["ms_per_token"]) for row in rows)
        spans = rounded(segment[:, 1] for _, ends in bars_of(ax) for segment in ends)
        known = [(r["ms_per_token_low"], r["ms_per_token_high"]) for r in rows if r["ms_per_token_low"] is not None]
        assert set(rounded(known)) <= set(spans)
        said = ax.get_xlabel()
        assert all(row["policy"][:20] in said for row in figure.data.rows if row["outside"] and row["panel"] == panel)
    policies_drawn = {row["policy"] for row in figure.data.rows}
    assert {"oracle", "static:0", "static:1"} <= policies_drawn
