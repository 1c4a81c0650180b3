"""JSON read strictly and written readably: what a hand-typed file may get wrong is said, all at once."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from oracle.errors import Faults, InputError, printable

DEEPEST = 32
_STRING = re.compile(r'"[^"\\]*(?:\\(?:.|\Z)[^"\\]*)*(?:"|\Z)', re.DOTALL)  # to the end where none closes it
_NO_BRACKETS = re.compile(r"[^\[\]{}]+")
LONGEST = 64 << 20  # characters; a model with the covariance of hundreds of m is far below


def read_strictly(text: str, source: str) -> Any:
    """Parse JSON; refuse what other readers silently bend.

    Raises
    ------
    InputError
        Not JSON (with line and column), NaN or Infinity, a number beyond float64, a key given twice, nesting deeper
        than 32, or a file of more than 64 Mi characters.
    """
    if len(text) > LONGEST:
        raise InputError(
            f"{source}: {len(text)} characters of JSON; at most {LONGEST} are read; is this the right file?"
        )
    deepest = _depth(text)
    if deepest > DEEPEST:
        raise InputError(f"{source}: JSON nested {deepest} deep; at most {DEEPEST} levels are read; flatten it")
    faults = Faults()

    def constant(literal: str) -> float:
        faults.add(f"{source}: {literal} is not a JSON number; write a finite number or null")
        return math.nan

    def number(literal: str) -> float:
        value = float(literal)
        if math.isinf(value):
            faults.add(
                f"{source}: {printable(literal, 40)} is beyond the largest number (1.8e308); write a smaller one"
            )
        return value

    def whole(literal: str) -> int:
        if len(literal) > 20:
            faults.add(f"{source}: {printable(literal, 40)} has {len(literal)} digits; write a smaller number")
            return 0
        return int(literal)

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in items:
            if key in seen:
                faults.add(f"{source}: the key {printable(key)!r} is given twice; keep one")
            seen[key] = value
        return seen

    try:
        value = json.loads(text, parse_constant=constant, parse_float=number, parse_int=whole, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source}, line {error.lineno}, column {error.colno}: not JSON ({error.msg}); mend it there"
        ) from error
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        faults.add(f"{source}: a text holds half of a surrogate pair (\\ud800 … \\udfff); write whole characters")
    faults.raise_if_any()
    return value


def _depth(text: str) -> int:
    """Deepest nesting of brackets outside strings."""
    depth = deepest = 0
    for c in _NO_BRACKETS.sub("", _STRING.sub("", text)):
        if c in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif c in "]}":
            depth -= 1
    return deepest


def write_readably(value: Any, indent: int = 0) -> str:
    """Write JSON with one key a line and a list of scalars on one line; floats round-trip, the order of keys stays.

    Raises
    ------
    ValueError
        A number is not finite: JSON has none.
    """
    inner = " " * (indent + 2)
    if isinstance(value, Mapping):
        if not value:
            return "{}"
        lines = [f"{inner}{json.dumps(str(key))}: {write_readably(item, indent + 2)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not any(isinstance(item, Mapping | list | tuple) for item in value):
            return "[" + ", ".join(json.dumps(item, allow_nan=False, ensure_ascii=False) for item in value) + "]"
        return (
            "[\n" + ",\n".join(inner + write_readably(item, indent + 2) for item in value) + "\n" + " " * indent + "]"
        )
    return json.dumps(value, allow_nan=False, ensure_ascii=False)
