"""The figure of tuned policies: held-out time against the best static length."""

from pathlib import Path

from oracle.errors import printable
from oracle.figures.drawing import BLUE, GREY, LONGEST, ORANGE, panels, save
from oracle.tuning import Tuning


def held_out_policies(found: Tuning, path: Path) -> Path:
    """Held-out milliseconds a token of every family with their intervals; lines: the oracle and k = 0."""
    rows = found.families
    with panels(1, width=6.4, height=1.3 + 0.24 * len(rows)) as (figure, (ax,)):
        for online, colour, mark, name in ((True, BLUE, "o", "what an engine knows"), (False, ORANGE, "^", "a bound")):
            some = [(y, one) for y, one in enumerate(rows) if one.online is online]
            if not some:
                continue
            ends = [(one.ms_per_token, one.ms_per_token_interval) for _, one in some]
            below = [0.0 if i is None else v - i.low for v, i in ends]
            above = [0.0 if i is None else i.high - v for v, i in ends]
            ax.errorbar([v for v, _ in ends], [y for y, _ in some], xerr=[below, above], color=colour, fmt=mark,
                        linestyle="none", capsize=2, label=name)  # fmt: skip
        ax.axvline(found.oracle_ms_per_token, color=GREY, linestyle=":", label="oracle")
        if found.without_ms_per_token is not None:
            ax.axvline(found.without_ms_per_token, color=GREY, linestyle="--", label="k = 0")
        ax.set_yticks(range(len(rows)), [printable(one.family, LONGEST) for one in rows])
        ax.invert_yaxis()
        ax.set_xlabel("held-out ms a token")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return save(figure, path)
