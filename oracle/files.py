"""Finding, opening and naming files: what every reader of this project shares."""

import glob
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from oracle.errors import Faults, InputError, printable
from oracle.locations import RemoteFile, is_uri, remote_files
from oracle.pipeline import in_order

# With pre_buffer on, or without a read buffer, a row group is held whole; this keeps a giant one to a few pages.
_READ_BUFFER_BYTES = 1 << 17
MOST_TEXT_BYTES = 256 << 20  # tables, logs and metrics are read whole; a longer file is another one than was meant

PathLike = str | Path | RemoteFile
Paths = PathLike | Sequence[PathLike]
File = Path | RemoteFile  # as found
_MANY_FILES = 8
_AT_ONCE = 16
_Result = TypeVar("_Result")


def shown(path: PathLike) -> str:
    """Name a path in a message: control characters escaped, never cut."""
    text = str(path)
    return printable(text, most=len(text))


def find_parquet(paths: Paths, *, empty: bool = False) -> tuple[File, ...]:
    """Find the files that are meant by a file, a folder, a glob, a URI, or several of those.

    Parameters
    ----------
    paths
        A folder stands for its ``*.parquet`` files at any depth, sorted; names beginning with ``.`` or ``_`` are
        left out there and in globs. A URI names a file or a folder on another file system.
    empty
        Whether files without a byte may be among them: who reads footers names them together with truncated ones.

    Returns
    -------
    tuple of Path or RemoteFile
        Each file once, in the order given.

    Raises
    ------
    InputError
        A path that does not exist, a folder or glob without Parquet files, an empty file.
    """
    given = [paths] if isinstance(paths, PathLike) else list(paths)
    faults = Faults()
    if not given:
        faults.add("no path given; name at least one Parquet file, folder or glob")
    found: dict[str, File] = {}
    for path in given:
        for file in _files_of(path, faults):
            found.setdefault(os.path.realpath(file), file)
    sizes = of_each(_size_or_error, tuple(found.values()))
    for file, size in zip(found.values(), sizes, strict=True):
        if isinstance(size, OSError):
            faults.add(f"{shown(file)}: cannot be read ({size.strerror}); check the path and its permissions")
        elif size == 0 and not empty:
            faults.add(f"{shown(file)}: the file is empty (0 bytes); was its writer interrupted? write it again")
    faults.raise_if_any()
    return tuple(found.values())


def of_each(function: Callable[[File], _Result], files: Sequence[File]) -> Iterator[_Result]:
    """Apply a function that waits for a file to each; to many side by side, as what is far away answers late."""
    return map(function, files) if len(files) < _MANY_FILES else in_order(function, files, _AT_ONCE)


def _size_or_error(path: File) -> int | OSError | None:
    try:
        return size_of(path)
    except OSError as error:
        return error


def size_of(path: File) -> int | None:
    """Bytes of a file; None where its file system does not tell."""
    return path.size if isinstance(path, RemoteFile) else path.stat().st_size


def _files_of(path: PathLike, faults: Faults) -> Sequence[File]:
    """List the files that one path or URI means; an empty list leaves a fault behind."""
    if isinstance(path, RemoteFile):
        return [path]
    if isinstance(path, str) and is_uri(path) and not os.path.lexists(path):
        try:
            return remote_files(path, _hidden)
        except InputError as error:
            faults.add(str(error))
            return []
    return _local_files(str(path), faults)


def _local_files(text: str, faults: Faults) -> list[Path]:
    """List the files that a path or glob on this machine means."""
    try:
        if os.path.isdir(text):
            files = _parquet_below(Path(text))
            if not files:
                faults.add(f"{shown(text)}: the folder holds no *.parquet file; name another folder or the files")
            return files
        if os.path.isfile(text):
            return [Path(text)]
        if os.path.lexists(text):
            faults.add(f"{shown(text)}: is neither a file nor a folder; give a regular Parquet file")
            return []
        if glob.has_magic(text):
            matches = [Path(m) for m in sorted(glob.glob(text, recursive=True)) if not _hidden(os.path.basename(m))]
            files = [f for m in matches for f in (_parquet_below(m) if m.is_dir() else [m])]
            if not files:
                faults.add(f"{shown(text)}: no file matches this pattern; check it, quoted, with `ls`")
            return files
    except ValueError as error:  # a null character in the path
        faults.add(f"{shown(text)}: is not a usable path ({error})")
        return []
    faults.add(f"{shown(text)}: no such file or folder; check the path")
    return []


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _parquet_below(folder: Path) -> list[Path]:
    """List the ``*.parquet`` files of a folder at any depth, sorted, hidden ones left out."""
    files: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _hidden(name)]
        files += [Path(parent, name) for name in names if name.endswith(".parquet") and not _hidden(name)]
    return sorted(files)


