"""Paths for workers elsewhere: called what the user called them, and the same file whatever folder is worked in."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PosixPath

from oracle.pieces import Piece


class PlacedPath(PosixPath):
    """A path that is shown and compared as it was given, and opens the file it meant where it was given.

    Can be pickled. Names derived from it (its parent, a sibling) have no place and cannot be opened.

    Attributes
    ----------
    place
        The absolute path.
    """

    place: str

    def __fspath__(self) -> str:
        return self.place

    def __reduce__(self) -> tuple[object, ...]:
        return placed_path, (str(self), self.place)


def placed_path(name: str, place: str) -> PlacedPath:
    """Make a `PlacedPath` that is called `name` and lies at `place`."""
    path = PlacedPath(name)
    path.place = place
    return path


def placed(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Give the same pieces with files that mean on every node what they mean here; those named by URI do already."""
    return tuple(
        replace(piece, file=placed_path(str(piece.file), os.path.abspath(piece.file)))
        if isinstance(piece.file, Path)
        else piece
        for piece in pieces
    )
