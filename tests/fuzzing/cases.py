"""One case: its input follows from a seed and a number; what comes of it, and whether that may be."""

import os
import random
import resource
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzzing.readers import READERS, Reader
from fuzzing.self_tests import SELF_TESTS

from oracle.errors import InputError, InputWarning

READ, REFUSED, MACHINE, FAULT = "read", "refused", "machine", "fault"
LONGEST_MESSAGE = 1 << 16
_FORBIDDEN = {
    *("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen"),
    *("socket.connect", "socket.bind", "os.symlink", "os.link", "os.chmod", "os.chown"),
}
_seen: list[str] = []


@dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Attributes
    ----------
    kind
        `read`, `refused` (`InputError`, exit code 2), `machine` (`OSError`, exit code 1), or `fault`: anything else.
    reader
        Which reader.
    text
        The message, or what is wrong.
    """

    kind: str
    reader: str
    text: str = ""


class CaseError(Exception):
    """What must not happen, and no exception says."""


def watch(readers: tuple[Reader, ...] = READERS) -> None:
    """From here on note every event that reading data has no business with; hooks cannot be taken away again."""
    for reader in readers:
        reader.prepare()
    sys.addaudithook(_noted)


def _noted(event: str, args: tuple[Any, ...]) -> None:
    if event in _FORBIDDEN:
        _seen.append(f"{event}{args!r:.200}")


def named(names: frozenset[str]) -> tuple[Reader, ...]:
    """The readers of these names, all of the project's own for none."""
    return tuple(reader for reader in (*READERS, *SELF_TESTS) if reader.name in names) if names else READERS


def choice_of(seed: str, number: int, readers: tuple[Reader, ...] = READERS) -> tuple[Reader, random.Random]:
    """The reader of a case, and the source of all its other choices."""
    rng = random.Random(f"{seed}/{number}")
    return rng.choices(readers, [reader.weight for reader in readers])[0], rng


def run_case(reader: Reader, rng: random.Random, folder: Path) -> Outcome:
    """Make the input in an empty folder, read it, look at what is left, and clear up."""
    path, out = folder / f"in{reader.suffix}", folder / "out.bin"
    with _unlimited():
        raw = reader.make(rng)
    path.write_bytes(raw)
    _seen.clear()
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            outcome = _outcome(reader, rng, path, out)
        _check_warnings(said)
        _check_left_behind(folder, {path.name} | ({out.name} if out.exists() else set()))
        if outcome.kind != READ and out.exists() and not _is_whole(out):
            raise CaseError("an output was left behind half-written")
        if _seen:
            raise CaseError(f"forbidden: {_seen[0]}")
    except CaseError as fault:
        outcome = Outcome(FAULT, reader.name, str(fault))
    for entry in folder.iterdir():
        entry.unlink()
    return outcome


@contextmanager
def _unlimited() -> Iterator[None]:
    """Lift the limit on memory, which is the reader's, while its input is made."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _outcome(reader: Reader, rng: random.Random, path: Path, out: Path) -> Outcome:
    try:
        reader.read(path, out, rng)
    except InputError as error:
        _check_chain(error)
        _check_message(str(error), path)
        return Outcome(REFUSED, reader.name, str(error))
    except MemoryError as error:
        return Outcome(FAULT, reader.name, f"growth: {_where(error)}")
    except OSError as error:
        _check_message(str(error), path)
        return Outcome(MACHINE, reader.name, str(error))
    except Exception as error:  # whatever it is, it would be a traceback for the user
        return Outcome(FAULT, reader.name, _where(error))
    return Outcome(READ, reader.name)


def _where(error: BaseException) -> str:
    """The exception and the lines of the project that it passed, the innermost last."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f"{os.sep}oracle{os.sep}" in f.filename]
    frames = frames or traceback.extract_tb(error.__traceback__)[-2:]
    way = " > ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[-3:])
    return f"{type(error).__name__}: {str(error)[:200]!r} at {way}"


def _check_chain(error: BaseException) -> None:
    """Refuse an `InputError` behind which memory ran out: the limit must be found before it is reached."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            raise CaseError(f"growth behind a message: {_where(cause)}")
        cause = cause.__cause__ or cause.__context__


def _check_message(text: str, path: Path) -> None:
    if not text.strip():
        raise CaseError("an empty message")
    if len(text) > LONGEST_MESSAGE:
        raise CaseError(f"a message of {len(text)} characters: {text[:200]!r}")
    odd = [c for c in text if not c.isprintable() and c != "\n"]
    if odd:
        raise CaseError(f"a message holds {odd[0]!r}: {text[:200]!r}")


def _check_warnings(said: list[warnings.WarningMessage]) -> None:
    for each in said:
        if not issubclass(each.category, InputWarning):
            raise CaseError(f"{each.category.__name__}: {each.message} at {Path(each.filename).name}:{each.lineno}")
        _check_message(str(each.message), Path())


def _check_left_behind(folder: Path, expected: set[str]) -> None:
    left = {entry.name for entry in folder.iterdir()} - expected
    if left:
        raise CaseError(f"left behind: {sorted(left)}")


def _is_whole(out: Path) -> bool:
    """Whether an output that was written before a later check refused is a whole Parquet file or text."""
    raw = out.read_bytes()
    return raw[:4] != b"PAR1" or raw[-4:] == b"PAR1"


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in an empty folder, so that whatever is written by a relative name is seen."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
