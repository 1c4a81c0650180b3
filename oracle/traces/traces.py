"""Traces: one batch of generations as checked, read-only arrays."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.columns import frozen, is_name_type, names_of, whole_table
from oracle.traces.dataset import Dataset
from oracle.traces.gate import read_table
from oracle.traces.lists import bytes_array, list_array, rows_array
from oracle.traces.schema import AVERAGES, COLUMNS, GREEDY_OVERLAP, TARGET_COLUMNS

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Traces:
    """A batch of generations, checked; all arrays are C-contiguous and read-only.

    Row ``t`` of every per-position array belongs to the forward pass that emits token ``t``.

    Attributes
    ----------
    source
        File name(s), for messages.
    generation : (G,) strings
        Unique ids.
    offsets : (G + 1,) int64
        Generation `g` is positions ``offsets[g] … offsets[g + 1] - 1``; starts at 0, ends at N.
    context_start : (G,) int64, tokens
        Tokens in context when position 0's round starts, the pass's own input token included.
    match_kind : (G,) strings
        What the match probabilities are, one of `MATCH_KINDS`.
    category, tenant, cluster : (G,) strings or None, or None
        None altogether where the column is missing.
    layers, top_k, num_experts
        MoE layers, experts a token, experts a layer; None for a dense target.
    match_prob : (N,) float32, or None
        Conditional match probability; None if the trace holds `match_probs`.
    match_probs : (N, K) float32, or None
        Conditional match probability at position ``t + j`` of a round that starts at ``t``.
    draft_prob : (N,) float32, or None
        The draft's own confidence in its token.
    experts : (N, layers, top_k) uint8 or uint16, or None
        Ids of the experts each position is routed to.
    new_experts : (N, K + 1) uint16, or None
        Experts of row ``i``, summed over layers, that are new to a window that starts at ``i - j``. Cells that reach
        before the generation's begin (``j > i``) mean nothing.
    unique_experts : (N, K + 1) float32, mean per MoE layer, or None
        U(t, 0 … K) as recorded or expected.
    logged_offsets : (G + 1,) int64, or None
        Where each generation begins in the two arrays that follow, which have one entry a round.
    logged_draft_length, logged_advance : (R,) int64, tokens, or None
        The engine's own rounds, in order.
    table
        The batch as read, with texts, ids and further columns.
    """

    source: str
    generation: tuple[str, ...]
    offsets: NDArray[np.int64]
    context_start: NDArray[np.int64]
    match_kind: tuple[str, ...]
    category: tuple[str | None, ...] | None
    tenant: tuple[str | None, ...] | None
    cluster: tuple[str | None, ...] | None
    layers: int | None
    top_k: int | None
    num_experts: int | None
    match_prob: NDArray[np.float32] | None
    match_probs: NDArray[np.float32] | None
    draft_prob: NDArray[np.float32] | None
    experts: NDArray[np.uint8] | NDArray[np.uint16] | None
    new_experts: NDArray[np.uint16] | None
    unique_experts: NDArray[np.float32] | None
    logged_offsets: NDArray[np.int64] | None
    logged_draft_length: NDArray[np.int64] | None
    logged_advance: NDArray[np.int64] | None
    table: pa.Table

    @property
    def generations(self) -> int:
        """Number of generations, G."""
        return len(self.generation)

    @property
    def positions(self) -> int:
        """Number of positions, N."""
        return int(self.offsets[-1])

    @property
    def max_draft_length(self) -> int | None:
        """The longest draft all columns know of, K; None if none of them bounds it."""
        if self.positions == 0:
            return None
        depths = [] if self.match_probs is None else [self.match_probs.shape[1]]
        depths += [a.shape[1] - 1 for a in (self.new_experts, self.unique_experts) if a is not None]
        return min(depths, default=None)

    @property
    def category_of(self) -> tuple[str, ...]:
        """Category of each generation, "" where there is none, length G."""
        return tuple(name or "" for name in self.category or (None,) * self.generations)

    @property
    def match_kinds(self) -> frozenset[str]:
        """What the match probabilities are; the overlap of greedy texts (column `decoding`) is told apart."""
        at = self.table.schema.get_field_index("decoding")
        if at < 0 or not is_name_type(self.table.schema.field(at).type) or "overlap" not in self.match_kind:
            return frozenset(self.match_kind)
        named = zip(self.match_kind, names_of(self.table.column("decoding")), strict=True)
        return frozenset(GREEDY_OVERLAP if (kind, how) == ("overlap", "greedy") else kind for kind, how in named)

    @property
    def cluster_of(self) -> tuple[str, ...]:
        """The unit of resampling of each generation: `own_cluster_of`, but one for all averages.

        Averages of the same requests (match_kind empirical) are drawn towards one another, so resampling them would
        leave out their own sampling error.
        """
        named = zip(self.own_cluster_of, self.match_kind, strict=True)
        return tuple(AVERAGES if kind == "empirical" else name for name, kind in named)

    @property
    def own_cluster_of(self) -> tuple[str, ...]:
        """What goes together of each generation: its cluster, else the generation itself."""
        if self.cluster is None:
            return self.generation
        return tuple(g if c is None else c for c, g in zip(self.cluster, self.generation, strict=True))

    @classmethod
    def from_arrow(
        cls, table: Any, source: str = "", match_is: str | None = "conditional", *, first_row: int = 0
    ) -> Self:
        """Read and check a table with one row a generation.

        Parameters
        ----------
        table
            A pyarrow table or record batch, or anything that hands out an Arrow stream (Polars, DuckDB).
        source
            File name for messages.
        match_is
            What `match_probs` are: ``"conditional"``, or ``"survival"`` products, which are converted. None says
            nothing: they are taken as conditional, with a warning if they look like survival products.
        first_row
            Row number of the table's first row in its file, for messages.

        Raises
        ------
        InputError
            All faults of the table.
        """
        whole = whole_table(table, source or "table")
        traces = cls(source=source, table=whole, **read_table(whole, source, match_is, first_row))
        if match_is is None:
            dataset = Dataset()
            dataset.add(traces.source or "table", traces.offsets, match_probs=traces.match_probs)
            dataset.warn()
        return traces

    @classmethod
    def from_pandas(
        cls,
        frame: "pd.DataFrame",
        source: str = "",
        match_is: str | None = "conditional",
        *,
        per_generation: Collection[str] = (),
    ) -> Self:
        """Read and check a frame with one row a position.

        Parameters
        ----------
        frame
            Column `generation`; optionally `position` (0 … N-1), else rows are in order; what there is one of a
            generation (`context_start`, `layers`, `category` …) repeated on each row. Rows of numbers (`match_probs`,
            `experts` …) are arrays, lists or, for ids, bytes. A logged round stands on the row where it starts, the
            other rows are missing there.
        source, match_is
            As in `from_arrow`.
        per_generation
            Names of further columns that hold one value a generation; all others hold one a position.

        Raises
        ------
        InputError
            All faults of the frame.
        """
        from oracle.traces.frames import table_of  # noqa: PLC0415  # pandas is slow to import

        return cls.from_arrow(table_of(frame, source or "frame", per_generation), source or "frame", match_is)

    def to_arrow(self) -> pa.Table:
        """Give one row a generation in the types of the trace format, further columns as read."""
        built = dict(self._columns())
        names = [*(c.name for c in COLUMNS if c.name in built or c.name in self.table.column_names)]
        names += [name for name in self.table.column_names if name not in names]
        return pa.table({name: built[name] if name in built else self.table.column(name) for name in names})

    def to_pandas(self) -> "pd.DataFrame":
        """Give one row a position: `generation`, `position`, and all columns; rows of numbers as arrays.

        Expert ids are (layers, top_k) arrays. Generations without positions have no row.
        """
        from oracle.traces.frames import frame_of  # noqa: PLC0415  # pandas is slow to import

        return frame_of(self.to_arrow())

    def _columns(self) -> Iterator[tuple[str, pa.Array]]:
        """Build the Arrow columns of all arrays there are."""
        for name in ("generation", "category", "tenant", "cluster", "match_kind"):
            if (names := getattr(self, name)) is not None:
                yield name, pa.array(names, pa.string())
        yield "context_start", pa.array(self.context_start, pa.int32())
        for name in TARGET_COLUMNS:
            if (value := getattr(self, name)) is not None:
                yield name, pa.array(np.full(self.generations, value, np.int32))
        for name in ("match_prob", "draft_prob"):
            if (values := getattr(self, name)) is not None:
                yield name, list_array(self.offsets, pa.array(values))
        for name in ("match_probs", "unique_experts"):
            if (rows := getattr(self, name)) is not None:
                yield name, list_array(self.offsets, rows_array(rows))
        for name in ("experts", "new_experts"):
            if (counts := getattr(self, name)) is not None:
                yield name, list_array(self.offsets, bytes_array(counts))
        for name in ("logged_draft_length", "logged_advance"):
            if (rounds := getattr(self, name)) is not None and self.logged_offsets is not None:
                yield name, list_array(self.logged_offsets, pa.array(rounds, pa.int16()))


def joined(parts: Sequence[Traces]) -> Traces:
    """Join batches of one dataset, in order; arrays are copied if there is more than one batch."""
    if len(parts) == 1:
        return parts[0]
    found: dict[str, Any] = {}
    for field in fields(Traces):
        values = [getattr(part, field.name) for part in parts]
        if field.name == "source":
            found[field.name] = ", ".join(dict.fromkeys(values))
        elif field.name == "table":
            found[field.name] = _joined_tables(parts)
        elif field.name in {"offsets", "logged_offsets"}:
            found[field.name] = None if values[0] is None else _joined_offsets(values)
        elif isinstance(values[0], tuple):
            found[field.name] = tuple(name for part in values for name in part)
        elif isinstance(values[0], np.ndarray):
            there = [v for v in values if len(v)] or values[:1]  # without positions, widths are not known
            found[field.name] = frozen(np.concatenate(there))
        else:
            found[field.name] = values[0]
    return Traces(**found)


def _joined_offsets(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    bases = np.cumsum([0, *(part[-1] for part in parts[:-1])])
    shifted = [part[1:] + base for part, base in zip(parts, bases, strict=True)]
    return frozen(np.concatenate([np.zeros(1, np.int64), *shifted]))


def _joined_tables(parts: Sequence[Traces]) -> pa.Table:
    """Join the tables, in the types of the trace format where files wrote different ones."""
    try:
        return pa.concat_tables([part.table for part in parts], promote_options="default")
    except pa.ArrowException:
        return pa.concat_tables([part.to_arrow() for part in parts], promote_options="permissive")
