"""What a benchmark run says: facts of the machine and one row a thing measured, all plain data."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .limits import Limits, Needs
from .timing import Timing

Figures = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One thing measured. None: does not apply, or the rival is not there and `note` says why.

    Attributes
    ----------
    name
        Unique; a rival's is the name of what it rivals, " / " and its own.
    group
        Which part of the benchmarks it belongs to, see `run.GROUPS`.
    what
        Input and contestant in a few words.
    unit
        Of `value`, `least` and `most`.
    value, least, most
        Median, minimum and maximum over `runs`.
    runs
        Counted repeats.
    of
        What is counted: positions (decisions), or windows, blocks, tokens, rounds.
    positions
        How many of them a run takes.
    per_second
        So many a second, at the median.
    ns_per_position
        Nanoseconds for one, at the median.
    bytes_per_position, operations_per_position, operations_are
        What one must move to and from memory, and how many operations of which kind it takes, at least; the formulas
        are in `needs`.
    gb_per_s, gop_per_s
        Those over the median time.
    bandwidth_share
        `gb_per_s` over the read bandwidth of one core, measured in the same run.
    bound_by
        What would take longer at this machine's limits: `memory` or `arithmetic`.
    limit_ns_per_position, limit_share
        That time, and its share of the median: 1 could not be faster without other bytes or operations.
    ratios
        Time of each rival over this one's on the same input, median over interleaved rounds; above 1: we are faster.
    figures
        What else was measured, by name with unit.
    note
        What else to know.
    """

    name: str
    group: str
    what: str
    unit: str
    value: float | None = None
    least: float | None = None
    most: float | None = None
    runs: int = 0
    of: str = "position"
    positions: int | None = None
    per_second: float | None = None
    ns_per_position: float | None = None
    bytes_per_position: float | None = None
    operations_per_position: float | None = None
    operations_are: str | None = None
    gb_per_s: float | None = None
    gop_per_s: float | None = None
    bandwidth_share: float | None = None
    bound_by: str | None = None
    limit_ns_per_position: float | None = None
    limit_share: float | None = None
    ratios: dict[str, float] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    note: str = ""

    def to_dict(self) -> Figures:
        """Give all fields as JSON can hold them."""
        return asdict(self)


@dataclass(frozen=True)
class Check:
    """Something that must hold.

    Attributes
    ----------
    name
        Which.
    asked, found
        What is demanded and what was found, in words.
    passed
        Whether it holds; None: not judged, `found` says why.
    fails_the_run
        Whether the command ends with exit code 1 where it does not hold. What the clock alone tells does not: another
        process may have been at work.
    """

    name: str
    asked: str
    found: str
    passed: bool | None
    fails_the_run: bool


@dataclass(frozen=True)
class Machine:
    """Where the figures were taken."""

    cpu: str
    cores: int
    python: str
    numpy: str
    numba: str
    pyarrow: str
    read_bandwidth_gb_per_s: float
    peak_gop_per_s: dict[str, float]


@dataclass(frozen=True)
class BenchReport:
    """All rows of a run, in the order they were measured."""

    size: str
    machine: Machine
    rows: tuple[Row, ...]
    checks: tuple[Check, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether something does not hold that must on any machine."""
        return any(check.passed is False and check.fails_the_run for check in self.checks)

    def row(self, name: str) -> Row:
        """Find a row by its name."""
        return next(row for row in self.rows if row.name == name)

    def to_dict(self) -> Figures:
        """Give the whole report as JSON can hold it."""
        return {
            "size": self.size,
            "machine": asdict(self.machine),
            "rows": [row.to_dict() for row in self.rows],
            "checks": [asdict(check) for check in self.checks],
        }


def timed_row(
    name: str,
    group: str,
    what: str,
    timing: Timing,
    *,
    positions: int,
    of: str = "position",
    needs: Needs | None = None,
    limits: Limits | None = None,
    ratios: dict[str, float] | None = None,
    figures: dict[str, float] | None = None,
    note: str = "",
) -> Row:
    """Give the row of something that was timed over `positions` decisions, or so many of what `of` names."""
    ns = 1e9 / positions
    row = Row(
        name=name,
        group=group,
        what=what,
        unit=f"ns/{of}",
        value=timing.median * ns,
        least=timing.fastest * ns,
        most=timing.slowest * ns,
        runs=len(timing.seconds),
        of=of,
        positions=positions,
        per_second=positions / timing.median,
        ns_per_position=timing.median * ns,
        ratios=ratios or {},
        figures=figures or {},
        note=note,
    )
    return row if needs is None or limits is None else replace(row, **_held_against(limits, needs, timing.median * ns))


def _held_against(limits: Limits, needs: Needs, ns: float) -> Figures:
    """What is said about a time of so many nanoseconds beside the machine's limits."""
    least = limits.least_ns(needs)
    bound_by = max(least, key=least.__getitem__)
    return {
        "bytes_per_position": needs.moved,
        "operations_per_position": needs.operations,
        "operations_are": needs.kind,
        "gb_per_s": needs.moved / ns,
        "gop_per_s": needs.operations / ns,
        "bandwidth_share": needs.moved / ns / limits.bandwidth_gb_per_s,
        "bound_by": bound_by,
        "limit_ns_per_position": least[bound_by],
        "limit_share": least[bound_by] / ns,
    }
