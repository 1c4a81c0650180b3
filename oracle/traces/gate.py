"""From an Arrow table, one row a generation, to the checked arrays of `Traces`."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.errors import Faults, InputError, printable
from oracle.traces import checks
from oracle.traces.batch import Batch
from oracle.traces.experts import read_experts, read_new_experts, read_unique_experts
from oracle.traces.lists import BadCellsError, Lists, cells
from oracle.traces.schema import EXPERT_COLUMNS, LOGGED_COLUMNS, MATCH_COLUMNS, MATCH_IS, TARGET_COLUMNS, check_schema

_MOST_CONTEXT = 2**31 - 1
Fields = dict[str, Any]


def read_table(table: pa.Table, source: str, match_is: str | None, first_row: int = 0) -> Fields:
    """Read and check the columns of a trace table.

    Parameters
    ----------
    table
        One row a generation; slices and several chunks are fine.
    source
        File name for messages.
    match_is
        ``"survival"`` converts `match_probs` from survival products; anything else takes them as they are.
    first_row
        Row number of the table's first row in its file, for messages.

    Returns
    -------
    dict
        The fields of `Traces`, but for `source` and `table`.

    Raises
    ------
    InputError
        All faults of the table.
    """
    source = source or "table"
    check_match_is(match_is)
    faults = Faults()
    check_schema(table.schema, source, faults)
    faults.raise_if_any()
    if table.num_rows == 0:
        raise InputError(f"{source}: holds no generations; a trace has one row a generation")
    batch = Batch(table, source, first_row)
    fields = _generation_fields(batch)
    if batch.read_match():
        fields |= _position_fields(batch, match_is, fields)
    batch.faults.raise_if_any()
    return fields


def check_match_is(match_is: str | None) -> None:
    """Check what the caller says of `match_probs`."""
    if match_is is not None and match_is not in MATCH_IS:
        raise InputError(f"match_is is {match_is!r}; it is one of {', '.join(MATCH_IS)}, or None if not said")


def _generation_fields(batch: Batch) -> Fields:
    """Read what there is one of a generation."""
    fields: Fields = {"generation": _unique_ids(batch)}
    kinds = batch.names("match_kind")
    if kinds is not None:
        checks.check_match_kinds(kinds, batch.places, batch.faults)
    fields["match_kind"] = kinds
    fields["context_start"] = _context_start(batch)
    fields |= {name: batch.names(name) for name in ("category", "tenant", "cluster")}
    return fields | dict(zip(TARGET_COLUMNS, _target(batch), strict=True))


def _position_fields(batch: Batch, match_is: str | None, target: Fields) -> Fields:
    """Read what there is one of a position, and the logged rounds."""
    fields: Fields = {"offsets": batch.places.offsets} | dict.fromkeys(MATCH_COLUMNS) | dict.fromkeys(EXPERT_COLUMNS)
    fields[batch.match_name] = _match(batch, match_is)
    fields["draft_prob"] = batch.floats("draft_prob")
    if fields["draft_prob"] is not None:
        checks.check_probabilities("draft_prob", fields["draft_prob"], batch.places, batch.faults)
    layers, top_k, num_experts = (target[name] for name in TARGET_COLUMNS)
    if layers is not None:
        fields["experts"] = read_experts(batch, layers, top_k, num_experts)
        fields["new_experts"] = read_new_experts(batch, layers, top_k, num_experts)
        fields["unique_experts"] = read_unique_experts(batch, top_k, num_experts)
    for name in ("token_id", "token_text", "draft_token_id", "draft_text"):
        batch.refuse_null_entries(name)
    return fields | _logged_rounds(batch)


def _unique_ids(batch: Batch) -> tuple[str, ...] | None:
    """Check that generation ids are there and occur once."""
    if batch.ids is None:
        return None
    first: dict[str, int] = {}
    for g, name in enumerate(batch.ids):
        if name is None:
            batch.faults.add(f"{batch.at(g)}: generation is null; each generation needs an id")
        elif name in first:
            rows = f"rows {batch.places.first_row + first[name]} and {batch.places.first_row + g}"
            batch.faults.add(f"{batch.at(g)}: the id occurs twice ({rows}); ids are unique, rename one")
        else:
            first[name] = g
    return tuple(name or "" for name in batch.ids)


def _context_start(batch: Batch) -> NDArray[np.int64] | None:
    values = batch.whole("context_start")
    if values is None:
        return None
    for g in np.flatnonzero((values < 0) | (values > _MOST_CONTEXT)):
        batch.faults.add(
            f"{batch.at(g)}: context_start is {values[g]}; it is the number of tokens in context when position 0's "
            f"round starts, 0 … {_MOST_CONTEXT}"
        )
    return values


def _target(batch: Batch) -> tuple[int | None, int | None, int | None]:
    """Read the shape of the target, the same in all rows; (None, None, None) for a dense target."""
    there = [name for name in TARGET_COLUMNS if name in batch.present]
    if not batch.present.intersection(EXPERT_COLUMNS):  # a dense target may leave the columns null
        there = [name for name in there if batch.table.column(name).null_count < batch.table.num_rows]
    columns = [batch.whole(name) for name in there]
    known = [column for column in columns if column is not None]
    if len(known) < len(TARGET_COLUMNS):
        return None, None, None
    for name, column in zip(there, known, strict=True):
        for g in np.flatnonzero(column != column[0])[:1]:
            batch.faults.add(
                f"{batch.at(g)}: {name} is {column[g]}, but {column[0]} in generation "
                f"'{printable(str(batch.places.ids[0]))}'; one dataset holds one target: split it"
            )
    layers, top_k, num_experts = (int(column[0]) for column in known)
    if checks.check_target(layers, top_k, num_experts, batch.at(0), batch.faults):
        return layers, top_k, num_experts
    return None, None, None


def _match(batch: Batch, match_is: str | None) -> NDArray[np.float32] | None:
    values = batch.floats(batch.match_name)
    if values is None:
        return None
    if values.ndim == 2 and len(values) and values.shape[1] == 0:
        batch.faults.add(
            f"{batch.places.source}: match_probs holds nothing a position; it needs j = 1 … K, K at least 1"
        )
    in_range = checks.check_probabilities(batch.match_name, values, batch.places, batch.faults)
    if match_is == "survival" and values.ndim == 2 and in_range:
        values = checks.conditional_of(values, batch.places, batch.faults)
    return frozen(values)


def _logged_rounds(batch: Batch) -> Fields:
    """Read the logged rounds, whose lists have lengths of their own."""
    none: Fields = dict.fromkeys(("logged_offsets", *LOGGED_COLUMNS))
    lists = [batch.lists(name) for name in LOGGED_COLUMNS if name in batch.present]
    length, advance = lists if len(lists) == 2 else (None, None)
    if length is None or advance is None:
        return none
    had, wanted = np.diff(advance.offsets), np.diff(length.offsets)
    for g in np.flatnonzero(had != wanted):
        batch.faults.add(
            f"{batch.at(g)}: logged_advance has {had[g]} rounds, logged_draft_length has {wanted[g]}; both have one "
            "entry a round"
        )
    values = [_round_numbers(batch, name, part) for name, part in zip(LOGGED_COLUMNS, (length, advance), strict=True)]
    if values[0] is None or values[1] is None or not np.array_equal(had, wanted):
        return none
    checks.check_rounds(values[0], values[1], length.offsets, batch.places, batch.faults)
    return {"logged_offsets": length.offsets} | dict(zip(LOGGED_COLUMNS, values, strict=True))


def _round_numbers(batch: Batch, name: str, lists: Lists) -> NDArray[np.int64] | None:
    try:
        return frozen(cells(lists.items).astype(np.int64))
    except BadCellsError as error:
        describe = error.describe  # the name `error` is gone when the lambda runs
        batch.places.note(batch.faults, error.bad, lambda i: f"{name} {describe(i)}", lists.offsets, "round")
        return None
