"""Run a command of the program in this process: what it prints, or the faults it raises."""

import contextlib
import io
from pathlib import Path

from oracle.cli.main import group


def printed(*words: str | Path) -> str:
    """Give what a command writes to stdout; an `InputError` is raised as it is."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        group.main([str(word) for word in words], prog_name="draft-oracle", standalone_mode=False)
    return out.getvalue()
