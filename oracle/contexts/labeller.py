"""From the characters of a text to the labels of its tokens."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.contexts import scripts
from oracle.contexts.characters import Characters
from oracle.contexts.labels import COMMON, NO_CHANGE, NO_SCRIPT, UNKNOWN, Label, Mode, TokenLabels
from oracle.contexts.modes import characters_of
from oracle.contexts.prose import CLOSING, ends_clause

_OF_WHITE_SPACE = np.array([Label.CODE_FORMATTING, Label.PROSE_VOCABULARY, Label.MARKUP, Label.FORMULA], np.uint8)


class _Text(NamedTuple):
    """A text as arrays over its C characters, and where its N tokens stand in it."""

    text: str
    codes: NDArray[np.uint32]  # (C,) code points
    begins: NDArray[np.int64]  # (N,) offset of a token's first character
    ends: NDArray[np.int64]  # (N,) offset behind its last
    visible: NDArray[np.bool_]  # (C,)
    letter: NDArray[np.int16]  # (C,) script of a letter, NO_SCRIPT for all else
    in_word: NDArray[np.bool_]  # (C,)

    def holds(self, characters: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell for each token whether it holds such a character."""
        upto = np.concatenate([[0], np.cumsum(characters)])
        return np.asarray(upto[self.ends] > upto[self.begins])


def labels_of(token_texts: Sequence[str]) -> TokenLabels:
    """Label the tokens of one generation from their texts alone.

    Parameters
    ----------
    token_texts
        Text of each token in order; joined they are the text. A piece of a character shows as U+FFFD and takes the
        label of the stretch that it stands in.

    Examples
    --------
    >>> labels_of(["def", " read", "(", "self", ")", ":"]).label.tolist()
    [6, 7, 6, 7, 6, 6]
    """
    text = _laid_out(token_texts)
    characters = characters_of(text.text)
    mode, from_mode = _modes(text, characters)
    script, before, changes = _scripts(text)
    label, begin = _labels(text, characters, mode)
    label[changes] = Label.SCRIPT_CHANGE
    label[from_mode != NO_CHANGE] = Label.MODE_CHANGE
    seen = begin < text.ends
    control_flow = _at(characters.control_flow, begin, False) & seen
    return TokenLabels(
        label=frozen(label),
        mode=frozen(mode),
        from_mode=frozen(from_mode),
        script=frozen(script),
        script_before=frozen(before),
        function_start=frozen(text.holds(characters.function_start)),
        control_flow=frozen(control_flow),
        comment=frozen(_at(characters.comment, np.where(seen, begin, text.begins), False)),
        word_continuation=frozen(_continues(text, script)),
    )


def _laid_out(token_texts: Sequence[str]) -> _Text:
    text = "".join(token_texts)
    ends = np.cumsum([len(token) for token in token_texts], dtype=np.int64)
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(ends)]
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    alphabet, where = np.unique(codes, return_inverse=True)
    characters = [chr(code) for code in alphabet]
    return _Text(
        text=text,
        codes=codes,
        begins=begins,
        ends=ends,
        visible=np.array([not c.isspace() for c in characters], np.bool_)[where],
        letter=np.array([scripts.letter_script(c) for c in characters], np.int16)[where],
        in_word=np.array([scripts.in_word(c) for c in characters], np.bool_)[where],
    )


def _at(values: NDArray[Any], where: NDArray[np.int64], otherwise: Any) -> NDArray[Any]:
    """Look values up; `otherwise` where the index lies outside."""
    inside = (where >= 0) & (where < len(values))
    return np.where(inside, values[np.where(inside, where, 0)] if len(values) else otherwise, otherwise)


def _next(holds: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Give for each character and the end the place of the next that holds, C if none."""
    places = np.where(holds, np.arange(len(holds)), len(holds))
    return np.append(np.minimum.accumulate(places[::-1])[::-1], len(holds)).astype(np.int64)


def _last(holds: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Give for each character and the end the place of the last before it that holds, -1 if none."""
    places = np.where(holds, np.arange(len(holds)), -1)
    return np.concatenate([[-1], np.maximum.accumulate(places)]).astype(np.int64)


def _modes(text: _Text, characters: Characters) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """Give each token the mode of the last visible character up to its end, and say where that changes.

    Without a visible character before it, white space takes the mode of the first that follows.
    """
    last = _last(text.visible)[text.ends]
    first = int(_next(text.visible)[0])
    mode = _at(characters.mode, np.where(last < 0, first, last), Mode.PROSE).astype(np.uint8)
    changes = np.zeros(len(mode), np.bool_)
    changes[1:] = (mode[1:] != mode[:-1]) & text.holds(text.visible)[1:]
    from_mode = np.full(len(mode), NO_CHANGE, np.int8)
    from_mode[changes] = mode[:-1][changes[1:]]
    return mode, from_mode


def _scripts(text: _Text) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.bool_]]:
    """Give the script of each token, that of the last letter before it, and where the two differ."""
    is_letter = text.letter != NO_SCRIPT
    first = _next(is_letter)[text.begins]
    own = np.where(first < text.ends, _at(text.letter, first, NO_SCRIPT), NO_SCRIPT).astype(np.int16)
    before = _at(text.letter, _last(is_letter)[text.begins], NO_SCRIPT).astype(np.int16)
    both = (own != NO_SCRIPT) & (before != NO_SCRIPT)
    changes = both & (scripts.joined_scripts(own) != scripts.joined_scripts(before))
    without = np.where(
        text.holds(text.codes == ord(scripts.BYTE_PIECE)), scripts.code_of(UNKNOWN), scripts.code_of(COMMON)
    )
    return np.where(own == NO_SCRIPT, without, own).astype(np.int16), before, changes


def _labels(
    text: _Text, characters: Characters, mode: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Label each token by its first visible character, changes left aside; give that character's place too.

    A token whose first visible character is not yet in its mode is labelled by the last one.
    """
    begin = _next(text.visible)[text.begins]
    seen = begin < text.ends
    early = seen & (_at(characters.mode, begin, Mode.PROSE) != mode)
    begin = np.where(early, _last(text.visible)[text.ends], begin)
    label = np.where(seen, _at(characters.label, begin, Label.PROSE_VOCABULARY), _OF_WHITE_SPACE[mode])
    in_prose = label == Label.PROSE_VOCABULARY
    breaks = text.codes == ord("\n")
    indents = _at(breaks, text.begins - 1, False) | text.holds(text.codes == ord("\t"))
    label[in_prose & (text.holds(breaks) | (~seen & indents))] = Label.PROSE_BOUNDARY
    boundary = characters.label == Label.PROSE_BOUNDARY
    for t in np.flatnonzero(in_prose & seen):
        a, b = begin[t], text.ends[t]
        if text.text[a] in CLOSING and ends_clause(text.text[a:b], boundary[a:b]):
            label[t] = Label.PROSE_BOUNDARY
    return label.astype(np.uint8), begin


def _continues(text: _Text, script: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Tell which tokens go on with a word: no break before their first character."""
    joined = _at(text.in_word, text.begins, False) & _at(text.in_word, text.begins - 1, False)
    return np.asarray(joined & (text.ends > text.begins) & scripts.parts_words(script))
