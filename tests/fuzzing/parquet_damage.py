"""Damage to Parquet files that leaves them readable as Parquet: footers and page headers that lie."""

import random
from collections.abc import Sequence
from typing import Any

from fuzzing import thrift
from fuzzing.mutations import damaged_bytes

_COUNTS = (
    -1,
    0,
    1,
    2,
    7,
    255,
    1 << 16,
    1 << 28,
    (1 << 31) - 1,
    1 << 31,
    1 << 32,
    (1 << 40) + 1,
    (1 << 63) - 1,
    -(1 << 63),
)
_ROW_GROUPS, _COLUMNS, _METADATA = 4, 1, 3  # fields of FileMetaData, RowGroup, ColumnChunk
_DATA_PAGE, _DICTIONARY_PAGE, _COMPRESSED = 9, 11, 7  # fields of ColumnMetaData


def damaged_parquet(raw: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """Bytes anywhere, bytes of the footer, numbers of the footer, numbers of a page header, or another's footer."""
    kind = rng.randrange(10)
    if kind < 2:
        return damaged_bytes(raw, rng, others)
    body, footer = apart(raw)
    if kind < 4:
        return together(body, damaged_bytes(footer, rng, [apart(other)[1] for other in rng.sample(others, 1)]))
    tree, _ = thrift.read_struct(footer)
    if kind == 4:
        return together(apart(rng.choice(others))[0], footer)
    if kind < 7:
        for _ in range(rng.choice((1, 1, 2))):
            _lie(tree, rng)
        return together(body, thrift.written(tree))
    return _lying_page(body, tree, rng)


def apart(raw: bytes) -> tuple[bytes, bytes]:
    """The pages and the footer."""
    size = int.from_bytes(raw[-8:-4], "little")
    return raw[: -8 - size], raw[-8 - size : -8]


def together(body: bytes, footer: bytes) -> bytes:
    """A Parquet file."""
    return body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _lie(tree: thrift.Struct, rng: random.Random) -> None:
    """Change one field: a number, a name, the number of items, or leave it out."""
    field = rng.choice(thrift.fields_in(tree))
    _, kind, value = field
    if rng.random() < 0.08:
        field[1:] = [thrift.TRUE, None]
    elif kind in thrift.WHOLE:
        field[2] = rng.choice((*_COUNTS, value + 1, value - 1, value * 2, rng.randrange(-4, 24)))
    elif kind == thrift.BINARY:
        field[2] = rng.choice(
            (b"", b"\xff\xfe", b"../../x", b"x" * 5000, b"list", value + b"\x00", value[:-1], b"match_prob")
        )
    elif kind in (thrift.LIST, thrift.SET) and value[1]:
        items = list(value[1])
        at = rng.randrange(len(items))
        how = rng.randrange(4)
        if how == 0:
            del items[at]
        elif how == 1:
            items[at:at] = [items[at]] * rng.choice((1, 3, 100))
        elif how == 2:
            items.insert(rng.randrange(len(items)), items.pop(at))
        else:
            items = []
        field[2] = (value[0], items)


def column_chunks(tree: thrift.Struct) -> list[thrift.Struct]:
    """ColumnMetaData of every column of every row group."""
    groups = thrift.get(tree, _ROW_GROUPS)
    return [thrift.get(chunk, _METADATA) for group in groups[1] for chunk in thrift.get(group, _COLUMNS)[1]]


def _lying_page(body: bytes, tree: thrift.Struct, rng: random.Random) -> bytes:
    """The first page of a column with another header; the column moves to the end of the file to make room."""
    chunk = rng.choice(column_chunks(tree))
    start = first_page(chunk)
    header, end = thrift.read_struct(body, start)
    for _ in range(rng.choice((1, 1, 2))):
        _lie(header, rng)
    return with_page(body, tree, chunk, thrift.written(header) + body[end : start + thrift.get(chunk, _COMPRESSED)])


def first_page(chunk: thrift.Struct) -> int:
    """Where a column begins."""
    offset: int = thrift.get(chunk, _DICTIONARY_PAGE) or thrift.get(chunk, _DATA_PAGE)
    return offset


def with_page(body: bytes, tree: thrift.Struct, chunk: thrift.Struct, pages: bytes) -> bytes:
    """The file with other pages for one column."""
    moved = len(body) - first_page(chunk)
    for field in (_DATA_PAGE, _DICTIONARY_PAGE):
        at: Any = thrift.get(chunk, field)
        if at is not None:
            longer = len(pages) - thrift.get(chunk, _COMPRESSED) if at != first_page(chunk) else 0
            thrift.put(chunk, field, at + moved + longer)
    thrift.put(chunk, _COMPRESSED, len(pages))
    return together(body + pages, thrift.written(tree))
