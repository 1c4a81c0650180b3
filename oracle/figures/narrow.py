"""Figures for narrow screens: panels below one another, texts broken, legends as wide as there is room."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.text import Text

WIDTH = 3.75  # inches, as wide as a page of 420 pixels has room for
_MOST_BELOW = 4  # panels one below the other; of more, two stand side by side
_MOST_COLUMNS = 4  # of a legend
_A_ROW = 0.25  # inches: what one row takes, which figures have room for
_LINE, _LEAST = 46, 10  # characters of a line: of legends, and at least
_SPARE = 0.93  # of the room: a reader's font may be wider
_Place = Literal["outside upper center", "outside lower center"]
_NARROW: ContextVar[bool] = ContextVar("narrow", default=False)


@contextmanager
def narrow() -> Iterator[None]:
    """Draw for a narrow screen within this block."""
    token = _NARROW.set(True)
    try:
        yield
    finally:
        _NARROW.reset(token)


def is_narrow() -> bool:
    """Whether figures are drawn for a narrow screen."""
    return _NARROW.get()


def arranged(columns: int, rows: int, more: dict[str, Any]) -> tuple[int, int, dict[str, Any]]:
    """Give columns and rows of panels for a narrow screen; those whose sizes belong to their places keep them."""
    if columns == 1 or "gridspec_kw" in more or {more.get("sharex"), more.get("sharey")} & {"row", "col"}:
        return columns, rows, more
    count = columns * rows
    columns = 1 if count <= _MOST_BELOW else 2
    return columns, -(-count // columns), {name: v for name, v in more.items() if not name.endswith("_ratios")}


def fit(figure: "Figure") -> None:
    """Break long texts and make legends fit above and below the panels; the figure grows by what they take more."""
    places: tuple[_Place, _Place] = ("outside upper center", "outside lower center")
    legends = [legend for legend in figure.legends if legend.get_texts()]
    made = [_fitting(figure, legend, place) for legend, place in zip(legends, places, strict=False)]
    more = sum(legend.get_window_extent().height / figure.dpi - _A_ROW for legend in made)
    figure.set_size_inches(figure.get_figwidth(), figure.get_figheight() + max(0.0, more))
    _break_what_is_cut(figure)


def _break_what_is_cut(figure: "Figure") -> None:
    """Break every text that goes beyond its panel's part of the figure, at spaces."""
    from matplotlib.text import Text  # noqa: PLC0415  # slow to import

    figure.draw_without_rendering()
    for text in figure.findobj(Text):
        said, box, (left, right) = text.get_text(), text.get_window_extent(), _part_of(figure, text)
        if " " not in said or text.get_rotation() or (box.x0 >= left and box.x1 <= right):
            continue
        middle = (box.x0 + box.x1) / 2
        room = {"left": right - box.x0, "right": box.x1 - left}.get(
            text.get_horizontalalignment(), 2 * min(middle - left, right - middle)
        )
        most = max(_LEAST, int(_SPARE * max(map(len, said.splitlines())) * room / box.width))
        text.set_text("\n".join(textwrap.fill(line, most) for line in said.splitlines()))


def _part_of(figure: "Figure", text: "Text") -> tuple[float, float]:
    """Give the left and right end of what a text may take: its panel's column, else the figure."""
    spec = None if text.axes is None else text.axes.get_subplotspec()
    if spec is None:
        return 0.0, figure.bbox.width
    column = figure.bbox.width / spec.get_gridspec().ncols
    return column * spec.colspan.start, column * spec.colspan.stop


def _fitting(figure: "Figure", legend: "Legend", place: _Place) -> "Legend":
    """Put a legend in the place of one, with as many columns as fit and long texts broken."""
    named = (pair for ax in figure.axes for pair in zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    known: dict[str, Any] = dict(named)
    labels = [text.get_text() for text in legend.get_texts()]
    handles: list[Any] = [known.get(label, handle) for label, handle in zip(labels, legend.legend_handles, strict=True)]
    title, size = legend.get_title().get_text() or None, legend.get_texts()[0].get_fontsize()
    broken = [textwrap.fill(label, _LINE) for label in labels]
    for columns in range(min(_MOST_COLUMNS, len(labels)), 0, -1):
        legend.remove()
        legend = figure.legend(handles, broken, loc=place, ncols=columns, title=title, fontsize=size)
        if legend.get_window_extent().width <= figure.bbox.width:
            break
    return legend
