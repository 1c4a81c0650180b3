"""Maps over concurrency and repetitiveness: which configuration is the cheapest, what the source's order loses."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oracle.figures.drawing import label, panels, save
from oracle.figures.levers import log_concurrency
from oracle.levers.answer import Answer
from oracle.levers.procedure import Configuration, configurations, decide_joint, decide_ordered, regret
from oracle.levers.regime import Regime

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CELLS = (220, 160)  # concurrency, repetitiveness
# one colour a precision, lighter for fewer levers
_FAMILIES = (
    ("#DEEBF7", "#9ECAE1", "#6BAED6", "#2171B5"),
    ("#FEE6CE", "#FDD0A2", "#FDAE6B", "#D94801"),
    ("#E5F5E0", "#C7E9C0", "#74C476", "#238B45"),
    ("#EFEDF5", "#DADAEB", "#9E9AC8", "#6A51A3"),
    ("#F0F0F0", "#D9D9D9", "#BDBDBD", "#636363"),
)


def _grid(found: Answer) -> tuple[NDArray[np.float64], NDArray[np.float64], Regime]:
    top = max(600.0, 2.0 * float(found.by_concurrency[-1].low), 1.5 * float(found.regime.concurrency))
    C = np.geomspace(1.0, top, _CELLS[0])
    r = np.linspace(0.0, 1.0, _CELLS[1])
    return C, r, found.regime.having(concurrency=C[None, :], repetitiveness=r[:, None])


def decision_map(found: Answer, path: Path) -> Path:
    """Draw the cheapest configuration by concurrency and repetitiveness, all else as it is."""
    from matplotlib.colors import ListedColormap  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    deployment = found.deployment
    C, r, grid = _grid(found)
    decided = decide_joint(deployment, grid)
    every = list(configurations(deployment))
    colors = [_color(deployment.admissible.index(each.precision), each) for each in every]
    cells = np.zeros(grid.shape)
    for i, each in enumerate(every):
        here = decided.precision == each.precision
        here &= (decided.speculation_on == each.speculation_on) & (decided.cache_on == each.cache_on)
        cells[here] = i
    with panels(1, width=7.6, height=3.8) as (figure, (ax,)):
        ax.pcolormesh(
            C,
            r,
            cells,
            cmap=ListedColormap(colors),
            vmin=-0.5,
            vmax=len(every) - 0.5,
            shading="nearest",
            rasterized=True,
        )
        seen = [i for i in range(len(every)) if (cells == i).any()]
        handles = [Patch(facecolor=colors[i], edgecolor="#666666", label=_name(found, every[i])) for i in seen]
        figure.legend(handles=handles, loc="outside right center")
        _here(found, ax)
        ax.set_title(f"prefix share {float(found.regime.prefix_share):g}; the diamond is the traffic now")
        return save(figure, path)


def regret_map(found: Answer, path: Path) -> Path:
    """Draw what the source's literal order costs above the joint minimum, by concurrency and repetitiveness."""
    C, r, grid = _grid(found)
    lost = 100 * regret(decide_ordered(found.deployment, grid), decide_joint(found.deployment, grid))
    with panels(1, width=6.2, height=3.8) as (figure, (ax,)):
        mesh = ax.pcolormesh(
            C, r, lost, cmap="cividis_r", vmin=0.0, vmax=max(float(lost.max()), 1.0), shading="nearest", rasterized=True
        )
        figure.colorbar(mesh, ax=ax, label="% dearer than the joint minimum")
        _here(found, ax)
        share = 100 * float((lost > 1e-9).mean())
        ax.set_title(f"the source's order, read literally: dearer in {share:.0f} % of this picture")
        return save(figure, path)


def _here(found: Answer, ax: "Axes") -> None:
    """Mark the traffic now, and label the axes."""
    ax.plot(
        [float(found.regime.concurrency)],
        [float(found.regime.repetitiveness)],
        marker="D",
        color="black",
        clip_on=False,
    )
    log_concurrency(ax)
    ax.grid(visible=False)
    ax.set_xlabel("concurrency C, requests in flight")
    ax.set_ylabel("repetitiveness r")


def _color(place: int, each: Configuration) -> str:
    return _FAMILIES[place % len(_FAMILIES)][2 * each.speculation_on + each.cache_on]


def _name(found: Answer, each: Configuration) -> str:
    levers = [name for name, on in (("speculation", each.speculation_on), ("prefix cache", each.cache_on)) if on]
    return f"{label(found.deployment.precisions[each.precision].name)}: {' + '.join(levers) or 'both off'}"
