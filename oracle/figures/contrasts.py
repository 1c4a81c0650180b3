"""The figures of contrasts: draft lengths and new experts by language context, as values with intervals, row by row."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from oracle.contrasts import Comparison, Contrasts, Difference, Group
from oracle.contrasts.comparisons import REST
from oracle.contrasts.estimates import Estimate
from oracle.contrasts.lengths import AT_LEAST_4, MEAN
from oracle.contrasts.steps import MISMATCHES
from oracle.figures.drawing import BLUE, GREY, ORANGE, PURPLE, label, panels, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 0.23  # inches of one row
_APART = 0.34  # rows, between the marks of one row


def length_measure(found: Contrasts) -> str:
    """The measure of k* that is drawn: the share of long drafts, else the mean."""
    return AT_LEAST_4 if any(mean.measure == AT_LEAST_4 for mean in found.means) else MEAN


def expert_measure(found: Contrasts) -> str:
    """The expert column that is drawn: routing, else recorded."""
    return "routing" if any(one.measure == "routing" for one in found.experts) else "recorded"


def of_rest(comparisons: Sequence[Comparison], measure: str) -> dict[Group, Comparison]:
    """Comparisons of one measure with the rest, by group."""
    return {one.group: one for one in comparisons if one.measure == measure and one.against == REST}


def at_mismatches(found: Contrasts) -> list[tuple[str, dict[Group, Difference]]]:
    """Pooled differences at mismatches by what is drawn as one series; series without any are left out."""
    series = [("recorded, drafts", found.drafted, "recorded"), ("routing, drafts", found.drafted, "routing")]
    series += [("routing, match probability", found.expected, "routing")]
    there = [(name, {one.group: one.pooled for one in rows if one.measure == m}) for name, rows, m in series]
    return [(name, by) for name, by in there if by]


def lengths_figure(found: Contrasts, path: Path) -> Path:
    """Share of long drafts (else mean k*) of every group, and how far it lies from the rest; each with intervals."""
    measure = length_measure(found)
    means = [mean for mean in found.means if mean.measure == measure]
    visits = {mean.group: mean for mean in found.visit_means if mean.measure == measure}
    groups = [mean.group for mean in means]
    names = [_name(mean.group, f"{mean.weight:,.0f}; {mean.clusters}") for mean in means]
    scale = 1.0 if measure == MEAN else 100.0
    with panels(2, width=4.9, height=1.2 + _ROW * len(groups), sharey=True) as (figure, (left, right)):
        rows = [[mean.mean, visits[mean.group].mean if mean.group in visits else None] for mean in means]
        _forest(left, rows, ("each position once", "by rounds"), scale)
        _rest(right, groups, found.differences, measure, scale)
        what = "mean k*" if measure == MEAN else "k* ≥ 4, % of decisions"
        left.set_xlabel(what)
        right.set_xlabel(f"{what}: difference from the rest")
        _kinds((left, right), groups)
        _finish(figure, left, right, names, "decisions")
        return save(figure, path)


def experts_figure(found: Contrasts, path: Path) -> Path:
    """New experts of every group against the rest, and where a draft first differs; steps aligned, with intervals."""
    measure = expert_measure(found)
    ours = [one for one in found.experts if one.measure == measure]
    groups = [one.group for one in ours]
    names = [_name(one.group, f"{one.pooled.clusters}") for one in ours]
    height = 1.2 + _ROW * max(len(groups), 2 * len(MISMATCHES), 1)
    with panels(2, width=4.9, height=height) as (figure, (left, right)):
        _rest(left, groups, found.experts, measure, 1.0)
        left.set_xlabel(f"new experts per layer ({measure}),\ndifference from the rest at the same step")
        _mismatches(right, found)
        right.set_xlabel("new experts per layer,\ndifference from drafts that still match at the same step")
        _kinds((left,), groups)
        _finish(figure, left, right, names, "")
        return save(figure, path)


def _name(group: Group, count: str) -> str:
    kind = "" if group.kind in ("all", "change") else f"{group.kind} "
    return f"{kind}{label(group.name)} ({count})"


def _finish(figure: "Figure", left: "Axes", right: "Axes", names: Sequence[str], counted: str) -> None:
    """Name the rows, first at the top; both legends above the panels."""
    left.set_yticks(range(len(names)), list(names))
    left.set_ylim(len(names) - 0.5, -0.5)
    left.set_title(f"in brackets: {counted + '; ' if counted else ''}clusters", fontsize=7, color=GREY, loc="right")
    for ax in (left, right):
        ax.tick_params(axis="y", length=0)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=3)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=3 if len(handles) <= 3 else 2)


def _kinds(axes: Sequence["Axes"], groups: Sequence[Group]) -> None:
    """Part the kinds of groups."""
    for y, (one, other) in enumerate(pairwise(groups)):
        if one.kind != other.kind:
            for ax in axes:
                ax.axhline(y + 0.5, color=GREY, linewidth=0.5, linestyle=":")


def _rest(ax: "Axes", groups: Sequence[Group], comparisons: Sequence[Comparison], measure: str, scale: float) -> None:
    """Pooled differences from the rest and those within generations; hollow where one cannot be claimed."""
    at = of_rest(comparisons, measure)
    rows: list[list[Difference | None]] = []
    for group in groups:
        one = at.get(group)
        rows.append([None, None] if one is None else [one.pooled, one.within if one.within.weight else None])
    ax.axvline(0, color=GREY, linewidth=0.8)
    hollow = [[each is not None and each.word != "" for each in row] for row in rows]
    points = [[None if each is None else each.difference for each in row] for row in rows]
    _forest(ax, points, ("pooled", "within generations"), scale, hollow)


def _mismatches(ax: "Axes", found: Contrasts) -> None:
    """One row a contrast, one mark a column of experts and kind of mismatch."""
    there = at_mismatches(found)
    rows = [[by.get(group) for _, by in there] for group in MISMATCHES]
    ax.axvline(0, color=GREY, linewidth=0.8)
    hollow = [[each is not None and each.word != "" for each in row] for row in rows]
    points = [[None if each is None else each.difference for each in row] for row in rows]
    _forest(ax, points, [name for name, _ in there], 1.0, hollow, apart=0.2)
    ax.set_yticks(range(len(MISMATCHES)), [group.name.replace(" − ", "\n− ") for group in MISMATCHES])
    ax.set_ylim(len(MISMATCHES) - 0.5, -0.5)


def _forest(
    ax: "Axes",
    rows: Sequence[Sequence[Estimate | None]],
    names: Sequence[str],
    scale: float,
    hollow: Sequence[Sequence[bool]] | None = None,
    apart: float = _APART,
) -> None:
    """Draw values with intervals, one row each, the series beside one another; marks tell them apart without colour."""
    looks = ((BLUE, "o"), (ORANGE, "s"), (PURPLE, "^"))
    for s, (name, (color, mark)) in enumerate(zip(names, looks, strict=False)):
        place = (s - (len(names) - 1) / 2) * apart
        for y, row in enumerate(rows):
            _draw(ax, y + place, row[s], scale, color, mark, hollow is not None and hollow[y][s])
        ax.plot([], [], color=color, marker=mark, linestyle="none", label=name)
    if hollow is not None and any(any(row) for row in hollow):
        ax.plot(
            [],
            [],
            color=GREY,
            marker="o",
            markerfacecolor="white",
            linestyle="none",
            label="not significant or few clusters",
        )
    ax.grid(axis="y", visible=False)


def _draw(ax: "Axes", y: float, estimate: Estimate | None, scale: float, color: str, mark: str, hollow: bool) -> None:
    if estimate is None or estimate.value is None:
        return
    value, interval = estimate.value * scale, estimate.interval
    if interval is not None:
        ax.plot([interval.low * scale, interval.high * scale], [y, y], color=color, linewidth=1.1)
    face = "white" if hollow else color
    ax.plot([value], [y], color=color, marker=mark, markerfacecolor=face, linestyle="none")
