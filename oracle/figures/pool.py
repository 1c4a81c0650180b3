"""Figures of a memory plan: where the bytes go, tenants against the size of a draft, early exit by batch size."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oracle.figures.drawing import BLUE, GREEN, GREY, MARKS, ORANGE, PURPLE, RED, label, panels, save
from oracle.figures.policies import plain_ticks
from oracle.pool.answer import Choice, PoolAnswer
from oracle.pool.budget import Budget, name_of, tenants_in
from oracle.pool.early_exit import savings
from oracle.pool.plan import GIB
from oracle.pool.times import Numbers, round_line, step_ms, with_reading
from oracle.pool.timing import Reading
from oracle.pool.worth import Worth

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = (ORANGE, GREEN, PURPLE, RED, GREY, BLUE)
_STYLES = ("-", "--", "-.", ":")
_SEEN = 0.05  # GiB: less is no part of a bar that can be seen
_SIZES = 300  # of drafts and batches that are drawn
_EXIT_COLORS, _EXIT_STYLES = (GREEN, BLUE, RED, GREY), ("-.", "--", "-", ":")
# what each part of a bar is called and drawn like
PARTS = (
    ("used_weights_bytes", "weights one token uses", BLUE, ""),
    ("idle_weights_bytes", "weights of other tokens", "#8FC4E8", "//"),
    ("reserve_bytes", "reserve", GREY, ""),
    ("draft_bytes", "speed-up", ORANGE, ""),
    ("draft_kv_bytes", "its KV and slots", "#F2B266", "\\\\"),
    ("target_kv_bytes", "KV of tenants", GREEN, ""),
    ("unused_bytes", "free", "#EEEEEE", ""),
)


def bars(found: PoolAnswer) -> list[tuple[str, Budget]]:
    """Give name and budget of every bar: each precision, then each speed-up at the first that fits."""
    plain = [(served_name(found, choice), choice.budget) for choice in found.choices]
    return [*plain, *((f"with {each.speedup.name}", each.having) for each in _here(found))]


def served_name(found: PoolAnswer, choice: Choice) -> str:
    """Name a choice; where weights and reserve were not stated, it is the pool that was."""
    stated = found.plan.precisions or found.plan.kv_precisions
    return name_of(found.plan, choice.served) if stated else "pool"


def _here(found: PoolAnswer) -> list[Worth]:
    return [each for i, each in found.worths if i == found.chosen]


def size_of(laid: Budget, part: str) -> float:
    """Give GiB of one of `PARTS`; nothing is free where the budget is exceeded."""
    return float(max(0, getattr(laid, part)) / GIB)


def memory_bars(found: PoolAnswer, path: Path) -> Path:
    """Draw a bar for every precision, and for every speed-up where one fits; beyond the usable memory nothing does."""
    usable = found.plan.memory.usable_bytes / GIB
    laid_out = bars(found)
    names = [label(name) for name, _ in laid_out]
    with panels(1, width=6.4, height=1.3 + 0.34 * len(names)) as (figure, (ax,)):
        before = np.zeros(len(names))
        for name, what, color, hatch in PARTS:
            sizes = np.array([size_of(laid, name) for _, laid in laid_out])
            if sizes.any():
                ax.barh(range(len(names)), sizes, 0.7, before, color=color, hatch=hatch, edgecolor="white", label=what)
            before += sizes
        for i, (_, laid) in enumerate(laid_out):
            end = max(usable, (laid.usable_bytes - laid.pool_bytes) / GIB)
            ax.annotate(
                _said(laid), (end, i), (4, 0), textcoords="offset points", va="center", fontsize=8, linespacing=1.0
            )
        where = f"GiB (2^30 bytes); line: {usable:.2f} {'of pool' if found.plan.memory.is_pool else 'usable'}"
        if found.chosen is not None and len(names) > len(found.choices):
            where += f"\nbelow the dotted line: at {names[found.chosen]}, the first that fits"
            ax.axhline(len(found.choices) - 0.5, color=GREY, linewidth=0.7, linestyle=":")
        ax.set_title("arithmetic on the plan as stated")
        ax.axvline(usable, color="black", linewidth=1.0)
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.grid(visible=False, axis="y")
        ax.set_xlim(right=1.3 * max(float(before.max()), usable))
        ax.set_xlabel(where)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, path)


def _said(laid: Budget) -> str:
    if not laid.fits:
        return f"{-laid.pool_bytes / GIB:.1f} GiB too many"
    if laid.tenants is None:
        return f"{laid.pool_bytes / GIB:.1f} GiB for KV"
    taken = (laid.draft_bytes + laid.draft_kv_bytes) / GIB
    drafts = f"\ndrafts {taken:.1f} GiB" if taken >= _SEEN else ""
    return f"{_tenants(laid.tenants)}{drafts}"


def _tenants(count: int) -> str:
    return "1 tenant" if count == 1 else f"{count:,} tenants"


def has_tenants(found: PoolAnswer) -> bool:
    """Whether there is a pool of tenants and a speed-up that could displace them."""
    return found.chosen is not None and bool(found.plan.tenants) and any(i == found.chosen for i, _ in found.worths)


@dataclass(frozen=True)
class DraftLine:
    """A speed-up with drafts of every size in its place.

    Attributes
    ----------
    worth
        The speed-up as stated.
    draft_bytes, tenants : (n,) float64
        Sizes of draft, and tenants that fit beside each; none where it has no weights, hence no other size.
    gain, hidden_gain : (n,) float64
        Tokens a second of a full pool over those without, with verification added to reading and with computing hidden
        behind it; None where times or acceptance were left open, and where it makes no difference.
    """

    worth: Worth
    draft_bytes: Numbers
    tenants: Numbers
    gain: Numbers | None
    hidden_gain: Numbers | None


def draft_lines(found: PoolAnswer) -> list[DraftLine]:
    """Give each speed-up at the first precision that fits, with drafts of every size."""
    lines = []
    for each in _here(found):
        count = _SIZES if each.having.draft_bytes else 0
        sizes = np.linspace(0.0, each.without.pool_bytes, count).round()
        held = np.array([_held(each, int(size)) for size in sizes], dtype=np.float64)
        gains = [_gain(found, reading, way, sizes, held) for reading, way in zip(each.readings, Reading, strict=False)]
        lines.append(DraftLine(each, sizes, held, gains[0], gains[1] if len(gains) > 1 else None))
    return lines


def _held(each: Worth, size: int) -> int:
    """Tenants that fit beside a draft of another size."""
    mean = each.having.tenant_bytes
    return 0 if mean is None else tenants_in(each.without.pool_bytes - size, mean)


def _gain(found: PoolAnswer, each: Worth, way: Reading, sizes: Numbers, held: Numbers) -> Numbers | None:
    """Tokens a second with a draft of every size over those without, by one reading."""
    plan, served = with_reading(found.plan, way), found.choices[found.chosen or 0].served
    line = round_line(plan, served, each.speedup, held)
    step = step_ms(plan, served, each.without.tenants or 0)
    if line is None or step is None or each.speedup.length is None or each.gain is None:
        return None
    took = line.fixed_ms + line.ms_per_draft_byte * sizes
    return np.asarray(each.speedup.length * held / took * float(step) / (each.without.tenants or 1))


def tenants_by_draft_size(found: PoolAnswer, path: Path) -> Path:
    """Draw tenants that fit and tokens a second at a full pool against the size of each draft, with break-evens."""
    lines = draft_lines(found)
    without = lines[0].worth.without
    timed = any(line.worth.gain is not None for line in lines)
    with panels(1, 2 if timed else 1, width=6.2, height=2.7, sharex=True) as (figure, axes):
        for i, line in enumerate(lines):
            _draft_line(axes, line, i)
        axes[0].axhline(without.tenants or 0, color="black", linewidth=0.8)
        axes[0].set_ylabel("tenants that fit")
        axes[0].set_ylim(bottom=0)
        axes[0].set_title(
            f"model output for the plan as stated, at {label(served_name(found, found.choices[found.chosen or 0]))}\n"
            "marks: the draft as stated; black: without drafts; dotted verticals: the largest that pays"
        )
        if timed:
            if any(line.worth.hidden is not None for line in lines):
                axes[1].set_title("lines and marks: verification added to reading; bands: up to hidden behind it")
            axes[1].axhline(1.0, color="black", linewidth=0.8)
            axes[1].set_ylabel("tokens/s over those without")
            axes[1].set_ylim(bottom=0)
        axes[-1].set_xlim(-0.01 * without.pool_bytes / GIB, without.pool_bytes / GIB)
        axes[-1].set_xlabel("GiB of the draft's weights, in the pool (its own KV and draft length as stated)")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, path)


def _draft_line(axes: "Sequence[Axes]", line: DraftLine, i: int) -> None:
    """Draw one speed-up: a mark where it is, and a line over the sizes of draft."""
    worth = line.worth
    color, style, mark = _COLORS[i % len(_COLORS)], _STYLES[i % 4], MARKS[i % len(MARKS)]
    here, own = worth.having.draft_bytes / GIB, float(worth.having.tenants or 0)
    alone = style if len(line.draft_bytes) else "none"
    axes[0].plot(
        [here], [own], color=color, marker=mark, linestyle=alone, label=label(worth.speedup.name), clip_on=False
    )
    axes[0].plot(line.draft_bytes / GIB, line.tenants, color=color, linestyle=style)
    if line.gain is not None:
        axes[1].plot(line.draft_bytes / GIB, line.gain, color=color, linestyle=style)
    if line.gain is not None and line.hidden_gain is not None:
        axes[1].fill_between(line.draft_bytes / GIB, line.gain, line.hidden_gain, color=color, alpha=0.25, linewidth=0)
    if worth.gain is not None:
        axes[1].plot([here], [worth.gain], color=color, marker=mark, linestyle="none", clip_on=False)
    if worth.hidden is not None and worth.gain is not None and worth.hidden.gain is not None:
        axes[1].vlines(here, worth.gain, worth.hidden.gain, color=color, linewidth=2.5, alpha=0.5, clip_on=False)
    for size in largest_that_pay(worth):
        for ax in axes:
            ax.axvline(size / GIB, color=color, linewidth=0.9, linestyle=":")


def largest_that_pay(worth: Worth) -> list[float]:
    """Give the largest draft that pays by each reading, where one does."""
    sizes = [reading.most_draft_bytes for reading in worth.readings]
    return list(dict.fromkeys(size for size in sizes if size is not None and size >= 0))


def early_exit_lines(found: PoolAnswer) -> tuple[Numbers, dict[str, Numbers]]:
    """Give batch sizes, and the share of a step's time that each way of handling exits saves.

    Raises
    ------
    ValueError
        No early exit was stated.
    """
    exits, shown = found.plan.early_exit, found.early_exit
    if exits is None or shown is None:
        raise ValueError("no early exit was stated")
    B = np.unique(np.geomspace(1, shown.batch[-1], _SIZES).round())
    saved = savings(exits, B)
    return B, {
        "freed rows refilled at once": saved.refilling,
        "batch compacted after each exit": saved.compaction,
        "lockstep": saved.lockstep,
        "batch 1 over B": saved.lockstep[0] / B,
    }


def early_exit_by_batch(found: PoolAnswer, path: Path) -> Path:
    """Draw what early exit saves by batch size: lockstep, compaction, refilling, and the inverse law."""
    B, lines = early_exit_lines(found)
    with panels(1, width=5.6, height=3.2) as (figure, (ax,)):
        for (name, saved), color, style in zip(lines.items(), _EXIT_COLORS, _EXIT_STYLES, strict=True):
            ax.plot(B, 100 * saved, color=color, linestyle=style, label=name)
        ax.axhline(0.0, color="black", linewidth=0.8)
        asked = found.at_once
        if asked:
            ax.axvline(asked, color="black", linewidth=0.8, linestyle=":")
            middle = (asked, 50 * float(lines["lockstep"][0]))
            ax.annotate(_tenants(asked), middle, (4, 0), textcoords="offset points", fontsize=8)
        ax.set_xscale("log")
        plain_ticks(ax)
        ax.set_title("model output: expected for the exits as stated")
        ax.set_xlabel("batch size B")
        ax.set_ylabel("% of a step's time saved")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return save(figure, path)
