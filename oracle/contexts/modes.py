"""A text cut into modes: fences first, then pages of HTML, then lines of code, then what delimiters mark in prose."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from oracle.contexts import formulas, tags
from oracle.contexts.blocks import Block, blocks_of
from oracle.contexts.characters import Characters, prose
from oracle.contexts.code import paint_block, paint_code
from oracle.contexts.labels import Label, Mode
from oracle.contexts.languages import guessed_language
from oracle.contexts.lines import Line, code_lines, lines_of
from oracle.contexts.prose import paint_prose

_FENCE = re.compile(r"(?m)^ {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^\n`]*$")
_INLINE = re.compile(r"(?<!`)(`{1,2})(?!`)(?:[^`\n]|\n(?!\s*\n))+(?<!`)\1(?!`)")
_QUOTED_WORD = re.compile(r"`[^`'\n]*'")  # `word' is a quotation of the typewriter age


class Fence(NamedTuple):
    """Code between two fences: offsets of the opening fence, of the code, and of what follows the closing one."""

    start: int
    code_start: int
    code_stop: int
    stop: int
    language: str


def characters_of(text: str) -> Characters:
    """Label every character of a text."""
    characters = prose(len(text))
    page = tags.is_page(text)
    at = 0
    for fence in _fences(text):
        _paint_unfenced(characters, text, at, fence.start, page)
        _paint_fence(characters, text, fence)
        at = fence.stop
    _paint_unfenced(characters, text, at, len(text), page)
    paint_prose(characters, text)
    return characters


def _fences(text: str) -> Iterator[Fence]:
    """Find fenced code; a fence that is never closed goes on to the end, a bare one may close what came before."""
    marks = list(_FENCE.finditer(text))
    if marks and _closes(text, marks):
        yield Fence(0, 0, marks[0].start(1), marks[0].end(), "")
        marks = marks[1:]
    opening: re.Match[str] | None = None
    for mark in marks:
        if opening is None:
            opening = mark
        elif mark[1].startswith(opening[1]) and not mark[2]:
            yield Fence(opening.start(1), opening.end(), mark.start(1), mark.end(), opening[2])
            opening = None
    if opening is not None:
        yield Fence(opening.start(1), opening.end(), len(text), len(text), opening[2])


def _closes(text: str, marks: Sequence[re.Match[str]]) -> bool:
    """Tell whether the first fence closes code that the text begins in."""
    if marks[0][2] or len(marks) % 2 == 0:
        return False
    before = sum(line.evidence for line in lines_of(text, 0, marks[0].start()))
    stop = marks[1].start() if len(marks) > 1 else len(text)
    return before > 0 >= sum(line.evidence for line in lines_of(text, marks[0].end(), stop))


def _paint_fence(characters: Characters, text: str, fence: Fence) -> None:
    """Label fenced code and its fences."""
    characters.paint(fence.start, fence.stop, Label.MARKUP, Mode.CODE)
    code = text[fence.code_start : fence.code_stop]
    language = fence.language.lower() or guessed_language(code)
    lines = lines_of(text, fence.code_start, fence.code_stop)
    _paint_code_lines(characters, text, lines, blocks_of(text, lines), language)


def _paint_unfenced(characters: Characters, text: str, start: int, stop: int, page: bool) -> None:
    """Label a stretch without fences: a page by its tags, other text line by line."""
    if page:
        _paint_marked(characters, text, start, stop, page)
        return
    lines = lines_of(text, start, stop)
    blocks = blocks_of(text, lines)
    is_code = code_lines(lines, _inside(lines, blocks))
    whole = "".join(text[line.start : line.stop] for line, code in zip(lines, is_code, strict=True) if code)
    language = guessed_language(whole)
    first = 0
    while first < len(lines):
        last = first
        while last < len(lines) and is_code[last] == is_code[first]:
            last += 1
        run = lines[first:last]
        if is_code[first]:
            _paint_code_lines(characters, text, run, blocks, language)
        else:
            _paint_marked(characters, text, run[0].start, run[-1].stop, page)
        first = last


def _inside(lines: Sequence[Line], blocks: Sequence[Block]) -> list[bool]:
    """Tell which lines a block touches."""
    found = [False] * len(lines)
    b = 0
    for i, line in enumerate(lines):
        while b < len(blocks) and blocks[b].stop <= line.start:
            b += 1
        found[i] = b < len(blocks) and blocks[b].start < line.stop
    return found


def _paint_code_lines(
    characters: Characters, text: str, lines: Sequence[Line], blocks: Sequence[Block], language: str
) -> None:
    """Label lines of code and the blocks among them."""
    if not lines:
        return
    at, stop = lines[0].start, lines[-1].stop
    for block in blocks:
        if at <= block.start < stop:
            paint_code(characters, text, at, block.start, language)
            paint_block(characters, block)
            at = min(block.stop, stop)
    paint_code(characters, text, at, stop, language)


def _paint_marked(characters: Characters, text: str, start: int, stop: int, page: bool) -> None:
    """Label a stretch of prose by its delimiters: backticks, mathematics, tags."""
    for begin, end in formulas.formulas_of(text, start, stop) if not page else ():
        characters.paint(begin, end, Label.FORMULA, Mode.FORMULA)
    found = tags.tags_of(text, start, stop, page=page)
    for marked in tags.marked_code(text, found):
        code = text[marked.start : marked.stop]
        paint_code(characters, text, marked.start, marked.stop, marked.language or guessed_language(code))
    for inline in _INLINE.finditer(text, start, stop):
        if not page and not _QUOTED_WORD.fullmatch(inline.group()):
            _paint_inline(characters, text, inline)
    tags.paint_entities(characters, text, start, stop)
    tags.paint_tags(characters, text, found)


def _paint_inline(characters: Characters, text: str, inline: re.Match[str]) -> None:
    """Label code between backticks; the backticks are its first and last characters."""
    ticks = len(inline[1])
    characters.paint(inline.start(), inline.end(), Label.MARKUP, Mode.CODE)
    code = inline.group()[ticks:-ticks]
    paint_code(characters, text, inline.start() + ticks, inline.end() - ticks, guessed_language(code))
