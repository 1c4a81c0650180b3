"""Tokens of a text: the ids of the log, or words or bytes where it holds only text."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.errors import Faults, printable
from oracle.recorded_by.request import count_of, ids_of

Kind = Literal["ids", "words", "bytes", "counts"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Tokens = NDArray[np.int64]
_NAMES = {"prompt": "prompt_ids", "output": "output_ids"}


@dataclass(frozen=True, eq=False)
class Part:
    """The prompt or the output of a request.

    Attributes
    ----------
    tokens : (n,) int64
        None where only counted.
    count
        Its tokens, as the log counts them or, without a count, as they are.
    counted
        Whether the log counts them.
    """

    tokens: Tokens | None
    count: int
    counted: bool


def part_of(tree: Mapping[str, Any], of: str, kind: Kind, place: str, faults: Faults) -> Part:
    """Read the prompt or the output of a request.

    Parameters
    ----------
    of
        `prompt` or `output`.
    kind
        What its tokens are: `ids` of the log, `words` between blanks, UTF-8 `bytes`, or `counts` only.
    """
    count = count_of(tree, f"{of}_tokens", place, faults)
    if kind == "counts":
        if count is None and tree.get(f"{of}_tokens") is None:
            faults.add(f"{place}: {of}_tokens is missing; --tokens counts needs it")
        return Part(None, count or 0, True)
    tokens = _ids(tree, of, count, place, faults) if kind == "ids" else _of_text(tree, of, kind, place, faults)
    if tokens is None:
        return Part(None, count or 0, count is not None)
    if kind == "ids" and count is not None and count != len(tokens):
        faults.add(
            f"{place}: {of}_tokens is {count}, but {_NAMES[of]} holds {len(tokens)}; take both from the same response, "
            "or leave the count out"
        )
    return Part(tokens, len(tokens) if count is None else count, count is not None)


def _ids(tree: Mapping[str, Any], of: str, count: int | None, place: str, faults: Faults) -> Tokens | None:
    value = tree.get(_NAMES[of])
    if value is None:
        if count == 0:
            return frozen(np.zeros(0, np.int64))
        has_text = tree.get(of) is not None
        way = f"take its text with --tokens words or --tokens bytes ({of} is there)" if has_text else "add them"
        faults.add(f"{place}: {_NAMES[of]} is missing; {way}, or use --tokens counts, which leaves texts out")
        return None
    ids = ids_of(value, _NAMES[of], place, faults)
    return None if ids is None else frozen(np.array(ids, np.int64))


def _of_text(tree: Mapping[str, Any], of: str, kind: Kind, place: str, faults: Faults) -> Tokens | None:
    text = tree.get(of)
    if not isinstance(text, str):
        found = "missing" if text is None else printable(repr(text), 40)
        faults.add(f"{place}: {of} is {found}; --tokens {kind} needs it as a text ('' if it is empty)")
        return None
    if kind == "bytes":
        return frozen(np.frombuffer(text.encode("utf-8"), np.uint8).astype(np.int64))
    digests = b"".join(hashlib.blake2b(word.encode("utf-8"), digest_size=8).digest() for word in text.split())
    return frozen(np.frombuffer(digests, np.int64))
