"""Figures for narrow screens: panels below one another, legends and texts within the drawing."""

from typing import Any

import pytest

from oracle.figures.drawing import panels
from oracle.figures.narrow import WIDTH, fit, is_narrow, narrow


@pytest.mark.parametrize(
    ("columns", "rows", "wanted"), [(1, 2, (2, 1)), (3, 1, (3, 1)), (4, 3, (6, 2)), (5, 1, (3, 2))]
)
def test_panels_go_below_one_another(columns: int, rows: int, wanted: tuple[int, int]) -> None:
    with narrow(), panels(columns, rows, width=3.0) as (figure, axes):
        assert len(axes) == columns * rows == len(figure.axes)
        assert figure.get_figwidth() == pytest.approx(WIDTH)
        grid = axes[0].get_subplotspec().get_gridspec()
        assert (grid.nrows, grid.ncols) == wanted
    assert not is_narrow()


@pytest.mark.parametrize("more", [{"sharey": "row"}, {"gridspec_kw": {"height_ratios": (1, 2)}}])
def test_panels_whose_sizes_belong_to_their_places_stay(more: dict[str, Any]) -> None:
    with narrow(), panels(2, 2, **more) as (_, axes):
        assert axes[0].get_subplotspec().get_gridspec().ncols == 2


def test_legends_and_texts_are_made_to_fit() -> None:
    with narrow(), panels(1, width=6.6) as (figure, (ax,)):
        names = [f"a long name of a curve, number {i}" for i in range(4)]
        for i, name in enumerate(names):
            ax.errorbar([0, 1], [i, i], yerr=[0.1, 0.2], label=name)
        ax.set_title("a title that is far longer than a narrow figure has room for in one line of it", loc="left")
        ax.set_xlabel("an axis whose label is far longer than a narrow figure has room for in one line of it")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4, title="T")
        height = figure.get_figheight()
        fit(figure)
        figure.draw_without_rendering()
        (legend,) = figure.legends
        texts = [*legend.get_texts(), ax.xaxis.label, *(t for t in ax.get_children() if "title" in str(t))]
        for box in (legend.get_window_extent(), *(text.get_window_extent() for text in texts)):
            assert box.x0 >= -1
            assert box.x1 <= figure.bbox.width + 1
        assert [text.get_text() for text in legend.get_texts()] == names
        assert legend.get_title().get_text() == "T"
        assert figure.get_figheight() > height
        assert "\n" in ax.get_title(loc="left")
