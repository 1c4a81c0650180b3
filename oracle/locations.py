"""Files that lie elsewhere: object stores and other file systems that Arrow reaches, named by URI."""

import errno
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import fs

from oracle.errors import InputError, printable

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SECRETS = re.compile(r"(?<=://)[^/?#]*@|[?#].*$", re.DOTALL)  # a key and its secret, and options of the connection


@dataclass(frozen=True)
class RemoteFile(os.PathLike[str]):
    """A file on one of Arrow's file systems; can be pickled, so that a worker elsewhere opens the same.

    Attributes
    ----------
    filesystem
        A `pyarrow.fs.FileSystem`.
    path
        The file's path there.
    uri
        What it is called in messages and results; holds no secret.
    """

    filesystem: fs.FileSystem = field(hash=False)
    path: str
    uri: str

    def __str__(self) -> str:
        return self.uri

    def __fspath__(self) -> str:
        return str(self.path) if isinstance(self.filesystem, fs.LocalFileSystem) else self.uri

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def size(self) -> int | None:
        """Bytes; None where the file system does not tell.

        Raises
        ------
        FileNotFoundError
            There is no such file any more.
        """
        info = self.filesystem.get_file_info(self.path)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.uri)
        return None if info.size is None else int(info.size)

    def open(self) -> Any:
        """Open for reading bytes."""
        return self.filesystem.open_input_file(self.path)


def is_uri(text: str) -> bool:
    """Say whether a text names a file by URI (``s3://bucket/traces``) and not by path."""
    return _URI.match(text) is not None


def path_here(text: str) -> str:
    """Give the path on this machine that a ``file://`` URI names; any other text as it is."""
    if not text.startswith("file://"):
        return text
    try:
        return str(fs.FileSystem.from_uri(text)[1])
    except (pa.ArrowException, OSError, ValueError):
        return text


def without_secrets(uri: str) -> str:
    """Leave out of a URI what may be secret: user and password, and options after the path."""
    return _SECRETS.sub("", uri)


def remote_files(uri: str, hidden: Callable[[str], bool]) -> list[RemoteFile]:
    """Find the files that a URI means: the file itself, or the ``*.parquet`` files of a folder at any depth, sorted.

    Parameters
    ----------
    hidden
        Says of a name whether files and folders so called are left out of a folder.

    Raises
    ------
    InputError
        No such file system, file or folder; a pattern, a folder without Parquet files, one that cannot be reached.
    """
    shown = printable(without_secrets(uri), most=len(uri))
    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
        info = filesystem.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            rule = "patterns are not read in URIs; give the folder" if "*" in path else "check the address"
            raise InputError(f"{shown}: no such file or folder; {rule}")
        if info.type == fs.FileType.File:
            return [RemoteFile(filesystem, path, without_secrets(uri))]
        return _below(filesystem, path, without_secrets(uri), shown, hidden)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = printable(" ".join(str(error).replace(uri, without_secrets(uri)).split()), most=160)
        raise InputError(
            f"{shown}: cannot be reached ({reason}); check the address, the network and your rights there"
        ) from None  # the error's own text may repeat a secret


def _below(
    filesystem: fs.FileSystem, folder: str, uri: str, shown: str, hidden: Callable[[str], bool]
) -> list[RemoteFile]:
    root = folder.rstrip("/") + "/"
    found = []
    for info in filesystem.get_file_info(fs.FileSelector(folder, recursive=True)):
        below = info.path.removeprefix(root)
        if info.type == fs.FileType.File and below.endswith(".parquet") and not any(map(hidden, below.split("/"))):
            found.append(RemoteFile(filesystem, info.path, f"{uri.rstrip('/')}/{below}"))
    if not found:
        raise InputError(f"{shown}: the folder holds no *.parquet file; name another folder or the files")
    return sorted(found, key=lambda file: file.path)
