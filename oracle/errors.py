"""What the user is told when an input is wrong: the rule, the value, the place and the way out.

All faults of an input are gathered and raised once, numbered, so that a file is mended in one go.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

MOST_FAULTS_SHOWN = 20
MOST_DRAFT_TOKENS = 128  # a kernel is compiled for each K; this is far beyond any engine's own limit

_Made = TypeVar("_Made")


class InputWarning(UserWarning):
    """Something in the input looks wrong but can be meant; the command line prints it on stderr."""


class InputError(ValueError):
    """Something the user gave cannot be used. The command line prints the faults and exits with 2.

    Parameters
    ----------
    faults
        One sentence a fault: the place, the rule, the value, the way out.
    """

    def __init__(self, faults: str | Iterable[str]) -> None:
        self.faults: tuple[str, ...] = (faults,) if isinstance(faults, str) else tuple(faults)
        if not self.faults:
            raise ValueError("an InputError names at least one fault")
        super().__init__(str(self))

    def __str__(self) -> str:
        if len(self.faults) == 1:
            return self.faults[0]
        shown = [f"{i}. {fault}" for i, fault in enumerate(self.faults[:MOST_FAULTS_SHOWN], 1)]
        more = len(self.faults) - len(shown)
        return "\n".join(shown + ([f"... and {more} more faults"] if more else []))


class Faults:
    """A list of faults that grows while an input is checked and is raised once at the end.

    Examples
    --------
    >>> faults = Faults()
    >>> faults.add("model.json: verify.m is empty; give at least one number of verified positions")
    >>> faults.raise_if_any()
    Traceback (most recent call last):
    oracle.errors.InputError: model.json: verify.m is empty; give at least one number of verified positions
    """

    def __init__(self) -> None:
        self._faults: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._faults)

    def __len__(self) -> int:
        return len(self._faults)

    def __iter__(self) -> Iterator[str]:
        return iter(self._faults)

    def add(self, fault: str) -> None:
        """Note one fault."""
        self._faults.append(fault)

    def made(self, make: Callable[[], _Made]) -> _Made | None:
        """Give what `make` gives; None where it raises an `InputError`, whose faults are noted here."""
        try:
            return make()
        except InputError as error:
            self._faults.extend(error.faults)
            return None

    def raise_if_any(self) -> None:
        """Raise all faults as one `InputError`, if there are any."""
        if self._faults:
            raise InputError(self._faults)


def printable(text: str, most: int = 80) -> str:
    r"""Text from a file, made safe for a terminal: control characters escaped, long text cut.

    Examples
    --------
    >>> printable("q17\x1b[31m")
    'q17\\x1b[31m'
    """
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
