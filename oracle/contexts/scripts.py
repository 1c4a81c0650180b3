"""Scripts of letters, by the Unicode property Script; Common and Inherited characters take no part."""

from functools import cache

import numpy as np
from fontTools import unicodedata
from numpy.typing import NDArray

from oracle.contexts.labels import NO_SCRIPT, SCRIPTS

BYTE_PIECE = "\ufffd"  # what a token shows that holds a part of a character
_CODES = {name: code for code, name in enumerate(SCRIPTS)}
_KANA = ("Hiragana", "Katakana")
_WITHOUT_WORD_BREAKS = tuple(_CODES[name] for name in ("Han", *_KANA))


@cache
def letter_script(character: str) -> int:
    """Give the script of a letter, an index into `SCRIPTS`; `NO_SCRIPT` for all else.

    Examples
    --------
    >>> [SCRIPTS[letter_script(c)] for c in "aжλ語"]
    ['Latin', 'Cyrillic', 'Greek', 'Han']
    >>> letter_script("7") == letter_script("\u0301") == NO_SCRIPT
    True
    """
    code = unicodedata.script(character)
    if not character.isalpha() or code in {"Zyyy", "Zinh", "Zzzz"}:
        return NO_SCRIPT
    return _CODES[unicodedata.script_name(code).replace("_", " ")]


def code_of(name: str) -> int:
    """Give the index of a script in `SCRIPTS`."""
    return _CODES[name]


def joined_scripts(scripts: NDArray[np.int16]) -> NDArray[np.int16]:
    """Count Han, Hiragana and Katakana as one script, as Japanese text mixes them within words."""
    kana = np.isin(scripts, [_CODES[name] for name in _KANA])
    return np.where(kana, np.int16(_CODES["Han"]), scripts)


def parts_words(scripts: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Tell which scripts write spaces between words."""
    return ~np.isin(scripts, _WITHOUT_WORD_BREAKS)


@cache
def in_word(character: str) -> bool:
    """Tell whether a character continues a word: a letter, digit, ``_`` or a piece of a character."""
    return character.isalnum() or character in ("_", BYTE_PIECE)
