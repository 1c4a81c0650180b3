"""Standard output whose failures say that it was standard output."""

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Named(io.FileIO):
    failed = False

    def write(self, data: "ReadableBuffer", /) -> int:
        size = memoryview(data).nbytes
        if self.failed or size == 0:  # said already; what a buffer still holds is flushed once more when Python ends
            return size
        try:
            return super().write(data)
        except BrokenPipeError:  # its reader has read all it wanted
            raise
        except OSError as error:
            self.failed = True
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise OSError(f"standard output: writing failed ({reason})") from error


def name() -> None:
    """Let what the machine says while standard output is written name it, as it names files: the disk may be full."""
    given = sys.stdout
    if not isinstance(given, io.TextIOWrapper) or type(given.buffer) not in (io.BufferedWriter, io.FileIO):
        return  # of a test, or of a program that uses this one
    given.flush()
    raw = _Named(given.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw) if type(given.buffer) is io.BufferedWriter else raw,  # PYTHONUNBUFFERED
        given.encoding,
        given.errors,
        line_buffering=given.line_buffering,
        write_through=given.write_through,
    )
