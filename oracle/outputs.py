"""Writing so that a file or a folder appears whole or not at all, and never over an input."""

import functools
import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from oracle import swaps
from oracle.errors import InputError, InputWarning, printable
from oracle.files import PathLike, shown
from oracle.locations import is_uri, path_here
from oracle.locks import NO_LOCKS, FolderLock, is_at, living_file
from oracle.syncing import make_folder, sync, sync_tree
from oracle.writing_errors import WritingError, beginning, naming, reason_of

_NOTHING, _FORMER = "nothing was kept there", "what was there before is there still"
_LONGEST = 100  # bytes of a name that others are made of


@contextmanager
def atomic_output(path: PathLike) -> Iterator[Path]:
    """Write a file so that it appears whole or not at all; of two that write one file, the last one's stays.

    Yields
    ------
    Path
        An empty file in the same folder; write there. On success it takes the place of `path`, and both its bytes and
        its name have reached the disk; on any exception it is removed and `path` keeps what it held.

    Raises
    ------
    InputError
        `path` is a folder or a device, or cannot be written: said before any work is done.
    """
    target = _target(path)
    if target.is_dir():
        raise InputError(f"{shown(path)}: is a folder; give a file name to write")
    if target.exists() and not target.is_file():
        raise InputError(f"{shown(path)}: is not a regular file; give a file name to write")
    make_folder(target.parent)
    with beginning(path):
        partial, living = living_file(_stem(target), target.parent)
    try:
        with naming(path, partial, _FORMER if target.exists() else _NOTHING):
            yield partial
            sync(partial)
            try:
                os.replace(partial, target)
            except OSError as error:
                raise WritingError(path, reason_of(error), _kept(partial, target)) from error
            _settle(path, target.parent)
    finally:
        if is_at(living, partial):  # else it has its place, and another run may have taken this name since
            partial.unlink()
        os.close(living)


@contextmanager
def atomic_folder(
    path: PathLike, overwrite: bool = False, *, ours: Callable[[str], bool], marker: str
) -> Iterator[Path]:
    """Write a folder of files so that it appears whole or not at all, by one run at a time where there are locks.

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
        A new empty folder beside `path`. On success it takes the place of `path`, once everything in it has reached
        the disk; on any exception it is removed. If `path` may not be replaced by then, it is kept under another name,
        and the error says so.

    Raises
    ------
    InputError
        `path` may not be replaced, or another run is at work there: said before any work is done; or the former, at
        the end.
    """
    target = _target(path)
    why_not = functools.partial(_why_not, overwrite=overwrite, ours=ours, marker=marker)
    _refuse_if(path, why_not(target))
    make_folder(target.parent)
    with ExitStack() as stack:
        partial = _alone(path, target, ours, stack)
        former = partial.with_suffix(".former")
        _refuse_if(path, why_not(target))
        with beginning(path):
            partial.mkdir()
        stack.callback(swaps.discard, former, ours)
        stack.callback(swaps.restored, target, former)  # never remove what stood there without a successor in place
        stack.callback(shutil.rmtree, partial, ignore_errors=True)
        with naming(path, partial, _FORMER if target.exists() else _NOTHING):
            yield partial
            sync_tree(partial)
            try:
                reason = swaps.take_place(partial, target, former, why_not)
            except OSError as error:
                raise WritingError(path, reason_of(error), _kept(partial, target)) from error
            if reason is not None:
                raise InputError(f"{shown(path)}: changed during the run: {reason[0]}; {_kept(partial, target)}")
            _settle(path, target.parent)


