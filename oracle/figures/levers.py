"""Figures of serving levers by one quantity: where each pays, what a precision gains, how long rounds are, the day."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oracle.figures.drawing import BLUE, GREEN, GREY, LONGEST, ORANGE, PURPLE, RED, label, panels, save
from oracle.figures.levers_curves import (
    Curve,
    Observed,
    observed,
    precision_curves,
    prefix_share_curves,
    repetitiveness_curves,
    round_length_curves,
    round_length_here,
)
from oracle.figures.policies import plain_ticks
from oracle.levers.answer import Answer, Planned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY)
_STYLES = ("-", "--", "-.", ":")
_CROWDED = 5000.0  # beyond, powers of ten only
_WIDTH, _HEIGHT = 5.6, 3.4


def log_concurrency(ax: "Axes") -> None:
    """Lay concurrency out on a logarithmic axis, with as many numbers as there is room for."""
    from matplotlib.ticker import LogLocator  # noqa: PLC0415  # slow to import

    ax.set_xscale("log")
    plain_ticks(ax)
    if ax.get_xlim()[1] > _CROWDED:
        ax.xaxis.set_major_locator(LogLocator(numticks=12))


def mark_observed(ax: "Axes", at: Observed, name: str | None = None) -> None:
    """Draw the traffic now as a diamond, with a bar where an interval was given."""
    ends = [[at.y - at.low], [at.high - at.y]]
    said = "_" if name is None else name
    ax.errorbar(
        [at.x], [at.y], ends if at.has_interval else None, fmt="D", color="black", capsize=3, label=said, zorder=5
    )


def _draw_curves(ax: "Axes", curves: Sequence[Curve]) -> None:
    """Draw lines with their bands, each in its colour and style, and a dotted line at each knee."""
    for i, curve in enumerate(curves):
        color = COLORS[i % len(COLORS)]
        ax.plot(curve.x, curve.y, color=color, linestyle=_STYLES[i % 4], label=label(curve.name))
        if curve.low is not None and curve.high is not None:
            ax.fill_between(curve.x, curve.low, curve.high, color=color, alpha=0.15, linewidth=0)
        if curve.knee is not None:
            ax.axvline(curve.knee, color=color, linewidth=0.9, linestyle=":")


def repetitiveness_by_concurrency(found: Answer, path: Path) -> Path:
    """Draw r*(C) of every precision with its knee, and the observed repetitiveness."""
    curves = repetitiveness_curves(found)
    here = observed(found, "repetitiveness", float(found.regime.concurrency))
    with panels(1, width=_WIDTH, height=_HEIGHT) as (figure, (ax,)):
        _draw_curves(ax, curves)
        ax.axhline(here.y, color=GREY, linewidth=0.9)
        mark_observed(ax, here, f"observed r = {here.y:g}, here")
        ax.set_xlim(1, curves[0].x[-1])
        log_concurrency(ax)
        ax.set_ylim(0, 1)
        ax.set_xlabel("concurrency C, requests in flight (dotted: where the KV cache is full)")
        ax.set_ylabel("r*: speculation pays above")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return save(figure, path)


def prefix_share_by_batch(found: Answer, path: Path) -> Path:
    """Draw rho*(B), a line, with each precision's fullest batch and the observed prefix share."""
    curves = prefix_share_curves(found)
    here, widest = observed(found, "prefix_share", float(found.joint.batch)), float(curves[0].x[-1])
    precisions = [curve for curve in curves if curve.knee is not None]
    with panels(1, width=_WIDTH, height=_HEIGHT) as (figure, (ax,)):
        for i, curve in enumerate(curve for curve in curves if len(curve.x)):
            ax.plot(curve.x, curve.y, color=COLORS[i % len(COLORS)], label=label(curve.name))
        for i, curve in enumerate(precisions):
            if curve.knee is not None and curve.knee <= widest:
                color, place = COLORS[i % len(COLORS)], (curve.knee, 0.02 + 0.06 * i)
                ax.axvline(curve.knee, color=color, linewidth=0.9, linestyle=":")
                ax.annotate(
                    label(curve.name), place, (-2, 0), xycoords=("data", "axes fraction"), textcoords="offset points",
                    color=color, fontsize=7, ha="right",
                )  # fmt: skip
        ax.axhline(here.y, color=GREY, linewidth=0.9)
        mark_observed(ax, here, f"observed rho = {here.y:g}, here")
        ax.set_ylim(0, min(1.0, max(1.15 * float(curves[0].y[-1]), 1.15 * here.high, 0.05)))
        ax.set_xlim(0, widest)
        ax.set_xlabel("requests that decode together B (dotted: the most that fit)")
        ax.set_ylabel("rho*: the prefix cache pays above")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return save(figure, path)


