"""Who is at work where: one run at a time in a folder, and files that tell whether their writer is alive."""

import errno
import fcntl
import hashlib
import json
import os
import platform
import warnings
from contextlib import suppress
from itertools import count
from pathlib import Path

from oracle.errors import InputError, InputWarning, printable
from oracle.files import shown

NAME = ".lock"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)  # of file systems that know none


class FolderLock:
    """A lock file that says who holds it: process and host.

    The lock is the operating system's on the open file, so it ends with its process, however that ends; a file system
    that does not share locks among hosts is not one for several of them to work in. The text is for people.

    Parameters
    ----------
    folder
        What only one run at a time may work on.
    file
        The lock file; in the folder where it is not given.
    """

    def __init__(self, folder: Path, file: Path | None = None) -> None:
        self._folder = folder
        self._file = folder / NAME if file is None else file
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the lock; what a dead process left behind is taken over, with a warning if it was of another host.

        Raises
        ------
        InputError
            Another run holds it.
        OSError
            The folder cannot be written to, or its file system knows no locks.
        """
        while True:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _read(descriptor)
                os.close(descriptor)
                raise self._refused(holder) from None
            except OSError:  # a file system without locks: nobody can hold this file, so nobody misses it
                with suppress(OSError):
                    if not os.fstat(descriptor).st_size and is_at(descriptor, self._file):
                        self._file.unlink()
                os.close(descriptor)
                raise
            if is_at(descriptor, self._file):
                break
            os.close(descriptor)  # its holder has just removed it
        holder = _read(descriptor)
        if holder.get("host", platform.node()) != platform.node():
            warnings.warn(InputWarning(self._taken_over(holder)), stacklevel=2)
        self._descriptor = descriptor
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": platform.node()}).encode(), 0)
        except OSError:  # the disk is full
            self.release()
            raise

    def release(self) -> None:
        """Remove the file and let go; one that cannot be removed stays, and is free."""
        if self._descriptor is not None:
            with suppress(OSError):
                if is_at(self._descriptor, self._file):  # else someone removed it, and it is another run's by now
                    self._file.unlink()
            os.close(self._descriptor)
            self._descriptor = None

    def _refused(self, holder: dict[str, object]) -> InputError:
        return InputError(
            f"{shown(self._folder)}: {_named(holder)} is at work in this folder; wait for it to end, or choose another "
            "folder"
        )

    def _taken_over(self, holder: dict[str, object]) -> str:
        return (
            f"{shown(self._folder)}: goes on with what {_named(holder)} left; its lock is free, so that run is dead, "
            "unless the file system does not share locks among hosts: then stop one of the two"
        )


def _named(holder: dict[str, object]) -> str:
    return f"process {printable(str(holder.get('pid', '?')))} on {printable(str(holder.get('host', '?')))}"


def living_file(stem: str, folder: Path) -> tuple[Path, int]:
    """Make a hidden empty file that is locked as long as its writer lives, and remove what dead ones left.

    What lies behind another living one's is left to a later call, and that of another host to that host.

    Parameters
    ----------
    stem
        What the names of all such files for one purpose have in common; each host has names of its own, since not
        every file system shows one host the locks of another.
    folder
        Where.

    Returns
    -------
    tuple of Path and int
        The file and the descriptor that holds the lock; to be closed.
    """
    host = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
    names = (folder / f".{stem}.{host}-{number}.partial" for number in count())
    path, descriptor = next((path, made) for path in names if (made := _in_place_of_dead(path)) is not None)
    for other in names:  # what dead ones left beyond
        if not _remove_dead(other):
            break
    return path, descriptor


def _in_place_of_dead(path: Path) -> int | None:
    """Make a file and lock it, in the place of a dead writer's if need be; None where a living one has the name."""
    descriptor = _locked_new(path)
    return _locked_new(path) if descriptor is None and _remove_dead(path) else descriptor


def _locked_new(path: Path) -> int | None:
    """Make a file and lock it; None where there is one, or where someone else was faster."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:  # then no one can lock it, nor take it for dead
            return descriptor
        os.close(descriptor)
        return None
    if is_at(descriptor, path):
        return descriptor
    os.close(descriptor)  # taken for dead before it was locked
    return None


def _remove_dead(path: Path) -> bool:
    """Remove a file whose writer is dead; say whether it did."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not is_at(descriptor, path):
            return False
        path.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _read(descriptor: int) -> dict[str, object]:
    try:
        said = json.loads(os.pread(descriptor, 1000, 0))
    except ValueError:  # its writer was killed, or has only just begun
        return {}
    return said if isinstance(said, dict) else {}


def is_at(descriptor: int, path: Path) -> bool:
    """Say whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
