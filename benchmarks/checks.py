"""What must hold: the demands on speed, memory and results, judged from the rows of a run."""

from collections.abc import Iterator, Sequence

from . import clustering, path, solving, twin
from .inputs import MODELS, K
from .report import Check, Row

MOST_OVER_TWIN = 1.3  # times a C++ twin's time
LEAST_R_SQUARED = 0.99
_TOO_SMALL = "not judged: times of this size mean nothing"


def checks_of(rows: Sequence[Row], clock_counts: bool) -> tuple[Check, ...]:
    """Judge what was measured; `clock_counts`: whether times mean something."""
    by_name = {row.name: row for row in rows}
    return tuple(_checks(by_name, clock_counts))


def _checks(by_name: dict[str, Row], clock_counts: bool) -> Iterator[Check]:
    if (lanes := by_name.get("solve_lanes")) is not None:
        yield _vectorised(lanes)
    for name, what in (("solve_one", f"one cost model, K = {K}"), ("solve_lanes", f"{MODELS} cost models")):
        if (row := by_name.get(name)) is not None:
            yield _beside_twin(row, what, clock_counts)
    if (line := by_name.get(path.LINE)) is not None:
        yield _linear(line, clock_counts)
    sizes = [row for row in by_name.values() if path.PEAK_MB in row.figures]
    if sizes:
        yield _memory(max(sizes, key=lambda row: row.figures[path.PEAK_MB]))
    if (local := by_name.get(clustering.LOCAL)) is not None:
        same = local.figures[clustering.SAME_BYTES] == 1.0
        found = "the same bytes" if same else "other bytes"
        yield Check("Ray beside one process", "the same bytes", found, same, fails_the_run=True)


def _vectorised(lanes: Row) -> Check:
    ratio, packed = lanes.figures[solving.SINGLE_SOLVES], lanes.figures.get(solving.PACKED)
    instructions = "packed instructions not known here" if packed is None else f"{packed:.0f} packed instructions"
    return Check(
        name="the loop over cost models is vectorised",
        asked=f"{MODELS} models cost less than {solving.SCALAR_RATIO:g} single solves",
        found=f"{ratio:.1f} single solves; {instructions}",
        passed=solving.lanes_vectorised(None if packed is None else int(packed), ratio),
        fails_the_run=True,
    )


def _beside_twin(row: Row, what: str, clock_counts: bool) -> Check:
    name, asked = f"{row.name} beside g++ -O3 -march=native", f"at most {MOST_OVER_TWIN} times its time; {what}"
    if twin.NAME not in row.ratios:
        return Check(name, asked, "not judged: no C++ twin here", None, fails_the_run=False)
    over = 1.0 / row.ratios[twin.NAME]
    if not clock_counts:
        return Check(name, asked, _TOO_SMALL, None, fails_the_run=False)
    return Check(name, asked, f"{over:.2f} times", over <= MOST_OVER_TWIN, fails_the_run=False)


def _linear(line: Row, clock_counts: bool) -> Check:
    name, asked = "time is linear in positions", f"R² of a straight line at least {LEAST_R_SQUARED}"
    if not clock_counts:
        return Check(name, asked, _TOO_SMALL, None, fails_the_run=False)
    found = f"R² {line.figures[path.R_SQUARED]:.5f}; no size off by more than {line.figures[path.WORST]:.1%}"
    return Check(name, asked, found, line.figures[path.R_SQUARED] >= LEAST_R_SQUARED, fails_the_run=False)


def _memory(most: Row) -> Check:
    peak = most.figures[path.PEAK_MB]
    return Check(
        name="memory does not grow with the trace",
        asked=f"at most {path.MEMORY_MB} MB",
        found=f"{peak:.0f} MB: {most.name}",
        passed=peak <= path.MEMORY_MB,
        fails_the_run=True,
    )
