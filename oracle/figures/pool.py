"""Figures of a memory plan: where the bytes go, tenants against the size of a draft, early exit by batch size."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oracle.figures.drawing import BLUE, GREEN, GREY, MARKS, ORANGE, PURPLE, RED, label, panels, save
from oracle.figures.policies import plain_ticks
from oracle.pool.answer import PoolAnswer
from oracle.pool.budget import Budget, name_of, tenants_in
from oracle.pool.early_exit import savings
from oracle.pool.plan import GIB
from oracle.pool.times import Numbers, round_line, step_ms
from oracle.pool.worth import Worth

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = (ORANGE, GREEN, PURPLE, RED, GREY, BLUE)
_STYLES = ("-", "--", "-.", ":")
_SIZES = 600  # of drafts that are drawn
# what each part of a bar is called and drawn like
_PARTS = (
    ("used_weights_bytes", "weights a token uses", BLUE, ""),
    ("idle_weights_bytes", "weights it does not use", "#8FC4E8", "//"),
    ("reserve_bytes", "reserve", GREY, ""),
    ("draft_bytes", "speed-up", ORANGE, ""),
    ("kv_bytes", "KV of tenants", GREEN, ""),
    ("unused_bytes", "free", "#EEEEEE", ""),
)


def memory_bars(found: PoolAnswer, path: Path) -> Path:
    """Draw a bar for every precision, and for every speed-up where one fits; beyond the usable memory nothing does."""
    usable = found.plan.memory.usable_bytes / GIB
    bars = [(label(name_of(found.plan, choice.served)), choice.budget) for choice in found.choices]
    bars += [(f"with {label(each.speedup.name)}", each.having) for i, each in found.worths if i == found.chosen]
    with panels(1, width=6.4, height=1.3 + 0.34 * len(bars)) as (figure, (ax,)):
        before = np.zeros(len(bars))
        for name, what, color, hatch in _PARTS:
            sizes = np.array([max(0, getattr(laid, name)) / GIB for _, laid in bars])
            if sizes.any():
                ax.barh(range(len(bars)), sizes, 0.7, before, color=color, hatch=hatch, edgecolor="white", label=what)
            before += sizes
        for i, (_, laid) in enumerate(bars):
            end = max(usable, (laid.usable_bytes - laid.pool_bytes) / GIB)
            ax.annotate(_said(laid), (end, i), (4, 0), textcoords="offset points", va="center", fontsize=8)
        if found.chosen is not None and len(bars) > len(found.choices):
            ax.set_title(f"below the dotted line: at {bars[found.chosen][0]}, the first that fits")
            ax.axhline(len(found.choices) - 0.5, color=GREY, linewidth=0.7, linestyle=":")
        ax.axvline(usable, color="black", linewidth=1.0)
        ax.set_yticks(range(len(bars)), [name for name, _ in bars])
        ax.invert_yaxis()
        ax.grid(visible=False, axis="y")
        ax.set_xlim(right=1.25 * max(float(before.max()), usable))
        ax.set_xlabel(
            f"GiB (2^30 bytes); line: {usable:.2f} GiB {'of pool' if found.plan.memory.is_pool else 'usable'}"
        )
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, path)


def _said(laid: Budget) -> str:
    if not laid.fits:
        return f"{-laid.pool_bytes / GIB:.1f} GiB too many"
    return f"{laid.pool_bytes / GIB:.1f} GiB for KV" if laid.tenants is None else f"{laid.tenants:,} tenants"


def has_tenants(found: PoolAnswer) -> bool:
    """Whether there is a pool of tenants and a speed-up that could displace them."""
    return found.chosen is not None and found.plan.kv is not None and any(i == found.chosen for i, _ in found.worths)


def tenants_by_draft_size(found: PoolAnswer, path: Path) -> Path:
    """Draw tenants that fit and tokens a second at a full pool against the size of each draft, with break-evens."""
    worths = [each for i, each in found.worths if i == found.chosen]
    pool = worths[0].without.pool_bytes / GIB
    timed = any(each.gain is not None for each in worths)
    rows = 2 if timed else 1
    with panels(1, rows, width=6.2, height=2.5, sharex=True) as (figure, axes):
        for i, each in enumerate(worths):
            color, style = _COLORS[i % len(_COLORS)], _STYLES[i % 4]
            sizes = np.linspace(0.0, pool * GIB, _SIZES).round()
            held = np.array([_held(each, int(size)) for size in sizes], dtype=np.float64)
            here, own = each.having.draft_bytes, float(each.having.tenants or 0)
            mark, name = MARKS[i % len(MARKS)], label(each.speedup.name)
            axes[0].plot([here / GIB], [own], color=color, marker=mark, linestyle=style if here else "none", label=name)
            if here:  # one that has no weights has no other size
                axes[0].plot(sizes / GIB, held, color=color, linestyle=style)
            if each.gain is not None:
                _gain(axes[1], found, each, (sizes, held), i)
            if each.most_draft_bytes is not None and each.most_draft_bytes >= 0:
                for ax in axes:
                    ax.axvline(each.most_draft_bytes / GIB, color=color, linewidth=0.9, linestyle=":")
        axes[0].axhline(worths[0].without.tenants or 0, color="black", linewidth=0.8)
        axes[0].set_ylabel("tenants that fit")
        axes[0].set_ylim(bottom=0)
        axes[0].set_title("marks: the draft as stated; black: without drafts; dotted verticals: the largest that pays")
        if timed:
            axes[1].axhline(1.0, color="black", linewidth=0.8)
            axes[1].set_ylabel("tokens/s over those without")
            axes[1].set_ylim(bottom=0)
        axes[-1].set_xlim(-0.01 * pool, pool)
        axes[-1].set_xlabel("GiB that the draft takes from the pool (its own KV and draft length as stated)")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, path)


def _held(each: Worth, size: int) -> int:
    """Tenants that fit beside a draft of another size."""
    mean = each.having.tenant_bytes
    return 0 if mean is None else tenants_in(each.without.pool_bytes - size, mean)


def _gain(ax: "Axes", found: PoolAnswer, each: Worth, sized: tuple[Numbers, Numbers], i: int) -> None:
    """Draw tokens a second with a draft of every size over those without."""
    sizes, held = sized
    served = found.choices[found.chosen or 0].served
    line, step = (
        round_line(found.plan, served, each.speedup, held),
        step_ms(found.plan, served, each.without.tenants or 0),
    )
    if line is None or step is None or each.speedup.length is None or each.gain is None:
        return
    took = line.fixed_ms + line.ms_per_draft_byte * sizes
    gain = each.speedup.length * held / took * float(step) / (each.without.tenants or 1)
    color = _COLORS[i % len(_COLORS)]
    if each.having.draft_bytes:
        ax.plot(sizes / GIB, gain, color=color, linestyle=_STYLES[i % 4])
    ax.plot([each.having.draft_bytes / GIB], [each.gain], color=color, marker=MARKS[i % len(MARKS)], linestyle="none")


def early_exit_by_batch(found: PoolAnswer, path: Path) -> Path:
    """Draw what early exit saves by batch size: lockstep, compaction, refilling, and the inverse law."""
    exits, shown = found.plan.early_exit, found.early_exit
    if exits is None or shown is None:
        raise ValueError("no early exit was stated")
    B = np.unique(np.geomspace(1, shown.batch[-1], 200).round())
    saved = savings(exits, B)
    with panels(1, width=5.6, height=3.2) as (figure, (ax,)):
        ax.plot(B, 100 * saved.refilling, color=GREEN, linestyle="-.", label="freed rows refilled at once")
        ax.plot(B, 100 * saved.compaction, color=BLUE, linestyle="--", label="batch compacted after each exit")
        ax.plot(B, 100 * saved.lockstep, color=RED, label="lockstep")
        ax.plot(B, 100 * saved.lockstep[0] / B, color=GREY, linewidth=0.9, linestyle=":", label="batch 1 over B")
        ax.axhline(0.0, color="black", linewidth=0.8)
        asked = found.at_once
        if asked:
            ax.axvline(asked, color="black", linewidth=0.8, linestyle=":")
            middle = (asked, 50 * float(saved.refilling[0]))
            ax.annotate(f"{asked:,} tenants", middle, (4, 0), textcoords="offset points", fontsize=8)
        ax.set_xscale("log")
        plain_ticks(ax)
        ax.set_xlabel("batch size B")
        ax.set_ylabel("% of a step's time saved")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return save(figure, path)
