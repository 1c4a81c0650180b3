"""Somewhere for compiled kernels where Numba finds no folder it may write to: a read-only installation, no home.

Numba keeps compiled kernels in ``NUMBA_CACHE_DIR``, beside their source, or in the user's cache folder, and refuses to
define a kernel where none of them can be written. What it finds there it unpickles, so that a folder which others may
write to is none: each such process gets one of its own (mode 0700), which is gone when the process ends. Kernels that
were compiled into a folder beside the source which can only be read are taken from there.
"""

import atexit
import hashlib
import os
import shutil
import tempfile
import warnings
from pathlib import Path

from numba import config, njit

_HERE = Path(__file__).parent


class UncachedWarning(UserWarning):
    """Compiled kernels are not kept for the next process."""


def provide() -> None:
    """Give Numba a folder of this process's own, if it has none to write to."""
    if _can_be_kept():
        return
    folder = tempfile.mkdtemp(prefix="draft-oracle-kernels-")
    atexit.register(_remove, folder, os.getpid())
    _lend_compiled(Path(folder))
    config.CACHE_DIR = folder
    warnings.warn(
        f"compiled kernels cannot be kept: neither {_HERE / '__pycache__'} nor a cache folder of this user can be "
        "written; set NUMBA_CACHE_DIR to a folder that only you can write to, or every start compiles what it needs "
        "(seconds)",
        UncachedWarning,
        stacklevel=2,
    )


def _can_be_kept() -> bool:
    try:
        njit(cache=True)(_nothing)
    except RuntimeError:  # "cannot cache function …: no locator available for file …"
        return False
    return True


def _nothing() -> None:
    """Stand for any kernel of this package: only its file matters."""


def _lend_compiled(folder: Path) -> None:
    """Link what lies compiled beside the source into a cache folder, where Numba looks for files of that source."""
    below = folder / f"{_HERE.name}_{hashlib.sha1(str(_HERE).encode()).hexdigest()}"
    below.mkdir()
    for file in (_HERE / "__pycache__").glob("*.nb[ci]"):
        if os.access(file, os.R_OK):
            (below / file.name).symlink_to(file)


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child leaves it to its parent
        shutil.rmtree(folder, ignore_errors=True)
