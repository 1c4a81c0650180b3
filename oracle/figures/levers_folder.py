"""All figures of an answer about serving levers, in one folder: a set for each regime, one for each schedule."""

import re
from collections.abc import Sequence
from pathlib import Path

from oracle.figures import levers as figures
from oracle.figures import levers_maps as maps
from oracle.figures.levers_schedule import schedule_over_slots
from oracle.figures.levers_shared import cost_by_concurrency
from oracle.levers.answer import Answer, Planned
from oracle.levers.shared import Shared

MOST_DRAWN = 4  # tenants; the others stand in the tables only
_OF_A_REGIME = {
    "repetitiveness": figures.repetitiveness_by_concurrency,
    "prefix-share": figures.prefix_share_by_batch,
    "precision": figures.precision_by_concurrency,
    "matches": figures.round_length_by_match,
    "decisions": maps.decision_map,
    "regret": maps.regret_map,
}
_NAMES = re.compile(rf"(?:{'|'.join([*_OF_A_REGIME, 'schedule'])})(?:-[1-{MOST_DRAWN}])?\.svg|shared\.svg")


def is_figure(name: str) -> bool:
    """Whether a file of this name is one of these figures."""
    return _NAMES.fullmatch(name) is not None


def write_figures(folder: Path, answers: Sequence[Answer], plans: Sequence[Planned], shared: Shared | None) -> None:
    """Draw them; with several tenants their files are numbered in the order of the tables."""
    for i, found in enumerate(answers[:MOST_DRAWN], 1):
        for name, draw in _OF_A_REGIME.items():
            draw(found, folder / f"{name}{f'-{i}' if len(answers) > 1 else ''}.svg")
    for i, plan in enumerate(plans[:MOST_DRAWN], 1):
        schedule_over_slots(plan, folder / f"schedule{f'-{i}' if len(plans) > 1 else ''}.svg")
    if shared is not None:
        cost_by_concurrency(shared, folder / "shared.svg")
