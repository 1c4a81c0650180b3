"""Where every block of a prompt stands in the stack of an LRU prefix cache: one pass answers all capacities.

A cache of C blocks that evicts the least recently used one holds the C blocks that were used last, whatever C is. So
one stack, in order of last use, serves every C (Mattson and others, 1970): with

    position(b) = number of blocks whose last use is not earlier than b's,     0 if b was never used,

b is found if and only if 1 <= position(b) <= C. A request uses its blocks from the last to the first; hence a block
always stands below the block before it, and what is found of a prompt is a prefix of it.

Positions are counted with a binary indexed tree over the times of use: O(log uses) a block.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def stack_positions(block, first, request, blocks, looks, position):
    """Positions of the blocks that requests look for, as the stack stands then.

    Parameters
    ----------
    block : (n,) int32
        Number of each block, 0 … n - 1, request after request, each request's in order of the text.
    first : (R + 1,) int64
        Where each request's blocks begin.
    request : (E,) int64
        Whose each event is, in order of time.
    blocks : (E,) int64
        How many of its first blocks the event is about.
    looks : (E,) bool
        Whether they are looked for, or used.
    position : (n,) int64, out
        Of the blocks that are looked for; others are left as they were.
    """
    uses = 0
    for e in range(request.shape[0]):
        if not looks[e]:
            uses += blocks[e]
    tree = np.zeros(uses + 1, np.int64)
    last = np.zeros(block.shape[0], np.int64)
    time = 0
    held = 0
    for e in range(request.shape[0]):
        start = first[request[e]]
        if looks[e]:
            for i in range(start, start + blocks[e]):
                at = last[block[i]] - 1
                position[i] = 0
                if at >= 0:
                    older = 0
                    while at > 0:
                        older += tree[at]
                        at -= at & -at
                    position[i] = held - older
        else:
            for i in range(start + blocks[e] - 1, start - 1, -1):
                at = last[block[i]]
                if at == 0:
                    held += 1
                while 0 < at <= uses:
                    tree[at] -= 1
                    at += at & -at
                time += 1
                last[block[i]] = time
                at = time
                while at <= uses:
                    tree[at] += 1
                    at += at & -at
