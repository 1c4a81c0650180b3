"""The axis of batch sizes: powers of two, batch size 1 with no more room on its left than on its right."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEFT = 0.8  # where the axis begins; nothing is drawn further left


def batch_axis(ax: "Axes", most: int) -> None:
    """Make x the batch size, 1 … `most`, on a logarithmic scale."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: PLC0415  # slow to import

    ax.set_xscale("log", base=2)
    ax.set_xlim(LEFT, most + 0.5)
    ax.xaxis.set_major_locator(FixedLocator([2**i for i in range(most.bit_length())]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