def open_parquet(path: PathLike) -> pq.ParquetFile:
    """Open a Parquet file so that reading it in batches stays within bounded memory.

    Raises
    ------
    InputError
        The file is missing, unreadable, truncated, or not Parquet.
    """
    with parquet_errors(path):
        if isinstance(path, RemoteFile):  # far away, few large requests are worth the memory of a row group
            return pq.ParquetFile(path.path, filesystem=path.filesystem, pre_buffer=True)
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=_READ_BUFFER_BYTES)


@contextmanager
def parquet_errors(path: PathLike) -> Iterator[None]:
    """Turn what pyarrow raises while it opens or decodes `path` into an `InputError` that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        raise InputError(f"{shown(path)}: {_parquet_rule(path, error)}") from error


def _parquet_rule(path: PathLike, error: BaseException) -> str:
    """Say what is wrong with a Parquet file that pyarrow refused, and the way out."""
    known = {
        FileNotFoundError: "no such file; check the path",
        PermissionError: "cannot be read (permission denied); check its permissions",
        IsADirectoryError: "is a folder, not a file; give the file",
    }
    for kind, rule in known.items():
        if isinstance(error, kind):
            return rule
    reason = printable(" ".join(str(error).split()) or type(error).__name__, most=160)
    if "thrift" in reason:  # what Arrow says then names a number in the file's own structure and nothing else
        reason = f"its footer is damaged, or the header of a page: {reason}"
    rule = "the Parquet file is damaged and cannot be read; write or copy it again"
    if isinstance(path, RemoteFile) and isinstance(error, OSError):
        rule = "cannot be read; check the network and your rights there"
    with suppress(OSError), opened(path) as file:
        start = file.read(4)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 4))
        if size == 0:
            rule = "the file is empty (0 bytes); was its writer interrupted? write it again"
        elif start != b"PAR1":
            rule = f"is not a Parquet file (it starts with {start!r}); convert it to Parquet"
        elif file.read(4) != b"PAR1":
            rule = f"the Parquet file is truncated ({size} bytes, without its footer); write or copy it again"
    return f"{rule} ({reason})"


def read_text(path: PathLike, wanted: str = "give a text file", most: int = MOST_TEXT_BYTES) -> str:
    """Read a text file whole, but never more than `most` bytes.

    Parameters
    ----------
    wanted
        The way out of a message about a file of another kind.

    Raises
    ------
    InputError
        It is missing, unreadable, no regular file (a pipe could not be digested afterwards), longer than `most`, not
        UTF-8, or empty.
    """
    try:
        kind = os.stat(path)
        if not stat.S_ISREG(kind.st_mode):
            raise InputError(f"{shown(path)}: is not a regular file; {wanted}, or pipe it to stdin (-)")
        with open(path, "rb") as file:
            given = (
                file.read(kind.st_size + 1) if kind.st_size <= most else None
            )  # a reader allocates what it is asked for
    except InputError:
        raise
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{shown(path)}: cannot be read ({why}); check the path and its permissions") from error
    if given is None or len(given) > most:
        raise InputError(f"{shown(path)}: holds more than {most:,} bytes, the most that is read; cut the file down")
    return decoded(given, shown(path), wanted)


def decoded(given: bytes, source: str, wanted: str = "give a text file") -> str:
    """Decode UTF-8, without the mark some editors put at its beginning; lines end in a line feed whatever wrote them.

    Raises
    ------
    InputError
        It is not UTF-8, or empty.
    """
    try:
        text = given.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: is not UTF-8 text (byte {error.start}); {wanted}") from error
    if not text.strip():
        raise InputError(f"{source}: the file is empty; was its writer interrupted?")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def opened(path: PathLike) -> Any:
    """Open a file for reading bytes, wherever it lies."""
    return path.open() if isinstance(path, RemoteFile) else open(path, "rb")


def sha256_of(path: PathLike) -> str:
    """Give the SHA-256 of a file's bytes as 64 hexadecimal digits."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