@contextmanager
def atomic_files(folder: PathLike) -> Iterator[Path]:
    """Write files into a folder that holds others already: each appears whole, and none before all are written.

    They appear one after the other: whoever stops it then (a kill, a power cut) leaves new files beside former ones.

    Yields
    ------
    Path
        A new empty folder inside it; write files there. On success they take their places; on any exception it is
        removed, and what has not taken its place with it.
    """
    target = Path(os.path.realpath(folder))
    partial = target / f".results.{secrets.token_hex(6)}.partial"
    with naming(folder, partial, _FORMER):
        partial.mkdir()
        try:
            yield partial
            sync_tree(partial)
            for file in sorted(partial.iterdir()):
                os.replace(file, target / file.name)
            _settle(folder, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _kept(partial: Path, target: Path) -> str:
    """Give a result that cannot have its name another one; say where it is."""
    try:
        kept = swaps.keep_beside(partial, target)
    except OSError as error:
        return f"the result could not be kept ({reason_of(error)})"
    with suppress(OSError):
        sync(target.parent)
    return f"the result is kept as {shown(kept)}"


def _settle(path: PathLike, folder: Path) -> None:
    """Make names that were given in a folder reach the disk."""
    try:
        sync(folder)
    except OSError as error:
        raise WritingError(path, reason_of(error), "it is there, but may be lost if the machine stops") from error


def _target(path: PathLike) -> Path:
    """Follow symbolic links (a link stays a link; its target is replaced), but not to folders that do not exist.

    Raises
    ------
    InputError
        Such a link: folders would be made where nobody named them.
    """
    target = Path(os.path.realpath(path))
    named = Path(os.path.abspath(path))
    deepest = next(each for each in (named, *named.parents) if os.path.lexists(each))
    meant = Path(os.path.realpath(deepest))
    if deepest.is_symlink() and not meant.exists() and not meant.parent.exists():
        raise InputError(
            f"{shown(path)}: leads through a symbolic link to {shown(meant)}, whose folder does not exist; make that "
            "folder, or choose another place"
        )
    return target


def _stem(target: Path) -> str:
    """Give what hidden names for one output begin with; long names are cut, as they are given endings."""
    name = os.fsencode(target.name)
    return target.name if len(name) <= _LONGEST else f"{target.name[:20]}.{sha256(name).hexdigest()[:16]}"


def _alone(path: PathLike, target: Path, ours: Callable[[str], bool], stack: ExitStack) -> Path:
    """Be the only run that writes a folder, until the stack closes; clear up after one that was killed.

    Returns
    -------
    Path
        A free name for the folder while it is written.
    """
    partial = target.with_name(f".{_stem(target)}.partial")
    lock = FolderLock(Path(str(path)), partial.with_suffix(".lock"))
    with beginning(path):
        try:
            lock.take()
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            return target.with_name(f".{_stem(target)}.{secrets.token_hex(6)}.partial")
        stack.callback(lock.release)
        shutil.rmtree(partial, ignore_errors=True)
        former = partial.with_suffix(".former")
        if swaps.restored(target, former):
            _warn(f"{shown(path)}: a run that replaced it was killed; what it had moved aside is there again")
        swaps.discard(former, ours)
        if former.exists():
            kept = swaps.keep_beside(former, target)
            _warn(f"{shown(path)}: a run that replaced it was killed; files it did not write are kept in {shown(kept)}")
    return partial


def _warn(text: str) -> None:
    warnings.warn(text, InputWarning, stacklevel=2)


def _refuse_if(path: PathLike, why_not: tuple[str, str] | None) -> None:
    if why_not is not None:
        raise InputError(f"{shown(path)}: {'; '.join(why_not)}")


def _why_not(target: Path, overwrite: bool, ours: Callable[[str], bool], marker: str) -> tuple[str, str] | None:
    """Say why not, and the way out, unless `target` is absent, empty, or an earlier output that may be overwritten."""
    if not target.exists():
        return None
    if not target.is_dir():
        return "is a file", "give a folder name to write"
    entries = sorted(target.iterdir())
    if not entries:
        return None
    if not overwrite:
        return "the folder exists already", "choose another name, or give --overwrite"
    foreign = (each for each in entries if not ours(each.name) or not each.is_file() or each.is_symlink())
    entry, said = next(foreign, None), target / marker
    if entry is not None:
        since = f"it holds {printable(entry.name)!r}, which is not an output of this program"
    elif not said.is_file() or b"draft-oracle" not in said.read_bytes()[:4096]:
        since = f"no {marker} of this program is in it"
    else:
        return None
    return f"will not be overwritten, since {since}", "choose another folder"


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
