"""The walk over shards: each is worked out once, committed, and from then on read from its files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from oracle.analysis import BatchResult, Plan, analyse
from oracle.errors import Faults, InputError
from oracle.files import File, open_parquet, parquet_errors, sha256_of, shown
from oracle.pieces import Piece, pieces_of
from oracle.pipeline import in_order
from oracle.result_files import ResultFile
from oracle.shards import manifest
from oracle.shards.records import result_of, said_of, table_of
from oracle.traces import TraceFiles, Traces
from oracle.traces.dataset import Dataset

RECORDS = "shards"
TOTALS = "totals"
PARTS = {"decisions": "decisions", "shift_rows": "shifts", "every_length": "lengths"}  # of a result: its folder


@dataclass(frozen=True)
class Shard:
    """A piece of the traces whose results are committed at once."""

    name: str
    piece: Piece


class UnreadableError(InputError):
    """A row group that cannot be read."""

    def __init__(self, file: File, group: int, error: InputError) -> None:
        self.group = group
        self.within = tuple(fault.removeprefix(shown(file)) for fault in error.faults)  # the file
        super().__init__(f"{shown(file)}, row group {group}{fault}" for fault in self.within)


class ShardWalk:
    """Walks over shards; give it to `study` as the walker.

    Parameters
    ----------
    folder
        Of the run.
    shards
        In the order of the traces.
    metadata
        Gives what the files of a shard keep, from its trace file and that file's digest.
    keep_going
        Leave out row groups that cannot be read.
    """

    def __init__(
        self,
        folder: Path,
        shards: Sequence[Shard],
        metadata: Callable[[File, str], Mapping[str, str]],
        keep_going: bool,
    ) -> None:
        self._folder, self._shards, self._metadata, self._keep_going = folder, shards, metadata, keep_going
        self._records: dict[str, dict[str, Any]] = {}
        self._digests: dict[File, str] = {}

    def verify(self) -> None:
        """Read what was committed, and check that neither inputs nor results have changed since.

        Raises
        ------
        InputError
            All that have.
        """
        faults = Faults()
        for shard in self._shards:
            path = self._record_path(shard)
            if not path.exists():
                continue
            record = manifest.read_json(path, "a shard's record")
            if record["left_out"] and not self._keep_going:
                continue  # it is tried again
            if record["input_sha256"] != self.digest_of(shard.piece.file):
                faults.add(
                    f"{shown(shard.piece.file)}: has changed since shard {shard.name} was worked out (another "
                    "SHA-256); give the same file, or choose another folder"
                )
            if self._holds(record, path, faults):
                self._records[shard.name] = record
        faults.raise_if_any()

    def __call__(self, files: TraceFiles, plan: Plan, threads: int) -> Iterator[BatchResult]:
        """Give all batches' results in order: finished shards are read, the others worked out first."""
        dataset = files.dataset()
        for shard in self._shards:
            if shard.name not in self._records:
                self._records[shard.name] = self._worked_out(shard, files, plan, threads)
            for result, names, seen in self._kept(shard, plan.costs.k_max):
                dataset.join(seen, names)
                dataset.faults.raise_if_any()
                yield result
        if not any(self._records[shard.name]["batches"] for shard in self._shards) and self.left_out():
            raise InputError(("nothing could be read of the traces; mend or replace them", *self.left_out()))
        dataset.warn()

    def left_out(self) -> tuple[str, ...]:
        """What could not be read, with the reason."""
        return tuple(why for shard in self._shards for why in self._records[shard.name]["left_out"].values())

    def unreadable(self) -> frozenset[tuple[File, int]]:
        """The row groups that were left out."""
        return frozenset(
            (shard.piece.file, int(group)) for shard in self._shards for group in self._records[shard.name]["left_out"]
        )

    def committed(self) -> list[dict[str, Any]]:
        """The shards' files with their digests."""
        return [{"name": shard.name, "files": self._records[shard.name]["files"]} for shard in self._shards]

    def digest_of(self, file: File) -> str:
        """SHA-256 of a trace file, worked out once."""
        if file not in self._digests:
            self._digests[file] = sha256_of(file)
        return self._digests[file]

    def _record_path(self, shard: Shard) -> Path:
        return self._folder / RECORDS / f"{shard.name}.json"

    def _holds(self, record: Mapping[str, Any], path: Path, faults: Faults) -> bool:
        """Say whether all files of a record are there; one that has changed is a fault."""
        for name, sha256 in record["files"].items():
            file = self._folder / name
            if not file.is_file():
                return False  # removed: the shard is worked out again
            if sha256_of(file) != sha256:
                faults.add(
                    f"{shown(file)}: is not what was written there (another SHA-256); remove it, and its shard is "
                    f"worked out again, or choose another folder ({path.name} tells what it was)"
                )
        return True

    def _worked_out(self, shard: Shard, files: TraceFiles, plan: Plan, threads: int) -> dict[str, Any]:
        """Work a shard out and commit it: its record is written last."""
        left_out: dict[int, str] = {}
        while True:
            try:
                batches = self._write(shard, files, plan, threads, left_out)
                break
            except UnreadableError as fault:
                if not self._keep_going:
                    raise
                more = f" (and {len(fault.within) - 1} more faults)" if len(fault.within) > 1 else ""
                name = shown(shard.piece.file.name)
                left_out[fault.group] = f"{name}, row group {fault.group}{fault.within[0]}{more}"
        names = [f"{folder}/{shard.name}.parquet" for folder in (*PARTS.values(), TOTALS)]
        written = {
            name: sha256_of(self._folder / name) for name in names if batches and (self._folder / name).is_file()
        }
        record = {
            "format": manifest.FORMAT,
            "version": manifest.VERSION,
            "input_sha256": self.digest_of(shard.piece.file),
            "files": written,
            "left_out": {str(group): why for group, why in left_out.items()},
            "batches": batches,
        }
        manifest.write_json(self._record_path(shard), record)
        return record

    def _write(
        self, shard: Shard, files: TraceFiles, plan: Plan, threads: int, left_out: Mapping[int, str]
    ) -> list[dict[str, Any]]:
        """Write the files of a shard; give what is said of its batches."""
        file, batches = f"{shard.name}.parquet", []
        with ExitStack() as stack:
            outputs = {part: ResultFile(stack, self._folder / name / file) for part, name in PARTS.items()}
            totals = ResultFile(stack, self._folder / TOTALS / file)
            read = _read(shard.piece, files, left_out)
            for traces, seen, result in in_order(partial(_analysed, plan=plan), read, threads):
                for part, output in outputs.items():
                    output.write(getattr(result, part))
                totals.write(table_of(result, traces))
                batches.append(said_of(result) | {"seen": seen.state()})
            metadata = self._metadata(shard.piece.file, self.digest_of(shard.piece.file))
            for output in (*outputs.values(), totals):
                output.describe(metadata)
        return batches

    def _kept(self, shard: Shard, k_max: int) -> Iterator[tuple[BatchResult, tuple[str, ...], Dataset]]:
        """Read the results of a committed shard."""
        batches = self._records[shard.name]["batches"]
        if not batches:
            return
        path = self._folder / TOTALS / f"{shard.name}.parquet"
        with open_parquet(path) as file, parquet_errors(path):
            for number, said in enumerate(batches):
                result, names = result_of(file.read_row_group(number), said, k_max)
                yield result, names, Dataset.of(shown(shard.piece.file), said["seen"])


def _read(piece: Piece, files: TraceFiles, left_out: Mapping[int, str]) -> Iterator[tuple[Traces, Dataset]]:
    """Read a shard row group by row group, so that what cannot be read has a place."""
    for one in pieces_of([piece.file], 0):
        for group in one.groups:
            if group not in piece.groups or group in left_out:
                continue
            try:
                yield from files.read(Piece(piece.file, range(group, group + 1), one.first_row))
            except InputError as error:
                raise UnreadableError(piece.file, group, error) from error


def _analysed(batch: tuple[Traces, Dataset], plan: Plan) -> tuple[tuple[str, ...], Dataset, BatchResult]:
    traces, seen = batch
    return traces.generation, seen, analyse(traces, plan)
