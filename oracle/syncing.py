"""What outlives a power cut: bytes of files, entries of folders, and folders that were made on the way."""

import errno
import os
from itertools import takewhile
from pathlib import Path

from oracle.errors import InputError
from oracle.files import shown

_NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF)  # what file systems say that sync no folder


def sync(path: Path) -> None:
    """Make the bytes of a file, or the entries of a folder, reach the disk.

    Entries are left to the system where it syncs no folder, or where the folder may be written to and not read.
    """
    is_folder = path.is_dir()
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        if is_folder:
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not is_folder or error.errno not in _NOT_SYNCED:
            raise
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Make everything in a folder reach the disk, what lies deeper first, the folder itself last."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in sorted(names):
            sync(Path(parent, name))
        sync(Path(parent))


def make_folder(folder: Path) -> list[Path]:
    """Make a folder and those above it, if they are missing, so that they outlive a power cut.

    Returns
    -------
    list of Path
        What was made, the deepest first.

    Raises
    ------
    InputError
        It cannot be made.
    """
    try:
        made = list(takewhile(lambda each: not each.exists(), (folder, *folder.parents)))
        folder.mkdir(parents=True, exist_ok=True)
        for each in made:
            sync(each.parent)
    except OSError as error:
        raise InputError(f"{shown(folder)}: the folder cannot be made ({error.strerror}); choose another") from error
    return made
