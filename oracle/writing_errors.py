"""What the machine says while an output is written, with the name that the user gave it."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oracle.errors import InputError
from oracle.files import PathLike, shown

_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)  # another place on the same disk would not help


class WritingError(OSError):
    """What the machine said while an output was written, with the output's name and what is there now."""

    def __init__(self, path: PathLike, reason: str, kept: str) -> None:
        super().__init__(f"{shown(path)}: writing failed ({reason}); {kept}")
        self.path, self.reason = path, reason


@contextmanager
def naming(path: PathLike, partial: Path, kept: str) -> Iterator[None]:
    """Name the output in what the machine says while it is written, and never the place where it is not yet one.

    Parameters
    ----------
    path, partial
        The output, and where it is written.
    kept
        What is there if writing fails.
    """
    try:
        yield
    except InputError:
        raise
    except WritingError as error:
        if not Path(str(error.path)).is_relative_to(partial):
            raise
        inside = Path(str(error.path)).relative_to(partial)
        raise WritingError(Path(str(path)) / inside, error.reason, kept) from error
    except OSError as error:
        raise WritingError(path, reason_of(error), kept) from error


@contextmanager
def beginning(path: PathLike) -> Iterator[None]:
    """Tell a place where nobody may write from a machine that cannot."""
    try:
        yield
    except OSError as error:
        if error.errno in _MACHINE:
            raise WritingError(path, reason_of(error), "nothing was begun") from error
        raise InputError(f"{shown(path)}: cannot be written ({error.strerror}); choose another place") from error


def reason_of(error: OSError) -> str:
    """Give what the machine says, without the number and the name of the file."""
    return os.strerror(error.errno) if error.errno else str(error)
