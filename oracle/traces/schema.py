"""The columns of a trace file: names, types, units and meaning, and the check of a file's schema against them.

The table `COLUMNS` is the one description of the format; validation, writing and the documents read it.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from oracle.columns import is_bytes_type, is_name_type, is_number_type, is_whole_type, item_type
from oracle.errors import Faults, printable

VERSION = 1
METADATA_PREFIX = "draft_oracle."
METADATA_KEYS = ("version", "target", "draft", "engine", "device", "recorder")
MATCH_KINDS = ("overlap", "reference", "greedy", "empirical", "realised", "overlap_lower", "overlap_upper")
AVERAGES = "averages of requests"  # the one unit of resampling of all generations whose match_kind is empirical
GREEDY_OVERLAP = "overlap of greedy texts"  # no match_kind of a file: what `Traces.match_kinds` tells apart
MATCH_IS = ("conditional", "survival")
MOST_EXPERTS = 1 << 16

Kind = Literal[
    "name", "count", "numbers", "whole numbers", "texts", "number rows", "id rows", "text rows", "bytes", "rounds"
]


@dataclass(frozen=True)
class Column:
    """One column of a trace file.

    Attributes
    ----------
    name, arrow
        The name, and the Arrow type as written by this project.
    kind
        What is accepted: ``name`` and ``count`` hold one value a generation, ``rounds`` one number a logged round,
        all others one entry a position.
    unit
        What a number counts.
    required
        Whether every file has it.
    meaning
        One sentence.
    """

    name: str
    arrow: str
    kind: Kind
    unit: str
    required: bool
    meaning: str


COLUMNS = (
    Column("generation", "string", "name", "", True, "unique id of the generation"),
    Column("category", "string", "name", "", False, "what contrasts compare"),
    Column("tenant", "string", "name", "", False, "who sent the request; batches mix tenants"),
    Column("cluster", "string", "name", "", False, "unit of resampling where larger than a generation"),
    Column("layers", "int32", "count", "MoE layers", False, "MoE layers of the target; dense layers are left out"),
    Column("top_k", "int32", "count", "experts a token", False, "experts a token is routed to in each MoE layer"),
    Column("num_experts", "int32", "count", "experts a layer", False, "experts in each MoE layer"),
    Column("match_kind", "string", "name", "", True, "what the match probabilities are: " + ", ".join(MATCH_KINDS)),
    Column(
        "context_start",
        "int32",
        "count",
        "tokens",
        True,
        "tokens in context when position 0's round starts, the pass's own input token included",
    ),
    Column("token_id", "list<int32>", "whole numbers", "", False, "ids of the tokens the target emitted"),
    Column("token_text", "list<string>", "texts", "", False, "texts of the tokens the target emitted"),
    Column("match_prob", "list<float32>", "numbers", "probability", False, "conditional match probability"),
    Column(
        "match_probs",
        "list<fixed_size_list<float32>[K]>",
        "number rows",
        "probability",
        False,
        "conditional match probabilities at positions t … t+K-1 of a round that starts at t",
    ),
    Column("draft_prob", "list<float32>", "numbers", "probability", False, "the draft's own confidence in its token"),
    Column("draft_token_id", "list<list<int32>>", "id rows", "", False, "ids proposed from each anchor"),
    Column("draft_text", "list<list<string>>", "text rows", "", False, "texts proposed from each anchor"),
    Column(
        "experts",
        "list<fixed_size_binary[layers·top_k·itemsize]>",
        "bytes",
        "expert id",
        False,
        "ids routed to by the pass that emits the token, C order (layer, slot), uint8 or uint16 little-endian",
    ),
    Column(
        "new_experts",
        "list<fixed_size_binary[2(K+1)]>",
        "bytes",
        "experts, summed over layers",
        False,
        "experts of row i that are new to a window starting at i-j, j = 0 … K, uint16 little-endian",
    ),
    Column(
        "unique_experts",
        "list<fixed_size_list<float32>[K+1]>",
        "number rows",
        "experts, mean per layer",
        False,
        "unique experts U(t, 0 … K) as recorded or expected, rejected continuations included",
    ),
    Column("logged_draft_length", "list<int16>", "rounds", "tokens", False, "draft length of each round, in order"),
    Column("logged_advance", "list<int16>", "rounds", "tokens", False, "advance of each round, in order"),
)
BY_NAME = {column.name: column for column in COLUMNS}
TARGET_COLUMNS = ("layers", "top_k", "num_experts")
MATCH_COLUMNS = ("match_prob", "match_probs")
EXPERT_COLUMNS = ("experts", "new_experts", "unique_experts")
LOGGED_COLUMNS = ("logged_draft_length", "logged_advance")
ALWAYS_READ = frozenset({*TARGET_COLUMNS, *MATCH_COLUMNS, "generation", "match_kind", "context_start", "decoding"})


def _nested(depth: int, leaf: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType], bool]:
    """Accept lists of `leaf`, `depth` deep; an empty list of unknown type (null) may stand at any depth."""

    def accepts(kind: pa.DataType) -> bool:
        for _ in range(depth):
            item = item_type(kind)
            if item is None:
                return False
            kind = item
            if pa.types.is_null(kind):
                return True
        return leaf(kind)

    return accepts


def _is_id_cells(kind: pa.DataType) -> bool:
    """Accept one position's ids or counts: raw bytes, or whole numbers in lists of any depth."""
    if is_bytes_type(kind):
        return True
    item = item_type(kind)
    while item is not None:
        kind, item = item, item_type(item)
        if item is None:
            return is_whole_type(kind)
    return bool(pa.types.is_null(kind))


