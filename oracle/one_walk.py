"""One walk over the traces: rows written, results taken in, and the answer known before any file appears."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, TypeVar

from oracle.result_files import ResultFile
from oracle.traces import Traces


class Walked(Protocol):
    """What came out of one batch; its further attributes hold tables of rows, or None, and what is added up."""

    @property
    def generations(self) -> int:
        """How many there were."""
        ...


_Result = TypeVar("_Result", bound=Walked)
_Answer = TypeVar("_Answer")
Walker = Callable[[Callable[[Traces], _Result], Iterable[Traces], int], Iterator[_Result]]  # `in_order` is one


def one_walk(
    results: Iterable[_Result],
    outputs: Mapping[str, Path | None],
    take_in: Callable[[_Result], None],
    answer: Callable[[], _Answer],
    *,
    provenance: Callable[[], Mapping[str, str]],
    on_batch: Callable[[int], None] | None,
) -> _Answer:
    """Take in the results of all batches, and answer.

    Parameters
    ----------
    results
        Of the batches, in the order of the traces.
    outputs
        Attribute of a result that holds rows: the file to write them to, or None.
    take_in
        Called with each result.
    answer
        Called at the end of the walk; files appear only if it raises nothing.
    provenance
        Gives what the metadata of the files keeps; called last, so that inputs can be digested while the walk goes on.
    on_batch
        Called with the number of generations after each batch.
    """
    with ExitStack() as stack:
        files = {part: ResultFile(stack, path) for part, path in outputs.items()}
        for result in results:
            for part, file in files.items():
                file.write(getattr(result, part))
            take_in(result)
            if on_batch is not None:
                on_batch(result.generations)
        found = answer()
        origin = provenance()
        for file in files.values():
            file.describe(origin)
    return found  # only here do the files appear
