"""Request logs: JSON lines or Parquet, one request a row, read one at a time.

| column | |
|---|---|
| `arrival`, `end` | when the request came and when its last token was out: ISO 8601 with a time zone, or numbers |
| `first_token` | optional: when its first token was out |
| `request` | optional: its id, unique |
| `tenant`, `cluster` | optional texts: whose it is; unit of resampling |
| `prompt_ids`, `output_ids` | token ids |
| **or** `prompt`, `output` | texts, taken as words or bytes |
| `prompt_tokens`, `output_tokens` | counts; optional beside ids and texts |

Other columns are passed over. The order of rows means nothing.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Any

from oracle.errors import Faults, InputError, printable
from oracle.files import open_parquet, parquet_errors, shown
from oracle.observe.times import seconds_of
from oracle.observe.tokens import Kind, Part, part_of
from oracle.parquet_limits import ParquetLimits
from oracle.recorded_by.envelope import OnBytes, is_json, trees_in

COLUMNS = (
    "arrival",
    "end",
    "first_token",
    "request",
    "tenant",
    "cluster",
    "prompt_ids",
    "output_ids",
    "prompt",
    "output",
    "prompt_tokens",
    "output_tokens",
)
MOST_FAULTS_GATHERED = 1000
_BATCH_BYTES = 8 << 20  # as Arrow; as Python objects about ten times that
_JSON = (".json", ".jsonl", ".ndjson")
_ROWS = 64  # of Parquet, held at a time as Python objects


@dataclass(frozen=True)
class LogForm:
    """How a log is written.

    Attributes
    ----------
    tokens
        What tokens are.
    time_unit, time_zone
        Of times that are numbers, and of dates that name none.
    renamed
        The log's own names for columns.
    """

    tokens: Kind = "ids"
    time_unit: str = "s"
    time_zone: tzinfo | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class LoggedRequest:
    """One request; times in seconds, `first_token` NaN where it is not logged."""

    place: str
    name: str | None
    tenant: str | None
    cluster: str | None
    arrival: float
    first_token: float
    end: float
    prompt: Part
    output: Part


def requests_in(
    paths: Sequence[Path], form: LogForm, faults: Faults, on_bytes: OnBytes | None = None
) -> Iterator[LoggedRequest]:
    """Read the requests of several files; what is wrong with one is noted, and it is left out.

    Raises
    ------
    InputError
        A file that cannot be read, is neither JSON nor Parquet, or lacks columns; too many faults to go on.
    """
    for path in paths:
        for place, tree in _trees(path, form, on_bytes):
            before = len(faults)
            if not isinstance(tree, Mapping):
                faults.add(f"{place}: is no object; give one request a line")
            else:
                found = _request(tree, form, place, faults)
                if len(faults) == before:
                    yield found
            if len(faults) >= MOST_FAULTS_GATHERED:
                faults.raise_if_any()


def _trees(path: Path, form: LogForm, on_bytes: OnBytes | None) -> Iterator[tuple[str, Any]]:
    if not path.is_file():
        raise InputError(f"{shown(path)}: is no file; give request logs (JSON lines or Parquet)")
    if is_json(path) or path.suffix in _JSON:
        yield from trees_in(path, on_bytes)
        return
    with open_parquet(path) as file:
        wanted = {form.renamed.get(name, name) for name in COLUMNS}
        columns = [name for name in file.schema_arrow.names if name in wanted]
        if not columns:
            raise InputError(
                f"{shown(path)}: has none of the columns of a request log ({', '.join(COLUMNS)}); name yours with "
                "--column, as --column arrival=created_at"
            )
        row = 0
        with parquet_errors(path):
            rows = min(_ROWS, ParquetLimits(path).rows_anywhere(columns, _BATCH_BYTES))
            for batch in file.iter_batches(rows, columns=columns):
                for tree in batch.to_pylist():
                    row += 1
                    yield f"{shown(path)}, row {row}", tree
    if on_bytes is not None:
        on_bytes(path.stat().st_size)


def _request(tree: Mapping[str, Any], form: LogForm, place: str, faults: Faults) -> LoggedRequest:
    if form.renamed:
        theirs = set(form.renamed.values())
        kept = {name: value for name, value in tree.items() if name not in theirs}
        tree = kept | {ours: tree.get(name) for ours, name in form.renamed.items()}
    times = {name: _time(tree, name, form, place, faults) for name in ("arrival", "first_token", "end")}
    _in_order(times, place, faults)
    return LoggedRequest(
        place,
        _name(tree, "request", place, faults),
        _name(tree, "tenant", place, faults),
        _name(tree, "cluster", place, faults),
        times["arrival"],
        times["first_token"],
        times["end"],
        part_of(tree, "prompt", form.tokens, place, faults),
        part_of(tree, "output", form.tokens, place, faults),
    )


def _time(tree: Mapping[str, Any], name: str, form: LogForm, place: str, faults: Faults) -> float:
    value = tree.get(name)
    if value is None:
        if name != "first_token":
            faults.add(f"{place}: {name} is missing; add it, or name your column with --column {name}=…")
        return math.nan
    return seconds_of(value, name, place, faults, form.time_unit, form.time_zone)


def _in_order(times: Mapping[str, float], place: str, faults: Faults) -> None:
    arrival, first, end = (times[name] for name in ("arrival", "first_token", "end"))
    if end < arrival:
        faults.add(f"{place}: end lies {arrival - end:g} s before arrival; were they swapped, or read off two clocks?")
    elif first < arrival or first > end:
        faults.add(f"{place}: first_token lies outside arrival … end; take all three off one clock")


def _name(tree: Mapping[str, Any], name: str, place: str, faults: Faults) -> str | None:
    value = tree.get(name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        faults.add(f"{place}: {name} is {printable(repr(value), 40)}; it is a text that is not blank")
        return None
    return value.strip()
