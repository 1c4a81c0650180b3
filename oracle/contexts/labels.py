"""The vocabulary of language contexts: what each label, mode and flag says of a token."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple

import numpy as np
from fontTools.unicodedata import Scripts
from numpy.typing import NDArray


class Label(IntEnum):
    """The one label of a token; where several apply, the first wins."""

    MODE_CHANGE = 0
    SCRIPT_CHANGE = 1
    MARKUP = 2
    FORMULA = 3
    CODE_FORMATTING = 4
    CODE_COMMENT = 5
    CODE_STRUCTURE = 6
    CODE_VOCABULARY = 7
    PROSE_BOUNDARY = 8
    PROSE_VOCABULARY = 9


class Mode(IntEnum):
    """The kind of text that a stretch is."""

    CODE = 0
    PROSE = 1
    MARKUP = 2
    FORMULA = 3


FLAGS = ("function_start", "control_flow", "comment", "word_continuation")
COMMON, UNKNOWN = "Common", "Unknown"
SCRIPTS: tuple[str, ...] = tuple(sorted({name.replace("_", " ") for name in Scripts.NAMES.values()}))
NO_SCRIPT = -1
NO_CHANGE = -1


class Definition(NamedTuple):
    """One word of the vocabulary and what it says of a token."""

    kind: Literal["label", "mode", "flag"]
    name: str
    meaning: str


@dataclass(frozen=True, eq=False)
class TokenLabels:
    """Language contexts of the tokens of one generation; arrays are read-only.

    Attributes
    ----------
    label : (N,) uint8
        `Label` of each token.
    mode : (N,) uint8
        `Mode` that holds at the end of each token.
    from_mode : (N,) int8
        `Mode` before a mode change; `NO_CHANGE` at all other tokens.
    script : (N,) int16
        Unicode script of the token's first letter, an index into `SCRIPTS`; Common without a letter, Unknown for a
        piece of a character alone.
    script_before : (N,) int16
        Script of the last letter before the token, whatever lies between; `NO_SCRIPT` where there is none.
    function_start, control_flow, comment, word_continuation : (N,) bool
        The flags.
    """

    label: NDArray[np.uint8]
    mode: NDArray[np.uint8]
    from_mode: NDArray[np.int8]
    script: NDArray[np.int16]
    script_before: NDArray[np.int16]
    function_start: NDArray[np.bool_]
    control_flow: NDArray[np.bool_]
    comment: NDArray[np.bool_]
    word_continuation: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.label)


def name_of(word: Label | Mode) -> str:
    """Give the name under which tables and files hold a label or a mode.

    Examples
    --------
    >>> name_of(Label.CODE_FORMATTING)
    'code_formatting'
    """
    return word.name.lower()


def label_definitions() -> list[Definition]:
    """Give the definition of every label, mode and flag, labels in the order in which they win."""
    words: Iterable[Label | Mode] = (*Label, *Mode)
    found = [
        Definition("label" if isinstance(word, Label) else "mode", name_of(word), _MEANINGS[word.__class__, word.value])
        for word in words
    ]
    return found + [Definition("flag", name, _FLAG_MEANINGS[name]) for name in FLAGS]


_MEANINGS: dict[tuple[type, int], str] = {
    (Label, Label.MODE_CHANGE): "holds the first visible character of another mode than that of the token before",
    (Label, Label.SCRIPT_CHANGE): "its first letter is of another script than the last letter before it, whatever lies "
    "between; Han, Hiragana and Katakana count as one",
    (Label, Label.MARKUP): "part of an HTML or XML tag or comment, white space behind one up to the text that follows, "
    "an entity, a Markdown sign, a roff or tbl request, a LaTeX command outside mathematics",
    (Label, Label.FORMULA): "part of a formula, delimiters and white space included",
    (Label, Label.CODE_FORMATTING): "white space alone, in code, strings, comments and docstrings",
    (Label, Label.CODE_COMMENT): "begins inside a comment or docstring: its words and punctuation, not its marks",
    (
        Label,
        Label.CODE_STRUCTURE,
    ): "begins, in code, with a bracket, operator, punctuation, quote or mark of a comment, "
    "or is (a piece of) a reserved word",
    (Label, Label.CODE_VOCABULARY): "in code, (a piece of) an identifier, a number, a constant, a command or its "
    "argument, or anything else inside a string",
    (Label, Label.PROSE_BOUNDARY): "in prose, holds a line break or tab, is white space that indents, or punctuation "
    "that ends a sentence or clause",
    (Label, Label.PROSE_VOCABULARY): "any other token of prose",
    (Mode, Mode.CODE): "program text, shell commands, configuration, comments and docstrings included",
    (Mode, Mode.PROSE): "natural language: sentences, headings, lists, tables, the text between tags",
    (Mode, Mode.MARKUP): "HTML or XML tags and comments, attributes and their values included",
    (Mode, Mode.FORMULA): "LaTeX mathematics, or symbols joined by a mathematical sign",
}
_FLAG_MEANINGS = {
    "function_start": "first visible token of the definition of a function or method",
    "control_flow": "in code, (a piece of) a word that branches, loops, returns or handles an exception",
    "comment": "inside a comment or docstring, marks and white space included",
    "word_continuation": "its first character and the character before it belong to one word",
}
