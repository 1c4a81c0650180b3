"""Unique experts that a batch touches: the union over requests that verify together, for growing batches.

A path is an order of windows. Its first B windows are a batch of size B, so one pass over a path gives the union of
every batch size. With M_b the bit masks (one bit an expert, one row of words a layer) of window b,

    mask_B = M_1 | M_2 | … | M_B,     size_B = |mask_B|

A window is in many paths, so its masks are made once, by `window_masks`, and joined by `batch_unions`. Windows belong
to groups, and the same pass is made once more without the windows of each group: what the jackknife needs.

Bytes and operations: of a window rows · layers · top_k ids read and as many bits set, words · layers words written;
each time one joins, words · layers words read and (groups + 1) · words · layers ors and population counts.
"""

import numpy as np
from numba import njit, uint64, uintp

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_4 = np.uint64(4)
_6 = np.uint64(6)
_56 = np.uint64(56)
_63 = np.uint64(63)
_64 = np.uint64(64)
_PAIRS = np.uint64(0x5555555555555555)
_NIBBLES = np.uint64(0x3333333333333333)
_BYTES = np.uint64(0x0F0F0F0F0F0F0F0F)
_SUM = np.uint64(0x0101010101010101)
_FEW_WORDS = 4  # up to here trying every id on every word, vectorised, beats setting one bit an id


@njit(inline="always")
def _popcount(x):
    # LLVM recognises this form and emits the machine's own population count, eight words at a time where it can.
    x = x - ((x >> _1) & _PAIRS)
    x = (x & _NIBBLES) + ((x >> _2) & _NIBBLES)
    x = (x + (x >> _4)) & _BYTES
    return (x * _SUM) >> _56


@njit(inline="always")
def _add_bits(ids, top_k, layers, words, mask):
    """Set the bit of every id of one row; two words at a time, so that an id is fetched once for both."""
    if words > _FEW_WORDS:
        for layer in range(layers):
            for slot in range(top_k):
                e = uint64(ids[layer * top_k + slot])
                mask[(e >> _6) * layers + layer] |= _1 << (e & _63)
        return
    for pair in range(words >> _1):
        w = pair + pair
        for layer in range(layers):
            low = _0
            high = _0
            for slot in range(top_k):
                # below a word's range the difference wraps round and is large, so one test serves
                e = uint64(ids[layer * top_k + slot]) - w * _64
                low |= (_1 << e) if e < _64 else _0
                e = e - _64
                high |= (_1 << e) if e < _64 else _0
            mask[w * layers + layer] |= low
            mask[w * layers + layers + layer] |= high
    if words & _1:
        w = words - _1
        for layer in range(layers):
            bits = _0
            for slot in range(top_k):
                e = uint64(ids[layer * top_k + slot]) - w * _64
                bits |= (_1 << e) if e < _64 else _0
            mask[w * layers + layer] |= bits


@njit(cache=True, nogil=True)
def window_masks(experts, chosen, rows, slots, masks):
    """Make the masks of the experts that some windows touch.

    Parameters
    ----------
    experts : (W, R >= rows, layers * top_k) uint8 or uint16
        Expert ids of each window in C order (layer, slot), each below 64 * words.
    chosen : (M,) int32
        Windows whose masks are made.
    rows : int
        Rows of a window that count: k + 1.
    slots : tuple of top_k zeros
        Only its length counts. As part of the type it is known when the kernel is compiled: the loop over the slots
        unrolls and the one over the layers vectorises.
    masks : (M, words * layers) uint64, out
        Bit e & 63 of word e >> 6 of a layer: whether one of the rows routes to expert e there.
    """
    top_k = uintp(len(slots))
    layers = uintp(experts.shape[2]) // top_k
    words = uintp(masks.shape[1]) // layers
    for i in range(chosen.shape[0]):
        mask = masks[i]
        mask[:] = _0
        for r in range(rows):
            _add_bits(experts[chosen[i], r], top_k, layers, words, mask)


@njit(cache=True, nogil=True)
def batch_unions(masks, paths, group, joined, sums, reached):
    """Count the experts of the batches of many paths, with all windows and without each group.

    Parameters
    ----------
    masks : (M, words * layers) uint64
        Of each window, as `window_masks` makes them.
    paths : (S, L) int32
        Windows, as rows of `masks`, in the order in which they join the batch.
    group : (M,) int32
        Group of each window, 0 … C - 1.
    joined : (C + 1, words * layers) uint64, scratch
    sums : (C + 1, B) int64, out
        sums[0, b]: experts, summed over layers and paths, of the first b + 1 windows; sums[1 + g, b]: of the first
        b + 1 windows that are not of group g; added to.
    reached : (C + 1, B) int64, out
        Paths that were long enough for it; added to.
    """
    most = sums.shape[1]
    variants = joined.shape[0]
    size = np.zeros(variants, np.int64)
    for s in range(paths.shape[0]):
        joined[:] = _0
        size[:] = 0
        full = 0
        for step in range(paths.shape[1]):
            if full == variants:
                break
            w = paths[s, step]
            mask = masks[w]
            for v in range(variants):
                if size[v] == most or v == group[w] + 1:
                    continue
                union = joined[v]
                count = _0
                for x in range(mask.shape[0]):
                    bits = union[x] | mask[x]
                    union[x] = bits
                    count += _popcount(bits)
                sums[v, size[v]] += np.int64(count)
                reached[v, size[v]] += 1
                size[v] += 1
                if size[v] == most:
                    full += 1
