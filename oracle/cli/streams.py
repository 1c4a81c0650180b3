"""Standard streams that were closed before the program began (``2>&-``)."""

import os
import sys


def provide() -> None:
    """Put the null device in the place of closed streams; a closed stdin stays None, for reading it is refused.

    A file that is opened later must not get the number of a standard stream: what is said there would end up in it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, this one
            os.set_inheritable(number, True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # for as long as the process lives
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
