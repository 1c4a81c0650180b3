"""A kernel, its rivals and the inputs they meet on: checked to agree, then timed in turns."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from .limits import Limits, Needs
from .report import Row, timed_row
from .timing import interleaved

Run = Callable[[], object]


@dataclass(frozen=True)
class Rival:
    """Another way to the same result.

    Attributes
    ----------
    run
        What is timed.
    check
        Runs it once and raises AssertionError unless it gives our result.
    note
        What its time leaves out, if anything.
    """

    run: Run
    check: Callable[[], None]
    note: str = ""


@dataclass(frozen=True)
class Bout:
    """Rivals that meet us on one input of `positions` decisions; slow ones meet us on a short one."""

    positions: int
    ours: Run
    rivals: Mapping[str, Rival] = field(default_factory=dict)


@dataclass(frozen=True)
class Contest:
    """One kernel or step.

    Attributes
    ----------
    name, what
        As in `Row`.
    needs
        What a position takes at least.
    bouts
        The first one gives our own figures.
    absent
        Rivals that could not be built here, and why.
    of
        What `positions` count, where that is not positions.
    figures, note
        For our row.
    """

    name: str
    what: str
    needs: Needs
    bouts: tuple[Bout, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    of: str = "position"
    figures: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


def rows_of(contest: Contest, group: str, limits: Limits, *, rounds: int, budget_s: float) -> Iterator[Row]:
    """Check and time a contest: our row, then one row a rival."""
    ratios: dict[str, float] = {}
    rival_rows: list[Row] = []
    ours = None
    for bout in contest.bouts:
        for rival in bout.rivals.values():
            rival.check()
        contestants = {contest.name: bout.ours} | {name: rival.run for name, rival in bout.rivals.items()}
        timings = interleaved(contestants, rounds=rounds, budget_s=budget_s)
        ours = ours or timings[contest.name]
        for name, rival in bout.rivals.items():
            ratios[name] = timings[name].over(timings[contest.name])
            rival_rows.append(
                timed_row(
                    f"{contest.name} / {name}",
                    group,
                    f"{contest.what}; {name}",
                    timings[name],
                    positions=bout.positions,
                    of=contest.of,
                    note=rival.note,
                )
            )
    for name, reason in contest.absent.items():
        unit = f"ns/{contest.of}"
        rival_rows.append(Row(f"{contest.name} / {name}", group, f"{contest.what}; {name}", unit, note=reason))
    assert ours is not None
    yield timed_row(
        contest.name,
        group,
        contest.what,
        ours,
        positions=contest.bouts[0].positions,
        of=contest.of,
        needs=contest.needs,
        limits=limits,
        ratios=ratios,
        figures=dict(contest.figures),
        note=contest.note,
    )
    yield from rival_rows
