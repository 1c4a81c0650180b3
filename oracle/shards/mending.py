"""Trace files that were damaged when a run began and are mended by now: what of the run rests on them is forgotten."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from oracle.shards import manifest
from oracle.shards.commits import RECORDS
from oracle.syncing import sync

_NAME = re.compile(r"(\d{5,})(-\d{4,})?")
_FILE = re.compile(r"[a-z-]+/[0-9a-z-]+\.parquet")


class Mending:
    """What an earlier run in the folder had of each trace file.

    Parameters
    ----------
    folder
        Of the run.
    former
        Its manifest as the earlier run left it; empty if there was none.
    suffixes
        Of all walks, that of the first over the traces first.
    """

    def __init__(self, folder: Path, former: Mapping[str, Any], suffixes: Sequence[str]) -> None:
        self._folder, self._former, self._suffixes = folder, former, suffixes
        self._found: dict[int, bool] = {}

    def may_change(self, number: int) -> bool:
        """Say whether a trace file may be another one by now: it could not be read, or nothing rests on it yet."""
        if number not in self._found:
            records = [*self._records(self._names.get(number, ()))]
            faulty = number in self._faulty or any(record["left_out"] for _, record in records)
            self._found[number] = faulty or not records
        return self._found[number]

    @property
    def faulty(self) -> dict[str, list[int]]:
        """What a manifest that is written anew keeps of files at which the run stopped."""
        return {manifest.FAULTY: self._faulty} if self._faulty else {}

    def forget(self, sha256: Callable[[str], str | None]) -> None:
        """Remove what rests on files that are others by now.

        Parameters
        ----------
        sha256
            Gives the digest of a shard's trace file by the shard's name; None if none is so called any more.
        """
        for shard in [name for names in self._names.values() for name in names]:
            now = sha256(shard)
            for path, record in list(self._records([shard])):
                if record["input_sha256"] != now:
                    for name in filter(_FILE.fullmatch, record["files"]):
                        (self._folder / name).unlink(missing_ok=True)
                    path.unlink()
                    sync(path.parent)  # a record that came back would speak of files of another trace file

    @cached_property
    def _names(self) -> dict[int, list[str]]:
        """Names of the shards that were planned, by number of the file."""
        names: dict[int, list[str]] = {}
        for each in manifest.listed(self._former.get("plan")):
            if named := _NAME.fullmatch(each["name"]):
                names.setdefault(int(named[1]), []).append(each["name"])
        return names

    @cached_property
    def _faulty(self) -> list[int]:
        said = self._former.get(manifest.FAULTY)
        return [each for each in said if isinstance(each, int)] if isinstance(said, list) else []

    def _records(self, names: Iterable[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
        for name in names:
            for suffix in self._suffixes:
                path = self._folder / RECORDS / f"{name}{suffix}.json"
                if path.exists():
                    yield path, manifest.read_record(path)
