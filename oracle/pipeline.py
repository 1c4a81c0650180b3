"""Work on batches side by side, results in order, memory bounded."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar, runtime_checkable

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@runtime_checkable
class Elsewhere(Protocol):
    """Items that other processes read and work on; see `oracle.cluster`."""

    def over(self, function: Callable[[_Item], _Result]) -> Iterator[_Result]:
        """Apply a function that can be pickled to each item; give the results in the items' order."""
        ...


def in_order(function: Callable[[_Item], _Result], items: Iterable[_Item], threads: int) -> Iterator[_Result]:
    """Apply `function` to each item on `threads` threads and yield the results in the items' order.

    The kernels, Arrow and hashing release the interpreter's lock, so threads are enough. At most `threads` + 1
    items are under way: an item is read only when one has been taken out. The first error stops the walk, and
    so does closing the iterator. Items that lie elsewhere are worked on there.
    """
    if isinstance(items, Elsewhere):
        yield from items.over(function)
        return
    pool = ThreadPoolExecutor(max_workers=threads)
    waiting: deque[Future[_Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
