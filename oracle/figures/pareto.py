"""The Pareto view of policies: time against draft tokens thrown away."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oracle.errors import printable
from oracle.figures.drawing import BLUE, GREY, LONGEST, ORANGE, label, panels, save
from oracle.intervals import Interval
from oracle.realised.scores import NEAR, RealisedScore, near_fastest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _LINE = 5.6, 0.17  # inches: of a panel, of a name
_LEAST_LINES = 12
_SAID = 70  # characters of a line that says what lies outside


def pareto_view(scores: Sequence[RealisedScore], path: Path, *, title: str = "expected, held out") -> Path:
    """Milliseconds a token against wasted draft tokens a token, with intervals; undominated policies are joined.

    Policies much slower than the fastest would squeeze the picture; they are named under it.
    """
    return pareto_by({title: scores}, path)


def pareto_by(scores: Mapping[str, Sequence[RealisedScore]], path: Path) -> Path:
    """One panel for each set of scores, such as the realised ones of each decoding."""
    split = {title: near_fastest(some) for title, some in scores.items()}
    lines = max(_LEAST_LINES, *(len(near) for near, _ in split.values()))
    with panels(len(split), width=_WIDTH, height=1.9 + _LINE * lines) as (figure, axes):
        for ax, (title, (near, rest)) in zip(axes, split.items(), strict=True):
            _points(ax, near)
            _names(ax, near)
            ax.set_title(printable(title, LONGEST * 2), loc="left")
            ax.set_xlabel("draft tokens thrown away a token emitted" + _outside(rest))
        axes[0].set_ylabel("ms a token, with 95 % intervals")
        handles = {name: handle for ax in axes for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=3)
        return save(figure, path)


def _points(ax: "Axes", scores: Sequence[RealisedScore]) -> None:
    kinds = (
        ("undominated", [s for s in scores if s.undominated], BLUE, "o"),
        ("dominated", [s for s in scores if s.undominated is False], GREY, "s"),
        ("a bound, or only its author knows", [s for s in scores if s.undominated is None], ORANGE, "^"),
    )
    for name, some, color, mark in kinds:
        if some:
            x, y = [s.wasted_per_token for s in some], [s.ms_per_token for s in some]
            across = _bars(x, [s.wasted_interval for s in some])
            ax.errorbar(x, y, yerr=_bars(y, [s.interval for s in some]), xerr=across, color=color, fmt=mark,
                        linestyle="none", elinewidth=0.6, label=name)  # fmt: skip
    best = sorted((s.wasted_per_token, s.ms_per_token) for s in scores if s.undominated)
    ax.plot([x for x, _ in best], [y for _, y in best], color=BLUE, linewidth=0.8)


def _bars(values: Sequence[float], intervals: Sequence[Interval | None]) -> list[list[float]]:
    """How far intervals reach below and above their values; nothing where there is none."""
    pairs = list(zip(values, intervals, strict=True))
    below = [0.0 if i is None else max(v - i.low, 0.0) for v, i in pairs]
    return [below, [0.0 if i is None else max(i.high - v, 0.0) for v, i in pairs]]


def _names(ax: "Axes", scores: Sequence[RealisedScore]) -> None:
    """Name the points in a column right of them all, in order of time, each joined to its point by a thin line."""
    order = sorted(scores, key=lambda s: s.ms_per_token)
    low, high = order[0].ms_per_token, order[-1].ms_per_token
    ends = [s.wasted_per_token if s.wasted_interval is None else s.wasted_interval.high for s in scores]
    wide = max(ends) or 1.0
    step = max((high - low) / max(len(order) - 1, 1), 1e-9)
    for i, s in enumerate(order):
        at = (1.12 * wide, low + i * step)
        ax.plot([s.wasted_per_token, at[0]], [s.ms_per_token, at[1]], color=GREY, linewidth=0.4, zorder=0)
        ax.text(at[0] * 1.01, at[1], label(s.policy), fontsize=7, va="center")
    ax.set_xlim(right=1.6 * wide)


def _outside(rest: Sequence[RealisedScore]) -> str:
    """Name the policies that lie outside, a few to a line."""
    if not rest:
        return ""
    lines = [f"\noutside, more than {NEAR:g} times as slow as the fastest that an engine can run:\n"]
    for s in sorted(rest, key=lambda s: s.ms_per_token):
        named = f"{label(s.policy)} ({s.ms_per_token:.1f} ms),  "
        if len(lines[-1]) + len(named) > _SAID and len(lines) > 1:
            lines[-1] += "\n"
            lines.append("")
        elif len(lines) == 1:
            lines.append("")
        lines[-1] += named
    return "".join(lines).rstrip(", ")
