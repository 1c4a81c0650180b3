"""Files as requests come in them: JSON lines, one response a line; one JSON document; one .npz or .npy file a request.

Lines are read one at a time, so a file may be larger than memory. A response that is a list holds several.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from oracle.errors import InputError
from oracle.files import shown
from oracle.latency.strict_json import LONGEST, read_strictly

ARRAYS = (".npz", ".npy")
OnBytes = Callable[[int], None]


def is_json(path: Path) -> bool:
    """Whether a text file begins as JSON does.

    Raises
    ------
    InputError
        The file cannot be read, or is empty.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    except OSError as error:
        raise InputError(
            f"{shown(path)}: cannot be read ({error.strerror}); check the path and its permissions"
        ) from error
    if not start:
        raise InputError(f"{shown(path)}: the file is empty; was its writer interrupted?")
    return start[:1] in (b"{", b"[")


def trees_in(path: Path, on_bytes: OnBytes | None = None) -> Iterator[tuple[str, Any]]:
    """Parse a file's JSON values one after the other, each with its place for messages.

    Raises
    ------
    InputError
        A line that is no JSON, is nested too deep, or is longer than is read; not UTF-8.
    """
    source = shown(path)
    try:
        with open(path, "rb") as file:
            if not _holds_lines(file):
                file.seek(0)
                raw = file.read(LONGEST + 1)
                yield from _flat(_parsed(raw, source), source)
                if on_bytes is not None:
                    on_bytes(len(raw))
                return
            file.seek(0)
            for number, raw in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), 1):
                if raw.strip():
                    place = f"{source}, line {number}"
                    yield from _flat(_parsed(raw, place), place)
                if on_bytes is not None:
                    on_bytes(len(raw))
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror}); check the path and its permissions") from error


def _holds_lines(file: IO[bytes]) -> bool:
    """Whether the first line that is not blank is a whole JSON value, and not the begin of a longer one."""
    for raw in iter(lambda: file.readline(LONGEST + 1), b""):
        line = raw.removeprefix(b"\xef\xbb\xbf").strip()
        if line:
            return line[:1] + line[-1:] in (b"{}", b"[]") or len(raw) > LONGEST
    return False


def _parsed(raw: bytes, place: str) -> Any:
    if len(raw) > LONGEST:
        raise InputError(
            f"{place}: more than {LONGEST >> 20} MiB of JSON at once; write one response a line (JSON lines)"
        )
    try:
        return read_strictly(raw.decode("utf-8-sig"), place)
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: is not UTF-8 text (byte {error.start}); give JSON") from error


def _flat(tree: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, list):
        for i, item in enumerate(tree):
            yield f"{place}[{i}]", item
    else:
        yield place, tree
