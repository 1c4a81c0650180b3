"""Figures of serving levers by one quantity: where each pays, what a precision gains, how long rounds are."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oracle.figures.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, label, panels, save
from oracle.figures.levers_curves import (
    Curve,
    Observed,
    admitted_now,
    observed,
    precision_curves,
    prefix_share_curves,
    repetitiveness_curves,
    round_length_curves,
    round_length_here,
)
from oracle.figures.policies import plain_ticks
from oracle.levers.advised import set_in
from oracle.levers.answer import Answer
from oracle.levers.experts import MOST_HIT, batch_hitting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY)
_STYLES = ("-", "--", "-.", ":")
STATED = "model output for what was stated, not a measurement"
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
    label_knees(ax, curves, float(curves[0].x[-1]))


def label_knees(ax: "Axes", curves: Sequence[Curve], widest: float) -> None:
    """Draw a dotted line where each KV cache is full, with its precision and the requests it holds."""
    precisions = [curve for curve in curves if curve.knee is not None]
    for i, curve in enumerate(precisions):
        if curve.knee is None or curve.knee > widest:
            continue
        color, place = COLORS[i % len(COLORS)], (curve.knee, 0.02 + 0.06 * i)
        ax.axvline(curve.knee, color=color, linewidth=0.9, linestyle=":")
        ax.annotate(
            f"{label(curve.name)} {curve.knee:,.0f}", place, (-2, 0), xycoords=("data", "axes fraction"),
            textcoords="offset points", color=color, fontsize=7, ha="right",
            bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.5},
        )  # fmt: skip


def mark_experts(ax: "Axes", found: Answer) -> None:
    """Mark the batch below which a step does not go to all experts, where the model reads them all."""
    least = batch_hitting(found.deployment)
    if least is None or least <= 1:
        return
    ax.axvline(least, color="black", linewidth=0.9, linestyle="--")
    height = 0.98 if float(found.regime.repetitiveness) < 0.6 else 0.55  # away from the traffic now
    ax.annotate(
        f"under {100 * MOST_HIT:g} % of experts hit,\nall taken as read", (least, height), (-3, 0),
        xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=7, ha="right", va="top",
        bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.5},
    )  # fmt: skip


def head(ax: "Axes", title: str) -> None:
    """Say what a figure shows and what it is, for it may be seen without its caption."""
    ax.set_title(f"{title}\n{STATED}", loc="left")


def here_named(found: Answer, said: str) -> str:
    """Name the mark of the traffic now: where a cap is advised, at the requests it admits."""
    _, cap = set_in(found)
    return f"{said}, here" if cap is None else f"{said}, {round(cap, 2):,g} admitted"


def repetitiveness_by_concurrency(found: Answer, path: Path) -> Path:
    """Draw r*(C) of every precision with its knee, and the observed repetitiveness."""
    curves = repetitiveness_curves(found)
    here = observed(found, "repetitiveness", admitted_now(found))
    with panels(1, width=_WIDTH, height=_HEIGHT) as (figure, (ax,)):
        _draw_curves(ax, curves)
        mark_experts(ax, found)
        ax.axhline(here.y, color=GREY, linewidth=0.9)
        mark_observed(ax, here, here_named(found, f"observed r = {here.y:.4g}"))
        ax.set_xlim(1, curves[0].x[-1])
        log_concurrency(ax)
        ax.set_ylim(0, 1)
        ax.set_xlabel("concurrency C, requests in flight (dotted: where the KV cache is full)")
        head(ax, "Where speculation pays, by concurrency and precision")
        ax.set_ylabel("r*: speculation pays above")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return save(figure, path)


def prefix_share_by_batch(found: Answer, path: Path) -> Path:
    """Draw rho*(B), a line, with each precision's fullest batch and the observed prefix share."""
    curves = prefix_share_curves(found)
    here, widest = observed(found, "prefix_share", float(set_in(found)[0].batch)), float(curves[0].x[-1])
    with panels(1, width=_WIDTH, height=_HEIGHT) as (figure, (ax,)):
        for i, curve in enumerate(curve for curve in curves if len(curve.x)):
            ax.plot(curve.x, curve.y, color=COLORS[i % len(COLORS)], label=label(curve.name))
        label_knees(ax, curves, widest)
        ax.axhline(here.y, color=GREY, linewidth=0.9)
        mark_observed(ax, here, here_named(found, f"observed rho = {here.y:.4g}"))
        ax.set_ylim(0, min(1.0, max(1.15 * float(curves[0].y[-1]), 1.15 * here.high, 0.05)))
        ax.set_xlim(0, widest)
        ax.set_xlabel("requests that decode together B (dotted: the most that fit)")
        head(ax, "Where the prefix cache pays, by batch")
        ax.set_ylabel("rho*: the prefix cache pays above")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return save(figure, path)


def precision_by_concurrency(found: Answer, path: Path) -> Path:
    """Draw the decode cost of every precision over the widest's, with the knees between the three phases."""
    curves, here = precision_curves(found), admitted_now(found)
    with panels(1, width=_WIDTH, height=_HEIGHT) as (figure, (ax,)):
        _draw_curves(ax, curves)
        if here <= curves[0].x[-1]:
            ax.axvline(here, color="black", linewidth=0.9, label=here_named(found, f"{round(here, 2):,g} requests"))
        ax.set_ylim(bottom=0)
        ax.set_xlim(0, curves[0].x[-1])
        ax.set_xlabel("concurrency C, requests in flight (dotted: where the KV cache is full)")
        head(ax, "Decode cost of each precision, without speculation")
        ax.set_ylabel(f"decode cost over {label(curves[0].name)}'s")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return save(figure, path)


def round_length_by_match(found: Answer, path: Path) -> Path:
    """Draw expected tokens a round by acceptance, for independent matches and the three readings of a chain."""
    longest = found.deployment.speculation.draft_length
    chosen = found.deployment.precisions[set_in(found)[0].configuration().precision]
    accept, length, needed = round_length_here(found)
    with panels(1, width=_WIDTH, height=_HEIGHT) as (figure, (ax,)):
        _draw_curves(ax, round_length_curves(found))
        ax.axhline(needed, color=GREY, linewidth=0.9)
        said = f"pays above {needed:.2f} ({label(chosen.name)})"
        ax.annotate(said, (0.99, needed), (0, 3), textcoords="offset points", ha="right", fontsize=7, color=GREY)
        ax.plot(
            [accept],
            [length],
            marker="D",
            color="black",
            linestyle="none",
            label=here_named(found, f"acceptance {accept:.3f}"),
            clip_on=False,
        )
        ax.set_yscale("log")
        ticks = [tick for tick in (1, 1.5, 2, 3, 5, 9, 17) if tick <= longest + 1]
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_xlim(0, 1)
        ax.set_xlabel("acceptance (what it is the share of depends on the reading)")
        head(ax, "Tokens a round by acceptance and by how matches follow one another")
        ax.set_ylabel(f"tokens a round of {longest} draft tokens")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return save(figure, path)
