"""Work on batches side by side, results in order, memory bounded."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_order(function: Callable[[_Item], _Result], items: Iterable[_Item], threads: int) -> Iterator[_Result]:
    """Apply `function` to each item on `threads` threads and yield the results in the items' order.

    The kernels, Arrow and hashing release the interpreter's lock, so threads are enough. At most `threads` + 1
    items are under way: an item is read only when one has been taken out. The first error stops the walk, and
    so does closing the iterator.
    """
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
