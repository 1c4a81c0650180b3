"""The columns of verification rounds: their names and meaning, and the checks of their types and values."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.columns import codes_of, floats_of, frozen, is_name_type, is_number_type, names_of, nulls_of
from oracle.errors import MOST_DRAFT_TOKENS, Faults, printable

# name: unit and meaning
REQUIRED = {
    "generation": "id of the generation",
    "draft_length": "tokens drafted, k",
    "target_ms": "milliseconds of the verification pass over k + 1 positions",
    "draft_ms": "milliseconds of the draft, 0 at k = 0",
    "unique_experts": "unique experts, mean per MoE layer; 0 for a dense target",
    "context_len": "tokens in context when the round starts",
}
OPTIONAL = {
    "max_unique_experts": "unique experts in the layer that touches most",
    "kv_usage": "share of the KV cache in use",
    "graph_bucket": "batch size the engine's captured graph was made for",
    "batch_size": "requests in the pass",
    "reject_ms": "milliseconds spent on a rejection",
    "category": "what contrasts compare",
    "cluster": "unit of resampling where larger than a generation",
    "position": "position at which the round starts",
    "round_index": "recording order",
    "phase": "`prefill` rows mark the begin of a generation and stay out of estimation",
}
_NAMES = frozenset({"generation", "cluster", "category", "phase"})
_OPTIONAL_NUMBERS = tuple(name for name in OPTIONAL if name not in _NAMES)
_PREFILL = "prefill"
_LONGEST_MS = 1e9  # eleven days: whatever lasts longer is no pass of a model


def check_schema(schema: pa.Schema, source: str, faults: Faults) -> None:
    """Check that a table has the columns of rounds, with types that can be read; note every fault."""
    for name, count in Counter(schema.names).items():
        if count > 1:
            faults.add(f"{source}: the column {printable(name, 40)} occurs {count} times; keep one")
    for name, meaning in (REQUIRED | OPTIONAL).items():
        count = schema.names.count(name)
        if count == 0 and name in REQUIRED:
            listed = ", ".join(printable(other, most=40) for other in schema.names[:30]) or "none"
            faults.add(f"{source}: the required column {name} ({meaning}) is missing; the columns there: {listed}")
        elif count == 1:
            kind = schema.field(name).type
            accepts, wanted = (is_name_type, "a string") if name in _NAMES else (is_number_type, "a number")
            if not accepts(kind):
                faults.add(f"{source}: the column {name} has the type {printable(str(kind))}; it must be {wanted}")


class _Rows:
    """The rows of a table while they are checked."""

    def __init__(self, table: pa.Table, source: str, first_row: int) -> None:
        self.table = table
        self.faults = Faults()
        self._source = source
        self._first_row = first_row
        self.generation = self.codes("generation")

    def note(self, bad: NDArray[np.bool_], name: str, rule: str, value: NDArray[Any] | None = None) -> None:
        """Note the first row of `bad`, and how many more there are."""
        rows = np.flatnonzero(bad)
        if len(rows):
            row = int(rows[0])
            codes, names = self.generation
            of = f" (generation '{printable(names[codes[row]])}')" if codes[row] >= 0 else ""
            shown_value = "null" if value is None else f"{value[row]:.9g}"
            more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
            self.faults.add(f"{self._source}, row {self._first_row + row}{of}: {name} is {shown_value}; {rule}{more}")

    def numbers(
        self, name: str, missing_is_fine: NDArray[np.bool_], least: float | None = None, most: float | None = None
    ) -> NDArray[np.float64]:
        """Read numbers; null, NaN, infinite ones and those below `least` or above `most` are faults."""
        column = self.table.column(name)
        values, null = floats_of(column), nulls_of(column)
        self.note(null & ~missing_is_fine, name, "every round has one; leave out rounds without")
        self.note(np.isnan(values) & ~null & ~missing_is_fine, name, "it must be a finite number", values)
        self.note(np.isinf(values), name, "it must be a finite number", values)
        if least is not None:
            self.note(np.isfinite(values) & (values < least), name, f"it must be at least {least:g}", values)
        if most is not None:
            self.note(np.isfinite(values) & (values > most), name, f"it must be at most {most:g}", values)
        return values

    def codes(self, name: str) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """Read names as codes."""
        try:
            return codes_of(self.table.column(name))
        except (UnicodeDecodeError, pa.ArrowInvalid):
            self.faults.add(f"{self._source}: the column {name} holds bytes that are not UTF-8; write it as text")
            return frozen(np.full(self.table.num_rows, -1, np.int32)), ()


def read_rounds(table: pa.Table, source: str, first_row: int) -> dict[str, Any]:
    """Read and check every known column; give the fields of `Rounds`."""
    rows = _Rows(table, source, first_row)
    count = table.num_rows
    prefill = np.zeros(count, np.bool_)
    if "phase" in table.column_names:
        codes, names = rows.codes("phase")
        prefill = np.isin(codes, [i for i, name in enumerate(names) if name == _PREFILL])
    fields: dict[str, Any] = {"is_prefill": frozen(prefill), "category_codes": None, "category_names": None}
    rows.note(nulls_of(table.column("generation")), "generation", "every round belongs to one")
    fields["generation_codes"], fields["generation_names"] = rows.generation
    fields["cluster_codes"], fields["cluster_names"] = _clusters(rows)
    if "category" in table.column_names:
        fields["category_codes"], fields["category_names"] = rows.codes("category")
    for name in ("target_ms", "draft_ms"):
        fields[name] = rows.numbers(name, prefill, most=_LONGEST_MS)
    for name in ("unique_experts", "context_len"):
        fields[name] = rows.numbers(name, prefill, least=0)
    length = rows.numbers("draft_length", prefill, least=0, most=MOST_DRAFT_TOKENS)
    odd = np.isfinite(length) & (np.floor(length) != length)
    rows.note(odd, "draft_length", "it is a whole number of tokens", length)
    everywhere = np.ones(count, np.bool_)
    for name in _OPTIONAL_NUMBERS:
        if name in table.column_names:
            rows.numbers(name, everywhere, least=0 if name == "reject_ms" else None)
    rows.faults.raise_if_any()
    fields["draft_length"] = frozen(np.nan_to_num(length).astype(np.int64))
    return fields


def _clusters(rows: _Rows) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Read clusters; a round without one is clustered by its generation."""
    if "cluster" not in rows.table.column_names:
        return rows.generation
    codes, names = rows.codes("cluster")
    if not (codes < 0).any() or rows.faults:
        return codes, names
    given, generations = rows.table.column("cluster"), names_of(rows.table.column("generation"))
    filled = [c if c is not None else g for c, g in zip(names_of(given), generations, strict=True)]
    return codes_of(pa.array(filled, pa.string()))
