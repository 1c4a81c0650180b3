"""From the files of an engine to a trace: a walk that looks, a walk that writes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from oracle.acceptance import Acceptance
from oracle.errors import Faults, InputError
from oracle.provenance import program_version
from oracle.recorded_by.aligned import Aligned, Wanted, aligned
from oracle.recorded_by.alignment import routed
from oracle.recorded_by.match_source import BY_DEPTH, MatchSource, match_source
from oracle.recorded_by.scored_text import ScoredTexts
from oracle.recorded_by.source import Source
from oracle.recorded_by.survey import MOST_FAULTS_GATHERED, Survey
from oracle.traces import Traces, write_traces
from oracle.traces.lists import bytes_array, list_array, rows_array

_BATCH_BYTES = 16 << 20
OnBytes = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Converted:
    """A trace that was written.

    Attributes
    ----------
    survey
        What the requests hold.
    match
        Where the match probabilities come from.
    target
        layers, top_k, num_experts, dense layers left out; empty for a dense target.
    columns
        Of the trace.
    """

    survey: Survey
    match: MatchSource
    target: Mapping[str, Any]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class _Columns:
    """Which optional columns every generation can fill."""

    ids: bool
    texts: bool
    rounds: bool
    labels: tuple[str, ...]


def convert_trace(
    source: Source,
    output: Path,
    wanted: Wanted,
    *,
    acceptance: Acceptance | None = None,
    draft: ScoredTexts | None = None,
    target: ScoredTexts | None = None,
    metadata: Mapping[str, str] | None = None,
    on_bytes: OnBytes | None = None,
) -> Converted:
    """Write the trace of a source.

    Parameters
    ----------
    output
        File to write; it appears whole or not at all.
    wanted
        What the caller says of the target and wants of the trace.
    acceptance, draft, target
        Sources of match probabilities beside the requests.
    metadata
        Provenance; the reader is added.
    on_bytes
        Called with the bytes read of each record, in both walks.

    Raises
    ------
    InputError
        All faults of the requests.
    """
    survey = _surveyed(source, wanted, on_bytes)
    shape = survey.target()
    match = match_source(survey, acceptance, draft, target)
    every = survey.requests
    columns = _Columns(
        survey.with_ids == every,
        survey.with_texts == every,
        survey.with_rounds == every,
        tuple(name for name in ("category", "tenant", "cluster") if name in survey.labels),
    )
    said = {**(metadata or {}), "recorder": f"draft-oracle {program_version()} convert, reader {source.engine}"}
    writer = _Writer(source, wanted, match, shape, columns)
    write_traces(output, writer.batches(on_bytes), said)
    return Converted(survey, match, shape, tuple(writer.names))


def _surveyed(source: Source, wanted: Wanted, on_bytes: OnBytes | None) -> Survey:
    """The first walk."""
    survey = Survey(wanted)
    for request in source.requests(survey.faults, on_bytes):
        survey.add(request)
        if len(survey.faults) >= MOST_FAULTS_GATHERED:
            break
    survey.faults.raise_if_any()
    if not survey.requests:
        raise InputError("the inputs hold no requests; see --explain for what is read")
    return survey


class _Writer:
    """The second walk."""

    def __init__(
        self, source: Source, wanted: Wanted, match: MatchSource, shape: Mapping[str, Any], columns: _Columns
    ) -> None:
        self._source = source
        self._wanted = wanted
        self._match = match
        self._shape = shape
        self._columns = columns
        self.names: list[str] = []

    def batches(self, on_bytes: OnBytes | None) -> Iterator[Traces]:
        """Traces of about `_BATCH_BYTES`; all faults are raised at the end of the walk."""
        faults = Faults()
        pending: list[dict[str, Any]] = []
        size = 0
        for number, request in enumerate(self._source.requests(faults, on_bytes), 1):
            try:
                row = self._row(aligned(request, number, self._wanted), faults)
            except InputError as error:
                for fault in error.faults:
                    faults.add(fault)
                continue
            if row is None:
                continue
            pending.append(row)
            size += sum(value.nbytes for value in row.values() if isinstance(value, np.ndarray))
            if size > _BATCH_BYTES and not faults:
                yield self._traces(pending)
                pending, size = [], 0
            if len(faults) >= MOST_FAULTS_GATHERED:
                break
        faults.raise_if_any()
        if pending:
            yield self._traces(pending)

    def _row(self, generation: Aligned, faults: Faults) -> dict[str, Any] | None:
        """What the trace holds of one generation; None if a fault was noted."""
        request, shape = generation.request, self._shape
        row: dict[str, Any] = {
            "generation": generation.name,
            "context_start": generation.context_start,
            "positions": generation.positions,
            self._match.column: self._match.of(generation),
            **{name: request.labels.get(name) for name in self._columns.labels},
        }
        if shape and generation.rows is not None:
            place = f"{request.place}.routed_experts"
            row["experts"] = routed(generation.rows, shape["dense"], shape["num_experts"], place, faults)
            if row["experts"] is None:
                return None
        if self._columns.ids:
            row["token_id"] = np.array(list(request.token_id or ())[1:], np.int32)
        if self._columns.texts:
            row["token_text"] = list(request.token_text or ())[1:]
        if self._columns.rounds and generation.accepted is not None and generation.drafted is not None:
            row["logged_draft_length"] = generation.drafted
            row["logged_advance"] = generation.accepted + 1
        return row

    def _traces(self, rows: list[dict[str, Any]]) -> Traces:
        """Check the rows as any trace is checked."""
        offsets = np.concatenate([[0], np.cumsum([row["positions"] for row in rows])]).astype(np.int64)
        table: dict[str, Any] = {
            "generation": pa.array([row["generation"] for row in rows], pa.string()),
            "match_kind": pa.array([self._wanted.match] * len(rows), pa.string()),
            "context_start": pa.array([row["context_start"] for row in rows], pa.int32()),
        }
        for name in self._columns.labels:
            table[name] = pa.array([row[name] for row in rows], pa.string())
        values = np.concatenate([row[self._match.column] for row in rows])
        items = rows_array(values) if self._match.column == BY_DEPTH else pa.array(values)
        table[self._match.column] = list_array(offsets, items)
        if self._shape:
            for name in ("layers", "top_k", "num_experts"):
                table[name] = pa.array([self._shape[name]] * len(rows), pa.int32())
            table["experts"] = list_array(offsets, bytes_array(np.concatenate([row["experts"] for row in rows])))
        if self._columns.ids:
            table["token_id"] = list_array(offsets, pa.array(np.concatenate([row["token_id"] for row in rows])))
        if self._columns.texts:
            table["token_text"] = pa.array([row["token_text"] for row in rows], pa.list_(pa.string()))
        if self._columns.rounds:
            for name in ("logged_draft_length", "logged_advance"):
                table[name] = pa.array([row[name].tolist() for row in rows], pa.list_(pa.int16()))
        self.names = list(table)
        return Traces.from_arrow(pa.table(table), str(self._source.paths[0].name))
