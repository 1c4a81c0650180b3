"""Unique experts of every window of positions, from routing ids, in one pass.

A generation keeps a ring of bit masks, one bit an expert and one row of words a layer. For position i the masks
of i - 1, i - 2, …, i - K are peeled off its own, one after the other: the bits left after j of them are the
experts of i that are new to a window starting at i - j. Their counts are all a solve needs:

    U(t, k) = (1 / layers) · Σ_{j=0..k} new_experts[t + j, j]

Bytes and operations a position: layers · top_k ids read, (K + 1) counts written; layers · words · (top_k + K)
word operations, where words = ⌈num_experts / 64⌉.
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
def _set_bits(ids, top_k, layers, words, mask):
    """Set the bit of every id of one position; two words at a time, so that an id is fetched once for both."""
    if words > _FEW_WORDS:
        mask[:] = _0
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
            mask[w * layers + layer] = low
            mask[w * layers + layers + layer] = high
    if words & _1:
        w = words - _1
        for layer in range(layers):
            bits = _0
            for slot in range(top_k):
                e = uint64(ids[layer * top_k + slot]) - w * _64
                bits |= (_1 << e) if e < _64 else _0
            mask[w * layers + layer] = bits


@njit(inline="always")
def _peel_four(left, one, two, three, four):
    """Peel four masks off what is left, which is so fetched and stored once for all; the bits left after each."""
    after_one, after_two, after_three, after_four = _0, _0, _0, _0
    for x in range(left.shape[0]):
        bits = left[x] & ~one[x]
        after_one += _popcount(bits)
        bits &= ~two[x]
        after_two += _popcount(bits)
        bits &= ~three[x]
        after_three += _popcount(bits)
        bits &= ~four[x]
        after_four += _popcount(bits)
        left[x] = bits
    return after_one, after_two, after_three, after_four


@njit(cache=True, nogil=True)
def new_experts(experts, offsets, slots, masks, left, new):
    """Count the experts that each position adds to the windows that contain it.

    Parameters
    ----------
    experts : (N, layers * top_k) uint8 or uint16
        Expert ids in C order (layer, slot), each below 64 * words.
    offsets : (G + 1,) int64
        First position of each generation; the last entry is N.
    slots : tuple of top_k zeros
        Only its length counts. As part of the type it is known when the kernel is compiled: the loop over the
        slots unrolls and the one over the layers vectorises (70 ns a position of 48 x 8 ids against 270 ns).
    masks : (K + 1, words * layers) uint64, scratch
    left : (words * layers,) uint64, scratch
    new : (N, K + 1) uint16, out
        new[i, j]: experts of row i, summed over layers, in none of the rows i - j … i - 1; 0 where the
        generation begins after i - j.
    """
    top_k = uintp(len(slots))
    layers = uintp(experts.shape[1]) // top_k
    words = uintp(masks.shape[1]) // layers
    ring = masks.shape[0]
    K = new.shape[1] - 1
    for g in range(offsets.shape[0] - 1):
        first = offsets[g]
        for i in range(first, offsets[g + 1]):
            at = i - first
            mask = masks[at % ring]
            _set_bits(experts[i], top_k, layers, words, mask)
            count = _0
            for x in range(mask.shape[0]):
                left[x] = mask[x]
                count += _popcount(mask[x])
            new[i, 0] = count
            deepest = min(K, at)
            j = 1
            while j + 3 <= deepest:
                counts = _peel_four(
                    left,
                    masks[(at - j) % ring],
                    masks[(at - j - 1) % ring],
                    masks[(at - j - 2) % ring],
                    masks[(at - j - 3) % ring],
                )
                new[i, j], new[i, j + 1], new[i, j + 2], new[i, j + 3] = counts
                j += 4
            while j <= deepest:
                earlier = masks[(at - j) % ring]
                count = _0
                for x in range(left.shape[0]):
                    bits = left[x] & ~earlier[x]
                    left[x] = bits
                    count += _popcount(bits)
                new[i, j] = count
                j += 1
            for j in range(deepest + 1, K + 1):
                new[i, j] = 0


@njit(cache=True, nogil=True)
def unique_experts(new, offsets, layers, unique):
    """Unique experts per layer of every window, from the counts of `new_experts`.

    Rows past the end of a generation add no known experts.

    Parameters
    ----------
    new : (N, K' >= K + 1) uint16
        Counts as `new_experts` gives them; cells that reach back before the generation are ignored.
    offsets : (G + 1,) int64
        First position of each generation; the last entry is N.
    layers : float
        MoE layers the counts are summed over.
    unique : (N, K + 1) float64, out
        unique[t, k] = U(t, k), the mean over layers of the experts that rows t … t + k touch.
    """
    for g in range(offsets.shape[0] - 1):
        end = offsets[g + 1]
        for t in range(offsets[g], end):
            total = 0
            for k in range(unique.shape[1]):
                if t + k < end:
                    total += new[t + k, k]
                unique[t, k] = total / layers
