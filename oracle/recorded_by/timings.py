"""Verification rounds from timed passes: vLLM's ``bench forward``, llama.cpp's batched-bench and lines of rounds.

None of them counts unique experts, and the first two draft nothing: what a rounds file needs and the payload lacks is
told by the caller, or refused. With U told by m, U does not vary within an m, so no alpha can be fitted from such
rounds: they give the time of a pass as it is (a dense target: U = 0).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from oracle.errors import MOST_DRAFT_TOKENS, Faults, printable
from oracle.recorded_by.llama_cpp import is_batched_bench, is_round, round_in
from oracle.rounds import Rounds

ROWS_A_BATCH = 1 << 16
_MOST_WHOLE = (1 << 31) - 1
_SCHEMA = pa.schema(
    [
        ("generation", pa.string()),
        ("draft_length", pa.int16()),
        ("target_ms", pa.float64()),
        ("draft_ms", pa.float64()),
        ("unique_experts", pa.float64()),
        ("context_len", pa.float64()),
        ("batch_size", pa.int32()),
        ("round_index", pa.int64()),
    ]
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """What the caller says, since the payload does not.

    Attributes
    ----------
    unique_experts
        Mean unique experts per MoE layer by verified positions m, or one number for every m (0: a dense target).
    draft_ms
        Milliseconds of a draft by k.
    batched_is
        What a line of batched-bench with pl sequences is taken for: `batch` (one position of each, as it was measured)
        or `verified` (m = pl positions of one request, whose context it overstates).
    """

    unique_experts: float | Mapping[int, float] | None = None
    draft_ms: Mapping[int, float] | None = None
    batched_is: str | None = None


def is_bench_forward(tree: Mapping[str, Any]) -> bool:
    """Whether a record is a case of ``vllm bench forward``."""
    return "case" in tree and "median_us" in tree


def rows_in(trees: Iterator[tuple[str, Any]], told: Told, faults: Faults) -> Iterator[Row]:
    """Every pass as a row of a rounds file; what is wrong with one is noted, and the row left out."""
    generation, last = 0, -1
    for index, (place, tree) in enumerate(trees):
        row: Row | None = None
        if not isinstance(tree, Mapping):
            faults.add(f"{place}: is no object; give one timed pass a record")
            continue
        if is_bench_forward(tree):
            row = _bench_forward(tree, place, told, faults)
        elif is_batched_bench(tree):
            row = _batched_bench(tree, place, told, faults)
        elif is_round(tree):
            found = round_in(tree, place, faults)
            if found is not None:
                generation += found["round_id"] <= last or last < 0
                last = found["round_id"]
                row = _round(found, generation, told, place, faults)
        else:
            faults.add(f"{place}: holds no times of passes; see --explain for what makes rounds")
        if row is not None:
            yield {**row, "round_index": index}


def _number(tree: Mapping[str, Any], name: str, place: str, faults: Faults, *, whole: bool = False) -> float | None:
    value = tree.get(name)
    well = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if not well or (whole and (type(value) is not int or value > _MOST_WHOLE)):
        faults.add(
            f"{place}: {name} is {printable(repr(value), 40)}; it is a {'whole ' if whole else ''}number from 0 on"
        )
        return None
    assert isinstance(value, int | float)
    return value


def _row(
    generation: str,
    k: int,
    target_ms: float,
    draft_ms: float | None,
    context: float,
    batch: int,
    told: Told,
    place: str,
    faults: Faults,
) -> Row | None:
    """Lay out one row, with what was told filled in."""
    unique = told.unique_experts
    if isinstance(unique, Mapping):
        unique = unique.get(k + 1)
    if unique is None:
        faults.add(
            f"{place}: unique experts of m = {k + 1} are neither recorded nor told; say --unique-experts by m, as "
            "1:8,2:13.1 (0 for a dense target)"
        )
    if draft_ms is None and k > 0:
        draft_ms = (told.draft_ms or {}).get(k)
        if draft_ms is None:
            faults.add(
                f"{place}: the time of a draft of {k} tokens is neither recorded nor told; say --draft-ms, as {k}:1.5"
            )
    if not 0 <= k <= MOST_DRAFT_TOKENS:
        faults.add(f"{place}: {k} draft tokens; a draft has 0 to {MOST_DRAFT_TOKENS}")
    if unique is None or (draft_ms is None and k > 0) or not 0 <= k <= MOST_DRAFT_TOKENS:
        return None
    return {
        "generation": generation,
        "draft_length": k,
        "target_ms": target_ms,
        "draft_ms": draft_ms if k else 0.0,
        "unique_experts": unique,
        "context_len": context,
        "batch_size": batch,
    }


def _bench_forward(tree: Mapping[str, Any], place: str, told: Told, faults: Faults) -> Row | None:
    """One case: the median time of a pass over several requests, all with one draft length."""
    requests = tree.get("requests")
    microseconds = _number(tree, "median_us", place, faults)
    if not isinstance(requests, list) or not requests or not all(isinstance(each, Mapping) for each in requests):
        faults.add(f"{place}: holds no requests, each with query_len, kv_len and num_draft_tokens")
        return None
    cells = [
        [_number(each, name, f"{place}.requests[{i}]", faults, whole=True) for name in _OF_CASE]
        for i, each in enumerate(requests)
    ]
    whole = [[int(value) for value in row if value is not None] for row in cells]
    if microseconds is None or any(len(row) < len(_OF_CASE) for row in whole):
        return None
    drafted = {row[2] for row in whole}
    if len(drafted) > 1 or any(row[0] != row[2] + 1 for row in whole):
        faults.add(
            f"{place}: is no case of verification: every request has one draft length D and D + 1 query tokens (the "
            "case verify=N*Q@KV:D with Q = D + 1)"
        )
        return None
    context = sum(row[1] for row in whole) / len(whole) + 1  # the pass's own input token is not in the cache yet
    name = printable(str(tree["case"]), 200)
    return _row(name, drafted.pop(), microseconds / 1000, None, context, len(whole), told, place, faults)


_OF_CASE = ("query_len", "kv_len", "num_draft_tokens")


def _batched_bench(tree: Mapping[str, Any], place: str, told: Told, faults: Faults) -> Row | None:
    """One line: `tg` passes over `pl` sequences took `t_tg` seconds."""
    prompt, passes, sequences = (_number(tree, name, place, faults, whole=True) for name in ("pp", "tg", "pl"))
    seconds = _number(tree, "t_tg", place, faults)
    if prompt is None or not passes or not sequences or seconds is None:
        if passes == 0 or sequences == 0:
            faults.add(f"{place}: tg or pl is 0: no pass was timed")
        return None
    if told.batched_is is None:
        faults.add(
            f"{place}: times passes over {int(sequences)} sequences, one position each; say what that stands for with "
            "--batched-is batch (a batch of so many requests without drafts) or verified (m positions of one request)"
        )
        return None
    verified = told.batched_is == "verified"
    k, batch = (int(sequences) - 1, 1) if verified else (0, int(sequences))
    context = prompt + (passes + 1) / 2  # the mean over the passes, the own input token included
    return _row(f"pl={int(sequences)}", k, seconds * 1000 / passes, None, context, batch, told, place, faults)


def _round(found: Mapping[str, Any], generation: int, told: Told, place: str, faults: Faults) -> Row | None:
    milliseconds = found["t_verify_us"] / 1000, found["t_draft_us"] / 1000
    context = float(found["prompt_pos"] + 1)
    return _row(f"{generation}", found["n"], milliseconds[0], milliseconds[1], context, 1, told, place, faults)


def rounds_of(rows: Iterator[Row], source: str, faults: Faults) -> Iterator[Rounds]:
    """Check rows in batches; all faults of the rows are raised at the end of the walk.

    Raises
    ------
    InputError
        All faults noted so far, or those of a batch.
    """
    pending: list[Row] = []
    for row in rows:
        pending.append(row)
        if len(pending) == ROWS_A_BATCH:
            yield Rounds.from_arrow(pa.Table.from_pylist(pending, schema=_SCHEMA), source)
            pending = []
    faults.raise_if_any()
    if pending:
        yield Rounds.from_arrow(pa.Table.from_pylist(pending, schema=_SCHEMA), source)
