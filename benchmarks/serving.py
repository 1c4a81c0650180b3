"""Contests of the serving kernels: experts of batches, prefix caches, prompt lookup and what follows from it."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.problem import aligned

from . import needs, serving_rivals, twin
from .contests import Bout, Contest, Rival
from .inputs import USUAL, routing_ids
from .texts import Requests, requests_of, text_of

GROUP = "serving"
BATCH = 64  # the largest
GROUPS = 16  # of windows, each left out once
_ROWS = 4  # of a window: k = 3
_WINDOWS = 2048
_TEXT = 4096  # tokens
_SHORTEST, _LONGEST, _DEPTH = 1, 3, 8  # n-grams and draft length of the prompt lookup
_CAPACITY = 4096  # blocks of the cache that a rival simulates


def contests(generations: int, slow_generations: int) -> Iterator[Contest]:
    """All of them; rivals in Python get `slow_generations` texts at most, and the same share of the paths."""
    yield _masks(Batches(generations, 1))
    for groups in (1, GROUPS):
        yield _unions(Batches(generations, groups), Batches(slow_generations, groups))
    yield _stack(requests_of(64 * generations))
    texts = [text_of(np.random.default_rng(g), _TEXT) for g in range(max(1, generations // 8))]
    yield _lookup(texts, texts[: max(1, slow_generations // 16)])
    at_risk, matched = _anchors(max(_TEXT, 512 * generations))
    yield _rounds(at_risk, matched)
    yield _matches(matched)


class Batches:
    """The arguments of the kernels of `kernels.batch_union`, allocated once."""

    def __init__(self, paths: int, groups: int) -> None:
        rng = np.random.default_rng(9)
        self.ids = routing_ids(rng, USUAL, _WINDOWS, _ROWS).reshape(_WINDOWS, _ROWS, USUAL.layers, USUAL.top_k)
        self.experts = frozen(self.ids.reshape(_WINDOWS, _ROWS, -1))
        self._chosen = frozen(np.arange(_WINDOWS, dtype=np.int32))
        width = -(-USUAL.num_experts // 64) * USUAL.layers
        self._made = aligned((_WINDOWS, width), np.uint64)
        self.paths = frozen(rng.integers(0, _WINDOWS, (paths, BATCH)).astype(np.int32))
        self.group = frozen(rng.integers(0, groups, _WINDOWS).astype(np.int32))
        self.left_out = range(groups) if groups > 1 else range(0)
        self.sums, self.reached = np.empty((2, 1 + len(self.left_out), BATCH), np.int64)
        self._joined = np.empty((1 + len(self.left_out), width), np.uint64)
        self.make()

    @property
    def joined(self) -> int:
        """How many windows join a batch."""
        return self.paths.size

    @property
    def masks(self) -> NDArray[np.uint64]:
        """Of all windows, (W, words * layers)."""
        return frozen(self._made)

    def make(self) -> None:
        """Make the masks of all windows."""
        from kernels.batch_union import window_masks  # noqa: PLC0415

        window_masks(self.experts, self._chosen, _ROWS, (0,) * USUAL.top_k, self._made)

    def make_in_numpy(self) -> NDArray[np.uint64]:
        """Do the same in NumPy."""
        return serving_rivals.bit_masks(self.ids, USUAL.num_experts)

    def run(self) -> None:
        """Join the windows along the paths."""
        from kernels.batch_union import batch_unions  # noqa: PLC0415

        self.sums[:], self.reached[:] = 0, 0
        batch_unions(self.masks, self.paths, self.group, self._joined, self.sums, self.reached)

    def in_numpy(self) -> NDArray[np.int64]:
        """Do the same in NumPy."""
        return serving_rivals.batch_unions(self.masks, self.paths, self.group, self.left_out)


def _masks(batches: Batches) -> Contest:
    def check() -> None:
        batches.make()
        np.testing.assert_array_equal(batches.make_in_numpy(), batches.masks)

    theirs = {"NumPy": Rival(batches.make_in_numpy, check)}
    built = twin.build()
    absent = {} if isinstance(built, twin.Twin) else {twin.NAME: built}
    if isinstance(built, twin.Twin):
        in_cpp = aligned(batches.masks.shape, np.uint64)

        def run() -> None:
            built.window_masks(batches.experts, USUAL, in_cpp)

        def check_twin() -> None:
            batches.make()
            run()
            np.testing.assert_array_equal(in_cpp, batches.masks)

        theirs[twin.NAME] = Rival(run, check_twin, f"{built.compiler}, same numbers")
    return Contest(
        name="window_masks",
        what=f"masks of the experts of {_ROWS} rows of {USUAL}",
        needs=needs.window_masks(USUAL, _ROWS),
        bouts=(Bout(_WINDOWS, batches.make, theirs),),
        absent=absent,
        of="window",
    )


def _unions(whole: Batches, few: Batches) -> Contest:
    def check() -> None:
        few.run()
        np.testing.assert_array_equal(few.in_numpy(), few.sums)

    bouts = [Bout(few.joined, few.run, {"NumPy": Rival(few.in_numpy, check)})]
    built = twin.build()
    absent = {} if isinstance(built, twin.Twin) else {twin.NAME: built}
    theirs = {}
    if isinstance(built, twin.Twin):
        sums, reached = np.empty_like(whole.sums), np.empty_like(whole.reached)

        def run() -> None:
            built.batch_unions(whole.masks, whole.paths, whole.group, sums, reached)

        def check_twin() -> None:
            whole.run()
            run()
            np.testing.assert_array_equal(sums, whole.sums)
            np.testing.assert_array_equal(reached, whole.reached)

        theirs[twin.NAME] = Rival(run, check_twin, f"{built.compiler}, same numbers")
    groups = len(whole.left_out)
    return Contest(
        name="batch_unions" + (f", {groups} left out" if groups else ""),
        what=f"windows of {USUAL} join batches of up to {BATCH}",
        needs=needs.batch_unions(USUAL, 1 + groups),
        bouts=(Bout(whole.joined, whole.run, theirs), *bouts),
        absent=absent,
        of="window",
        note="from masks made before",
    )


def _stack(log: Requests) -> Contest:
    from kernels.prefix_stack import stack_positions  # noqa: PLC0415

    position = np.empty(len(log.block), np.int64)
    block, first, request, looks = (a.tolist() for a in (log.block, log.first, log.request, log.looks))

    def ours() -> None:
        stack_positions(log.block, log.first, log.request, log.blocks, log.looks, position)

    def theirs() -> list[bool]:
        return serving_rivals.lru_cache(block, first, request, looks, _CAPACITY)

    def check() -> None:
        ours()
        np.testing.assert_array_equal(theirs(), (position >= 1) & (position <= _CAPACITY))

    rivals = {"an LRU cache in Python": Rival(theirs, check, f"one capacity, {_CAPACITY:,} blocks; ours gives all")}
    built = twin.build()
    absent = {} if isinstance(built, twin.Twin) else {twin.NAME: built}
    if isinstance(built, twin.Twin):
        in_cpp = np.empty_like(position)

        def run() -> None:
            built.stack_positions(log, in_cpp)

        def check_twin() -> None:
            ours()
            run()
            np.testing.assert_array_equal(in_cpp, position)

        rivals[twin.NAME] = Rival(run, check_twin, f"{built.compiler}, same numbers")
    return Contest(
        name="stack_positions",
        what="blocks of requests that share prefixes, looked for and used once each",
        needs=needs.stack_positions(len(log.block)),
        bouts=(Bout(len(log.block), ours, rivals),),
        absent=absent,
        of="block",
    )


def _lookup(texts: list[NDArray[np.int64]], few: list[NDArray[np.int64]]) -> Contest:
    from kernels.prompt_lookup import look_up  # noqa: PLC0415

    at_risk, matched = np.empty((2, _TEXT - 1), np.int16)
    how = _SHORTEST, _LONGEST, _DEPTH
    lists = [text.tolist() for text in few]

    def through(some: list[NDArray[np.int64]]) -> None:
        for text in some:
            look_up(text, 1, *how, at_risk[: len(text) - 1], matched[: len(text) - 1])

    ways = {
        "Python dictionary": lambda: [serving_rivals.look_up_in_python(text, *how) for text in lists],
        "NumPy": lambda: [serving_rivals.look_up_in_numpy(text, *how) for text in few],
    }

    def check(way: str) -> None:
        for text, found in zip(few, ways[way](), strict=True):
            through([text])
            np.testing.assert_array_equal(found, [at_risk[: len(text) - 1], matched[: len(text) - 1]])

    notes = {"Python dictionary": "n-grams as tuples", "NumPy": "compares with all before"}
    rivals = {name: Rival(way, partial(check, name), notes[name]) for name, way in ways.items()}
    return Contest(
        name="look_up",
        what=f"prompt lookup in texts of {_TEXT:,} tokens, n = {_SHORTEST} … {_LONGEST}",
        needs=needs.look_up(_SHORTEST, _LONGEST),
        bouts=(
            Bout(sum(map(len, texts)), lambda: through(texts)),
            Bout(sum(map(len, few)), lambda: through(few), rivals),
        ),
        of="token",
    )


def _anchors(tokens: int) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """What a prompt lookup proposes and matches at the anchors of one text, (tokens - 1,) each."""
    from kernels.prompt_lookup import look_up  # noqa: PLC0415

    at_risk, matched = np.empty((2, tokens - 1), np.int16)
    text = text_of(np.random.default_rng(1), tokens)
    look_up(text, 1, _SHORTEST, _LONGEST, _DEPTH, at_risk, matched)
    return frozen(at_risk), frozen(matched)


def _rounds(at_risk: NDArray[np.int16], matched: NDArray[np.int16]) -> Contest:
    from kernels.lookup_rounds import count_rounds  # noqa: PLC0415

    n = len(matched)
    by_depth, totals = np.zeros((2, _DEPTH), np.int64), np.zeros(3, np.int64)
    lists = at_risk.tolist(), matched.tolist()

    def ours() -> None:
        by_depth[:], totals[:] = 0, 0
        count_rounds(at_risk, matched, _DEPTH, False, by_depth, totals)

    def theirs() -> tuple[list[list[int]], list[int]]:
        return serving_rivals.count_rounds_in_python(*lists, _DEPTH)

    def check() -> None:
        ours()
        for found, expected in zip(theirs(), (by_depth, totals), strict=True):
            np.testing.assert_array_equal(found, expected)

    ours()
    return Contest(
        name="count_rounds",
        what=f"rounds of a prompt lookup, K = {_DEPTH}",
        needs=needs.count_rounds(totals[0] / n, by_depth[0].sum() / n),
        bouts=(Bout(n, ours, {"plain Python": Rival(theirs, check)}),),
        of="token",
    )


def _matches(matched: NDArray[np.int16]) -> Contest:
    from kernels.lookup_rounds import count_matches  # noqa: PLC0415

    pairs = np.zeros(6, np.int64)

    def ours() -> None:
        pairs[:] = 0
        count_matches(matched, pairs)

    def theirs() -> list[int]:
        return serving_rivals.count_matches_in_numpy(matched)

    def check() -> None:
        ours()
        np.testing.assert_array_equal(theirs(), pairs)

    return Contest(
        name="count_matches",
        what="how matches of neighbouring anchors follow one another",
        needs=needs.count_matches(),
        bouts=(Bout(len(matched), ours, {"NumPy": Rival(theirs, check)}),),
        of="token",
    )
