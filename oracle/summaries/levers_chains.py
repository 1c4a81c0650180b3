"""The break-even of speculation if matches follow one another, in three readings."""

from collections.abc import Callable
from dataclasses import replace

from oracle.levers.answer import Answer
from oracle.levers.break_even import repetitiveness_needed
from oracle.levers.matches import Reading
from oracle.summaries.levers import usable
from oracle.tables import Column, Row, Table, show, words

CHAINS: tuple[Reading, ...] = ("stationary", "gated", "renewal")
AUTOCORRELATIONS = (0.0, 0.2, 0.4, 0.6)
_SEEN = 0.001  # of a break-even, as tables show it


def chains_table(found: Answer) -> Table:
    """Show the break-even repetitiveness under the three readings of autocorrelated matches."""
    deployment, regime = found.deployment, found.regime
    rows = []
    for reading in CHAINS:
        for index in usable(found):
            p = deployment.precisions[index]
            needed = {}
            for x in AUTOCORRELATIONS:
                how = replace(deployment.speculation, reading=reading, autocorrelation=x)
                r = repetitiveness_needed(replace(deployment, speculation=how), p, regime)
                needed[f"x_{x:g}"] = float(r)
            moves, shown = _moves(list(needed.values()))
            rows.append({"reading": reading, "precision": p.name} | needed | {"moves": moves, "shown": shown})
    columns = (
        words("matches", "reading"),
        words("precision", "precision"),
        *(Column(f"x = {x:g}", _needed(f"x_{x:g}")) for x in AUTOCORRELATIONS),
        words("r* with x", "shown"),
    )
    notes = (
        "x: lag-1 autocorrelation of matches; the source expects r* to fall with it",
        "stationary: r is the acceptance of the first draft position; gated: the same, and a draft is made only after "
        "a match; renewal: r is the match rate of all tokens, and rounds begin right after mismatches",
    )
    return Table("levers_autocorrelation", "r* if matches follow one another", columns, rows, notes)


def _moves(needed: list[float]) -> tuple[str, str]:
    """Say which way the break-even goes from no autocorrelation to the largest, and whether that can be seen."""
    if needed[0] == needed[-1]:
        return "unchanged", "unchanged"
    moves = "falls" if needed[-1] < needed[0] else "rises"
    return moves, f"{moves} by under {_SEEN:g}" if abs(needed[-1] - needed[0]) < _SEEN else moves


def _needed(key: str) -> Callable[[Row], str]:
    return lambda row: needed_share(row[key])


def needed_share(value: float) -> str:
    """Show a break-even of a share; above 1 it is never reached."""
    return "never" if value > 1 else show(value, ".3f")
