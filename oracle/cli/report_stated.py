"""What a report says of a stated deployment: files read, and answered for, as ``levers`` and ``pool`` do."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oracle.cli.levers_inputs import answered, page_notes, read_asked, shared_of
from oracle.cli.pool import answered_plan

if TYPE_CHECKING:
    from oracle.cli.levers_inputs import Asked
    from oracle.levers.answer import Answer
    from oracle.levers.traffic_file import Traffic
    from oracle.pages import Levers


@dataclass(frozen=True)
class Stated:
    """Files that state a deployment, as given; - is stdin, None was not given."""

    deployment: str | None = None
    traffic: str | None = None
    measured: str | None = None
    pool: str | None = None

    def __post_init__(self) -> None:
        for name in ("traffic", "measured"):
            if getattr(self, name) is not None and self.deployment is None:
                raise click.UsageError(f"--{name} is of a deployment; give --deployment FILE too")

    @property
    def paths(self) -> tuple[str | None, ...]:
        """All of them."""
        return (self.deployment, self.traffic, self.measured, self.pool)

    @property
    def names(self) -> dict[str, str]:
        """Which file states what, without folders."""
        return {name: Path(path).name for name, path in vars(self).items() if path is not None}


NOTHING = Stated()


def stated_material(stated: Stated) -> dict[str, Any]:
    """Give the parts of a report's material that were stated, by name.

    Raises
    ------
    InputError
        All faults of all files at once.
    """
    from oracle.errors import Faults  # noqa: PLC0415

    faults = Faults()
    found: dict[str, Any] = {}
    if stated.deployment is not None:
        deployment = stated.deployment
        found["levers"] = faults.made(lambda: _levers(read_asked(deployment, stated.traffic, stated.measured)))
    if stated.pool is not None:
        plan = stated.pool
        found["pool"] = faults.made(lambda: answered_plan(plan))
    faults.raise_if_any()
    return found


def _levers(asked: "Asked") -> "Levers":
    from oracle.errors import printable  # noqa: PLC0415
    from oracle.levers.schedule import BAND  # noqa: PLC0415
    from oracle.pages import Levers  # noqa: PLC0415
    from oracle.summaries.levers_model import answer_tables  # noqa: PLC0415

    tables, answers, plans = answered(asked, BAND)
    known = {table.name for table in tables}
    if plans:
        shown, which, at = _busiest(asked)
    else:
        shown, at = answers[0], asked.traffic[0]
        name = printable(at.tenant or at.slots[0])
        which = f"{name}, the first of {len(answers):,} regimes" if len(answers) > 1 else ""
    more = answer_tables(shown, asked.fitted, page_notes(shown, asked, replace(at, idle=()))) if which else []
    whole = (*tables, *(table for table in more if table.name not in known))
    return Levers(whole, tuple(plans), shown, which, asked.fitted, shared_of(asked))


def _busiest(asked: "Asked") -> "tuple[Answer, str, Traffic]":
    """Answer for the slot with most requests in flight of the first series, which is given too."""
    from oracle.errors import printable  # noqa: PLC0415
    from oracle.levers.answer import answer  # noqa: PLC0415
    from oracle.levers.traffic_matches import in_traffic, slot_of  # noqa: PLC0415

    series = next(each for each in asked.traffic if each.is_series)
    at = int(series.regime.concurrency.argmax())
    slot = slot_of(series, at)
    deployment, there = in_traffic(asked.deployment, slot)
    shown = answer(deployment, *(each.at(0) for each in (there.regime, there.low, there.high)))
    tenant = "" if series.tenant is None else f" of tenant {printable(series.tenant)}"
    which = f"slot {printable(series.slots[at])}, the busiest of {len(series.slots):,}{tenant}"
    return shown, which, slot
