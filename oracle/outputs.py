"""Writing so that a file or a folder appears whole or not at all, and never over an input."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oracle.errors import InputError, printable
from oracle.files import PathLike, shown
from oracle.locations import is_uri, path_here


@contextmanager
def atomic_output(path: PathLike) -> Iterator[Path]:
    """Write a file so that it appears whole or not at all.

    Yields
    ------
    Path
        An empty file in the same folder; write there. On success it takes the place of `path` (after fsync); on any
        exception it is removed and `path` keeps what it held.

    Raises
    ------
    InputError
        `path` is a folder or a device, or cannot be written: said before any work is done.
    """
    target = Path(os.path.realpath(path))  # a symbolic link stays a link; its target is replaced
    if target.is_dir():
        raise InputError(f"{shown(path)}: is a folder; give a file name to write")
    if target.exists() and not target.is_file():
        raise InputError(f"{shown(path)}: is not a regular file; give a file name to write")
    _make_folder(target.parent)
    partial = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.partial")
    try:
        partial.touch()
    except OSError as error:
        raise InputError(f"{shown(path)}: cannot be written ({error.strerror}); choose another place") from error
    try:
        with _naming(path):
            yield partial
            _sync(partial)
            os.replace(partial, target)
            _sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)


class WritingError(OSError):
    """What the machine said while an output was written, with the output's name."""


@contextmanager
def _naming(path: PathLike, kept: str = "nothing was kept there") -> Iterator[None]:
    """Name the output in what the machine says while it is written: disk full, input/output error."""
    try:
        yield
    except (InputError, WritingError):
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise WritingError(f"{shown(path)}: writing failed ({reason}); {kept}") from error


@contextmanager
def atomic_folder(
    path: PathLike, overwrite: bool = False, *, ours: Callable[[str], bool], marker: str
) -> Iterator[Path]:
    """Write a folder of files so that it appears whole or not at all.

    Parameters
    ----------
    overwrite
        Whether an earlier output may be replaced.
    ours, marker
        Whether such an output may hold a file of that name, and the file that names this program. A folder with any
        other entry, or without the marker, is never replaced: it is not an earlier output.

    Yields
    ------
    Path
        A new empty folder beside `path`. On success it takes the place of `path`; on any exception it is removed.
    """
    target = Path(os.path.realpath(path))
    _refuse_to_replace(target, path, overwrite, ours, marker)
    _make_folder(target.parent)
    partial = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.partial")
    former = partial.with_suffix(".former")
    try:
        partial.mkdir()
    except OSError as error:
        raise InputError(f"{shown(path)}: cannot be written ({error.strerror}); choose another place") from error
    try:
        with _naming(path):
            yield partial
            for file in partial.iterdir():
                _sync(file)
            if target.exists():
                os.replace(target, former)
            try:
                os.replace(partial, target)
            except OSError:
                if former.exists():
                    os.replace(former, target)
                raise
            _sync(target.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if target.exists():  # never remove what stood there before its successor is in place
            shutil.rmtree(former, ignore_errors=True)


@contextmanager
def atomic_files(folder: PathLike) -> Iterator[Path]:
    """Write files into a folder that holds others already: each appears whole, and none before all are written.

    Yields
    ------
    Path
        A new empty folder inside it; write there. On success its files take their places; on any exception it is
        removed.
    """
    target = Path(os.path.realpath(folder))
    partial = target / f".results.{secrets.token_hex(6)}.partial"
    with _naming(folder, "what was there before is there still"):
        partial.mkdir()
        try:
            yield partial
            files = sorted(partial.iterdir())
            for file in files:
                _sync(file)
            for file in files:
                os.replace(file, target / file.name)
            _sync(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _refuse_to_replace(target: Path, path: PathLike, overwrite: bool, ours: Callable[[str], bool], marker: str) -> None:
    """Raise unless `target` is absent, an empty folder, or an earlier output that may be overwritten."""
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError(f"{shown(path)}: is a file; give a folder name to write")
    entries = sorted(target.iterdir())
    if not entries:
        return
    if not overwrite:
        raise InputError(f"{shown(path)}: the folder exists already; choose another name, or give --overwrite")
    for entry in entries:
        if not ours(entry.name) or not entry.is_file() or entry.is_symlink():
            raise InputError(
                f"{shown(path)}: will not be overwritten, since it holds {printable(entry.name)!r}, which is not an "
                "output of this program; choose another folder"
            )
    said = target / marker
    if not said.is_file() or b"draft-oracle" not in said.read_bytes()[:4096]:
        raise InputError(
            f"{shown(path)}: will not be overwritten, since no {marker} of this program is in it; choose another folder"
        )


def refuse_output_over_input(output: PathLike | None, inputs: Iterable[PathLike]) -> None:
    """Refuse an output that would replace, or hold, one of the inputs; and ``-``, which is no file.

    Raises
    ------
    InputError
        Said before any work is done.
    """
    if output is None:
        return
    if str(output) == "-":
        raise InputError("this output is a file and not text for stdout; give a file name")
    if is_uri(str(output).replace(":/", "://", 1)):  # a path has one slash where a URI has two
        raise InputError(f"{shown(output)}: results are written to this machine; give a path, and copy them from there")
    target = os.path.realpath(output)
    for path in inputs:
        source = os.path.realpath(path_here(path) if isinstance(path, str) else path)
        if source == target or source.startswith(target + os.sep):
            raise InputError(f"{shown(output)}: would replace the input {shown(path)}; choose another place")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{shown(folder)}: the folder cannot be made ({error.strerror}); choose another") from error


def _sync(path: Path) -> None:
    """Make the bytes of a file, or the entries of a folder, reach the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():  # some file systems cannot sync a folder; the rename is done all the same
            raise
    finally:
        os.close(descriptor)
