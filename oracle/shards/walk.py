"""The walk over shards: each is worked out once, committed, and from then on read from its files."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Generic, TypeVar

from oracle.digests import Digests
from oracle.errors import Faults, InputError
from oracle.files import File, open_parquet, parquet_errors, shown
from oracle.one_walk import Walked
from oracle.pieces import Piece, pieces_of
from oracle.pipeline import in_order
from oracle.result_files import ResultFile
from oracle.shards.commits import Commits, Shard
from oracle.shards.keeping import Keeping
from oracle.traces import TraceFiles, Traces
from oracle.traces.dataset import Dataset

TOTALS = "totals"
_Result = TypeVar("_Result", bound=Walked)


@dataclass(frozen=True)
class Unread:
    """A row group that cannot be read.

    Attributes
    ----------
    group
        Its number.
    within
        Its faults; the name of the file, with which they begin, is left out.
    """

    group: int
    within: tuple[str, ...]


class UnreadableError(InputError):
    """A row group that cannot be read, and must be."""

    def __init__(self, file: File, unread: Unread) -> None:
        self.file, self.unread = file, unread
        super().__init__(f"{shown(file)}, row group {unread.group}{fault}" for fault in unread.within)


class ShardWalk(Generic[_Result]):
    """Walks over shards; a `Walker` for who asks something of every batch.

    Parameters
    ----------
    folder
        Of the run.
    shards
        In the order of the traces.
    metadata
        Gives what the files of a shard keep, from its trace file and that file's digest.
    digests
        Of the trace files.
    keeping
        What is worked out, and how it is kept.
    keep_going
        Leave out row groups that cannot be read.
    first
        The first walk over the traces, which must have ended before this one begins; what it left out, this one leaves
        out, and nothing else. None: this is the first.
    """

    def __init__(
        self,
        folder: Path,
        shards: Sequence[Shard],
        metadata: Callable[[File, str], Mapping[str, str]],
        digests: Digests,
        keeping: Keeping[_Result],
        *,
        keep_going: bool,
        first: "ShardWalk[Any] | None" = None,
    ) -> None:
        self.commits = Commits(folder, shards, keeping.suffix, digests)
        self._folder, self._metadata, self._digests, self._keeping = folder, metadata, digests, keeping
        self._keep_going, self._first = keep_going, first
        self._unread: dict[tuple[File, int], str] = {}

    def verify(self, faults: Faults, may_change: Callable[[int], bool]) -> None:
        """Read what was committed, and gather what has changed since; see `Commits.verify`."""
        self.commits.verify(faults, retry=not self._keep_going, may_change=may_change)

    def __call__(self, work: Callable[[Traces], _Result], batches: Iterable[Traces], threads: int) -> Iterator[_Result]:
        """Give all batches' results in order: finished shards are read, the others worked out first."""
        assert isinstance(batches, TraceFiles)
        dataset, commits = batches.dataset(), self.commits
        if self._first is not None:
            self._unread = self._first.commits.unreadable()
            commits.keep(self._first.commits.left_out())
        with closing(self._working(work, batches, threads)) as committed:
            for shard in commits.shards:
                while shard not in commits:
                    next(committed)
                for result, names, seen in self._kept(shard):
                    dataset.join(seen, names)
                    dataset.faults.raise_if_any()
                    yield result
        left_out = commits.unreadable().values()
        if left_out and not any(map(commits.batches, commits.shards)):
            raise InputError(("nothing could be read of the traces; mend or replace them", *left_out))
        self._digests.check()
        dataset.warn()

    def _working(
        self, work: Callable[[Traces], _Result], files: TraceFiles, threads: int
    ) -> Generator[None, None, None]:
        """Work out the shards that are missing, several side by side, and commit one after the other.

        A shard of which some cannot be read waits for the others, and is worked out again without that.
        """
        missing = [shard for shard in self.commits.shards if shard not in self.commits]
        while missing:
            batches = files.in_pieces(
                [shard.piece for shard in missing], partial(_read, left_out=frozenset(self._unread))
            )
            again = []
            with closing(in_order(partial(_worked_on, work=work), batches, threads)) as results:
                for shard in missing:
                    if self._worked_out(shard, takewhile(_is_no_end, results)):
                        yield
                    else:
                        again.append(shard)
            missing = again

    def _worked_out(self, shard: Shard, found: Iterator[Any]) -> bool:
        """Write a shard and commit it; False if some of it cannot be read, which is noted."""
        try:
            batches = self._write(shard, found)
        except UnreadableError as fault:
            if not self._keep_going or self._first is not None:
                raise
            self._note_unread(shard, fault.unread)
            for other in found:
                if isinstance(other, Unread):
                    self._note_unread(shard, other)
            return False
        names = [*(f"{folder}/{shard.name}.parquet" for folder in self._keeping.rows.values()), self._totals(shard)]
        written = [name for name in names if batches and (self._folder / name).is_file()]
        of_shard = [(group, why) for (file, group), why in self._unread.items() if _lies_in(shard.piece, file, group)]
        self.commits.add(shard, written, {str(group): why for group, why in of_shard}, batches)
        return True

    def _note_unread(self, shard: Shard, unread: Unread) -> None:
        file, more = shard.piece.file, len(unread.within) - 1
        others = f" (and {more} more faults)" if more else ""
        self._unread[file, unread.group] = f"{shown(file)}, row group {unread.group}{unread.within[0]}{others}"

    def _totals(self, shard: Shard) -> str:
        return f"{TOTALS}/{shard.name}{self._keeping.suffix}.parquet"

    def _write(self, shard: Shard, found: Iterator[Any]) -> list[dict[str, Any]]:
        """Write the files of a shard; give what is said of its batches."""
        keeping, batches = self._keeping, []
        with ExitStack() as stack:
            outputs = {
                part: ResultFile(stack, self._folder / folder / f"{shard.name}.parquet")
                for part, folder in keeping.rows.items()
            }
            totals = ResultFile(stack, self._folder / self._totals(shard))
            for each in found:
                if isinstance(each, Unread):
                    raise UnreadableError(shard.piece.file, each)
                names, seen, result = each
                for part, output in outputs.items():
                    output.write(getattr(result, part))
                totals.write(keeping.table_of(result, names))
                batches.append(keeping.said_of(result) | {"seen": seen.state()})
            metadata = self._metadata(shard.piece.file, self._digests.of(shard.piece.file))
            for output in (*outputs.values(), totals):
                output.describe(metadata)
            self.commits.forget(shard)  # the files appear when the stack closes
        return batches

    def _kept(self, shard: Shard) -> Iterator[tuple[_Result, tuple[str, ...], Dataset]]:
        """Read the results of a committed shard."""
        batches = self.commits.batches(shard)
        if not batches:
            return
        path = self._folder / self._totals(shard)
        with open_parquet(path) as file, parquet_errors(path):
            for number, said in enumerate(batches):
                result, names = self._keeping.result_of(file.read_row_group(number), said)
                yield result, names, Dataset.of(shown(shard.piece.file), said["seen"])


def _read(files: TraceFiles, piece: Piece, left_out: Set[tuple[File, int]]) -> Iterator[Any]:
    """Read a shard row group by row group, so that what cannot be read has a place; None behind the last batch."""
    for one in pieces_of([piece.file], 0):
        for group in one.groups:
            if group not in piece.groups or (piece.file, group) in left_out:
                continue
            try:
                yield from files.read(Piece(piece.file, range(group, group + 1), one.first_row))
            except InputError as error:
                yield Unread(group, tuple(fault.removeprefix(shown(piece.file)) for fault in error.faults))
    yield None


def _is_no_end(found: object) -> bool:
    return found is not None


def _lies_in(piece: Piece, file: File, group: int) -> bool:
    return file == piece.file and group in piece.groups


def _worked_on(read: "tuple[Traces, Dataset] | Unread | None", work: Callable[[Traces], Any]) -> Any:
    """Work on what `_read` gives: names, what is seen of the dataset, and results of a batch."""
    if read is None or isinstance(read, Unread):
        return read
    traces, seen = read
    return traces.generation, seen, work(traces)
