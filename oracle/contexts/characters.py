"""What is known of each character of a text, before tokens are looked at."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.contexts.labels import Label, Mode


@dataclass(frozen=True, eq=False)
class Characters:
    """Properties of the characters of one text; white space counts for the comment flag only.

    Attributes
    ----------
    mode : (C,) uint8
        `Mode` of the stretch that a character stands in.
    label : (C,) uint8
        `Label` of a token that begins with the character, changes left aside.
    comment, control_flow, function_start : (C,) bool
        The flags of a token that begins with the character.
    """

    mode: NDArray[np.uint8]
    label: NDArray[np.uint8]
    comment: NDArray[np.bool_]
    control_flow: NDArray[np.bool_]
    function_start: NDArray[np.bool_]

    def paint(self, start: int, stop: int, label: Label, mode: Mode | None = None) -> None:
        """Give a stretch of characters one label and, where it is part of another mode, that mode."""
        self.label[start:stop] = label
        if mode is not None:
            self.mode[start:stop] = mode


def prose(length: int) -> Characters:
    """Give the characters of a text that is prose throughout."""
    return Characters(
        mode=np.full(length, Mode.PROSE, np.uint8),
        label=np.full(length, Label.PROSE_VOCABULARY, np.uint8),
        comment=np.zeros(length, np.bool_),
        control_flow=np.zeros(length, np.bool_),
        function_start=np.zeros(length, np.bool_),
    )
