"""Characters of prose: boundaries of sentences and clauses, signs of Markdown, roff and LaTeX."""

import re

import numpy as np
from numpy.typing import NDArray

from oracle.contexts.characters import Characters
from oracle.contexts.labels import Label, Mode

CLOSING = ")]}»”’\"'›」』）"
_MARKS = r".,;:!?…。，、；：！？؛،؟।·"
_BOUNDARY = re.compile(rf"[{_MARKS}]+(?![\w/])|(?<=\D)[,;!?]+|[。，、；：！？]+|(?<=\s)[—–-]+(?=\s)|<\|\w+\|>|</?s>")
_SIGNS = re.compile(
    r"""(?mx)
    ^[ ]{0,3}\#{1,6}(?=[ ]) | ^[ \t]*[-*+](?=[ ]\S|[ ]?$) | \*\*+ | ``+ | `
    | (?<![\w*])\*(?=\w[^*\n]*\w\*(?!\w)) | (?<=\w)\*(?![\w*])
    | (?<![\w\\])\\[A-Za-z]+\b
    | ^'(?:\\")?(?=[ ]\S|[ ]?$).*$ | ^\.(?:\\"|[A-Za-z]{1,2}\b).*$
    | ^(?:allbox|box|center|expand|tab\(.\))[ \w()]*;[ ]*$ | ^[lcrn][bxi]*(?:[ ]+[lcrn][bxi]*)+[ ]*\.?$
    """
)
_LINK = re.compile(r"(!?\[)[^\[\]\n]{1,200}(\]\([^\s()]+[^()\n]*\))")


def paint_prose(characters: Characters, text: str) -> None:
    """Label the signs and boundaries of all prose of a text.

    Parameters
    ----------
    characters
        Those of the whole text, modes known; changed in place.
    text
        The whole text.
    """
    is_prose = characters.mode == Mode.PROSE
    for match in _BOUNDARY.finditer(text):
        if is_prose[match.start()] and characters.label[match.start()] == Label.PROSE_VOCABULARY:
            characters.paint(match.start(), match.end(), Label.PROSE_BOUNDARY)
    for match in _SIGNS.finditer(text):
        _mark(characters, is_prose, match.start(), match.end())
    for match in _LINK.finditer(text):
        _mark(characters, is_prose, *match.span(1))
        _mark(characters, is_prose, *match.span(2))


def _mark(characters: Characters, is_prose: NDArray[np.bool_], start: int, stop: int) -> None:
    if is_prose[start:stop].all():
        characters.paint(start, stop, Label.MARKUP)


def ends_clause(token: str, boundary: NDArray[np.bool_]) -> bool:
    """Tell whether a token that opens with closing brackets or quotes goes on with a boundary.

    Parameters
    ----------
    token
        The token's visible text.
    boundary : (characters,) bool
        Which of its characters are boundaries.
    """
    first = len(token) - len(token.lstrip(CLOSING))
    return 0 < first < len(token) and bool(boundary[first])
