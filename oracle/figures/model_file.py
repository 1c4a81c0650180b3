"""The figure of a latency model by its file alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oracle.figures.drawing import BLUE, panels, save, with_bars

_PANELS = (
    ("beta0_ms", "beta0, ms", 1.0),
    ("alpha_ms_per_expert", "alpha, ms per expert", 1.0),
    ("context_ms_per_token", "c, µs per token", 1e3),
)


def coefficients_of_model(rows: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """beta0, alpha and c by m with the intervals that the file keeps; a hollow mark where alpha is borrowed.

    Parameters
    ----------
    rows
        Of `summaries.model_file.model_table`.
    """
    with panels(3, width=2.9, height=2.4) as (figure, axes):
        for ax, (key, title, scale) in zip(axes, _PANELS, strict=True):
            bars = [
                tuple(None if row[name] is None else scale * row[name] for name in (key, f"{key}_low", f"{key}_high"))
                for row in rows
            ]
            ms = [float(row["m"]) for row in rows]
            with_bars(ax, ms, bars, color=BLUE)  # type: ignore[arg-type]  # three cells each
            borrowed = [row for row in rows if str(row["alpha_source"] or "").startswith("borrowed")]
            if key == "alpha_ms_per_expert" and borrowed:
                points = ([row["m"] for row in borrowed], [scale * row[key] for row in borrowed])
                ax.plot(*points, "o", color="white", markeredgecolor=BLUE, zorder=5)
            ax.set_xlabel("verified positions, m")
            ax.set_title(title)
            ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
        return save(figure, path)
