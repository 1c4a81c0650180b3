"""A new folder in the place of another one, so that neither is lost whenever the program ends."""

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TypeVar

_Reason = TypeVar("_Reason")

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)  # to this kernel or file system


def take_place(new: Path, target: Path, former: Path, why_not: Callable[[Path], _Reason | None]) -> _Reason | None:
    """Let a folder take the place of another one that may be replaced.

    Parameters
    ----------
    new, target
        The folder, and where it belongs.
    former
        A free name beside: there the folder that was replaced is in the end, if there was one.
    why_not
        Why a folder may not be replaced, if so. Asked once more when nobody finds it under its name any longer.

    Returns
    -------
    The reason or None
        Why it was not replaced; then both are where they were.
    """
    reason = why_not(target)
    if reason is not None:
        return reason
    try:
        os.rename(new, target)  # the system refuses if something but an empty folder is there
        return None
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    os.rename(new, former)
    try:
        exchange(former, target)
    except OSError:
        os.rename(former, new)
        raise
    reason = why_not(former)
    if reason is not None:
        exchange(former, target)
        os.rename(former, new)
    return reason


def exchange(first: Path, second: Path) -> None:
    """Exchange two names, in one step where the system can; see `restored` for where it cannot."""
    if not _exchanged(first, second):
        spare = _spare(first)
        os.rename(second, spare)
        try:
            os.rename(first, second)
        except OSError:
            os.rename(spare, second)
            raise
        os.rename(spare, first)


def restored(target: Path, former: Path) -> bool:
    """Put back what a killed run had moved aside and not replaced; say whether it did."""
    for aside in (former, _spare(former)):
        if not os.path.lexists(target) and aside.is_dir():
            os.rename(aside, target)
            return True
    return False


def discard(former: Path, ours: Callable[[str], bool]) -> None:
    """Remove folders that were replaced; a file that is not an output of this program stays, and its folder."""
    for folder in (former, _spare(former)):
        with suppress(OSError):
            for entry in sorted(folder.iterdir()):
                if ours(entry.name) and entry.is_file() and not entry.is_symlink():
                    entry.unlink()
            folder.rmdir()


def keep_beside(new: Path, target: Path) -> Path:
    """Give a file or a folder the first free name that says it belongs beside `target`."""
    is_folder = new.is_dir()
    stem, suffix = (target.name, "") if is_folder else (target.stem, target.suffix)
    for number in count(1):
        place = target.with_name(f"{stem}-kept{'' if number == 1 else f'-{number}'}{suffix}")
        try:
            if is_folder:
                place.mkdir()
            else:
                place.touch(exist_ok=False)
            os.rename(new, place)  # over what was made this moment; the system refuses if a folder was filled since
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            continue
        break
    return place


def _spare(former: Path) -> Path:
    return former.with_suffix(".spare")


def _exchanged(first: Path, second: Path) -> bool:
    """Exchange two names in one step; False where the system cannot."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    names = os.fsencode(first), os.fsencode(second)
    if renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), str(second))
