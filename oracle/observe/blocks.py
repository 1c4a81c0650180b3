"""Blocks of a prefix cache: every full block of a text, named by what it holds and all that stands before it."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.observe.tokens import Tokens

Names = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class TextBlocks:
    """Blocks of one request.

    Attributes
    ----------
    names : (n,) uint64
        64 bits of BLAKE2b each: among a hundred million blocks two are confused with a probability of 3e-4.
    searched
        Those that are looked for when the request arrives: the last token of a prompt is always computed.
    prompt
        Those that the prompt fills.
    """

    names: Names
    searched: int
    prompt: int


def text_blocks(prompt: Tokens, output: Tokens, size: int, salt: str = "") -> TextBlocks:
    """Cut a text into blocks; the last token emitted is never fed back, so it is in no block.

    Parameters
    ----------
    size
        Tokens of a block.
    salt
        Texts with different salts share nothing.
    """
    P, T = len(prompt), len(prompt) + len(output)
    count = max(P, T - 1) // size
    text = np.concatenate([prompt, output])[: count * size].tobytes()
    parent = hashlib.blake2b(salt.encode("utf-8"), digest_size=8).digest()
    names = []
    for start in range(0, 8 * count * size, 8 * size):
        parent = hashlib.blake2b(parent + text[start : start + 8 * size], digest_size=8).digest()
        names.append(parent)
    return TextBlocks(np.frombuffer(b"".join(names), np.uint64), max(P - 1, 0) // size, P // size)