def precision_by_concurrency(found: Answer, path: Path) -> Path:
    """Draw the decode cost of every precision over the widest's, with the knees between the three phases."""
    curves, here = precision_curves(found), float(found.regime.concurrency)
    with panels(1, width=_WIDTH, height=_HEIGHT) as (figure, (ax,)):
        _draw_curves(ax, curves)
        if here <= curves[0].x[-1]:
            ax.axvline(here, color="black", linewidth=0.9, label="here")
        ax.set_ylim(bottom=0)
        ax.set_xlim(0, curves[0].x[-1])
        ax.set_xlabel("concurrency C, requests in flight (dotted: where the KV cache is full)")
        ax.set_ylabel(f"decode cost over {label(curves[0].name)}'s")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return save(figure, path)


def round_length_by_match(found: Answer, path: Path) -> Path:
    """Draw expected tokens a round by acceptance, for independent matches and the three readings of a chain."""
    longest = found.deployment.speculation.draft_length
    chosen = found.deployment.precisions[found.joint.configuration().precision]
    accept, length, needed = round_length_here(found)
    with panels(1, width=_WIDTH, height=_HEIGHT) as (figure, (ax,)):
        _draw_curves(ax, round_length_curves(found))
        ax.axhline(needed, color=GREY, linewidth=0.9)
        said = f"pays above {needed:.2f} ({label(chosen.name)})"
        ax.annotate(said, (0.99, needed), (0, 3), textcoords="offset points", ha="right", fontsize=7, color=GREY)
        ax.plot([accept], [length], marker="D", color="black", linestyle="none", label="here", clip_on=False)
        ax.set_yscale("log")
        ticks = [tick for tick in (1, 1.5, 2, 3, 5, 9, 17) if tick <= longest + 1]
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_xlim(0, 1)
        ax.set_xlabel("acceptance (what it is the share of depends on the reading)")
        ax.set_ylabel(f"tokens a round of {longest} draft tokens")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, path)


def schedule_over_slots(found: Planned, path: Path) -> Path:
    """Draw concurrency over the slots, and below it when each lever is on; hatched: the intervals leave it open."""
    made, traffic = found.schedule, found.traffic
    T = len(traffic.slots)
    edges = np.arange(T + 1)
    with panels(1, 2, width=6.4, height=2.0, sharex=True, height_ratios=(2.2, 1.0)) as (figure, (upper, lower)):
        upper.stairs(traffic.regime.concurrency, edges, baseline=None, color=BLUE, linewidth=1.4)
        upper.set_ylabel("requests in flight")
        upper.set_ylim(bottom=0)
        name = found.deployment.precisions[made.precision].name
        upper.set_title(
            f"{label(name)}; {made.mean_ms:.4f} ms a token, {made.static_ms:.4f} if nothing is ever switched"
        )
        for row, (lever, states, verdicts, color) in enumerate(_lever_rows(found)):
            lower.broken_barh([(t, 1.0) for t in range(T) if states[t]], (row + 0.15, 0.7), color=color)
            open_slots = [(t, 1.0) for t in range(T) if verdicts[t] == "undecided"]
            lower.broken_barh(
                open_slots, (row + 0.15, 0.7), facecolor="none", edgecolor=GREY, hatch="////", linewidth=0
            )
            if not states.any():
                lower.text(T / 2, row + 0.5, "never on", ha="center", va="center", color=GREY, fontsize=8)
            for each in made.switches:
                if each.lever == lever:
                    ends = (0.0, 0.5) if row == 0 else (0.5, 1.0)  # both may switch at once
                    upper.axvline(each.slot, *ends, color=color, linewidth=0.9, linestyle="-" if each.on else "--")
        lower.set_yticks([0.5, 1.5], ["prefix cache\non", "speculation\non"])
        lower.set_ylim(0, 2)
        lower.grid(visible=False)
        step = max(1, -(-T // 12))
        lower.set_xticks(edges[:-1:step], [label(s)[: LONGEST // 2] for s in traffic.slots[::step]])
        lower.set_xlim(0, T)
        return save(figure, path)


def _lever_rows(found: Planned) -> tuple[tuple[str, NDArray[np.bool_], Sequence[str], str], ...]:
    """Give name, states, verdicts and colour of each lever, from below."""
    made = found.schedule
    return (
        ("prefix cache", made.cache_on, found.prefix, GREEN),
        ("speculation", made.speculation_on, found.speculation, ORANGE),
    )
