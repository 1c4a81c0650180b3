"""SHA-256 of many files, worked out side by side while something else goes on; and whether they stay what they are."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from threading import Event
from types import TracebackType
from typing import Self

from pyarrow import fs

from oracle.errors import Faults
from oracle.files import File, of_each, opened, shown
from oracle.locations import RemoteFile

_SIDE_BY_SIDE = min(4, os.cpu_count() or 1)
_CHUNK_BYTES = 1 << 20


class Stamps:
    """What file systems say of files: size, time of the last write and, on this machine, which file it is.

    A file that is written to or replaced while it is read would give results of which its digest says nothing.

    Parameters
    ----------
    files
        Which; they are looked at here.
    """

    def __init__(self, files: Iterable[File]) -> None:
        each = tuple(dict.fromkeys(files))
        self._stamps = dict(zip(each, of_each(_stamp, each), strict=True))

    def check(self, files: Sequence[File] | None = None) -> None:
        """Look again.

        Parameters
        ----------
        files
            At which of them; None for all.

        Raises
        ------
        InputError
            Some have changed since; all are named.
        """
        faults = Faults()
        again = tuple(self._stamps) if files is None else files
        for file, now in zip(again, of_each(_stamp, again), strict=True):
            if now != self._stamps[file]:
                faults.add(
                    f"{shown(file)}: {'is gone' if now is None else 'changed'} while it was read, so results would "
                    "belong to no one state of it; wait until nothing writes there, and give the command again"
                )
        faults.raise_if_any()


def _stamp(file: File) -> tuple[object, ...] | None:
    """Give what tells one state of a file from another; None where there is no such file."""
    try:
        if isinstance(file, RemoteFile) and not isinstance(file.filesystem, fs.LocalFileSystem):
            said = file.filesystem.get_file_info(file.path)
            return None if said.type == fs.FileType.NotFound else (said.size, said.mtime_ns)
        found = os.stat(file)
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_dev, found.st_ino


class Digests:
    """Digests of files, begun at once in the order given; a context manager, whose end stops what is under way.

    Parameters
    ----------
    files
        Which; one that recurs is read once.
    """

    def __init__(self, files: Iterable[File]) -> None:
        self._files = tuple(dict.fromkeys(files))
        self._stamps = Stamps(self._files)
        self._enough = Event()
        self._digests: dict[File, Future[str]] = {}

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(max_workers=_SIDE_BY_SIDE)
        self._digests = {file: self._pool.submit(self._digest, file) for file in self._files}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._enough.set()
        self._pool.shutdown(cancel_futures=True)

    def of(self, file: File) -> str:
        """Give the SHA-256 of a file as 64 hexadecimal digits; wait for it if need be.

        Raises
        ------
        OSError
            The file cannot be read.
        """
        return self._digests[file].result()

    def check(self, files: Sequence[File] | None = None) -> None:
        """Check that files are still what they were when this was made; see `Stamps.check`."""
        self._stamps.check(files)

    def _digest(self, file: File) -> str:
        digest, chunk = hashlib.sha256(), bytearray(_CHUNK_BYTES)
        with opened(file) as held:
            while size := held.readinto(chunk):
                if self._enough.is_set():
                    raise CancelledError
                digest.update(memoryview(chunk)[:size])
        return digest.hexdigest()
