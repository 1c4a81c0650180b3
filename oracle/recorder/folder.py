"""The folder of a recording: who may write there, and what an earlier recording in it says of itself."""

import json
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from oracle.errors import InputError, InputWarning
from oracle.files import shown
from oracle.locks import NAME, NO_LOCKS, FolderLock
from oracle.syncing import make_folder
from oracle.writing_errors import beginning

TRACES = "traces.parquet"
ROUNDS = "rounds.parquet"
ORIGIN = "record.json"
PARTS = "_parts"  # readers of folders pass over names that begin so
_PARTIAL = ".*.partial"  # what a run that was killed was writing


@contextmanager
def recording_folder(folder: Path, resume: bool) -> Iterator[dict[str, Any] | None]:
    """Be the only run that records into a folder, until the context ends; clear up after one that was killed.

    Parameters
    ----------
    folder
        Where; folders that are made here and stay empty are removed again.
    resume
        Whether to go on with an earlier recording in it.

    Yields
    ------
    dict or None
        What the earlier recording says of itself; None if there is none.

    Raises
    ------
    InputError
        Another run is at work there, it holds something else or cannot be written, or there is an earlier recording
        and `resume` is not given.
    """
    with ExitStack() as stack, beginning(folder):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{shown(folder)}: is a file; give a folder to write")
        if folder.exists() and not (folder / ORIGIN).exists():
            _former(folder, resume)  # no lock file is put beside what is not ours
        for made in reversed(make_folder(folder)):
            stack.callback(_remove_empty, made)
        alone, former = _locked(folder, stack), _former(folder, resume)
        for stale in [*folder.glob(_PARTIAL), *folder.glob(f"{PARTS}/{_PARTIAL}")] if alone else ():
            stale.unlink()
        held = stack.pop_all()
    with held:
        yield former


def _locked(folder: Path, stack: ExitStack) -> bool:
    """Take the lock until the stack closes; False where the file system knows none."""
    lock = FolderLock(folder)
    try:
        lock.take()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        warnings.warn(
            f"{shown(folder)}: its file system knows no locks; see to it that no other run records into this folder",
            InputWarning,
            stacklevel=2,
        )
        return False
    stack.callback(lock.release)
    return True


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _former(folder: Path, resume: bool) -> dict[str, Any] | None:
    """Give what the recording in a folder says of itself."""
    if all(entry.name == NAME or entry.match(_PARTIAL) for entry in folder.iterdir()):
        return None
    if not resume:
        raise InputError(f"{shown(folder)}: the folder exists already; choose another name, or --resume a recording")
    try:
        found: dict[str, Any] = json.loads((folder / ORIGIN).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{shown(folder)}: holds no recording ({ORIGIN} cannot be read); choose another") from error
    if not isinstance(found, dict) or found.get("format") != "draft-oracle/recording":
        raise InputError(f"{shown(folder / ORIGIN)}: is not of this program; choose another folder")
    return found
