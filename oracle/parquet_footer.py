"""The footer and the page headers of a Parquet file, read without decoding anything.

pyarrow decodes what a footer and a page header claim, and allocates for it first; a damaged footer makes some of its
metadata end the process. So the claims are read here, by a reader of Thrift's compact protocol that takes any bytes.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

MOST_FOOTER_BYTES = 16 << 20  # 60 row groups of 21 columns take about 0.2 MB
MOST_HEADER_BYTES = 16 << 20  # of a page: what Arrow reads at most
_FIRST_HEADER_BYTES = 512
_DEEPEST = 32
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3
_WHOLE, _BYTE, _DOUBLE, _BINARY, _LISTS, _MAP, _STRUCT, _UUID = (4, 5, 6), 3, 7, 8, (9, 10), 11, 12, 13
_DELTA_BYTE_ARRAY = 7  # an encoding
FIXED, BYTE_ARRAY = 7, 6  # physical types of columns
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}  # of decoded values: BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE
Fields = dict[int, Any]


class FooterError(ValueError):
    """Bytes that are no footer or page header; the text says why."""


class LimitError(ValueError):
    """A footer or page header that claims more than is read; the text says what, and the way out."""


@dataclass(frozen=True)
class Chunk:
    """One column of one row group, as the footer describes it.

    Attributes
    ----------
    path
        Name of the column, with those of its list levels.
    kind, width
        Physical type, and bytes of a decoded value, 0 for byte strings of any length.
    codec
        Number of the compression.
    values
        Values in all lists, nulls and empty lists among them.
    start, size
        Where its pages are in the file.
    """

    path: tuple[str, ...]
    kind: int
    width: int
    codec: int
    values: int
    start: int
    size: int


@dataclass(frozen=True)
class Page:
    """One page: where its bytes are, and what its header claims. A dictionary's `values` are its entries.

    `has_prefixes` says that each text begins with a piece of the one before, so that few bytes can stand for many.
    """

    is_dictionary: bool
    has_prefixes: bool
    values: int
    start: int
    size: int
    unpacked: int


def read_footer(file: IO[bytes]) -> list[tuple[int, list[Chunk]]]:
    """Give the rows and the columns of each row group.

    Raises
    ------
    FooterError
        It is damaged, or larger than is read.
    """
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 8))
    size = int.from_bytes(file.read(4), "little")
    if size > MOST_FOOTER_BYTES:
        raise LimitError(
            f"its footer takes {size:,} bytes; at most {MOST_FOOTER_BYTES:,} are read; write fewer row groups a file"
        )
    file.seek(max(0, end - 8 - size))
    try:
        tree = _tree(file.read(size))
        leaves = [_width(node) for node in tree[2] if not node.get(5)]
        groups = [(g[3], [_chunk(*pair) for pair in zip(g[1], leaves, strict=True)]) for g in tree.get(4, [])]
        if tree[3] != sum(rows for rows, _ in groups):
            raise FooterError(f"its footer says {tree[3]} rows, its row groups hold {sum(rows for rows, _ in groups)}")
        return groups
    except FooterError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FooterError(f"its footer is damaged ({type(error).__name__})") from error


def _tree(raw: bytes) -> Fields:
    try:
        return _struct(raw, 0)[0]
    except FooterError as error:
        raise FooterError(f"its footer is damaged: {error}") from error


def _width(node: Fields) -> tuple[int, int]:
    kind = node.get(1, -1)
    return kind, max(node.get(2, 0), 0) if kind == FIXED else _WIDTHS.get(kind, 0)


def _chunk(column: Fields, leaf: tuple[int, int]) -> Chunk:
    about = column[3]
    path = tuple(part.decode(errors="replace") for part in about[3]) or ("",)
    offsets = [at for at in (about[9], about.get(11)) if at is not None and at > 0]
    return Chunk(path, *leaf, about[4], about[5], min(offsets), about[7])


def pages_of(file: IO[bytes], chunk: Chunk) -> Iterator[Page]:
    """Walk over the pages of a column as they are read: until its values are all there.

    Raises
    ------
    FooterError
        A header is damaged, or a page does not lie in the file.
    """
    at, seen = chunk.start, 0
    end = file.seek(0, os.SEEK_END)
    while seen < chunk.values:
        header, start = _header(file, at)
        try:
            kind, unpacked, size = header[1], header[2], header[3]
            about = header.get({_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}.get(kind, 0), {1: 0})
            encoding = about.get(4 if kind == _DATA_2 else 2)
            page = Page(kind == _DICTIONARY, encoding == _DELTA_BYTE_ARRAY, about[1], start, size, unpacked)
            fine = 0 <= size <= end - start and unpacked >= 0 and page.values >= 0
        except (KeyError, TypeError, AttributeError) as error:
            raise FooterError("a page header is damaged") from error
        if not fine:
            raise FooterError(f"a page claims {size} bytes in the file and {unpacked} unpacked; it is damaged")
        if kind in (_DATA, _DATA_2):
            seen += page.values
        yield page
        at = start + size


def _header(file: IO[bytes], at: int) -> tuple[Fields, int]:
    """Read one page header; give where the page itself begins."""
    for most in (_FIRST_HEADER_BYTES, MOST_HEADER_BYTES):
        file.seek(at)
        raw = file.read(most)
        try:
            header, used = _struct(raw, 0)
            return header, at + used
        except FooterError:
            if len(raw) < most or most == MOST_HEADER_BYTES:
                raise
    raise AssertionError("the last try raises")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw) or shift > 63:
            raise FooterError("a number does not end")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _number(raw: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(raw, at)
    return (value >> 1) ^ -(value & 1), at


def _struct(raw: bytes, at: int, depth: int = 0) -> tuple[Fields, int]:
    """Read a struct; field numbers as keys. Fields of truth values are left out."""
    fields: Fields = {}
    number = 0
    while True:
        if at >= len(raw) or depth > _DEEPEST:
            raise FooterError("it ends early, or is nested too deep")
        head = raw[at]
        at += 1
        if head == 0:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _number(raw, at)
        if head & 0x0F > 2:
            fields[number], at = _value(raw, at, head & 0x0F, depth + 1)


def _value(raw: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _WHOLE:
        return _number(raw, at)
    if kind == _BINARY:
        size, at = _varint(raw, at)
        if size > len(raw) - at:
            raise FooterError("a text does not end")
        return raw[at : at + size], at + size
    if kind == _STRUCT:
        return _struct(raw, at, depth)
    if kind in _LISTS:
        return _list(raw, at, depth)
    fixed = {1: 1, 2: 1, _BYTE: 1, _DOUBLE: 8, _UUID: 16}.get(kind)
    if fixed is None or fixed > len(raw) - at:  # a map, of which Parquet has none, or no type at all
        raise FooterError(f"there is no field of type {kind}")
    return raw[at : at + fixed], at + fixed


def _list(raw: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    if at >= len(raw) or depth > _DEEPEST:
        raise FooterError("it ends early, or is nested too deep")
    count, kind = raw[at] >> 4, raw[at] & 0x0F
    at += 1
    if count == 15:
        count, at = _varint(raw, at)
    if count > len(raw) - at:
        raise FooterError("a list claims more entries than there are bytes")
    values = []
    for _ in range(count):
        value, at = _value(raw, at, kind, depth + 1)
        values.append(value)
    return values, at
