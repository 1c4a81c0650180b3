"""Signals that ask the program to end; they are heeded before all else is loaded.

Imports next to nothing for that: until it is loaded itself, a signal still ends in Python's traceback.
"""

import os
import signal
import sys

TYPE_CHECKING = False  # as typing has it
if TYPE_CHECKING:
    from collections.abc import Callable
    from sys import UnraisableHookArgs
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.05  # until a signal that was swallowed is sent again


class Stopped(BaseException):
    """A signal that asks the program to end.

    Attributes
    ----------
    number
        The signal's.
    goes_on
        Whether the same command, given once more, goes on where it was.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number
        self.goes_on = False

    def in_words(self) -> str:
        """Say what becomes of the command's files."""
        kept = "the same command goes on where it was" if self.goes_on else "files appear only when a command has ended"
        return f"stopped ({self}); {kept}"


class _SoFar:
    """What has become of the signals that came."""

    answered = False
    raised = False


_so_far = _SoFar()


def leave_at_once() -> None:
    """Let a signal end the program on the spot: while it is loaded there is nothing to clear away."""
    _handle_by(_leave)


def heed() -> None:
    """Let a signal raise `Stopped`."""
    _so_far.raised = False
    _handle_by(_stop)
    sys.unraisablehook = _swallowed


def answer(_number: int) -> bool:
    """Tell the user at once that a signal has come; give whether it has yet to raise `Stopped`.

    For those who hold signals back for a while.
    """
    if _so_far.answered:
        _tell("still stopping: what was begun is being cleared away …")
    elif os.isatty(2):
        _tell("stopping …")
    _so_far.answered = True
    return not _so_far.raised


def _handle_by(handler: "Callable[[int, FrameType | None], None]") -> None:
    """Give signals a handler, but those that whoever started the program had it ignore, as ``nohup`` does."""
    for each in _SIGNALS:
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, handler)


def _leave(number: int, _frame: object) -> None:
    _tell(Stopped(number).in_words())
    os._exit(128 + number)


def _stop(number: int, _frame: object) -> None:
    _handle_by(_only_answer)  # what is half-written is being cleared away: a second signal must not disturb that
    if not _so_far.answered:
        answer(number)
    _so_far.raised = True
    raise Stopped(number)


def _only_answer(number: int, _frame: object) -> None:
    answer(number)


def _tell(text: str) -> None:
    """Write a line on stderr past Python's buffer, which what was interrupted may hold; below a terminal's ``^C``."""
    try:
        os.write(2, f"{os.linesep if os.isatty(2) else ''}{text}\n".encode())
    except OSError:  # closed, or its reader is gone
        return


def _swallowed(what: "UnraisableHookArgs") -> None:
    """Stop a moment later if a signal came where Python drops what is raised: in a finalizer or a weak reference."""
    if not isinstance(what.exc_value, Stopped):
        sys.__unraisablehook__(what)
        return
    import threading  # noqa: PLC0415

    heed()
    again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), what.exc_value.number))
    again.daemon = True
    again.start()
