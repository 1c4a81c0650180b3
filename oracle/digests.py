"""SHA-256 of many files, worked out side by side while something else goes on."""

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from threading import Event
from types import TracebackType
from typing import Self

from oracle.files import File, opened

_SIDE_BY_SIDE = min(4, os.cpu_count() or 1)
_CHUNK_BYTES = 1 << 20


class Digests:
    """Digests of files, begun at once in the order given; a context manager, whose end stops what is under way.

    Parameters
    ----------
    files
        Which; one that recurs is read once.
    """

    def __init__(self, files: Iterable[File]) -> None:
        self._files = tuple(dict.fromkeys(files))
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

    def _digest(self, file: File) -> str:
        digest, chunk = hashlib.sha256(), bytearray(_CHUNK_BYTES)
        with opened(file) as held:
            while size := held.readinto(chunk):
                if self._enough.is_set():
                    raise CancelledError
                digest.update(memoryview(chunk)[:size])
        return digest.hexdigest()
