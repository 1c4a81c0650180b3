"""One run at a time in a folder."""

import fcntl
import json
import os
import platform
from pathlib import Path

from oracle.errors import InputError, printable
from oracle.files import shown

NAME = ".lock"


class FolderLock:
    """A lock file that says who holds it: process and host.

    The lock is the operating system's on the open file, so it ends with its process, however that ends. The text is
    for people, and for file systems on which one host does not see another's locks.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the lock; what a dead process of this host left behind is taken over.

        Raises
        ------
        InputError
            Another run holds it.
        """
        path = self._folder / NAME
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _read(descriptor)
                os.close(descriptor)
                raise self._refused(holder, "wait for it to end, or choose another folder") from None
            if _is_at(descriptor, path):
                break
            os.close(descriptor)  # its holder has just removed it
        holder = _read(descriptor)
        if holder.get("host", platform.node()) != platform.node():
            os.close(descriptor)
            raise self._refused(holder, f"if that run is dead, remove {shown(path)}")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": platform.node()}).encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Remove the file and let go."""
        if self._descriptor is not None:
            (self._folder / NAME).unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def _refused(self, holder: dict[str, object], way_out: str) -> InputError:
        who = f"process {printable(str(holder.get('pid', '?')))} on {printable(str(holder.get('host', '?')))}"
        return InputError(f"{shown(self._folder)}: {who} is at work in this folder; {way_out}")


def _read(descriptor: int) -> dict[str, object]:
    try:
        said = json.loads(os.pread(descriptor, 1000, 0))
    except ValueError:  # its writer was killed, or has only just begun
        return {}
    return said if isinstance(said, dict) else {}


def _is_at(descriptor: int, path: Path) -> bool:
    """Say whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
