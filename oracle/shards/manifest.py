"""What a run over shards rests on, written before it begins; whoever goes on with it must have the same."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from oracle.errors import Faults, InputError, printable
from oracle.files import read_text, shown
from oracle.outputs import atomic_output

NAME = "manifest.json"
FORMAT = "draft-oracle/shards"
VERSION = 2
FAULTY = "faulty_files"  # numbers of files at which the run stopped, since they cannot be read
RESULTS = ("complete", "shards", "left_out", "digests", FAULTY)  # what is known at the end only
_FILES = ("traces", "plan")  # what a file that is mended may change
_MOST_NAMED = 5


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON so that it appears whole or not at all."""
    with atomic_output(path) as partial:
        partial.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", "utf-8")


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Read JSON that this program wrote.

    Raises
    ------
    InputError
        It is something else by now.
    """
    try:
        content = json.loads(read_text(path, f"give {what}"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{shown(path)}: is not {what} of this program; choose another folder") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("version") != VERSION:
        raise InputError(
            f"{shown(path)}: is not {what} of this program (format {FORMAT}, version {VERSION}); choose another folder"
        )
    return content


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a shard's record, with a digest of its own: it alone says what the shard's files must be."""
    content = {"format": FORMAT, "version": VERSION, **record}
    write_json(path, {**content, "sha256": _sha256(content)})


def read_record(path: Path) -> dict[str, Any]:
    """Read a shard's record.

    Raises
    ------
    InputError
        It is not what was written there.
    """
    record = read_json(path, "a shard's record")
    if record.pop("sha256", None) != _sha256(record):
        raise InputError(
            f"{shown(path)}: is not what was written there (another SHA-256); remove it, and its shard is worked out "
            "again, or choose another folder"
        )
    return record


def _sha256(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def refuse_other(
    path: Path, former: Mapping[str, Any], now: Mapping[str, Any], may_change: Callable[[int], bool] = lambda _: False
) -> None:
    """Refuse to go on with a run that rests on something else; every item that differs is named.

    Parameters
    ----------
    path, former
        The manifest, and what it says.
    now
        What it would say of the run as it is asked for.
    may_change
        Whether a trace file of that number may be another one by now.

    Raises
    ------
    InputError
        All differences.
    """
    faults = Faults()
    began, asked = (
        {key: value for key, value in each.items() if key not in RESULTS and key not in _FILES}
        for each in (former, json.loads(json.dumps(now)))
    )
    before, after = listed(former.get("traces")), listed(now.get("traces"))
    way_out = "go on with what it began with, or choose another folder"
    if other := _other_names(before, after):
        faults.add(f"{shown(path)}: {other}; {way_out}")
    found = [*_differences(began, asked, ""), *([] if other else _other_files(before, after, may_change))]
    for item, was, here in found:
        beside = "another --memory, or with it other --threads: " if item.startswith("batches.") else ""
        faults.add(
            f"{shown(path)}: the run in this folder began with {beside}{item} {_said(was)}, which is {_said(here)} "
            f"now; {way_out}"
        )
    faults.raise_if_any()


def listed(value: Any) -> list[Mapping[str, Any]]:
    """Give a list of what has a name; empty if a manifest holds something else there."""
    return list(value) if isinstance(value, list) and all(_name(each) for each in value) else []


def _other_names(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> str | None:
    """Say which trace files are missing and which are new; None if all are there in the same order."""
    was, here = list(map(_name, before)), list(map(_name, after))
    if was == here:
        return None
    parts = [
        f"{_few(list(those.elements()))} {'is' if those.total() == 1 else 'are'} {what}"
        for those, what in ((Counter(was) - Counter(here), "missing"), (Counter(here) - Counter(was), "new"))
        if those
    ]
    said = " and ".join(parts) if parts else f"their order is another one, {_few(was)} then and {_few(here)} now"
    return f"the traces are not those that the run in this folder began with: {said}"


def _other_files(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], may_change: Callable[[int], bool]
) -> Iterator[tuple[str, Any, Any]]:
    """Give what is said of a trace file otherwise than before."""
    for number, (was, here) in enumerate(zip(before, after, strict=True)):
        if was != here and not may_change(number):
            now = here if here.get("bytes") is not None else {**here, "bytes": "unreadable"}
            yield from _differences(was, now, f"traces[{_name(was)}]")


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _differences(was: Any, here: Any, item: str) -> Iterator[tuple[str, Any, Any]]:
    """Give what differs, with its place."""
    if isinstance(was, Mapping) and isinstance(here, Mapping):
        for key in [*was, *(key for key in here if key not in was)]:
            yield from _differences(was.get(key), here.get(key), f"{item}.{printable(key)}" if item else printable(key))
    elif isinstance(was, list) and isinstance(here, list) and len(was) == len(here):
        for number, (before, after) in enumerate(zip(was, here, strict=True)):
            yield from _differences(before, after, f"{item}[{_name(before) or number}]")
    elif was != here:
        yield item, was, here


def _name(value: Any) -> str:
    return printable(value["name"]) if isinstance(value, Mapping) and isinstance(value.get("name"), str) else ""


def _said(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str) and value and all(_name(each) for each in value):
        return printable(", ".join(map(_name, value)))
    return "nothing" if value is None else printable(json.dumps(value, ensure_ascii=False))
