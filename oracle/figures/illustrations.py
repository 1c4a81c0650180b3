"""Pictures of chosen decisions: one file a case, and the gallery on one page."""

import re
from dataclasses import replace
from pathlib import Path

from oracle.figures.decision import decision_figure, draw_panel
from oracle.figures.drawing import GREY, label, panels, save
from oracle.illustrations import GROUPS, Chosen, Illustration
from oracle.panels import Panel

_PICTURE = re.compile(r"case-[1-9]\d*\.svg|gallery\.svg")
_BEHIND = 2  # tokens shown behind the cut and behind the modal advance
_INCHES = 0.078  # a character of the panels' type
_NARROWEST = 5.7  # inches, so that a title fits
_LEGEND = (
    "texts: = match, × first mismatch, · behind it; dotted: beyond the cut k*; orange: the cut k0* with {}, solved "
    "again; chosen by rule, no sample"
)


def is_picture(name: str) -> bool:
    """Whether `write_pictures` writes a file of that name."""
    return _PICTURE.fullmatch(name) is not None


def write_pictures(folder: Path, cases: Chosen | None = None, gallery: Chosen | None = None) -> list[Path]:
    """Draw each case as ``case-1.svg`` …, and the gallery as ``gallery.svg`` where it shows anything.

    Returns
    -------
    The files written.
    """
    several = () if cases is None else cases.illustrations
    written = [decision_figure(one.explained, folder / f"case-{n}.svg") for n, one in enumerate(several, 1)]
    if gallery is not None and gallery.illustrations:
        written.append(gallery_figure(gallery, folder / "gallery.svg"))
    return written


def gallery_figure(gallery: Chosen, path: Path) -> Path:
    """Draw all decisions of a gallery on one page: a column a group, its decisions below each other."""
    groups = [[one for one in gallery.illustrations if one.group == group] for group in GROUPS]
    columns = [group for group in groups if group]
    rows = max(map(len, columns))
    with panels(len(columns), rows, width=_NARROWEST, height=2.1) as (figure, axes):
        widths = [_NARROWEST] * len(columns)
        for c, group in enumerate(columns):
            for r in range(rows):
                ax = axes[r * len(columns) + c]
                if r >= len(group):
                    ax.set_axis_off()
                    continue
                draw_panel(ax, _shortened(group[r]))
                left, right = ax.get_xlim()
                widths[c] = max(widths[c], _INCHES * (right - left))
        figure.set_size_inches(sum(widths), 2.1 * rows + 0.4)
        axes[0].get_subplotspec().get_gridspec().set_width_ratios(widths)  # type: ignore[union-attr]
        figure.supxlabel(_LEGEND.format(label(gallery.change)), fontsize=8, color=GREY)
        return save(figure, path)


def _shortened(one: Illustration) -> Panel:
    """The panel with the rule as its title, cut a few tokens behind the last line in it."""
    panel, candidate = one.explained.panel, one.candidate
    lines = max(panel.draft_length, panel.changed_length, panel.modal_advance)
    most = lines + _BEHIND
    category = f" ({label(candidate.category)})" if candidate.category else ""
    return replace(
        panel,
        title=f"{one.group}: {candidate.rule}, {label(candidate.generation)}{category}, t = {candidate.position}",
        target=panel.target[:most],
        draft=None if panel.draft is None else panel.draft[:most],
    )
