"""What can be told of a token from the text alone: where boundaries lie, and what kinds of characters it holds.

Simple tests for choosing pictures, not a labelling of contexts. They see the tokens that decode rounds emitted; the
prompt is not in a trace. A token that is only a byte piece of a character holds no letter.

- ``dedent``: the token breaks a line, and the next line that is not blank is indented less than this one;
- ``sentence``: a capital letter in it follows ``.``, ``!``, ``?`` or ``…`` (closing quotes and brackets may stand
  between) and white space;
- ``tag``: it holds a ``<`` that a letter, ``/`` or ``!`` follows;
- ``script``: a letter in it is of another script than the letter before.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from oracle.traces import Traces

BOUNDARIES = ("dedent", "sentence", "tag", "script")
CONTENTS = ("markup", "symbol", "latin", "other_letter")

_ENDS, _CLOSERS = frozenset(".!?…"), frozenset("\"'”’»)]")
_AFTER_OPENING = frozenset("/!")
_MARKUP, _SYMBOLS = frozenset("<>"), frozenset("(){}[]=;_#\\")
_ONE_SCRIPT = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}  # one text is written in all three
_TAB = 8


@dataclass(frozen=True)
class TokenTexts:
    r"""What the texts of a batch's tokens say.

    Attributes
    ----------
    boundary : {name: (N,) bool}
        For each of `BOUNDARIES`, whether it lies in the token.
    content : {name: (N,) bool}
        For each of `CONTENTS`, whether the token holds such a character: one of ``<>``; one of ``(){}[]=;_#\``; a
        Latin letter; a letter of another script.
    """

    boundary: dict[str, NDArray[np.bool_]]
    content: dict[str, NDArray[np.bool_]]


def token_texts(traces: Traces) -> TokenTexts:
    """Test every token of a batch that holds `token_text`."""
    boundary = {name: np.zeros(traces.positions, np.bool_) for name in BOUNDARIES}
    tests = {"dedent": dedents, "sentence": sentence_starts, "tag": tags, "script": script_changes}
    contents: list[tuple[bool, ...]] = []
    for g, texts in enumerate(traces.table.column("token_text").to_pylist()):
        tokens = [text or "" for text in texts]
        contents += [_content(text) for text in tokens]
        for name, test in tests.items():
            for i in test(tokens):
                boundary[name][traces.offsets[g] + i] = True
    held = np.array(contents, np.bool_).reshape(-1, len(CONTENTS))
    return TokenTexts(boundary, {name: held[:, c] for c, name in enumerate(CONTENTS)})


def sentence_starts(tokens: Sequence[str]) -> Iterator[int]:
    """Tokens in which a sentence starts."""
    ended = blank = False
    for i, c in _characters(tokens):
        if c.isspace():
            blank = True
            continue
        if ended and blank and c.isupper():
            yield i
        if c in _ENDS:
            ended = True
        elif c not in _CLOSERS or blank:
            ended = False
        blank = False


def dedents(tokens: Sequence[str]) -> Iterator[int]:
    """Tokens that break a line before one that is indented less."""
    indent: int | None = None  # of the line; unknown where the text starts
    column: int | None = None  # reached in the blanks at the start of a line
    broken = 0
    for i, c in _characters(tokens):
        if c == "\n":
            column, broken = 0, (i if column is None else broken)
        elif column is not None and c in " \t":
            column += 1 if c == " " else _TAB - column % _TAB
        elif column is not None:
            if indent is not None and column < indent:
                yield broken
            indent, column = column, None


def tags(tokens: Sequence[str]) -> Iterator[int]:
    """Tokens in which a tag starts."""
    opened: int | None = None
    for i, c in _characters(tokens):
        if opened is not None and (c.isalpha() or c in _AFTER_OPENING):
            yield opened
        opened = i if c == "<" else None


def script_changes(tokens: Sequence[str]) -> Iterator[int]:
    """Tokens with a letter of another script than the letter before."""
    before: str | None = None
    for i, c in _characters(tokens):
        script = script_of(c)
        if script is not None:
            if before not in (None, script):
                yield i
            before = script


@cache
def script_of(character: str) -> str | None:
    """Script of a letter, the first word of its Unicode name; None for what is no letter."""
    if not character.isalpha():
        return None
    word = unicodedata.name(character, "UNKNOWN").split(" ")[0]
    return _ONE_SCRIPT.get(word, word)


@lru_cache(maxsize=1 << 16)
def _content(text: str) -> tuple[bool, ...]:
    scripts = {script_of(c) for c in text} - {None}
    held = set(text)
    return bool(held & _MARKUP), bool(held & _SYMBOLS), "LATIN" in scripts, bool(scripts - {"LATIN"})


def _characters(tokens: Sequence[str]) -> Iterator[tuple[int, str]]:
    return ((i, c) for i, text in enumerate(tokens) for c in text)
