"""Characters of code: structure, vocabulary, comments, by the lexers of Pygments, line by line.

A lexer that reads on across lines would turn everything behind one unclosed quote into a string. What really goes
over several lines, docstrings and block comments, is found beforehand (`oracle.contexts.blocks`).
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pygments.token import Comment, Keyword, Name, Number, Operator, String

from oracle.contexts.blocks import Block
from oracle.contexts.characters import Characters
from oracle.contexts.labels import Label, Mode
from oracle.contexts.languages import lexer_of

CONTROL_FLOW = frozenset(
    [
        "if",
        "elif",
        "else",
        "for",
        "while",
        "do",
        "switch",
        "case",
        "default",
        "break",
        "continue",
        "return",
        "yield",
        "raise",
        "throw",
        "try",
        "except",
        "catch",
        "finally",
        "goto",
    ]
)
_DIRECTIVE = re.compile(r"\s*(#\s*(?:include|define|if|ifdef|ifndef|endif|elif|else|undef|pragma|error)\b)")
_COMMENT_MARK = re.compile(r"#+!?|//+!?|/\*+|--|<!--|\*+/|%|;+")
_STRING = re.compile(r"([A-Za-z]{0,3}(?:\"\"\"|'''|[\"'`]))?(.*?)(\"\"\"|'''|[\"'`])?", re.DOTALL)
_PIECE = re.compile(r"[\w\ufffd]+|[^\w\s\ufffd]+")
_SPECIAL = re.compile(r"<\|\w+\|>|</?s>")
_DELIMITERS = {String.Double: '"', String.Single: "'", String.Backtick: "`"}
_FUNCTION = {
    "python": re.compile(r"\s*(?=\S)((?:async\s+)?def\b)"),
    "javascript": re.compile(
        r"\s*(?=\S)((?:export\s+)?(?:default\s+)?(?:async\s+)?function\b"
        r"|(?!if\b|for\b|while\b|switch\b|catch\b|return\b)(?:(?:static|async|get|set)\s+)*\w+\s*\([^()]*\)\s*\{\s*$)"
    ),
    "c": re.compile(
        r"(?!(?:else|return|typedef|if|for|while|switch|do|goto|case|define)\b)(?=[A-Za-z_])"
        r"((?:\w+[\s*]+)+\w+\s*\([^;]*\)\s*(?:\{.*)?$)"
    ),
    "other": re.compile(r"\s*(?=\S)((?:pub\s+)?(?:fn|func|def|function|sub)\s+\w)"),
}


class Piece(NamedTuple):
    """A stretch of a line of code: offsets within the line, and what a token is that begins there."""

    start: int
    stop: int
    label: Label
    comment: bool = False
    control_flow: bool = False


def paint_code(characters: Characters, text: str, start: int, stop: int, language: str) -> None:
    """Label a stretch of code that holds no block.

    Parameters
    ----------
    characters
        Those of the whole text; changed in place.
    text
        The whole text.
    start, stop
        The stretch.
    language
        A name that Pygments knows, or any other.
    """
    characters.paint(start, stop, Label.CODE_VOCABULARY, Mode.CODE)
    lines = text[start:stop].split("\n")
    at = start
    for i, line in enumerate(lines):
        for piece in lexed_line(line, language):
            characters.label[at + piece.start : at + piece.stop] = piece.label
            if piece.comment:
                characters.comment[at + piece.start : at + piece.stop] = True
            if piece.control_flow:
                characters.control_flow[at + piece.start : at + piece.stop] = True
        begins = _function_begins(line, lines[i + 1 : i + 2], language)
        if begins is not None:
            characters.function_start[at + begins] = True
        at += len(line) + 1


def paint_block(characters: Characters, block: Block) -> None:
    """Label a docstring, block comment or string of several lines."""
    characters.paint(block.start, block.stop, Label.CODE_STRUCTURE, Mode.CODE)
    words = Label.CODE_COMMENT if block.is_comment else Label.CODE_VOCABULARY
    characters.label[block.words_start : block.words_stop] = words
    if block.is_comment:
        characters.comment[block.start : block.stop] = True


@lru_cache(maxsize=65536)
def lexed_line(line: str, language: str) -> tuple[Piece, ...]:
    """Cut one line of code into pieces; white space between them is in none."""
    lexer = lexer_of(language)
    if lexer is None:
        return tuple(_by_signs(0, line))
    found: list[Piece] = []
    directive = _DIRECTIVE.match(line) if language in {"c", "cpp", "c++"} else None
    at = 0
    if directive is not None:
        at = directive.end()
        found.append(Piece(directive.start(1), at, Label.CODE_STRUCTURE))
    for offset, kind, value in lexer.get_tokens_unprocessed(line[at:] + "\n"):
        if value.strip():
            found.extend(_pieces(at + offset, kind, value))
    found.extend(Piece(m.start(), m.end(), Label.CODE_STRUCTURE) for m in _SPECIAL.finditer(line))
    return tuple(found)


def _pieces(at: int, kind: Any, value: str) -> Iterator[Piece]:
    """Label what a lexer takes for one token."""
    end = at + len(value)
    if kind in Comment and kind not in (Comment.Preproc, Comment.PreprocFile):
        yield from _comment(at, value)
    elif kind in String:
        yield from _string(at, kind, value)
    elif kind in Keyword and kind not in Keyword.Constant and not value.endswith("_t"):
        yield Piece(at, end, Label.CODE_STRUCTURE, control_flow=value.strip() in CONTROL_FLOW)
    elif kind in Operator.Word:
        yield Piece(at, end, Label.CODE_STRUCTURE)
    elif kind not in Name and kind not in Number:
        yield from _by_signs(at, value)
    elif kind in Name.Decorator and value.startswith("@"):
        yield Piece(at, at + 1, Label.CODE_STRUCTURE)
        yield Piece(at + 1, end, Label.CODE_VOCABULARY)
    else:
        yield Piece(at, end, Label.CODE_VOCABULARY)


def _by_signs(at: int, value: str) -> Iterator[Piece]:
    """Take words for vocabulary and signs for structure."""
    for match in _PIECE.finditer(value):
        word = match.group()[0].isalnum() or match.group()[0] in "_\ufffd"
        label = Label.CODE_VOCABULARY if word else Label.CODE_STRUCTURE
        yield Piece(at + match.start(), at + match.end(), label)


def _comment(at: int, value: str) -> Iterator[Piece]:
    """Part the marks of a comment from its words."""
    lead = len(value) - len(value.lstrip())
    body = value.rstrip("\n")
    opening = _COMMENT_MARK.match(body, lead)
    first = opening.end() if opening is not None else lead
    last = len(body) - 2 if body.endswith("*/") and len(body) - 2 >= first else len(body)
    yield Piece(at + lead, at + first, Label.CODE_STRUCTURE, comment=True)
    yield Piece(at + first, at + last, Label.CODE_COMMENT, comment=True)
    yield Piece(at + last, at + len(body), Label.CODE_STRUCTURE, comment=True)


def _string(at: int, kind: Any, value: str) -> Iterator[Piece]:
    """Part the quotes of a string, its prefix and the brackets of its expressions from what it says."""
    end = at + len(value)
    bracket = kind in String.Interpol and value.strip("${}") == ""
    if kind in String.Affix or bracket or (kind in _DELIMITERS and value == _DELIMITERS[kind]):
        yield Piece(at, end, Label.CODE_STRUCTURE)
        return
    yield Piece(at, end, Label.CODE_VOCABULARY)
    if kind in (String.Escape, String.Interpol):
        return
    found = _STRING.fullmatch(value)
    if found is not None and found[1]:
        yield Piece(at, at + found.end(1), Label.CODE_STRUCTURE)
        if found[3]:
            yield Piece(at + found.start(3), end, Label.CODE_STRUCTURE)


def _function_begins(line: str, following: Sequence[str], language: str) -> int | None:
    """Give where in a line the definition of a function begins, None if none does."""
    known = (
        language if language in _FUNCTION else {"py": "python", "js": "javascript", "cpp": "c"}.get(language, "other")
    )
    found = _FUNCTION[known].match(line)
    if found is None:
        return None
    has_body = "{" in line or any(text.lstrip().startswith("{") for text in following)
    return found.start(1) if known != "c" or has_body else None
