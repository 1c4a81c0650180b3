"""What a worker does with a piece, and what it answers: results, or in words why there are none."""

import os
import pickle
import platform
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from oracle.errors import InputError, InputWarning, printable
from oracle.files import shown
from oracle.locations import RemoteFile
from oracle.pieces import Piece

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Answer:
    """What came of one batch.

    Attributes
    ----------
    value
        The function's result.
    faults, failure
        What is wrong with the input, or with the worker's machine; empty if nothing is.
    warnings
        What looks wrong but can be meant.
    """

    value: Any = None
    faults: tuple[str, ...] = ()
    failure: str = ""
    warnings: tuple[str, ...] = ()


def answers(
    piece: Piece, read: Callable[[Piece], Iterator[_Item]], function: Callable[[_Item], Any]
) -> Iterator[bytes]:
    """Read a piece and apply a function to each batch; a fault ends the piece.

    Yields
    ------
    bytes
        A pickled `Answer` a batch.
    """
    batches = _present(piece, read)
    while True:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answer = _next_answer(batches, function, piece)
        if answer is None:
            return
        said = tuple(str(each.message) for each in caught if issubclass(each.category, InputWarning))
        yield pickle.dumps(Answer(answer.value, answer.faults, answer.failure, said), pickle.HIGHEST_PROTOCOL)
        if answer.faults or answer.failure:
            return


def _present(piece: Piece, read: Callable[[Piece], Iterator[_Item]]) -> Iterator[_Item]:
    """Read a piece; a path of one machine may mean nothing on another, and rights of one not hold there."""
    worker = platform.node()
    if isinstance(piece.file, RemoteFile):
        try:
            _ = piece.file.size
        except (OSError, pa.ArrowException) as error:
            why = printable(" ".join(str(error).split()), most=160)
            raise InputError(
                f"{shown(piece.file)}: cannot be reached from the worker {worker} ({why}); every node of the cluster "
                "needs the network and the rights there that this machine has: credentials in its environment"
            ) from None  # the error's own text may repeat a secret
    elif not os.path.exists(piece.file):
        raise InputError(
            f"{shown(piece.file)}: no such file on the worker {worker}; every node of the cluster must see it "
            f"{_under(piece.file)}, or give a URI (s3://, gs://)"
        )
    yield from read(piece)


def _under(file: Path) -> str:
    place = os.fspath(file)
    return "under this name" if place == str(file) else f"as {shown(place)}"


def _next_answer(batches: Iterator[_Item], function: Callable[[_Item], Any], piece: Piece) -> Answer | None:
    try:
        for batch in batches:
            return Answer(function(batch))
    except InputError as error:
        return Answer(faults=error.faults)
    except (OSError, MemoryError) as error:
        return Answer(
            failure=f"{shown(piece.file)}: the worker {platform.node()} failed ({str(error) or 'out of memory'})"
        )
    return None
