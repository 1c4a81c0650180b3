"""Unique experts that a batch touches: the union over requests that verify together, for growing batches.

A path is an order of windows. Its first B windows are a batch of size B, so one pass over a path gives the union of
every batch size. With M_b the bit masks (one bit an expert, one row of words a layer) of window b,

    mask_B = M_1 | M_2 | … | M_B,     size_B = |mask_B|

Windows belong to groups, and the same pass is made once more without the windows of each group: what the jackknife
needs.

Bytes and operations a window: rows · layers · top_k ids read, (groups + 1) · words · layers word operations.
"""

import numpy as np
from numba import njit, uint64

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_4 = np.uint64(4)
_6 = np.uint64(6)
_56 = np.uint64(56)
_63 = np.uint64(63)
_PAIRS = np.uint64(0x5555555555555555)
_NIBBLES = np.uint64(0x3333333333333333)
_BYTES = np.uint64(0x0F0F0F0F0F0F0F0F)
_SUM = np.uint64(0x0101010101010101)


@njit(inline="always")
def _popcount(x):
    # LLVM recognises this form and emits the machine's own population count, eight words at a time where it can.
    x = x - ((x >> _1) & _PAIRS)
    x = (x & _NIBBLES) + ((x >> _2) & _NIBBLES)
    x = (x + (x >> _4)) & _BYTES
    return (x * _SUM) >> _56


@njit(cache=True, nogil=True)
def batch_unions(experts, top_k, rows, paths, group, row, masks, sums, reached):
    """Sum the experts of the batches of many paths, with all windows and without each group.

    Parameters
    ----------
    experts : (W, R >= rows, layers * top_k) uint8 or uint16
        Expert ids of each window in C order (layer, slot), each below 64 * words.
    top_k : int
    rows : int
        Rows of a window that count: k + 1.
    paths : (S, L) int32
        Windows in the order in which they join the batch.
    group : (W,) int32
        Group of each window, 0 … C - 1.
    row : (words * layers,) uint64, scratch
    masks : (C + 1, words * layers) uint64, scratch
    sums : (C + 1, B) int64, out
        sums[0, b]: experts, summed over layers and paths, of the first b + 1 windows; sums[1 + g, b]: of the first
        b + 1 windows that are not of group g.
    reached : (C + 1, B) int64, out
        Paths that were long enough for it.
    """
    most = sums.shape[1]
    variants = masks.shape[0]
    layers = experts.shape[2] // top_k
    size = np.zeros(variants, np.int64)
    count = np.zeros(variants, np.int64)
    sums[:] = 0
    reached[:] = 0
    for s in range(paths.shape[0]):
        masks[:] = _0
        size[:] = 0
        count[:] = 0
        full = 0
        for step in range(paths.shape[1]):
            if full == variants:
                break
            w = paths[s, step]
            row[:] = _0
            for r in range(rows):
                for layer in range(layers):
                    for slot in range(top_k):
                        e = uint64(experts[w, r, layer * top_k + slot])
                        row[(e >> _6) * uint64(layers) + uint64(layer)] |= _1 << (e & _63)
            for v in range(variants):
                if size[v] == most or v == group[w] + 1:
                    continue
                mask = masks[v]
                gained = _0
                for x in range(mask.shape[0]):
                    gained += _popcount(row[x] & ~mask[x])
                    mask[x] |= row[x]
                count[v] += np.int64(gained)
                sums[v, size[v]] += count[v]
                reached[v, size[v]] += 1
                size[v] += 1
                if size[v] == most:
                    full += 1
