"""Figures of the evidence for and against a fit: regimes, robustness, two columns compared."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.figures.drawing import BLUE, GREY, ORANGE, RED, label, panels, save, with_bars
from oracle.latency.diagnostics.column_comparison import ColumnComparison
from oracle.latency.diagnostics.regime_tables import Regimes
from oracle.latency.diagnostics.regimes import SETTLED
from oracle.latency.diagnostics.robustness import Robustness
from oracle.latency.diagnostics.shifts import Shift
from oracle.latency.tables import CoefficientTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Named = tuple[str, Shift | None]


def regimes_by_m(searches: Sequence[Regimes], table: CoefficientTable, path: Path) -> Path:
    """Alpha by m with the levels of the regimes, and how often resamples find each boundary; one column a search.

    Parameters
    ----------
    searches
        Results of `find_regimes`, for example with ``levels="line"`` and ``levels="free"``.
    table
        Alpha at each m, for example `FitResult.joint`.
    """
    heights = {"height_ratios": (3, 2)}
    with panels(len(searches), 2, width=3.6, height=2.2, sharex=True, sharey="row", gridspec_kw=heights) as (
        figure,
        axes,
    ):
        for i, found in enumerate(searches):
            _alpha_with_levels(axes[i], found, table)
            _boundary_shares(axes[len(searches) + i], found)
        axes[0].set_ylabel("alpha, ms per expert")
        axes[0].set_ylim(bottom=min(0.0, axes[0].get_ylim()[0]))
        axes[len(searches)].set_ylabel("% of resamples")
        axes[len(searches)].set_xticks([row.m for row in table.rows])
        figure.supxlabel("verified positions, m (a bar stands between two m; dashed: settled)", fontsize=9)
        shown = {name: handle for ax in axes for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)}
        figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=3)
        return save(figure, path)


def _alpha_with_levels(ax: "Axes", found: Regimes, table: CoefficientTable) -> None:
    """Alpha at each m, hollow where borrowed, and a level with its interval for each regime."""
    for i, regime in enumerate(found.regimes):
        ends = [regime.ms[0] - 0.35, regime.ms[-1] + 0.35]
        alpha = regime.alpha_ms_per_expert
        ax.plot(ends, [alpha.value] * 2, color=ORANGE, linewidth=2.2, label="alpha of a regime" if i == 0 else None)
        if alpha.low is not None and alpha.high is not None:
            ax.fill_between(ends, alpha.low, alpha.high, color=ORANGE, alpha=0.25, linewidth=0)
    each = [(row.m, row.alpha_ms_per_expert, row.alpha_source == "own") for row in table.rows]
    bars = [(e.value, e.low, e.high) for _, e, _ in each]
    with_bars(ax, [m for m, _, _ in each], bars, color=BLUE, label="alpha at m")
    borrowed = [(m, e.value) for m, e, own in each if not own]
    if borrowed:
        hollow: dict[str, Any] = {"color": "white", "markeredgecolor": BLUE, "linestyle": "none"}
        ax.plot(*zip(*borrowed, strict=True), marker="o", zorder=5, label="borrowed alpha", **hollow)
    form = "beta0 linear in m" if found.levels == "line" else "beta0 free at every m"
    count = len(found.regimes)
    many = "no regimes found" if not count else "one regime" if count == 1 else f"{count} regimes"
    ax.set_title(f"{form}: {many}")
    ax.margins(y=0.08)


def _boundary_shares(ax: "Axes", found: Regimes) -> None:
    """One bar a place between two m; a chosen boundary is filled and says whether alpha jumps there."""
    for boundary in found.boundaries:
        share = 100 * (boundary.share_of_resamples or 0.0)
        at = (boundary.before + boundary.after) / 2
        style: dict[str, Any] = (
            {"color": ORANGE} if boundary.chosen else {"facecolor": "white", "edgecolor": GREY, "hatch": "////"}
        )
        if share > 0:
            name = "boundary chosen" if boundary.chosen else "boundary not chosen"
            ax.bar(at, share, width=0.5, linewidth=0.8, label=name, **style)
        if boundary.chosen:
            what = "alpha\njumps" if boundary.jump else "no jump\nof alpha"
            ax.text(at, max(share, 100 * SETTLED) + 4, what, ha="center", va="bottom", fontsize=7)
    ax.axhline(100 * SETTLED, color=GREY, linewidth=0.8, linestyle="--")
    ax.set_ylim(0, 145)
    ax.set_yticks([0, 50, 100])
    if found.number is None:
        ax.set_title("no search: too few folds")
    elif found.number == 1:
        ax.set_title("no boundary")
    else:
        ax.set_title(f"boundaries of the best {found.number} regimes")


def robustness_checks(examined: Robustness, joint: Robustness, path: Path) -> Path:
    """Alpha and c at one m, and c of the joint fit, under every check beside the interval of the full fit."""
    m = examined.ms[0] if examined.m is None else examined.m
    k = m - 1
    shown = [(f"alpha at k = {k}, ms per expert", list(_of_checks(examined, alpha=True)), 1.0)]
    if examined.full.context is not None:
        shown.append((f"c at k = {k}, µs per token", list(_of_checks(examined, alpha=False)), 1e3))
    if joint.full.context is not None:
        shown.append(("c of all k, µs per token", list(_of_checks(joint, alpha=False)), 1e3))
    names = [name for name, _ in shown[0][1]]
    with panels(len(shown), width=2.9, height=0.8 + 0.22 * len(names), sharey=True) as (figure, axes):
        for ax, (title, rows, scale) in zip(axes, shown, strict=True):
            _forest(ax, rows, title, scale)
        axes[0].set_yticks(range(len(names)), names)
        axes[0].set_ylim(len(names) - 0.5, -0.5)
        figure.supxlabel("band: 95 % CR3 interval of the full fit; bar: bootstrap percentiles", fontsize=8)
        return save(figure, path)


def _of_checks(result: Robustness, *, alpha: bool) -> Iterator[Named]:
    """Every check's value of one coefficient; of the leave-outs of clusters the lowest and the highest."""
    for check in (result.full, *result.checks):
        name = f"without {label(check.of)}" if check.name == "without category" else check.name
        yield name, check.alpha[0] if alpha else check.context
    without = [check.alpha[0] if alpha else check.context for check in result.without_cluster]
    known = [shift for shift in without if shift is not None and shift.value is not None]
    if known:
        yield "without a cluster, lowest", min(known, key=lambda shift: shift.value or 0.0)
        yield "without a cluster, highest", max(known, key=lambda shift: shift.value or 0.0)


