"""How much of the prompts an engine's prefix cache would hold when they come, for every capacity at once.

Blocks are used when their request arrives (engines name a block as soon as they plan to fill it) and, with those that
its output fills, when it ends; each time from the last block to the first, so that the end of a text is evicted before
its begin. A variant counts blocks of a prompt as there only from its first token on.

Not modelled: blocks of running requests cannot be evicted in an engine, and take room; several replicas split the
traffic between several caches.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.prefix_stack import stack_positions
from oracle.columns import frozen
from oracle.observe.gathered import Gathered

Whole = NDArray[np.int64]
_MOST_CAPACITIES = 14


@dataclass(frozen=True, eq=False)
class PrefixSharing:
    """Where the blocks looked for stood.

    Attributes
    ----------
    owner : (n,) int64
        Request of each block looked for.
    position : (n,) int64
        In the stack of an LRU cache, from 1 on; 0 where it was never there.
    delayed : (n,) int64, or None
        The same if blocks of a prompt are there only from its first token on; None where that is not logged.
    distinct
        Different blocks.
    block_size
    requests
    """

    owner: Whole
    position: Whole
    delayed: Whole | None
    distinct: int
    block_size: int
    requests: int

    def hit_tokens(self, capacity: int | None, *, delayed: bool = False) -> Whole:
        """Tokens of each prompt found in a cache of that many blocks, None being without limit: (R,) int64."""
        position = self.delayed if delayed else self.position
        assert position is not None
        found = position > 0 if capacity is None else (position > 0) & (position <= capacity)
        return self.block_size * np.bincount(self.owner[found], minlength=self.requests)

    def capacities(self) -> list[int]:
        """Capacities to show, in blocks: powers of two up to the first at which nothing found is ever evicted."""
        deepest = max(int(each.max(initial=1)) for each in (self.position, self.delayed) if each is not None)
        top = max(deepest - 1, 1).bit_length()
        return [2**i for i in range(max(0, top - _MOST_CAPACITIES + 1), top + 1)]


def prefix_sharing(log: Gathered) -> PrefixSharing:
    """Walk through a log as its requests came and ended."""
    names, numbers = np.unique(log.blocks, return_inverse=True)
    block = frozen(numbers.astype(np.int32))
    count = np.diff(log.first)
    start = np.cumsum(log.searched) - log.searched
    within = np.arange(log.searched.sum()) - np.repeat(start, log.searched)
    looked = np.repeat(log.first[:-1], log.searched) + within
    timed = bool(np.isfinite(log.first_token).all())
    position = {}
    for kind, filled in (("at once", log.arrival), *((("delayed", log.first_token),) if timed else ())):
        out = np.zeros(len(block), np.int64)
        stack_positions(block, log.first, *_events(log, filled, count), out)
        position[kind] = frozen(out[looked])
    owner = np.repeat(np.arange(log.requests), log.searched)
    return PrefixSharing(
        frozen(owner),
        position["at once"],
        position.get("delayed"),
        len(names),
        log.settings.block_size,
        log.requests,
    )


def _events(log: Gathered, filled: NDArray[np.float64], count: Whole) -> tuple[Whole, Whole, NDArray[np.bool_]]:
    """Events in order of time; at one moment what ends comes before what arrives, and a request looks before it uses.

    Returns
    -------
    request, blocks, looks : arrays of shape (3R,)
    """
    R = log.requests
    request = np.tile(np.arange(R), 3)
    time = np.concatenate([log.arrival, filled, log.end])
    step = np.repeat([0, 1, 2], R)  # looks, uses its prompt, uses everything
    own = time == np.tile(log.arrival, 3)
    order = np.lexsort((step, request, own, time))
    blocks = np.concatenate([log.searched, log.prompt_blocks, count])
    return frozen(request[order]), frozen(blocks[order]), frozen((step == 0)[order])
