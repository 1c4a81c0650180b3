"""Readers that do what none may: the fuzzer is tried on them."""

import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path

from fuzzing.bombs import pickled
from fuzzing.readers import Reader

from oracle.errors import InputError


def _raise(_: Path) -> None:
    raise KeyError("a traceback")


def _crash(_: Path) -> None:
    os.abort()


def _hang(_: Path) -> None:
    while True:
        pass


def _grow(_: Path) -> None:
    try:
        bytearray(1 << 30)
    except MemoryError as error:
        raise InputError("too large") from error


def _leave(path: Path) -> None:
    path.with_name("left").touch()


def _run_code(path: Path) -> None:
    pickle.loads(path.read_bytes())


def _show(_: Path) -> None:
    raise InputError("\x1b[31m")


def _reader(name: str, read: Callable[[Path], None]) -> Reader:
    def every_other(path: Path, _: Path, rng: random.Random) -> None:
        if rng.random() < 0.5:
            read(path)

    return Reader(name, 1, ".bin", lambda _: pickled(), every_other)


SELF_TESTS = tuple(
    _reader(read.__name__.removeprefix("_"), read) for read in (_raise, _crash, _hang, _grow, _leave, _run_code, _show)
)
