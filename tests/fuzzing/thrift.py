"""Thrift's compact protocol without a schema: footers and page headers of Parquet as trees that can be changed.

A struct is a list of [field id, type, value], a list is (item type, [values]), a map is kept out (Parquet has none).
"""

from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
WHOLE = (I16, I32, I64)
Struct = list[list[Any]]


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def read_struct(raw: bytes, at: int = 0) -> tuple[Struct, int]:
    """Give a struct and where it ends."""
    fields: Struct = []
    number = 0
    while True:
        head = raw[at]
        at += 1
        if head == 0:
            return fields, at
        kind, step = head & 0x0F, head >> 4
        if step:
            number += step
        else:
            zigzag, at = _varint(raw, at)
            number = (zigzag >> 1) ^ -(zigzag & 1)
        if kind in (TRUE, FALSE):
            fields.append([number, kind, None])
            continue
        value, at = _read(raw, at, kind)
        fields.append([number, kind, value])


def _read(raw: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in WHOLE:
        zigzag, at = _varint(raw, at)
        return (zigzag >> 1) ^ -(zigzag & 1), at
    if kind in (TRUE, FALSE, BYTE):
        return raw[at], at + 1
    if kind == DOUBLE:
        return raw[at : at + 8], at + 8
    if kind == BINARY:
        size, at = _varint(raw, at)
        return raw[at : at + size], at + size
    if kind in (LIST, SET):
        head = raw[at]
        at += 1
        count, item = head >> 4, head & 0x0F
        if count == 15:
            count, at = _varint(raw, at)
        values = []
        for _ in range(count):
            value, at = _read(raw, at, item)
            values.append(value)
        return (item, values), at
    if kind == STRUCT:
        return read_struct(raw, at)
    raise ValueError(f"no such type: {kind}")


def written(fields: Struct) -> bytes:
    """Write a struct; numbers of any size are written as they are."""
    out = bytearray()
    before = 0
    for number, kind, value in fields:
        step = number - before
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _zigzag(number)
        if kind not in (TRUE, FALSE):
            out += _write(kind, value)
        before = number
    return bytes(out) + b"\x00"


def _zigzag(value: int) -> bytes:
    return _to_varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _write(kind: int, value: Any) -> bytes:
    if kind in WHOLE:
        return _zigzag(value)
    if kind in (TRUE, FALSE, BYTE):
        return bytes([value])
    if kind == DOUBLE:
        return bytes(value)
    if kind == BINARY:
        return _to_varint(len(value)) + value
    if kind == STRUCT:
        return written(value)
    item, values = value
    head = bytes([len(values) << 4 | item]) if len(values) < 15 else bytes([0xF0 | item]) + _to_varint(len(values))
    return head + b"".join(_write(item, each) for each in values)


def get(fields: Struct, number: int) -> Any:
    """The value of a field, None if it is not there."""
    return next((value for key, _, value in fields if key == number), None)


def put(fields: Struct, number: int, value: Any) -> None:
    """Change a field that is there."""
    for field in fields:
        if field[0] == number:
            field[2] = value


def fields_in(fields: Struct) -> list[list[Any]]:
    """Every field at any depth."""
    found: list[list[Any]] = []
    waiting = [fields]
    while waiting:
        for field in waiting.pop():
            found.append(field)
            _, kind, value = field
            if kind == STRUCT:
                waiting.append(value)
            elif kind in (LIST, SET) and value[0] == STRUCT:
                waiting.extend(value[1])
    return found