def _forest(ax: "Axes", rows: Sequence[Named], title: str, scale: float) -> None:
    full = rows[0][1]
    if full is not None and full.value is not None:
        if full.low is not None and full.high is not None:
            ax.axvspan(scale * full.low, scale * full.high, color=BLUE, alpha=0.12, linewidth=0)
        ax.axvline(scale * full.value, color=BLUE, linewidth=0.8)
    for i, (name, shift) in enumerate(rows):
        if shift is None or shift.value is None:
            continue
        whole = i == 0
        color, mark = (BLUE, "D") if whole else (ORANGE, "s") if name == "bootstrap" else (RED, "o")
        if shift.low is not None and shift.high is not None:
            ax.plot([scale * shift.low, scale * shift.high], [i, i], color=color)
        ax.plot(scale * shift.value, i, mark, color=color)
    ax.set_title(title)
    ax.locator_params(axis="x", nbins=4)


def columns_by_m(compared: ColumnComparison, path: Path) -> Path:
    """Alpha at each m on each of two columns that claim to measure the same thing."""
    with panels(1, width=4.6, height=2.8) as (figure, [ax]):
        ms = np.array([row.m for row in compared.by_m], dtype=np.float64)
        for name, values, color, mark in (
            (compared.a, [row.alpha_a for row in compared.by_m], BLUE, "o"),
            (compared.b, [row.alpha_b for row in compared.by_m], ORANGE, "s"),
        ):
            ax.plot(ms, values, mark + "-", color=color, label=f"fitted on {label(name)}")
        ax.axhline(0, color=GREY, linewidth=0.8)
        ax.set_xlabel("verified positions, m")
        ax.set_title("alpha, ms per unit of the column")
        figure.legend(loc="outside lower center", ncols=1)
        return save(figure, path)
