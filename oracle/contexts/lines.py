"""Lines of a text and which of them are code, decided together: the cheapest path through two modes."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from oracle.contexts.evidence import code_evidence

SWITCH = 3.0  # evidence that a change of mode within a paragraph takes
SWITCH_AFTER_BLANK = 1.5  # the same where a blank line parts the two
START_IN_CODE = 1.5  # evidence that a text needs to begin in code
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Line(NamedTuple):
    """A line of a text: its place, its characters without the line break, and its evidence for code."""

    start: int
    stop: int
    text: str
    evidence: float

    @property
    def blank(self) -> bool:
        """Whether nothing can be seen in it."""
        return not self.text or self.text.isspace()


def lines_of(text: str, start: int, stop: int) -> list[Line]:
    """Cut a stretch of a text into lines; `stop` of a line lies behind its line break."""
    found = []
    for match in _LINE.finditer(text, start, stop):
        bare = match.group().rstrip("\n")
        found.append(Line(match.start(), match.end(), bare, code_evidence(bare)))
    return found


def code_lines(lines: Sequence[Line], forced: Sequence[bool]) -> list[bool]:
    """Tell which lines are code.

    Each line costs the evidence against its mode, each change of mode `SWITCH`; the cheapest sequence of modes is
    taken (Viterbi), so that a doubtful line goes with its neighbours. Without evidence a text is prose.

    Parameters
    ----------
    lines
        All lines of a stretch, in order.
    forced
        Lines that are code whatever they look like: comments and docstrings.
    """
    prose_cost, code_cost = 0.0, START_IN_CODE
    came_from: list[tuple[bool, bool]] = []  # whether the line before was code, if this one is prose or code
    switch = SWITCH
    for line, certain in zip(lines, forced, strict=True):
        to_prose, to_code = code_cost + switch < prose_cost, prose_cost + switch > code_cost
        came_from.append((to_prose, to_code))
        prose_cost, code_cost = min(prose_cost, code_cost + switch), min(code_cost, prose_cost + switch)
        if certain:
            prose_cost += 1e6
        elif line.evidence > 0:
            prose_cost += line.evidence
        else:
            code_cost -= line.evidence
        switch = SWITCH_AFTER_BLANK if line.blank and not certain else SWITCH
    is_code = code_cost < prose_cost
    found = [False] * len(lines)
    for i in range(len(lines) - 1, -1, -1):
        found[i] = is_code
        is_code = came_from[i][is_code]
    return found
