"""How every figure is made: one look, reproducible bytes, SVG."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import printable
from oracle.figures.narrow import WIDTH, arranged, fit, is_narrow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours: told apart with any colour vision; marks differ too, so that none relies on colour alone.
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#666666"
MARKS = ("o", "s", "^", "D", "v", "P")

LONGEST = 28  # characters of a name from a file
_PNG_DPI = 200

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: searchable, and in the reader's own font
    "text.parse_math": False,  # a name from a file may hold a dollar sign
    "svg.hashsalt": "draft-oracle",  # the same figure gives the same bytes
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.titlesize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "figure.facecolor": "white",  # a page in dark mode shows a sheet of paper, not grey text on black
}


def label(name: str) -> str:
    """Make a name from a file fit for a figure: short, without control characters."""
    return printable(name, LONGEST)


@contextmanager
def panels(
    columns: int, rows: int = 1, *, width: float = 3.2, height: float = 2.6, **more: Any
) -> "Iterator[tuple[Figure, list[Axes]]]":
    """Give a figure with `rows` x `columns` panels, in reading order; sizes of a panel in inches."""
    import matplotlib as mpl  # noqa: PLC0415  # slow to import
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415

    count = columns * rows
    if is_narrow():
        columns, rows, more = arranged(columns, rows, more)
        width = WIDTH / columns
    with mpl.rc_context(_STYLE):
        figure = Canvas(figsize=(width * columns, height * rows), layout="constrained")
        axes = np.atleast_1d(np.asarray(figure.subplots(rows, columns, **more))).reshape(-1).tolist()
        for unused in axes[count:]:
            unused.remove()
        yield figure, axes[:count]


def save(figure: "Figure", path: Path) -> Path:
    """Write a figure as SVG, or as PNG where the name ends so; without a date: the same data give the same file."""
    import matplotlib as mpl  # noqa: PLC0415

    with mpl.rc_context(_STYLE):
        if is_narrow():
            fit(figure)
        if path.suffix == ".png":
            figure.savefig(path, format="png", dpi=_PNG_DPI, metadata={"Software": "draft-oracle"})
        else:
            figure.savefig(path, format="svg", metadata={"Date": None, "Creator": "draft-oracle"})
    return path


def with_bars(
    axes: "Axes",
    x: Sequence[float] | NDArray[np.float64],
    rows: Sequence[tuple[float | None, float | None, float | None]],
    *,
    color: str,
    mark: str = "o",
    label: str | None = None,
    line: bool = False,
) -> None:
    """Draw values with intervals; `rows` holds (value, low, high), None where there is none."""
    values = np.array([np.nan if v is None else v for v, _, _ in rows])
    below = np.array([0.0 if low is None or v is None else v - low for v, low, _ in rows])
    above = np.array([0.0 if high is None or v is None else high - v for v, _, high in rows])
    style = "-" if line else "none"
    axes.errorbar(x, values, yerr=[below, above], color=color, fmt=mark, linestyle=style, capsize=2, label=label)
