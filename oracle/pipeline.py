"""Work on batches side by side, results in order, memory bounded."""

import ctypes
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock, Semaphore
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

_LARGE_BLOCK_BYTES = 31 << 20

_Item = TypeVar("_Item")
_Item_co = TypeVar("_Item_co", covariant=True)
_Result = TypeVar("_Result")


@runtime_checkable
class Elsewhere(Protocol[_Item_co]):
    """Items that other processes read and work on; see `oracle.cluster`."""

    def over(self, function: Callable[[_Item_co], _Result]) -> Iterator[_Result]:
        """Apply a function that can be pickled to each item; give the results in the items' order."""
        ...


def in_order(
    function: Callable[[_Item], _Result], items: Iterable[_Item] | Elsewhere[_Item], threads: int
) -> Generator[_Result, None, None]:
    """Apply `function` to each item on `threads` threads and yield the results in the items' order.

    The kernels, Arrow and hashing release the interpreter's lock, so threads are enough. One thread more reads: the
    items are iterated over there, one after the other, while the caller takes up, and writes, what comes out. At most
    `threads` + 1 items are read or worked on, or wait for the caller. The first error stops the walk, and so does
    closing the iterator. Items that lie elsewhere are worked on there.
    """
    if isinstance(items, Elsewhere):
        yield from items.over(function)
        return
    _keep_freed_blocks()
    walk = _Walk(function, iter(items), threads)
    try:
        yield from walk.results()
    finally:
        walk.stop()
        del walk  # and what the items keep
        _give_back_freed_blocks()


def _keep_freed_blocks() -> None:
    """Let the arrays of a batch lie where those of the batch before it lay.

    glibc returns large blocks to the system, which clears them anew for the next batch: a few percent of the time of
    a solve. It stops to do so for blocks that are not larger than one which has been freed. Nothing else notices.
    """
    np.empty(_LARGE_BLOCK_BYTES, np.uint8)


def _give_back_freed_blocks() -> None:
    """Let the next walk begin with what it needs itself: glibc holds on to what threads freed, for each apart."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


class _Walk(Generic[_Item, _Result]):
    """A walk under way: who has read an item hands the reading over to the next thread, and then works on the item."""

    def __init__(self, function: Callable[[_Item], _Result], items: Iterator[_Item], threads: int) -> None:
        self._function, self._items = function, items
        self._most = threads + 1
        self._pool = ThreadPoolExecutor(max_workers=self._most)
        self._working = Semaphore(threads)
        self._lock = Lock()
        self._waiting: deque[Future[tuple[_Result] | None]] = deque()
        self._stopped = False
        self._nobody_reads = True
        self._read_on()

    def results(self) -> Iterator[_Result]:
        """Give the results in order."""
        while (found := self._waiting[0].result()) is not None:
            with self._lock:
                self._waiting.popleft()
            if self._nobody_reads:
                self._read_on()
            yield found[0]

    def stop(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        with self._lock:
            self._stopped = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _read_on(self) -> None:
        """Let the next item be read unless too many are under way."""
        with self._lock:
            self._nobody_reads = self._stopped or len(self._waiting) >= self._most
            if not self._nobody_reads:
                self._waiting.append(self._pool.submit(self._step))

    def _step(self) -> tuple[_Result] | None:
        """Read an item, let the next be read, work on this one; None behind the last."""
        try:
            item = next(self._items)
        except StopIteration:
            return None
        self._read_on()
        with self._working:
            return None if self._stopped else (self._function(item),)
