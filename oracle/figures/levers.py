"""Figures of serving levers by one quantity: where each pays, what a precision gains, how long rounds are, the day."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oracle.figures.drawing import BLUE, GREEN, GREY, LONGEST, ORANGE, PURPLE, RED, label, panels, save
from oracle.figures.policies import plain_ticks
from oracle.levers.answer import Answer, Planned
from oracle.levers.break_even import precision_ratio, prefix_share_needed, repetitiveness_needed
from oracle.levers.cost import accept, capacity, overhead, round_length
from oracle.levers.matches import Reading, mean_length

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY)
_STYLES = ("-", "--", "-.", ":")
_CHAINS: tuple[Reading, ...] = ("independent", "stationary", "gated", "renewal")
_CROWDED = 5000.0  # beyond, powers of ten only
_X = 0.4  # autocorrelation of the chains drawn where the deployment states none


def _concurrencies(found: Answer) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Give concurrencies up to past the last knee, and past what is observed."""
    knees = [float(capacity(found.deployment, p, found.regime)) for p in found.deployment.precisions]
    top = max(1.3 * max(knees), 1.1 * float(found.regime.concurrency), 8.0)
    return np.geomspace(1.0, top, 600)


def log_concurrency(ax: "Axes") -> None:
    """Lay concurrency out on a logarithmic axis, with as many numbers as there is room for."""
    from matplotlib.ticker import LogLocator  # noqa: PLC0415  # slow to import

    ax.set_xscale("log")
    plain_ticks(ax)
    if ax.get_xlim()[1] > _CROWDED:
        ax.xaxis.set_major_locator(LogLocator(numticks=12))


def _knee(ax: "Axes", at: float, color: str) -> None:
    ax.axvline(at, color=color, linewidth=0.7, linestyle=":")


def repetitiveness_by_concurrency(found: Answer, path: Path) -> Path:
    """Draw r*(C) of every precision with its knee, and the observed repetitiveness."""
    deployment, C = found.deployment, _concurrencies(found)
    at = found.regime.having(concurrency=C)
    with panels(1, width=5.6, height=3.4) as (figure, (ax,)):
        for i, index in enumerate(deployment.admissible):
            p, color = deployment.precisions[index], COLORS[i % len(COLORS)]
            needed = repetitiveness_needed(deployment, p, at)
            shown = np.where(needed <= 1, needed, np.nan)
            ax.plot(C, shown, color=color, linestyle=_STYLES[i % 4], label=label(p.name))
            _knee(ax, float(capacity(deployment, p, found.regime)), color)
        _observed(ax, float(found.regime.concurrency), float(found.regime.repetitiveness), "observed r")
        log_concurrency(ax)
        ax.set_ylim(0, 1)
        ax.set_xlabel("concurrency C, requests in flight (dotted: where the KV cache is full)")
        ax.set_ylabel("repetitiveness above which speculation pays")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return save(figure, path)


def _observed(ax: "Axes", x: float, y: float, name: str) -> None:
    ax.axhline(y, color=GREY, linewidth=0.9)
    ax.plot(
        [x], [y], marker="D", color="black", linestyle="none", label=f"{name} = {y:g}, here", zorder=5, clip_on=False
    )


def prefix_share_by_batch(found: Answer, path: Path) -> Path:
    """Draw rho*(B), a line, with each precision's fullest batch and the observed prefix share."""
    deployment, regime = found.deployment, found.regime
    full = {i: float(capacity(deployment, deployment.precisions[i], regime)) for i in deployment.admissible}
    chosen = deployment.precisions[found.joint.configuration().precision]
    never = 1 / max(float(prefix_share_needed(deployment, chosen, regime, np.array(1.0))), 1e-300)  # from this batch on
    widest = min(1.1 * max(full.values()), max(1.5 * never, 1.2 * float(found.joint.batch)))
    B = np.linspace(0.0, widest, 200)
    with panels(1, width=5.6, height=3.4) as (figure, (ax,)):
        apart = deployment.prefill_by_precision
        for i, index in enumerate(deployment.admissible):
            p, color = deployment.precisions[index], COLORS[i % len(COLORS)]
            if apart or i == 0:
                needed = prefix_share_needed(deployment, p, regime, B)
                ax.plot(B, needed, color=color, label=label(p.name) if apart else "every precision")
            if full[index] <= widest:
                _knee(ax, full[index], color)
                ax.text(full[index], 0.02 + 0.06 * i, label(p.name), color=color, fontsize=7, ha="right")
        _observed(ax, float(found.joint.batch), float(regime.prefix_share), "observed rho")
        top = float(prefix_share_needed(deployment, chosen, regime, B[-1:])[0])
        ax.set_ylim(0, min(1.0, max(1.15 * top, 1.15 * float(regime.prefix_share), 0.05)))
        ax.set_xlim(0, B[-1])
        ax.set_xlabel("requests that decode together B (dotted: the most that fit)")
        ax.set_ylabel("prefix share above which the cache pays")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return save(figure, path)


