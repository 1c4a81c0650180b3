"""Anchors: the places in recorded texts where a round of every draft length is timed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.traces.traces import Traces


@dataclass(frozen=True)
class Anchors:
    """Places where rounds start, A of them.

    Parameters
    ----------
    generation, category, cluster
        Of each anchor; empty where they are only numbered.
    position, context_len
        (A,) int64, position in the generation and tokens in context there; empty where they are only numbered.
    count
        A.
    """

    count: int
    generation: tuple[str, ...] = ()
    category: tuple[str | None, ...] = ()
    cluster: tuple[str, ...] = ()
    position: NDArray[np.int64] | None = None
    context_len: NDArray[np.int64] | None = None

    @property
    def clusters(self) -> int:
        """How many different clusters; 0 where anchors are only numbered."""
        return len(set(self.cluster))


@dataclass(frozen=True)
class Places:
    """All generations of some traces, and where a round of the longest draft fits into them.

    Parameters
    ----------
    generation, category, cluster
        Of each generation, G.
    starts
        (G,) int64, how many positions a round of the longest draft can start at.
    context_start
        (G,) int64, tokens in context at position 0.
    too_short
        Generations left out, since the longest draft fits nowhere.
    """

    generation: tuple[str, ...]
    category: tuple[str | None, ...]
    cluster: tuple[str, ...]
    starts: NDArray[np.int64]
    context_start: NDArray[np.int64]
    too_short: int


def places_of(traces: Iterable[Traces], longest: int) -> Places:
    """List where rounds of `longest` draft tokens can start without running past the end of a text.

    Raises
    ------
    InputError
        No generation is long enough.
    """
    generation: list[str] = []
    category: list[str | None] = []
    cluster: list[str] = []
    starts, context, too_short = [], [], 0
    for batch in traces:
        lengths = np.diff(batch.offsets)
        kinds = batch.category or (None,) * batch.generations
        for g, (name, kind, of) in enumerate(zip(batch.generation, kinds, batch.own_cluster_of, strict=True)):
            room = int(lengths[g]) - longest
            if room < 1:
                too_short += 1
                continue
            generation.append(name)
            category.append(kind)
            cluster.append(of)
            starts.append(room)
            context.append(int(batch.context_start[g]))
    if not generation:
        raise InputError(
            f"traces: none of {too_short} generations has more than {longest} positions, which a round of "
            f"k = {longest} needs; give longer texts or lower --k"
        )
    whole = np.array(starts, dtype=np.int64), np.array(context, dtype=np.int64)
    return Places(tuple(generation), tuple(category), tuple(cluster), *whole, too_short)


def draw_anchors(places: Places, count: int, seed: int) -> Anchors:
    """Draw anchors at random, spread evenly over categories, clusters, generations and positions.

    Equal shares go to the categories, inside each to its clusters, inside each of those to its generations (short
    texts get what they can hold). A generation's positions are cut into as many stretches as it has anchors, and one
    position is drawn from each, so that context lengths from first to last occur.

    Raises
    ------
    InputError
        More anchors than positions.
    """
    most = int(places.starts.sum())
    if count > most:
        raise InputError(
            f"{count} anchors are asked for, but the traces have {most} positions where a round can start; give more "
            "traces or fewer anchors"
        )
    rng = np.random.default_rng(seed)
    everything = np.arange(len(places.generation))
    shares = np.zeros(len(everything), dtype=np.int64)
    by_category = _shared(places, everything, [str(c) for c in places.category], count, rng)
    for members, of_category in by_category:
        by_cluster = _shared(places, members, [places.cluster[g] for g in members], of_category, rng)
        for generations, of_cluster in by_cluster:
            shares[generations] = equal_shares(of_cluster, places.starts[generations], rng)
    at = np.flatnonzero(shares)
    position = np.concatenate([_stretched(int(places.starts[g]), int(shares[g]), rng) for g in at])
    of = np.repeat(at, shares[at])
    mixed = rng.permutation(count)
    of, position = of[mixed], position[mixed]
    return Anchors(
        count,
        tuple(places.generation[g] for g in of),
        tuple(places.category[g] for g in of),
        tuple(places.cluster[g] for g in of),
        position,
        places.context_start[of] + position,
    )


def _shared(
    places: Places, members: NDArray[np.int64], labels: Sequence[str], total: int, rng: np.random.Generator
) -> list[tuple[NDArray[np.int64], int]]:
    """Group generations by label and share anchors out over the groups."""
    names = sorted(set(labels))
    groups = [members[[label == name for label in labels]] for name in names]
    room = np.array([places.starts[group].sum() for group in groups])
    return list(zip(groups, equal_shares(total, room, rng).tolist(), strict=True))


def equal_shares(total: int, room: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Share `total` out as equally as `room` allows; what is left over goes to a random few."""
    shares = np.zeros(len(room), dtype=np.int64)
    while total:
        free = np.flatnonzero(shares < room)
        each = total // len(free)
        if each:
            add = np.minimum(each, room[free] - shares[free])
        else:
            add = np.zeros(len(free), dtype=np.int64)
            add[rng.permutation(len(free))[:total]] = 1
        shares[free] += add
        total -= int(add.sum())
    return shares


def _stretched(room: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw one position from each of `count` equal stretches of 0 … room - 1; all different."""
    edges = np.arange(count + 1) * room // count
    return np.asarray(rng.integers(edges[:-1], edges[1:]), dtype=np.int64)