_ACCEPTS: dict[Kind, tuple[Callable[[pa.DataType], bool], str]] = {
    "name": (is_name_type, "a string"),
    "count": (is_whole_type, "an integer"),
    "numbers": (_nested(1, is_number_type), "a list of numbers, one a position"),
    "whole numbers": (_nested(1, is_whole_type), "a list of integers, one a position"),
    "texts": (_nested(1, is_name_type), "a list of strings, one a position"),
    "number rows": (_nested(2, is_number_type), "a list of lists of numbers, one a position"),
    "id rows": (_nested(2, is_whole_type), "a list of lists of integers, one a position"),
    "text rows": (_nested(2, is_name_type), "a list of lists of strings, one a position"),
    "bytes": (_nested(1, _is_id_cells), "a list of fixed_size_binary, binary or lists of integers, one a position"),
    "rounds": (_nested(1, is_whole_type), "a list of integers, one a round"),
}


def check_schema(schema: pa.Schema, source: str, faults: Faults) -> None:
    """Check that a table has the columns of a trace, with types that can be read; note every fault.

    Parameters
    ----------
    schema
        All columns of the file or table, also those that will not be read.
    source
        File name for messages.
    """
    names = schema.names
    for column in COLUMNS:
        count = names.count(column.name)
        if count > 1:
            faults.add(f"{source}: the column {column.name} occurs {count} times; keep one")
        elif count == 0 and column.required:
            faults.add(
                f"{source}: the required column {column.name} ({column.arrow}: {column.meaning}) is missing; "
                f"{_has(names)}"
            )
        elif count == 1:
            accepts, wanted = _ACCEPTS[column.kind]
            kind = schema.field(column.name).type
            if not accepts(kind):
                faults.add(
                    f"{source}: the column {column.name} has the type {printable(str(kind))}; "
                    f"it must be {wanted} (best: {column.arrow})"
                )
    for name, count in Counter(names).items():
        if count > 1 and name not in BY_NAME:
            faults.add(f"{source}: the column {printable(name, 40)} occurs {count} times; keep one")
    _check_together(names, source, faults)


def _check_together(names: Collection[str], source: str, faults: Faults) -> None:
    """Check which columns stand together."""
    match = [name for name in MATCH_COLUMNS if name in names]
    if not match:
        faults.add(f"{source}: holds neither match_prob nor match_probs; one of them is required; {_has(names)}")
    elif len(match) == 2:
        faults.add(
            f"{source}: holds both match_prob and match_probs; keep one (match_probs if quality depends on depth)"
        )
    routed = [name for name in EXPERT_COLUMNS if name in names]
    missing = [name for name in TARGET_COLUMNS if name not in names]
    if routed and missing:
        faults.add(
            f"{source}: {routed[0]} needs the columns layers, top_k and num_experts; missing: {', '.join(missing)}"
        )
    logged = [name for name in LOGGED_COLUMNS if name in names]
    if len(logged) == 1:
        other = next(name for name in LOGGED_COLUMNS if name not in names)
        faults.add(f"{source}: {logged[0]} comes without {other}; a logged round needs both")


def _has(names: Collection[str]) -> str:
    """Say which columns there are."""
    listed = ", ".join(printable(name, most=40) for name in list(names)[:30]) or "none"
    return f"the columns there: {listed}"
