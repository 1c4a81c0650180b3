"""One decision as a picture: both texts above each other, and what every draft length would cost."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oracle.explanation import COMPONENTS, Explained, Explanation
from oracle.figures.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, label, panels, save
from oracle.panels import LONGEST, SIGNS, Mark, Panel, Token

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS: dict[Mark, str] = {
    "match": BLUE,
    "first mismatch": RED,
    "after the mismatch": GREY,
    "past the end": GREY,
    "unknown": GREY,
}
_PARTS = tuple(zip(COMPONENTS, ("beta0", "experts", "context", "draft", "rejection"),
                   (BLUE, ORANGE, GREEN, PURPLE, GREY), ("", "//", "..", "\\\\", "xx"), strict=True))  # fmt: skip
_CHARACTER = 0.078  # inches, of the boxes' type
_CAPTION = 16  # characters of the caption an inch
_LEFT = 12  # characters, for the rows' names
_GAP = 0.6  # characters from a box to the edge of its column
_BESIDE = 0.25  # characters: lines of one edge stand next to each other
_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
_LEGEND = "texts: = match, × first mismatch, · behind it, – past the end; dotted: beyond the cut k*"
MOST_STEPS = 12  # tokens drawn; more where the cut lies further


def decision_figure(one: Explained, path: Path) -> Path:
    """The panel above, Q(t, k) by its parts and its differences below."""
    found, panel = one.explanation, one.panel
    wide = max(8.0, _CHARACTER * (_LEFT + sum(_widths(panel)) + 1))
    with panels(2, 2, width=wide / 2, height=2.9, gridspec_kw={"height_ratios": (0.95, 1.1)}) as (figure, axes):
        top, spare, parts, differences = axes
        spec = top.get_subplotspec().get_gridspec()  # type: ignore[union-attr]  # made by subplots
        spare.remove()
        top.set_subplotspec(spec[0, :])
        draw_panel(top, panel)
        draw_parts(parts, found)
        draw_differences(differences, found, label(one.changed.name))
        below = [_LEGEND, *textwrap.wrap(drawable(panel.caption), int(_CAPTION * wide))]
        figure.supxlabel("\n".join(below), fontsize=7, color=GREY)
        return save(figure, path)


def drawable(text: str) -> str:
    """Write characters that the boxes' font lacks as their code points: a picture that is printed shows them still."""
    from matplotlib.font_manager import findfont, get_font  # noqa: PLC0415  # slow to import

    font = get_font(findfont("DejaVu Sans Mono"))
    return "".join(c if font.get_char_index(ord(c)) else c.encode("unicode_escape").decode("ascii") for c in text)


def _shown(token: Token) -> str:
    text = drawable(token.shown)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _widths(panel: Panel) -> list[int]:
    """Width of each column of tokens, in characters of the boxes' type."""
    count = _steps(panel)
    tokens = [(panel.target[j : j + 1], (panel.draft or ())[j : j + 1]) for j in range(count)]
    return [max(5, *(len(_shown(token)) for pair in both for token in pair), 0) + 2 for both in tokens]


def _steps(panel: Panel) -> int:
    whole = max(len(panel.target), len(panel.draft or ()))
    return min(whole, max(MOST_STEPS, panel.draft_length + 2, panel.modal_advance + 1))


def draw_panel(ax: "Axes", panel: Panel) -> None:
    """Draw the texts token by token: target above, draft below, signs between, new experts under each."""
    edges = np.concatenate([[0.0], np.cumsum(_widths(panel))])
    ax.set_axis_off()
    ax.set_xlim(-_LEFT, edges[-1] + 1)
    ax.set_ylim(-0.6, 5.0)
    ax.set_title(f"{drawable(panel.title)}\n{drawable(panel.context)} ▸", loc="left", fontsize=8, family="monospace")
    for y, name in ((3.0, "target"), (1.5, "draft"), (0.35, "match prob"), (-0.25, "new experts")):
        if name != "draft" or panel.draft is not None:
            ax.text(-0.8, y, name, ha="right", va="center", fontsize=8)
    if panel.draft is None:
        ax.text(
            0.3,
            1.5,
            "the trace holds no proposals of the draft",
            va="center",
            fontsize=8,
            color=GREY,
            bbox=_PAPER,
            zorder=5,
        )
    for j in range(len(edges) - 1):
        left, right = edges[j], edges[j + 1]
        beyond = j >= panel.draft_length
        mark = panel.marks[j] if panel.draft is not None and j < len(panel.draft) else None
        colour = GREY if mark is None else _COLOURS[mark]
        if j < len(panel.target):
            _box(ax, panel.target[j], left, right, 3.0, colour, pale=beyond)
        if mark is not None and panel.draft is not None:
            _box(ax, panel.draft[j], left, right, 1.5, colour, pale=beyond)
            ax.text(
                (left + right) / 2,
                2.25,
                SIGNS[mark],
                ha="center",
                va="center",
                color=colour,
                weight="bold",
                fontsize=11,
            )
        for y, value in ((0.35, _value(panel.match_prob, j)), (-0.25, _value(panel.new_experts, j))):
            ax.text((left + right) / 2, y, value, ha="center", va="center", fontsize=7, color=GREY)
    _lines(ax, panel, edges)


