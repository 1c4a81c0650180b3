"""Synthetic requests: texts that copy from themselves, and prompts that share prefixes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen

_BLOCKS = 32  # of a request
_SHARED = 16  # first ones of them, the same for all requests of a tenant
_TENANTS = 50
_VOCABULARY = 2_000
_COPIED = 24  # tokens of a span


def text_of(rng: np.random.Generator, tokens: int) -> NDArray[np.int64]:
    """Token ids of which about half are spans copied from further up."""
    text = np.minimum(rng.zipf(1.3, tokens), _VOCABULARY).astype(np.int64)
    for start in range(2 * _COPIED, tokens - _COPIED, 2 * _COPIED):
        place = int(rng.integers(0, start - _COPIED))
        text[start : start + _COPIED] = text[place : place + _COPIED]
    return frozen(text)


@dataclass(frozen=True)
class Requests:
    """A log as `kernels.prefix_stack.stack_positions` takes it: each request looks for its blocks and then uses them.

    Attributes
    ----------
    block : (n,) int32
    first : (R + 1,) int64
    request, blocks : (2R,) int64
    looks : (2R,) bool
    """

    block: NDArray[np.int32]
    first: NDArray[np.int64]
    request: NDArray[np.int64]
    blocks: NDArray[np.int64]
    looks: NDArray[np.bool_]


def requests_of(requests: int) -> Requests:
    """Requests of a few tenants; every fourth one goes on with an earlier request of its tenant."""
    rng = np.random.default_rng(13)
    tenant = rng.integers(0, _TENANTS, requests)
    whose = np.arange(requests)
    for r in range(3, requests, 4):
        earlier = np.flatnonzero(tenant[max(0, r - 200) : r] == tenant[r]) + max(0, r - 200)
        whose[r] = whose[rng.choice(earlier)] if len(earlier) else r
    shared = tenant[:, None] * _SHARED + np.arange(_SHARED)
    own = _TENANTS * _SHARED + whose[:, None] * (_BLOCKS - _SHARED) + np.arange(_BLOCKS - _SHARED)
    _, block = np.unique(np.concatenate([shared, own], axis=1).reshape(-1), return_inverse=True)
    return Requests(
        block=frozen(block.reshape(-1).astype(np.int32)),
        first=frozen(np.arange(requests + 1, dtype=np.int64) * _BLOCKS),
        request=frozen(np.repeat(np.arange(requests), 2)),
        blocks=frozen(np.full(2 * requests, _BLOCKS)),
        looks=frozen(np.tile([True, False], requests)),
    )
