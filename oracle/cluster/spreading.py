"""Datasets whose batches workers read and work on, wherever they are; results come as one process would give them.

An engine hands out pieces of files and brings answers back in any order. Each answer carries its place, the number of
its piece and of its batch within the piece, from which the order is restored: batches are the same whoever reads
them, and sums over batches are taken here, so results equal those of one process bit for bit.
"""

import pickle
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar

from oracle.cluster.answers import Answer, answers
from oracle.errors import InputError, InputWarning
from oracle.files import File
from oracle.pieces import PIECE_BYTES, Piece, pieces_of
from oracle.rounds import RoundFiles, Rounds
from oracle.traces import TraceFiles, Traces
from oracle.traces.dataset import Dataset

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

Work = Callable[[Piece], Iterator[bytes]]


@dataclass(frozen=True)
class Arrival:
    """One answer as an engine brings it.

    Attributes
    ----------
    piece, batch
        Its place: number of the piece, and of the batch within the piece.
    answer
        A pickled `Answer`; None behind the last batch of a piece.
    """

    piece: int
    batch: int
    answer: bytes | None


class Engine(Protocol):
    """What hands out pieces to workers."""

    def run(self, pieces: Sequence[Piece], work: Work) -> Iterator[Arrival]:
        """Do the work on every piece; bring each answer, and an end of each piece, once, in any order."""
        ...


def in_place_order(arrivals: Iterator[Arrival], pieces: int) -> Iterator[bytes]:
    """Give the answers in the order of their places; early ones wait.

    Raises
    ------
    OSError
        The engine lost an answer or brought one twice.
    """
    waiting: dict[tuple[int, int], bytes | None] = {}
    place = (0, 0)
    for arrival in arrivals:
        here = arrival.piece, arrival.batch
        if here in waiting or here < place:
            raise OSError(f"the engine brought batch {here[1]} of piece {here[0]} twice; run again")
        waiting[here] = arrival.answer
        while place in waiting:
            answer = waiting.pop(place)
            if answer is not None:
                yield answer
            place = (place[0] + 1, 0) if answer is None else (place[0], place[1] + 1)
    if place != (pieces, 0):
        raise OSError(f"the engine lost batch {place[1]} of piece {place[0]} of {pieces}; run again")


def spread(
    engine: Engine,
    pieces: Sequence[Piece],
    read: Callable[[Piece], Iterator[_Item]],
    function: Callable[[_Item], _Result],
) -> Iterator[_Result]:
    """Let workers read pieces and apply a function to each batch; give the results in the order of the batches.

    Parameters
    ----------
    engine
        Hands out the pieces.
    pieces
        What is read.
    read, function
        Can be pickled; `read` gives the batches of a piece.

    Raises
    ------
    InputError
        Faults of the first batch, in order, that has some.
    OSError
        A worker's machine failed.
    """
    for given in in_place_order(engine.run(pieces, partial(answers, read=read, function=function)), len(pieces)):
        answer: Answer = pickle.loads(given)
        for sentence in answer.warnings:
            warnings.warn(InputWarning(sentence), stacklevel=2)
        if answer.faults:
            raise InputError(answer.faults)
        if answer.failure:
            raise OSError(answer.failure)
        yield answer.value


@dataclass(frozen=True)
class SpreadBatches(Generic[_Item]):
    """Batches of pieces that an engine's workers read and work on; fields as the parameters of `spread`."""

    engine: Engine
    pieces: Sequence[Piece]
    read: Callable[[Piece], Iterator[_Item]]

    def over(self, function: Callable[[_Item], _Result]) -> Iterator[_Result]:
        """Apply a function that can be pickled to every batch; give the results in order."""
        return spread(self.engine, self.pieces, self.read, function)


class SpreadTraces(TraceFiles):
    """Trace files whose batches an engine's workers work on; everything else is as for the files given.

    Parameters
    ----------
    files
        The files.
    engine
        Hands out the pieces.
    piece_bytes
        What a worker reads at least, encoded, where there is so much.
    """

    def __init__(self, files: TraceFiles, engine: Engine, piece_bytes: int = PIECE_BYTES) -> None:
        vars(self).update(vars(files))
        self._files, self._engine, self._piece_bytes = files, engine, piece_bytes

    def over(self, function: Callable[[Traces], _Result]) -> Iterator[_Result]:
        """Apply a function that can be pickled to every batch; give the results in order, all faults noticed."""
        dataset = Dataset(self._routed)
        batches = self.in_pieces(pieces_of(self.paths, self._piece_bytes), TraceFiles.read)
        for result, alone, ids in batches.over(partial(_on_traces, function=function)):
            dataset.join(alone, ids)
            dataset.faults.raise_if_any()
            yield result
        dataset.warn()

    def in_pieces(
        self, pieces: Sequence[Piece], read: Callable[[TraceFiles, Piece], Iterator[_Item]]
    ) -> "SpreadBatches[_Item]":
        """Let workers read the pieces; `read` can be pickled."""
        return SpreadBatches(self._engine, pieces, partial(read, self._files))

    def without(self, row_groups: Collection[tuple[File, int]]) -> Self:
        """Give the same files without some of their row groups; workers do not read them either."""
        fewer = super().without(row_groups)
        fewer._files = self._files.without(row_groups)
        return fewer


def _on_traces(
    pair: tuple[Traces, Dataset], function: Callable[[Traces], _Result]
) -> tuple[_Result, Dataset, tuple[str, ...]]:
    traces, alone = pair
    return function(traces), alone, traces.generation


class SpreadRounds(RoundFiles):
    """Files of rounds whose batches an engine's workers work on; parameters as those of `SpreadTraces`."""

    def __init__(self, files: RoundFiles, engine: Engine, piece_bytes: int = PIECE_BYTES) -> None:
        vars(self).update(vars(files))
        self._files, self._engine, self._piece_bytes = files, engine, piece_bytes

    def over(self, function: Callable[[Rounds], Any]) -> Iterator[Any]:
        """Apply a function that can be pickled to every batch; give the results in order."""
        return SpreadBatches(self._engine, pieces_of(self.paths, self._piece_bytes), self._files.read).over(function)