def precision_by_concurrency(found: Answer, path: Path) -> Path:
    """Draw the decode cost of every precision over the widest's, with the knees between the three phases."""
    deployment, order = found.deployment, found.deployment.admissible
    knees = [float(capacity(deployment, deployment.precisions[i], found.regime)) for i in order]
    C = np.linspace(1.0, 1.5 * max(*knees, 2.0), 1000)
    at = found.regime.having(concurrency=C)
    widest = deployment.precisions[order[0]]
    with panels(1, width=5.6, height=3.4) as (figure, (ax,)):
        for i, index in enumerate(order):
            p, color = deployment.precisions[index], COLORS[i % len(COLORS)]
            ratio = precision_ratio(deployment, p, widest, at)
            ax.plot(C, ratio, color=color, linestyle=_STYLES[i % 4], label=label(p.name))
            _knee(ax, knees[i], color)
        here = float(found.regime.concurrency)
        if here <= C[-1]:
            ax.axvline(here, color="black", linewidth=0.8, label="here")
        ax.set_ylim(bottom=0)
        ax.set_xlim(0, C[-1])
        ax.set_xlabel("concurrency C, requests in flight (dotted: where the KV cache is full)")
        ax.set_ylabel(f"decode cost over {label(widest.name)}'s")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return save(figure, path)


def round_length_by_match(found: Answer, path: Path) -> Path:
    """Draw expected tokens a round by acceptance, for independent matches and the three readings of a chain."""
    deployment = found.deployment
    chosen = deployment.precisions[found.joint.configuration().precision]
    a = np.linspace(0.0, 1.0, 201)
    x = deployment.speculation.autocorrelation or _X
    needed = 1 + float(overhead(deployment, chosen, found.regime, found.joint.batch))
    with panels(1, width=5.6, height=3.4) as (figure, (ax,)):
        for i, reading in enumerate(_CHAINS):
            length = mean_length(a, deployment.speculation.draft_length, reading, 0.0 if i == 0 else x)
            name = reading if reading == "independent" else f"{reading}, x = {x:g}"
            ax.plot(a, length, color=COLORS[i], linestyle=_STYLES[i], label=name)
        ax.axhline(needed, color=GREY, linewidth=0.9)
        ax.text(
            0.99, needed * 1.02, f"pays above {needed:.2f} ({label(chosen.name)})", ha="right", fontsize=7, color=GREY
        )
        here = (float(accept(deployment, chosen, found.regime)), float(round_length(deployment, chosen, found.regime)))
        ax.plot(*[[value] for value in here], marker="D", color="black", linestyle="none", label="here")
        ax.set_yscale("log")
        ticks = [tick for tick in (1, 1.5, 2, 3, 5, 9, 17) if tick <= deployment.speculation.draft_length + 1]
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_xlim(0, 1)
        ax.set_xlabel("acceptance (what it is the share of depends on the reading)")
        ax.set_ylabel(f"tokens a round of {deployment.speculation.draft_length} draft tokens")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, path)


def schedule_over_slots(found: Planned, path: Path) -> Path:
    """Draw concurrency over the slots, and below it when each lever is on."""
    made, traffic = found.schedule, found.traffic
    T = len(traffic.slots)
    edges = np.arange(T + 1)
    with panels(1, 2, width=6.4, height=2.0, sharex=True, height_ratios=(2.2, 1.0)) as (figure, (upper, lower)):
        upper.stairs(traffic.regime.concurrency, edges, color=BLUE, linewidth=1.4)
        upper.set_ylabel("requests in flight")
        upper.set_ylim(bottom=0)
        name = found.deployment.precisions[made.precision].name
        upper.set_title(
            f"{label(name)}; {made.mean_ms:.4f} ms a token, {made.static_ms:.4f} if nothing is ever switched"
        )
        for row, (lever, states, color) in enumerate(
            (("prefix cache", made.cache_on, GREEN), ("speculation", made.speculation_on, ORANGE))
        ):
            lower.broken_barh([(t, 1.0) for t in range(T) if states[t]], (row + 0.15, 0.7), color=color)
            if not states.any():
                lower.text(T / 2, row + 0.5, "never on", ha="center", va="center", color=GREY, fontsize=8)
            for each in made.switches:
                if each.lever == lever:
                    upper.axvline(each.slot, color=color, linewidth=0.9, linestyle="-" if each.on else "--")
        lower.set_yticks([0.5, 1.5], ["prefix cache\non", "speculation\non"])
        lower.set_ylim(0, 2)
        lower.grid(visible=False)
        step = max(1, -(-T // 12))
        lower.set_xticks(edges[:-1:step], [label(s)[: LONGEST // 2] for s in traffic.slots[::step]])
        lower.set_xlim(0, T)
        return save(figure, path)
