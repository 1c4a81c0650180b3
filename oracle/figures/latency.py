"""Figures of a latency fit."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oracle.figures.drawing import BLUE, GREY, ORANGE, panels, save, with_bars
from oracle.latency.evidence import Evidence
from oracle.latency.tables import CoefficientRow, CoefficientTable, FitResult

MOST_POINTS = 150  # a panel; more would only blacken it


def sampled_rounds(evidence: Evidence, table: CoefficientTable) -> list[NDArray[np.int64]]:
    """The rounds drawn at each m of a table: a random sample, the same each time."""
    rng = np.random.default_rng(0)
    return [
        rng.choice(here, size=min(MOST_POINTS, len(here)), replace=False)
        for here in (np.flatnonzero(evidence.m == row.m) for row in table.rows)
    ]


def line_of(evidence: Evidence, row: CoefficientRow) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both ends of the fitted line of one m at its mean context: unique experts and milliseconds."""
    here = evidence.columns["unique_experts"][evidence.m == row.m]
    ends = np.array([here.min(), here.max()], dtype=np.float64)
    at_mean = row.beta0_ms.value + row.context_ms_per_token.value * row.mean_context_len
    return ends, at_mean + row.alpha_ms_per_expert.value * ends


def time_by_experts(evidence: Evidence, table: CoefficientTable, path: Path) -> Path:
    """Verification time against unique experts, one panel an m, with the fitted line at the mean context."""
    rows = table.rows
    columns = min(4, len(rows))
    with panels(columns, -(-len(rows) // columns), width=2.4, height=2.0) as (figure, axes):
        for ax, row, shown in zip(axes, rows, sampled_rounds(evidence, table), strict=False):
            here = np.flatnonzero(evidence.m == row.m)
            U, T = evidence.columns["unique_experts"], evidence.columns["target_ms"]
            ax.plot(U[shown], T[shown], ".", color=BLUE, alpha=0.35, markersize=3)
            ax.plot(*line_of(evidence, row), color=ORANGE)
            borrowed = "" if row.alpha_source == "own" else " (borrowed)"
            ax.set_title(f"m = {row.m}: {row.alpha_ms_per_expert.value:.3f} ms/expert{borrowed}")
            low, high = np.quantile(T[here], [0.002, 0.998])
            ax.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))
        for ax in axes[len(rows) :]:
            ax.set_axis_off()
        figure.supxlabel("unique experts per layer, U")
        figure.supylabel("verification time, ms")
        return save(figure, path)


def coefficients_by_m(result: FitResult, path: Path) -> Path:
    """beta0, alpha and c by m with 95 % CR3 intervals; a hollow mark where alpha is borrowed."""
    separate = result.separate or result.joint
    with panels(3, width=2.9, height=2.4) as (figure, axes):
        for ax, name, label in zip(
            axes,
            ("beta0_ms", "alpha_ms_per_expert", "context_ms_per_token"),
            ("beta0, ms", "alpha, ms per expert", "c, ms per token"),
            strict=True,
        ):
            for table, color, mark, shift in ((result.joint, BLUE, "o", -0.12), (separate, ORANGE, "s", 0.12)):
                ms = [row.m + shift for row in table.rows]
                estimates = [getattr(row, name) for row in table.rows]
                with_bars(
                    ax, ms, [(e.value, e.low, e.high) for e in estimates], color=color, mark=mark, label=table.kind
                )
                if name == "alpha_ms_per_expert":
                    borrowed = [
                        (x, e.value)
                        for x, e, row in zip(ms, estimates, table.rows, strict=True)
                        if row.alpha_source != "own"
                    ]
                    if borrowed:
                        ax.plot(*zip(*borrowed, strict=True), mark, color="white", markeredgecolor=color, zorder=5)
            ax.set_xlabel("verified positions, m")
            ax.set_title(label)
            ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
        axes[0].legend()
        return save(figure, path)


def draft_by_length(result: FitResult, path: Path) -> Path:
    """Draft time by draft length: means with 95 % CR3 intervals, and the straight line.

    What one more step takes begins at the second draft length: the first time holds what every draft costs.
    """
    rows = result.draft.rows
    with panels(min(2, len(rows)), width=3.2, height=2.4) as (figure, axes):
        k = [row.k for row in rows]
        means = [(row.mean_ms.value, row.mean_ms.low, row.mean_ms.high) for row in rows]
        with_bars(axes[0], k, means, color=BLUE, label="mean")
        if result.draft.line is not None:
            line = [np.nan if row.line_ms is None else row.line_ms for row in rows]
            axes[0].plot(k, line, color=ORANGE, label="line")
        axes[0].set_title("draft time, ms")
        axes[0].set_ylim(bottom=0)
        axes[0].legend()
        for ax in axes[1:]:
            steps = np.diff([row.mean_ms.value for row in rows]) / np.diff(k)
            ax.plot(k[1:], steps, "o-", color=BLUE)
            ax.axhline(0, color=GREY, linewidth=0.8)
            ax.set_title("time of one more draft step, ms")
            ax.set_xlim(axes[0].get_xlim())
            ax.set_ylim(bottom=min(0.0, float(steps.min())))
        for ax in axes:
            ax.set_xlabel("draft length, k")
        return save(figure, path)