def _value(values: "np.ndarray[tuple[int], np.dtype[np.float64]]", j: int) -> str:
    return f"{values[j]:.2f}" if j < len(values) and np.isfinite(values[j]) else "–"


def _box(ax: "Axes", token: Token, left: float, right: float, y: float, colour: str, *, pale: bool) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415  # slow to import

    ax.add_patch(
        Rectangle(
            (left + _GAP, y - 0.5), right - left - 2 * _GAP, 1.0,
            facecolor="none" if pale else colour + "33", edgecolor=colour,
            linewidth=0.8, linestyle=":" if pale else "-",
        )
    )  # fmt: skip
    middle = (left + right) / 2
    shade = GREY if pale else "black"
    ax.text(middle, y, _shown(token), ha="center", va="center", family="monospace", fontsize=8, color=shade)


def _lines(ax: "Axes", panel: Panel, edges: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> None:
    """Lines for the cut, the cut under the changed cost and the modal advance, each with its name."""
    lines = [(panel.draft_length, f"k* = {panel.draft_length}", "black", "-", 4.35, -_BESIDE)]
    if panel.changed_length != panel.draft_length:
        lines.append((panel.changed_length, f"k0* = {panel.changed_length}", ORANGE, "--", 4.35, -_BESIDE))
    lines.append((panel.modal_advance, f"modal advance {panel.modal_advance}", GREEN, "-.", 3.85, _BESIDE))
    for at, name, colour, style, top, beside in lines:
        if at < len(edges):
            x = edges[at] + beside
            ax.plot([x, x], [0.8, top], color=colour, linestyle=style, linewidth=1.6)
            side = "left" if beside > 0 else "center"
            ax.text(x, top + 0.05, name, ha=side, va="bottom", fontsize=8, color=colour, zorder=5, bbox=_PAPER)


def draw_parts(ax: "Axes", found: Explanation) -> None:
    """Stack the parts of every round, less the price of the positions it saves; their sum is marked."""
    k = found.lengths
    under = np.zeros(len(k))
    for c, (_, name, colour, hatch) in enumerate(_PARTS):
        part = found.cost_ms[:, c]
        if part.any():
            ax.bar(k, part, 0.7, under, color=colour + "99", edgecolor="white", hatch=hatch, label=name, linewidth=0.3)
            under = under + part
    credit = found.credit_ms.sum(axis=1)
    ax.bar(k, -credit, 0.7, color="white", edgecolor=GREY, linewidth=0.8, label="positions saved (credit)")
    ax.plot(k, found.q_ms, color="black", marker="o", label="Q(t, k) − V(t + 1)")
    ax.axhline(0.0, color="black", linewidth=0.8)
    at = int(np.searchsorted(k, found.draft_length))
    ax.plot(k[at], found.q_ms[at], color="black", marker="*", markersize=12, linestyle="none")
    ax.set_ylabel("ms")
    ax.set_xlabel("draft length k")
    ax.set_xticks(k if len(k) <= 16 else k[::4])
    ax.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)


def draw_differences(ax: "Axes", found: Explanation, change: str) -> None:
    """How much worse every length is than the best, under the full and under the changed cost."""
    curves = (
        (found.q_ms, found.draft_length, "black", "o", "-", "full cost, k*"),
        (found.changed_q_ms, found.changed_length, ORANGE, "s", "--", f"{change}, k0*"),
    )
    for q, best, colour, mark, style, name in curves:
        at = int(np.searchsorted(found.lengths, best))
        ax.plot(found.lengths, q - q[at], color=colour, marker=mark, linestyle=style, label=f"{name} = {best}")
        size = 12 if colour == "black" else 20  # where both lengths are one, a rim of the second star stays to be seen
        ax.plot(best, 0.0, color=colour, marker="*", markersize=size, linestyle="none", zorder=30 - size)
    ax.set_ylabel("ms worse than the best length")
    ax.set_xlabel("draft length k")
    ax.set_xticks(found.lengths if len(found.lengths) <= 16 else found.lengths[::4])
    ax.legend(fontsize=8)
