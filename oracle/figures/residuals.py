"""Figures of residuals."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from oracle.figures.drawing import BLUE, GREY, label, panels, save, with_bars
from oracle.latency.diagnostics.residual_bins import BinnedResiduals
from oracle.latency.diagnostics.residuals import Residuals

NAMES = {
    "context_len": "context length, tokens",
    "kv_usage": "KV-cache use",
    "position": "position in the generation, tokens",
    "round_index": "recording order, round_index",
    "row order": "order of the rows",
}
MOST_IN_A_ROW = 3
# A bin of two clusters can have an interval that dwarfs all others: where the widest is so many times this quantile of
# the ends, panels end there.
SHOWN, DWARFING = 0.6, 2.5


def residuals_in_bins(residuals: Residuals, path: Path) -> Path:
    """Mean residuals in bins along each variable, one panel a variable, all on one scale.

    Held-out residuals where there are some, else those of the fit itself.
    """
    binned = list({each.variable: each for each in sorted(residuals.binned, key=lambda b: b.held_out)}.values())
    columns = max(1, len(binned)) if len(binned) <= MOST_IN_A_ROW else 2
    rows = max(1, -(-len(binned) // columns))
    width = 4.6 if columns == 1 else 8.4 / columns
    with panels(columns, rows, width=width, height=2.3, sharey=True, squeeze=False) as (figure, axes):
        most, cut = _limit(binned)
        for ax, each in zip(axes, binned, strict=False):
            places = [(one.low + one.high) / 2 for one in each.bins]
            bars = [(one.mean_ms, one.mean_low_ms, one.mean_high_ms) for one in each.bins]
            ax.axhline(0, color=GREY, linewidth=0.8)
            with_bars(ax, places, bars, color=BLUE)
            p = each.trend.p
            rise = f"{round(each.trend.rise_percent, 1) + 0.0:+.1f}".replace("-", "−")
            ax.set_title(f"rise {rise} %" + ("" if p is None else f", p = {p:.1g}"))
            ax.set_xlabel(NAMES.get(each.variable, label(each.variable)))
            ax.locator_params(axis="x", nbins=5)
            ax.set_ylim(-most, most)
        for ax in axes[len(binned) :]:
            ax.set_axis_off()
        for ax in axes[: len(binned) : columns]:
            ax.set_ylabel("mean residual, ms")
        kind = "held-out" if any(each.held_out for each in binned) else "in-sample"
        note = (
            f"{kind} residuals; rise: of a straight line from the 5 to the 95 % quantile, in percent of the mean time"
        )
        more = "\na bar that leaves its panel is an interval too wide to show"
        figure.supxlabel(note + (more if cut else ""), fontsize=8)
        return save(figure, path)


def _limit(binned: Sequence[BinnedResiduals]) -> tuple[float, bool]:
    """Half the height of a panel, ms: every mean is inside, and most ends; and whether some interval is cut."""
    bins = [one for each in binned for one in each.bins]
    means = [abs(one.mean_ms) for one in bins]
    ends = [max(abs(end) for end in (one.mean_low_ms, one.mean_high_ms) if end is not None)
            for one in bins if one.mean_low_ms is not None]  # fmt: skip
    typical, widest = (float(np.quantile(ends, SHOWN)), max(ends)) if ends else (0.0, 0.0)
    shown = widest if widest <= DWARFING * typical else typical
    most = max(1.3 * max(means, default=0.0), 1.1 * shown) or 1.0
    return most, widest > most
