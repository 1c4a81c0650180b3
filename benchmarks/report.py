"""What a benchmark run says: facts of the machine and one row a thing measured, all plain data."""

from dataclasses import asdict, dataclass, field
from typing import Any

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
    positions
        Decisions a run takes.
    per_second
        Decisions a second, at the median.
    ns_per_position
        Nanoseconds a decision, at the median.
    bytes_per_position
        Bytes a decision must move to and from memory at least.
    gb_per_s
        Those bytes over the median time, GB/s.
    bandwidth_share
        `gb_per_s` over the read bandwidth of one core, measured in the same run.
    ratios
        Time of each rival over this one's on the same input, median over interleaved rounds; above 1: we are faster.
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
    positions: int | None = None
    per_second: float | None = None
    ns_per_position: float | None = None
    bytes_per_position: float | None = None
    gb_per_s: float | None = None
    bandwidth_share: float | None = None
    ratios: dict[str, float] = field(default_factory=dict)
    note: str = ""

    def to_dict(self) -> Figures:
        """Give all fields as JSON can hold them."""
        return asdict(self)


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


@dataclass(frozen=True)
class BenchReport:
    """All rows of a run, in the order they were measured."""

    size: str
    machine: Machine
    rows: tuple[Row, ...]

    def row(self, name: str) -> Row:
        """Find a row by its name."""
        return next(row for row in self.rows if row.name == name)

    def to_dict(self) -> Figures:
        """Give the whole report as JSON can hold it."""
        return {"size": self.size, "machine": asdict(self.machine), "rows": [row.to_dict() for row in self.rows]}


def timed_row(
    name: str,
    group: str,
    what: str,
    timing: Timing,
    *,
    positions: int,
    bytes_per_position: float | None = None,
    bandwidth_gb_per_s: float | None = None,
    ratios: dict[str, float] | None = None,
    note: str = "",
) -> Row:
    """Give the row of something that was timed over `positions` decisions."""
    ns = 1e9 / positions
    gb_per_s = None if bytes_per_position is None else bytes_per_position * positions / timing.median / 1e9
    return Row(
        name=name,
        group=group,
        what=what,
        unit="ns/position",
        value=timing.median * ns,
        least=timing.fastest * ns,
        most=timing.slowest * ns,
        runs=len(timing.seconds),
        positions=positions,
        per_second=positions / timing.median,
        ns_per_position=timing.median * ns,
        bytes_per_position=bytes_per_position,
        gb_per_s=gb_per_s,
        bandwidth_share=gb_per_s / bandwidth_gb_per_s if gb_per_s and bandwidth_gb_per_s else None,
        ratios=ratios or {},
        note=note,
    )
