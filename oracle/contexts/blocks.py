"""Docstrings and block comments, from their opening mark to where they end or visibly have been left.

A text sampled from a model may never close what it opens. A block whose closing mark is missing, or is rather the
opening mark of another block, ends where code goes on.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from oracle.contexts.evidence import STRONG
from oracle.contexts.lines import Line

_OPENING = re.compile(r'"""|\'\'\'|(?:(?<=[\s;{}),])|\A)/\*')
_DOCSTRING_PREFIX = re.compile(r"\s*[rRuUbB]?")
_DEFINES = re.compile(r"\s*(?:(?:async\s+)?def\b.*[:)]|class\b.*:|@\w[\w.]*.*|return\b.*)$")


class Block(NamedTuple):
    """A docstring, block comment or string of several lines: its place, that of its words, and what it is."""

    start: int
    words_start: int
    words_stop: int
    stop: int
    is_comment: bool


def blocks_of(text: str, lines: Sequence[Line]) -> list[Block]:
    """Find the blocks of a stretch, in order; they do not overlap.

    Parameters
    ----------
    text
        The whole text.
    lines
        The lines of the stretch.
    """
    if not lines:
        return []
    starts = [line.start for line in lines]
    begin, end = lines[0].start, lines[-1].stop
    found = _opened_before(text, lines, starts)
    position = found[-1].stop if found else begin
    while (match := _OPENING.search(text, position, end)) is not None:
        at = bisect_right(starts, match.start()) - 1
        before = text[lines[at].start : match.start()]
        opens_line = _DOCSTRING_PREFIX.fullmatch(before) is not None
        if "#" in before or "//" in before or (not opens_line and lines[at].evidence <= 0):
            position = match.end()  # within a comment, or in a sentence
            continue
        block = _block(text, lines, at, match, end)
        found.append(block)
        position = max(block.stop, match.end())
    return found


def _block(text: str, lines: Sequence[Line], at: int, opening: re.Match[str], end: int) -> Block:
    """Follow a block from its opening mark."""
    mark = opening.group()
    closing_mark = "*/" if mark == "/*" else mark
    is_comment = mark == "/*" or _DOCSTRING_PREFIX.fullmatch(text, lines[at].start, opening.start()) is not None
    closing = text.find(closing_mark, opening.end(), end)
    if closing >= 0 and closing < lines[at].stop:
        return Block(opening.start(), opening.end(), closing, closing + len(closing_mark), is_comment)
    if closing >= 0:
        rather_opens = _is_opening(text, lines, closing, closing_mark)
        if _left_at(lines, at + 1, by_definition=not rather_opens) >= closing:
            return Block(opening.start(), opening.end(), closing, closing + len(closing_mark), is_comment)
    left = _left_at(lines, at + 1)
    return Block(opening.start(), opening.end(), left, left, is_comment)


def _left_at(lines: Sequence[Line], first: int, *, by_definition: bool = False) -> int:
    """Give the start of the first line that cannot belong to a comment, else the end of the stretch.

    A block that has a closing mark may show examples of code: only a definition tells that it was left before.
    """
    for line in lines[first:]:
        if line.evidence < STRONG or line.text.lstrip().startswith((">>>", "...", "*")):
            continue
        if not by_definition or _DEFINES.match(line.text):
            return line.start
    return lines[-1].stop


def _is_opening(text: str, lines: Sequence[Line], mark: int, closing_mark: str) -> bool:
    """Tell whether the next mark rather opens a docstring: text follows it, nothing stands before it."""
    if closing_mark == "*/":
        return False
    line = lines[bisect_right(lines, mark, key=lambda line: line.start) - 1]
    alone_before = _DOCSTRING_PREFIX.fullmatch(text, line.start, mark) is not None
    return alone_before and bool(text[mark + len(closing_mark) : line.stop].strip())


def _opened_before(text: str, lines: Sequence[Line], starts: Sequence[int]) -> list[Block]:
    """Find the comment that the text begins in: its closing mark comes before any opening mark and any code."""
    for mark in ('"""', "*/"):
        closing = text.find(mark, lines[0].start, lines[-1].stop)
        if closing < 0 or not text[lines[0].start : closing].strip():
            continue
        at = bisect_right(starts, closing) - 1
        if any(line.evidence >= STRONG for line in lines[:at]):
            continue
        if _closes(text, lines, at, closing, mark):
            begin = lines[0].start if mark == '"""' else lines[_first_of_comment(lines, at)].start
            return [Block(begin, begin, closing, closing + len(mark), True)]
    return []


def _closes(text: str, lines: Sequence[Line], at: int, closing: int, mark: str) -> bool:
    after = text[closing + len(mark) : lines[at].stop].strip()
    goes_on = next((line.evidence for line in lines[at + 1 :] if not line.blank), 0.0)
    if mark == "*/":
        return text.find("/*", lines[0].start, closing) < 0 and (bool(after) or goes_on > 0)
    above = next((line.text.rstrip() for line in reversed(lines[:at]) if not line.blank), "")
    return not after and not above.endswith(":")


def _first_of_comment(lines: Sequence[Line], last: int) -> int:
    """Go back from the end of a block comment: beyond a blank line its text is indented or opens with ``*``."""
    first = last
    for i in range(last - 1, -1, -1):
        if lines[i].blank:
            continue
        if lines[i + 1].blank and first > 0 and not lines[first].text.startswith((" ", "\t", "*")):
            break
        first = i
    return first
