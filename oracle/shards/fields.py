"""Frozen dataclasses as a table and back, bit for bit: one row a batch, a list column an array.

Arrays and names go into the table, tables of rows are left out, and everything else is said as JSON values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa

_Result = TypeVar("_Result")


def table_of(result: Any, generation: Sequence[str]) -> pa.Table:
    """Lay the arrays and names of a batch's result out, beside the names of its generations."""
    columns = {"generation": _texts(generation)}
    for place, kind, value in _leaves(result, type(result), ""):
        if get_origin(kind) is np.ndarray:
            columns[place] = pa.array([np.ascontiguousarray(value, np.float64).reshape(-1)], pa.list_(pa.float64()))
        elif kind == tuple[str, ...]:
            columns[place] = _texts(value)
    return pa.table(columns)


def said_of(result: Any) -> dict[str, Any]:
    """What the table does not hold, as JSON values."""
    said: dict[str, Any] = {}
    for place, kind, value in _leaves(result, type(result), ""):
        if get_origin(kind) is np.ndarray:
            said[place] = list(value.shape)
        elif kind != tuple[str, ...]:
            said[place] = list(value) if isinstance(value, tuple) else value
    return said


def result_of(
    table: pa.Table, said: Mapping[str, Any], kind: type[_Result], prefix: str = ""
) -> tuple[_Result, tuple[str, ...]]:
    """Give back the result of that type that `table_of` and `said_of` describe, and the generations' names."""
    values: dict[str, Any] = {}
    for name, of in _kinds(kind):
        place = prefix + name
        if isinstance(of, type) and is_dataclass(of):
            values[name], _ = result_of(table, said, of, f"{place}.")
        elif get_origin(of) is np.ndarray:
            flat = table[place].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            values[name] = flat.reshape(said[place])
        elif of == tuple[str, ...]:
            values[name] = tuple(table[place][0].as_py())
        else:
            values[name] = tuple(said[place]) if isinstance(said[place], list) else said[place]
    return kind(**values), tuple(table["generation"][0].as_py())


def _leaves(result: Any, kind: type, prefix: str) -> Iterator[tuple[str, Any, Any]]:
    """Give place, type and value of every field that is no dataclass itself."""
    for name, of in _kinds(kind):
        value = getattr(result, name)
        if isinstance(of, type) and is_dataclass(of):
            yield from _leaves(value, of, f"{prefix}{name}.")
        else:
            yield prefix + name, of, value


def _kinds(kind: Any) -> Iterator[tuple[str, Any]]:
    """Give name and type of a dataclass's fields; tables of rows are not among them."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        if pa.Table not in get_args(hints[field.name]):
            yield field.name, hints[field.name]


def _texts(names: Sequence[str]) -> pa.Array:
    return pa.array([list(names)], pa.list_(pa.string()))
