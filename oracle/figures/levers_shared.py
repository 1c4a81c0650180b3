"""The figure of a deployment that tenants share: what a token costs by the requests in flight of all of them."""

from pathlib import Path

import numpy as np

from oracle.figures.drawing import label, panels, save
from oracle.figures.levers import COLORS, head, label_knees, log_concurrency
from oracle.figures.levers_curves import Curve, whole_numbers
from oracle.levers.shared import Shared

_POINTS = 400
_STYLES = ("-", "--", "-.", ":")


def shared_curves(found: Shared) -> list[Curve]:
    """Give cost per token of each precision with its best levers, by requests in flight of all tenants, not capped."""
    top = max(1.2 * max(len(each.cost_ms) for each in found.curves), 1.2 * float(found.mixed.concurrency))
    C = whole_numbers(top, _POINTS, [len(each.cost_ms) for each in found.curves])
    curves = []
    for index in dict.fromkeys(each.configuration.precision for each in found.curves):
        own = [each.cost_ms for each in found.curves if each.configuration.precision == index]
        at = [ms[np.minimum(C.astype(np.int64), len(ms)) - 1] for ms in own]
        curves.append(
            Curve(found.deployment.precisions[index].name, C, np.min(at, axis=0), knee=float(max(map(len, own))))
        )
    return curves


def cost_by_concurrency(found: Shared, path: Path) -> Path:
    """Draw the cost by requests in flight of each precision, its levers the best there, and what is advised now."""
    curves = shared_curves(found)
    with panels(1, width=6.2, height=3.6) as (figure, (ax,)):
        for i, curve in enumerate(curves):
            ax.plot(curve.x, curve.y, color=COLORS[i % len(COLORS)], linestyle=_STYLES[i % 4], label=label(curve.name))
        label_knees(ax, curves, float(curves[0].x[-1]))
        at = float(found.mixed.concurrency) if found.cap is None else found.cap
        said = "here" if found.cap is None else f"{at:g} admitted"
        ax.plot([at], [found.cost_ms], marker="D", color="black", linestyle="none", label=said, clip_on=False)
        ax.set_xlim(1, curves[0].x[-1])
        log_concurrency(ax)
        ax.set_ylim(0, 1.1 * max(float(np.quantile(curve.y, 0.9)) for curve in curves))
        ax.set_xlabel("requests in flight of all tenants (dotted: where the KV cache is full)")
        ax.set_ylabel("ms a token, levers the best there")
        head(ax, f"{len(found.tenants)} tenants on one deployment, in the shares they have now")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return save(figure, path)
