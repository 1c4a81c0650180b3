"""Contests of the window kernels: new experts from routing ids, and unique experts from those."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.problem import aligned

from . import needs, numpy_rivals, rivals, twin
from .contests import Bout, Contest, Rival
from .inputs import ROUTINGS, USUAL, K, Routing, offsets_of, routing_ids

GROUP = "windows"


class Windows:
    """The arguments of `kernels.windows`, allocated once."""

    def __init__(self, routing: Routing, generations: int) -> None:
        self.routing = routing
        self.offsets = offsets_of(generations)
        self.experts = routing_ids(np.random.default_rng(3), routing, generations)
        words = -(-routing.num_experts // 64)
        self._masks = aligned((K + 1, words * routing.layers), np.uint64)
        self._left = aligned((words * routing.layers,), np.uint64)
        self.new = np.zeros((self.positions, K + 1), dtype=np.uint16)
        self.unique = np.zeros((self.positions, K + 1))

    @property
    def positions(self) -> int:
        """N."""
        return int(self.offsets[-1])

    @property
    def ids(self) -> NDArray[Any]:
        """Expert ids (N, layers * top_k)."""
        return frozen(self.experts.reshape(self.positions, -1))

    def count(self) -> None:
        """Call `new_experts`."""
        from kernels.windows import new_experts  # noqa: PLC0415

        new_experts(self.ids, self.offsets, (0,) * self.routing.top_k, self._masks, self._left, self.new)

    def add_up(self) -> None:
        """Call `unique_experts`."""
        from kernels.windows import unique_experts  # noqa: PLC0415

        unique_experts(frozen(self.new), self.offsets, float(self.routing.layers), self.unique)

    def run(self) -> None:
        """Go from ids to U."""
        self.count()
        self.add_up()


def contests(generations: int) -> Iterator[Contest]:
    """Contests over every routing shape, then of the whole step against Python and NumPy."""
    for routing in ROUTINGS:
        fewer = max(1, generations * USUAL.id_bytes // routing.id_bytes)
        yield _counting(Windows(routing, fewer))
    windows = Windows(USUAL, generations)
    yield _adding_up(windows)
    yield _whole(windows)


def _adding_up(windows: Windows) -> Contest:
    windows.count()
    generations = len(windows.offsets) - 1

    def theirs() -> NDArray[np.float64]:
        return numpy_rivals.unique_experts(windows.new, generations, windows.routing.layers)

    def check() -> None:
        windows.add_up()
        np.testing.assert_array_equal(theirs(), windows.unique)

    return Contest(
        name="unique_experts",
        what=f"counts to U, K = {K}",
        needs=needs.unique_experts(K),
        bouts=(Bout(windows.positions, windows.add_up, {"NumPy": Rival(theirs, check, "all generations at once")}),),
    )


def _counting(windows: Windows) -> Contest:
    built = twin.build()
    twins, absent = {}, {}
    if isinstance(built, twin.Twin):
        new = np.empty_like(windows.new)

        def run() -> None:
            built.new_experts(windows.ids, windows.offsets, windows.routing, new)

        def check() -> None:
            windows.count()
            run()
            np.testing.assert_array_equal(new, windows.new)

        twins[twin.NAME] = Rival(run, check, built.compiler)
    else:
        absent[twin.NAME] = built
    return Contest(
        name=f"new_experts {windows.routing}",
        what=f"ids of {windows.routing} to counts, K = {K}",
        needs=needs.new_experts(windows.routing, K),
        bouts=(Bout(windows.positions, windows.count, twins),),
        absent=absent,
    )


def _whole(windows: Windows) -> Contest:
    """Ids to U; the rivals take one generation at a time."""
    one = Windows(USUAL, 1)
    one.run()
    lists = one.experts.tolist()
    ways: dict[str, Callable[[], object]] = {
        "Python sets": lambda: rivals.unique_experts_in_python(lists, K),
        "NumPy one-hot": lambda: rivals.unique_experts_one_hot(one.experts, USUAL, K),
        "NumPy bit masks": lambda: rivals.unique_experts_bit_masks(one.experts, USUAL, K),
    }

    def check(way: Callable[[], object]) -> None:
        np.testing.assert_array_equal(np.asarray(way()), one.unique)

    return Contest(
        name="windows",
        what=f"ids of {USUAL} to U, K = {K}",
        needs=needs.windows(USUAL, K),
        bouts=(
            Bout(windows.positions, windows.run),
            Bout(
                one.positions,
                one.run,
                {name: Rival(way, partial(check, way), "one generation") for name, way in ways.items()},
            ),
        ),
    )
