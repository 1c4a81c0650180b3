"""The order of a sweep: random and interleaved, so that drift cannot be mistaken for an effect of K."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.latency.moments import Integers


@dataclass(frozen=True)
class Order:
    """Rounds in the order in which they are to be timed, all (N,) int64.

    Parameters
    ----------
    draft_length, anchor
        k, and the index of the anchor.
    block, repeat
        Running number of the block (anchors that are timed together), and which time this (k, anchor) is timed.
    """

    draft_length: Integers
    anchor: Integers
    block: Integers
    repeat: Integers


@dataclass(frozen=True)
class Balance:
    """Whether the order can be mistaken for an effect of K.

    Parameters
    ----------
    correlation
        Between draft length and place in the order; 0 where there is only one draft length.
    by_chance
        Standard deviation of that correlation if all rounds were shuffled together.
    mean_place
        k -> mean place of its rounds, from 0 (first) to 1 (last).
    closest_repeats
        Fewest rounds between two repeats of the same k and anchor; None without repeats.
    """

    correlation: float
    by_chance: float
    mean_place: dict[int, float]
    closest_repeats: int | None


def interleaved(ks: Sequence[int], anchors: int, repeats: int, anchors_a_block: int, seed: int) -> Order:
    """Lay rounds out in blocks in which every k occurs once per anchor, in random order.

    Each repeat goes through all blocks in a new random order, the blocks of one half of the run staying in that half:
    two repeats of a round are then at least half a pass apart.
    """
    rng = np.random.default_rng(seed)
    mixed = rng.permutation(anchors)
    groups = [mixed[start : start + anchors_a_block] for start in range(0, anchors, anchors_a_block)]
    half = len(groups) // 2
    sequence = rng.permutation(len(groups))
    lengths = np.asarray(ks, dtype=np.int64)
    parts: list[tuple[Integers, Integers, int, int]] = []
    for repeat in range(repeats):
        if repeat:
            sequence = np.concatenate([rng.permutation(sequence[:half]), rng.permutation(sequence[half:])])
        for group in sequence:
            members = groups[group]
            shuffled = rng.permutation(len(members) * len(lengths))
            block_k, block_anchor = lengths[shuffled % len(lengths)], members[shuffled // len(lengths)]
            parts.append((block_k, block_anchor, len(parts), repeat))
    sizes = np.array([len(part[0]) for part in parts])
    return Order(
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.repeat([part[2] for part in parts], sizes),
        np.repeat([part[3] for part in parts], sizes),
    )


def balance_of(order: Order) -> Balance:
    """Check the order."""
    place = np.arange(len(order.draft_length), dtype=np.float64)
    k = order.draft_length.astype(np.float64)
    varied = len(place) > 1 and k.std() > 0
    correlation = float(np.corrcoef(k, place)[0, 1]) if varied else 0.0
    last = max(len(place) - 1, 1)
    mean_place = {
        int(one): float(place[order.draft_length == one].mean()) / last for one in np.unique(order.draft_length)
    }
    return Balance(correlation, 1 / np.sqrt(max(len(place) - 1, 1)), mean_place, _closest(order))


def _closest(order: Order) -> int | None:
    """Fewest rounds between two that share k and anchor."""
    key = order.anchor * (int(order.draft_length.max()) + 1) + order.draft_length
    by_key = np.argsort(key, kind="stable")
    same: NDArray[np.bool_] = np.diff(key[by_key]) == 0
    return int(np.diff(by_key)[same].min()) if same.any() else None
