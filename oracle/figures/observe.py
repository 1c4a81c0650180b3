"""Figures of a request log: requests in flight over time, prefix sharing by capacity, acceptance by depth."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oracle.figures.drawing import BLUE, GREY, MARKS, ORANGE, label, panels, save, with_bars
from oracle.observe.study import Observed

_STRETCHES = 400  # drawn at most
_MOST_LABELS = 8


def concurrency_over_time(found: Observed, path: Path) -> Path:
    """Draw mean and peak of requests in flight, and each slot's mean while any is."""
    flight, slots = found.flight, found.slots
    begin, end = float(flight.time[0]), float(flight.time[-1])
    edges = np.linspace(begin, end, _STRETCHES + 1)
    parts = flight.within(edges)
    hours = (edges - slots.edges[0]) / 3600
    with panels(1, width=6.6, height=3.0) as (figure, (ax,)):
        ax.stairs(parts.peak, hours, color=GREY, linewidth=0.7, label="peak")
        ax.stairs(parts.mean, hours, color=BLUE, label="mean", fill=True, alpha=0.35)
        shown = np.clip((slots.edges - slots.edges[0]) / 3600, hours[0], hours[-1])
        ax.stairs(
            flight.within(slots.edges).busy_mean,
            shown,
            color=ORANGE,
            linewidth=1.6,
            baseline=None,
            label="slot, while any",
        )
        step = max(1, -(-len(slots.names) // _MOST_LABELS))
        at = (slots.edges[:-1:step] - slots.edges[0]) / 3600
        ax.set_xticks(at, [_short(name) for name in slots.names[::step]])
        ax.set_xlim(0.0, hours[-1])
        ax.set_ylim(bottom=0)
        ax.set_ylabel("requests in flight")
        ax.set_xlabel("time (marks where slots begin)")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, path)


def _short(name: str) -> str:
    """Break a date from its hour."""
    return label(name).replace(" ", "\n", 1)


def sharing_by_capacity(rows: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Draw the share of prompt tokens found, over capacity, with intervals; dashed where nothing is ever evicted."""
    sized = [row for row in rows if row["capacity_tokens"] is not None]
    x = np.array([row["capacity_tokens"] for row in sized], dtype=np.float64)
    with panels(1, width=5.6, height=3.2) as (figure, (ax,)):
        for i, (name, said) in enumerate(
            (("prefix_share", "there on arrival"), ("delayed_share", "there from the first token on"))
        ):
            cells = [_percent(row, name) for row in sized]
            if all(value is None for value, _, _ in cells):
                continue
            color = (BLUE, ORANGE)[i]
            with_bars(ax, x * 1.03**i, cells, color=color, mark=MARKS[i], line=True, label=said)
            ax.axhline(_percent(rows[-1], name)[0] or 0.0, color=color, linestyle="--", linewidth=0.8)
        for row in sized:
            if row["used"]:
                ax.axvline(row["capacity_tokens"], color=GREY, linewidth=0.9, label="taken")
        ax.set_xscale("log", base=2)
        step = max(1, -(-len(x) // _MOST_LABELS))
        ax.set_xticks(x[::step], [_size(tokens) for tokens in x[::step]])
        ax.minorticks_off()
        ax.set_ylim(bottom=0)
        ax.set_xlabel("capacity of the prefix cache, tokens (log scale; dashed: never evicts)")
        ax.set_ylabel("prompt tokens found, %")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, path)


def _percent(row: Mapping[str, Any], name: str) -> tuple[float | None, float | None, float | None]:
    value, low, high = (None if row[key] is None else 100 * row[key] for key in (name, f"{name}_low", f"{name}_high"))
    return value, low, high


def _size(tokens: float) -> str:
    """Write a capacity shortly; powers of two stay exact enough to be told apart."""
    for unit, factor in (("G", 2**30), ("M", 2**20), ("Ki", 2**10)):
        if tokens >= factor:
            return f"{tokens / factor:.3g} {unit.removesuffix('i')}i"
    return f"{tokens:g}"


def acceptance_by_depth(rows: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Draw acceptance at each depth of what was proposed, and survival against matches that were independent."""
    depth = np.array([row["depth"] for row in rows], dtype=np.float64)
    with panels(2, width=3.4, height=2.9) as (figure, axes):
        for ax, name, said in zip(
            axes,
            ("conditional", "survival"),
            ("accepted of proposed at that depth", "survival, of all rounds"),
            strict=True,
        ):
            cells = [(row[name], row[f"{name}_low"], row[f"{name}_high"]) for row in rows]
            with_bars(ax, depth, cells, color=BLUE, line=True, label="as played")
            ax.set_title(said)
            ax.set_xlabel("depth in the draft")
            ax.set_xticks(depth[:: max(1, -(-len(depth) // 10))])
            ends = [end for cell in cells for end in cell if end is not None]
            ax.set_ylim(0, 1.02 if name == "conditional" else min(1.02, 1.1 * max(ends, default=1.0) + 0.01))
        first = rows[0]["survival"]
        if first is not None:
            axes[1].plot(depth, first**depth, color=GREY, linestyle="--", marker=MARKS[1], label="if independent")
        figure.legend(*axes[1].get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return save(figure, path)
