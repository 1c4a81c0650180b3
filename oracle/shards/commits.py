"""Shards that are done: a record each, written last, of files that do not change as long as it is there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle.digests import Digests
from oracle.errors import Faults
from oracle.files import File, sha256_of, shown
from oracle.pieces import Piece
from oracle.shards import manifest
from oracle.syncing import sync

RECORDS = "shards"


@dataclass(frozen=True)
class Shard:
    """A piece of the traces whose results are committed at once.

    Attributes
    ----------
    name
        Number of its file, and of the piece where the file is more than one.
    piece
        What is read.
    file
        Number of its file among all that were given, so that a file that cannot be read leaves the names of the others
        as they are.
    """

    name: str
    piece: Piece
    file: int


class Commits:
    """What one walk has committed.

    Parameters
    ----------
    folder
        Of the run.
    shards
        In the order of the traces.
    suffix
        Of the walk's own files; the first walk over the traces has none.
    digests
        Of the trace files.
    """

    def __init__(self, folder: Path, shards: Sequence[Shard], suffix: str, digests: Digests) -> None:
        self.shards = shards
        self._folder, self._suffix, self._digests = folder, suffix, digests
        self._records: dict[str, dict[str, Any]] = {}

    def verify(self, faults: Faults, *, retry: bool, may_change: Callable[[int], bool]) -> None:
        """Read what was committed, and check that neither inputs nor results have changed since.

        Parameters
        ----------
        faults
            Take in all that have.
        retry
            Whether shards of which something was left out are to be worked out again.
        may_change
            Whether a trace file of that number may be another one by now; then its shards are worked out again.

        Raises
        ------
        InputError
            A record is none.
        """
        for shard in self.shards:
            path = self._record_path(shard)
            if not path.exists():
                continue
            record = manifest.read_record(path)
            if record["left_out"] and retry:
                continue
            if record["input_sha256"] != self._digests.of(shard.piece.file):
                if may_change(shard.file):
                    continue
                fault = (
                    f"{shown(shard.piece.file)}: has changed since shard {shard.name} was worked out (another "
                    "SHA-256); give the same file, or choose another folder"
                )
                if fault not in set(faults):  # each walk over the traces would say it
                    faults.add(fault)
            if self._holds(record, path, faults):
                self._records[shard.name] = record

    def add(self, shard: Shard, files: Sequence[str], left_out: Mapping[str, str], batches: list[Any]) -> None:
        """Commit a shard.

        Parameters
        ----------
        files
            What was written, below the folder.
        left_out
            Row groups that could not be read, with the reason.
        batches
            What is said of each batch.

        Raises
        ------
        InputError
            The trace file is not what it was when the run began: the record would name a digest of something else.
        """
        sha256 = self._digests.of(shard.piece.file)
        self._digests.check([shard.piece.file])
        record = {
            "input_sha256": sha256,
            "files": {name: sha256_of(self._folder / name) for name in files},
            "left_out": dict(left_out),
            "batches": batches,
        }
        manifest.write_record(self._record_path(shard), record)
        self._records[shard.name] = record

    def forget(self, shard: Shard) -> None:
        """Remove the record of a shard whose files are about to be replaced, if it has one."""
        path = self._record_path(shard)
        if path.exists():
            path.unlink()
            sync(path.parent)

    def keep(self, left_out: Mapping[str, Mapping[str, str]]) -> None:
        """Forget the shards that were worked out with other row groups left out than these, by shard."""
        self._records = {name: record for name, record in self._records.items() if record["left_out"] == left_out[name]}

    def __contains__(self, shard: Shard) -> bool:
        return shard.name in self._records

    def batches(self, shard: Shard) -> list[Any]:
        """What is said of each batch of a committed shard."""
        said: list[Any] = self._records[shard.name]["batches"]
        return said

    def left_out(self) -> dict[str, dict[str, str]]:
        """By shard, the row groups that could not be read, with the reason."""
        return {shard.name: self._records[shard.name]["left_out"] for shard in self.shards}

    def unreadable(self) -> dict[tuple[File, int], str]:
        """The row groups that were left out, with the reason."""
        return {
            (shard.piece.file, int(group)): why
            for shard in self.shards
            for group, why in self._records[shard.name]["left_out"].items()
        }

    def files(self, shard: Shard) -> dict[str, str]:
        """A shard's files with their digests; none if it is not committed."""
        files: dict[str, str] = self._records.get(shard.name, {"files": {}})["files"]
        return files

    def _record_path(self, shard: Shard) -> Path:
        return self._folder / RECORDS / f"{shard.name}{self._suffix}.json"

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
