"""The folder of a run over shards: what it holds, who may write there, when it is complete."""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from oracle.digests import Digests, Stamps
from oracle.errors import Faults, InputError, printable
from oracle.files import File, shown, size_of
from oracle.footers import LeftOut
from oracle.latency.model import LatencyModel
from oracle.locks import NAME, FolderLock
from oracle.one_walk import Walked, Walker
from oracle.outputs import atomic_files
from oracle.pieces import Piece, pieces_of
from oracle.provenance import as_metadata, inputs_of
from oracle.shards import manifest
from oracle.shards.commits import Shard
from oracle.shards.keeping import ALL, STUDY, Keeping
from oracle.shards.mending import Mending
from oracle.shards.walk import ShardWalk, UnreadableError
from oracle.syncing import make_folder
from oracle.traces import TraceFiles

_Result = TypeVar("_Result", bound=Walked)

SHARD_BYTES = 64 << 20  # encoded; the most work that a kill can lose


def is_shards(path: Path) -> bool:
    """Say whether a folder holds a run over shards."""
    return (path / manifest.NAME).is_file()


class ShardFolder:
    """A folder that a run over shards works in, alone; a context manager.

    Parameters
    ----------
    path
        Where; absent, empty, or of an earlier run that is to be gone on with.
    keep_going
        Leave out row groups that cannot be read, and say so, instead of stopping at the first.
    left_out
        Files that were left out already.

    Attributes
    ----------
    results
        A place for the results of the whole run; they appear in the folder when the context ends without an error.

    Raises
    ------
    InputError
        Another run is at work there, or the folder holds something else.
    """

    def __init__(self, path: Path, *, keep_going: bool = False, left_out: LeftOut | None = None) -> None:
        self.path = path
        self.keep_going = keep_going
        self._left_out = left_out or LeftOut()
        self._lock = FolderLock(path)
        self._rests_on: dict[str, Any] = {}
        self._given: Sequence[File] = ()
        self._walks: dict[str, ShardWalk[Any]] = {}
        self._digests = Digests(())
        self._stack = ExitStack()
        self.results = path

    def __enter__(self) -> Self:
        make_folder(self.path)
        others = [each.name for each in self.path.iterdir() if each.name != NAME and not _is_partial(each)]
        if others and not is_shards(self.path):
            raise InputError(
                f"{shown(self.path)}: holds {printable(min(others))!r} and no {manifest.NAME} of a run over shards; "
                "choose another folder"
            )
        try:
            self._lock.take()
        except OSError as error:
            raise InputError(
                f"{shown(self.path)}: cannot be written ({error.strerror}); choose another place"
            ) from error
        with ExitStack() as stack:
            stack.callback(self._lock.release)
            for stale in [*self.path.glob(".*"), *self.path.glob("*/.*")]:
                if _is_partial(stale):  # of a run that was killed: no one writes there, says the lock
                    shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
            stack.push(self._completed)
            self.results = stack.enter_context(atomic_files(self.path))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _completed(self, kind: type[BaseException] | None, error: BaseException | None, *_trace: object) -> None:
        """Write down, last of all, that everything is there, or at which file the run stopped."""
        if isinstance(error, UnreadableError):
            path = self.path / manifest.NAME
            faulty = {self._given.index(error.file), *manifest.read_json(path, "the manifest").get(manifest.FAULTY, ())}
            manifest.write_json(path, self._rests_on | {manifest.FAULTY: sorted(faulty)})
        if kind is None and self._walks:
            results = {"digests": self._sha256(), "shards": self._committed(), "left_out": list(self.left_out)}
            manifest.write_json(self.path / manifest.NAME, self._rests_on | results | {"complete": True})

    def begin(
        self,
        files: TraceFiles,
        origin: Mapping[str, Any],
        inputs: Sequence[File],
        model: LatencyModel,
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        """Say what the run rests on, or check that it is what an earlier one began with.

        Parameters
        ----------
        files, inputs
            The traces, and what else is read.
        origin
            Program, libraries, command and options.
        model
            The latency model.
        shard_bytes
            Encoded size of a shard, about; at least a row group.

        Raises
        ------
        InputError
            Something differs, or a finished shard is not what it was.
        """
        named = {*files.paths, *self._left_out.why}
        self._given = [file for file in self._left_out.among if file in named] or files.paths
        self._digests, others = Digests(files.paths), Stamps(inputs)
        shards = _shards(self._given, pieces_of(files.paths, shard_bytes))
        self._rests_on = {
            "format": manifest.FORMAT,
            "version": manifest.VERSION,
            **origin,
            "latency_model": model.to_json(),
            "inputs": inputs_of(inputs),
            "traces": [self._said(path) for path in self._given],
            "batches": files.batches_said(),
            "plan": [_planned(shard) for shard in shards],
        }
        path = self.path / manifest.NAME
        former = manifest.read_json(path, "the manifest") if path.exists() else {}
        mending = Mending(self.path, former, [keeping.suffix for keeping in ALL])
        if former:
            manifest.refuse_other(path, former, self._rests_on, mending.may_change)
        self._stack.enter_context(self._digests)
        self._stack.push(self._unchanged(others))
        self._make_walks(shards, mending, model)
        if any(former.get(key) != self._rests_on[key] for key in ("traces", "plan")):
            manifest.write_json(path, self._rests_on | mending.faulty)

    def _make_walks(self, shards: Sequence[Shard], mending: Mending, model: LatencyModel) -> None:
        """Make all walks; check what they have committed, and forget what rests on files that were mended."""
        said = {key: self._rests_on[key] for key in ("program", "libraries", "command", "options")}

        def metadata(file: File, sha256: str) -> dict[str, str]:
            source = {"name": file.name, "bytes": size_of(file), "sha256": sha256}
            return as_metadata(said | {"inputs": [source, *self._rests_on["inputs"]]}, model)

        faults = Faults()
        for keeping in ALL:
            walk = self._walks[keeping.name] = ShardWalk(
                self.path,
                shards,
                metadata,
                self._digests,
                keeping,
                keep_going=self.keep_going,
                first=self._walks.get(STUDY.name),
            )
            walk.verify(faults, mending.may_change)
        faults.raise_if_any()
        by_name = {shard.name: shard.piece.file for shard in shards}
        mending.forget(lambda name: self._digests.of(by_name[name]) if name in by_name else None)

    def _said(self, file: File) -> dict[str, Any]:
        """What the manifest says of a trace file before the run."""
        return {"name": file.name, "bytes": None if file in self._left_out.why else size_of(file)}

    def _unchanged(self, others: Stamps) -> Callable[..., None]:
        """Give what checks at the end that all inputs are what they were at the beginning."""

        def check(kind: type[BaseException] | None, *_error: object) -> None:
            if kind is None:
                self._digests.check()
                others.check()

        return check

    def walk(self, keeping: Keeping[_Result]) -> Walker[_Result]:
        """Give what walks over the shards: results of finished ones are read, the others are worked out."""
        return self._walks[keeping.name]

    @property
    def left_out(self) -> tuple[str, ...]:
        """What could not be read, with the reason; once the walk has ended."""
        rows = self._walks[STUDY.name].commits.unreadable().values() if self._walks else ()
        return (*self._left_out.why.values(), *rows)

    def readable(self, files: TraceFiles) -> TraceFiles:
        """The same files without the row groups that were left out."""
        return files.without(self._walks[STUDY.name].commits.unreadable().keys()) if self._walks else files

    def origin(self) -> dict[str, Any]:
        """What the results rest on, for tables and metadata."""
        said = {key: self._rests_on[key] for key in ("program", "libraries", "command", "options")}
        pairs = zip(self._rests_on["traces"], self._sha256(), strict=True)
        traces = [trace | {"sha256": sha256} for trace, sha256 in pairs if sha256 is not None]
        left_out = {"left_out": list(self.left_out)} if self.left_out else {}
        return said | {"inputs": [*traces, *self._rests_on["inputs"]]} | left_out

    def _committed(self) -> list[dict[str, Any]]:
        """The shards' files with their digests."""
        every = [walk.commits for walk in self._walks.values()]
        return [
            {"name": shard.name, "files": {name: sha for each in every for name, sha in each.files(shard).items()}}
            for shard in every[0].shards
        ]

    def _sha256(self) -> list[str | None]:
        """Digests of all files; None for those that were left out."""
        return [None if file in self._left_out.why else self._digests.of(file) for file in self._given]


def _shards(given: Sequence[File], pieces: Sequence[Piece]) -> list[Shard]:
    """Name the pieces after the place of their file among all that were given, and of themselves in it."""
    number = {file: place for place, file in enumerate(given)}
    of_file = Counter(piece.file for piece in pieces)
    shards: list[Shard] = []
    for piece in pieces:
        at, several = number[piece.file], of_file[piece.file] > 1
        part = sum(shard.file == at for shard in shards[-of_file[piece.file] :])
        shards.append(Shard(f"{at:05d}-{part:04d}" if several else f"{at:05d}", piece, at))
    return shards


def _planned(shard: Shard) -> dict[str, Any]:
    groups = shard.piece.groups
    return {"name": shard.name, "trace": shard.piece.file.name, "row_groups": [groups.start, groups.stop]}


def _is_partial(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".partial")
