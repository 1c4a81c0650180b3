"""Maps over concurrency and repetitiveness: which configuration is the cheapest, what the source's order loses."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oracle.figures.drawing import label, panels, save
from oracle.figures.levers import head, log_concurrency, mark_experts, mark_observed
from oracle.figures.levers_curves import observed, whole_numbers
from oracle.levers.advised import NOISE, advise
from oracle.levers.answer import Answer
from oracle.levers.procedure import Configuration, configurations, decide_joint, decide_ordered, regret
from oracle.levers.regime import Regime

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CELLS = (120, 101)  # concurrency, repetitiveness
_CAPPED = "..."
NOTHING = 1e-9  # a regret of rounding only
# one colour a precision, lighter for fewer levers
_FAMILIES = (
    ("#DEEBF7", "#9ECAE1", "#6BAED6", "#2171B5"),
    ("#FEE6CE", "#FDD0A2", "#FDAE6B", "#D94801"),
    ("#E5F5E0", "#C7E9C0", "#74C476", "#238B45"),
    ("#EFEDF5", "#DADAEB", "#9E9AC8", "#6A51A3"),
    ("#F0F0F0", "#D9D9D9", "#BDBDBD", "#636363"),
)


@dataclass(frozen=True)
class Cells:
    """One value for every cell of a map.

    Attributes
    ----------
    concurrency : (n,) float64
        Whole numbers.
    repetitiveness : (m,) float64
    values : (m, n) int64 or float64
        Which of `configurations` is advised; or the regret, a share of the joint minimum.
    capped : (m, n) bool
        Where admission is capped; None in a map of regret, which caps nothing.
    """

    concurrency: NDArray[np.float64]
    repetitiveness: NDArray[np.float64]
    values: NDArray[Any]
    capped: NDArray[np.bool_] | None = None


def _grid(found: Answer) -> tuple[NDArray[np.float64], NDArray[np.float64], Regime]:
    here = float(found.regime.concurrency)
    C = whole_numbers(max(600.0, 2.0 * float(found.by_concurrency[-1].low), 1.5 * here), _CELLS[0])
    r = np.linspace(0.0, 1.0, _CELLS[1])
    return C, r, found.regime.having(concurrency=C[None, :], repetitiveness=r[:, None])


def decision_cells(found: Answer) -> Cells:
    """Advise all three levers and a cap for every concurrency and repetitiveness, all else as it is."""
    C, r, grid = _grid(found)
    advised = advise(found.deployment, grid)
    decided = advised.decided
    values = np.zeros(grid.shape, np.int64)
    for i, each in enumerate(configurations(found.deployment)):
        here = decided.precision == each.precision
        values[here & (decided.speculation_on == each.speculation_on) & (decided.cache_on == each.cache_on)] = i
    return Cells(C, r, values, advised.capped)


def regret_cells(found: Answer) -> Cells:
    """Give what the source's literal order costs above the joint minimum, as a share of it."""
    C, r, grid = _grid(found)
    return Cells(C, r, regret(decide_ordered(found.deployment, grid), decide_joint(found.deployment, grid)))


def decision_map(found: Answer, path: Path) -> Path:
    """Draw what is advised by concurrency and repetitiveness, all else as it is; hatched: with admission capped."""
    from matplotlib.colors import ListedColormap  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    every = list(configurations(found.deployment))
    colors = [_color(found.deployment.admissible.index(each.precision), each) for each in every]
    cells = decision_cells(found)
    with panels(1, width=7.6, height=3.8) as (figure, (ax,)):
        ax.pcolormesh(
            cells.concurrency,
            cells.repetitiveness,
            cells.values,
            cmap=ListedColormap(colors),
            vmin=-0.5,
            vmax=len(every) - 0.5,
            shading="nearest",
            rasterized=True,
        )
        seen = np.unique(cells.values).tolist()
        handles = [Patch(facecolor=colors[i], edgecolor="#666666", label=name_of(found, every[i])) for i in seen]
        if cells.capped is not None and cells.capped.any():
            _hatch(ax, cells, cells.capped)
            said = f"a cap saves {100 * NOISE:g} % or more"
            handles.append(Patch(facecolor="white", edgecolor="#666666", hatch=_CAPPED, label=said))
        figure.legend(handles=handles, loc="outside right center")
        _here(found, ax, cells)
        head(ax, f"What to set; prefix share {float(found.regime.prefix_share):.4g}; the diamond is the traffic now")
        return save(figure, path)


def regret_map(found: Answer, path: Path) -> Path:
    """Draw what the source's literal order costs above the joint minimum, by concurrency and repetitiveness."""
    cells = regret_cells(found)
    lost = 100 * cells.values
    with panels(1, width=6.2, height=3.8) as (figure, (ax,)):
        mesh = ax.pcolormesh(
            cells.concurrency,
            cells.repetitiveness,
            lost,
            cmap="Blues",  # nothing lost is white
            vmin=0.0,
            vmax=max(float(lost.max()), 1.0),
            shading="nearest",
            rasterized=True,
        )
        figure.colorbar(mesh, ax=ax, label="% dearer than the joint minimum")
        _here(found, ax, cells)
        head(ax, f"The source's order, read literally, without a cap: {dearer(cells)}")
        return save(figure, path)


def dearer(cells: Cells) -> str:
    """Say in how much of the map of regret something is lost, without rounding a little to nothing."""
    lost = int((cells.values > NOTHING).sum())
    if not lost:
        return "nowhere dearer in this picture"
    share = 100 * lost / cells.values.size
    said = "less than 1" if share < 1 else f"{share:.0f}"
    return "dearer in all of this picture" if lost == cells.values.size else f"dearer in {said} % of this picture"


def _hatch(ax: "Axes", cells: Cells, where: NDArray[np.bool_]) -> None:
    """Hatch cells, and draw the edge between them and the rest."""
    at = (cells.concurrency, cells.repetitiveness, where.astype(np.float64))
    ax.contourf(*at, levels=[0.5, 1.5], colors="none", hatches=[_CAPPED])
    ax.contour(*at, levels=[0.5], colors="#666666", linewidths=0.9)


def _here(found: Answer, ax: "Axes", cells: Cells) -> None:
    """Mark the traffic now, and label the axes."""
    mark_experts(ax, found)
    mark_observed(ax, observed(found, "repetitiveness", float(found.regime.concurrency)))
    ax.set_xlim(cells.concurrency[0], cells.concurrency[-1])
    ax.set_ylim(0, 1)
    log_concurrency(ax)
    ax.grid(visible=False)
    ax.set_xlabel("concurrency C, requests in flight")
    ax.set_ylabel("repetitiveness r")


def _color(place: int, each: Configuration) -> str:
    return _FAMILIES[place % len(_FAMILIES)][2 * each.speculation_on + each.cache_on]


def name_of(found: Answer, each: Configuration) -> str:
    """Name a configuration by the levers that are on."""
    levers = [name for name, on in (("speculation", each.speculation_on), ("prefix cache", each.cache_on)) if on]
    return f"{label(found.deployment.precisions[each.precision].name)}: {' + '.join(levers) or 'both off'}"
