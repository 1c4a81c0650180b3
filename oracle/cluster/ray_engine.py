"""Ray Data as the engine: pieces of files are the rows of a Ray dataset, their answers come back as rows of bytes."""

import logging
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from queue import Full, Queue
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from oracle.cluster.placed import placed
from oracle.cluster.spreading import Arrival, Work
from oracle.errors import InputError, printable
from oracle.pieces import Piece
from oracle.provenance import versions

STORE_BYTES = 512 << 20  # of a Ray started here; what does not fit, Ray writes to disk
_BLOCK_BYTES = 16 << 20  # answers gathered before they travel
_WAITING = 8  # answers that have arrived and are not asked for yet
_PATIENCE_S = 0.2
_WAY_OUT = "check the address with `ray status` on a node of the cluster"
_ANSWER_S = 10.0
_LOOK_S = 5.0
_WITHOUT_CPU_S = 300.0  # a cluster that grows on demand takes minutes to begin
_RETRIES = 3  # of a piece whose worker died
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ANSWERS = pa.schema([("piece", pa.int64()), ("batch", pa.int64()), ("answer", pa.large_binary())])


class RayEngine:
    """Work on pieces of files with Ray Data; a context manager.

    Parameters
    ----------
    address
        Of a running cluster of which this machine is a node, ``"head:6379"`` or ``"auto"``; None starts Ray on this
        machine and stops it at the end. A Ray that the calling program has started already is used and left running.
    cpus
        Cores of a Ray started here.
    held
        Told of a signal that has to wait until Ray has started or stopped; says whether it is to be sent again then.

    Raises
    ------
    InputError
        Ray is not installed, no cluster answers at the address, or it is one of Ray Client.
    """

    def __init__(self, address: str | None = None, cpus: int = 1, held: Callable[[int], bool] = lambda _: True) -> None:
        if address is not None:
            _check_address(address)
        self._address, self._cpus, self._held = address, cpus, held
        self._started = False

    def __enter__(self) -> Self:
        ray = _imported()
        if ray.is_initialized():
            return self
        local = {"num_cpus": self._cpus, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        try:
            with _undisturbed(self._held):
                ray.init(
                    self._address or "local",
                    logging_level=logging.ERROR,
                    log_to_driver=False,
                    **({} if self._address else local),
                )
                self._started = True
        except (OSError, RuntimeError, ValueError, AssertionError) as error:
            reason = printable(" ".join(str(error).split()), most=200)
            where = f"--ray-address {printable(self._address)}" if self._address else "--engine ray"
            raise InputError(f"{where}: Ray cannot be reached ({reason}); {_WAY_OUT}") from error
        except BaseException:  # interrupted: what has begun to run must not outlive the command
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started:
            with _undisturbed(self._held):
                _imported().shutdown()
            self._started = False

    def run(self, pieces: Sequence[Piece], work: Work) -> Iterator[Arrival]:
        """Do the work on every piece, one task each; see `Engine`.

        Ray is talked to on a thread of its own: a signal that reaches the main thread must not strike inside of Ray,
        which would take the exception for a fault of its own.
        """
        arrivals: Queue[Arrival | Exception | None] = Queue(_WAITING)
        enough, others = threading.Event(), set(threading.enumerate())
        threads = [
            threading.Thread(target=_bring, args=(pieces, work, arrivals, enough), daemon=True),
            threading.Thread(target=_watch, args=(arrivals, enough), daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            while (arrival := arrivals.get()) is not None:
                if isinstance(arrival, Exception):
                    raise arrival
                yield arrival
        finally:
            with _undisturbed(self._held):
                _stop(threads, enough, others)


def _check_address(address: str) -> None:
    """Refuse at once what Ray would try for minutes, or fail with later."""
    host, _, port = address.rpartition(":")
    said = f"--ray-address {printable(address)}"
    if "://" in address:
        raise InputError(
            f"{said}: Ray Data does not work through Ray Client; give the command on a node of the cluster, with "
            "--ray-address auto"
        )
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
        except (OSError, OverflowError, UnicodeError) as error:
            why = printable(getattr(error, "strerror", None) or str(error))
            raise InputError(f"{said}: nothing answers there ({why}); {_WAY_OUT}") from error


def _bring(
    pieces: Sequence[Piece], work: Work, arrivals: "Queue[Arrival | Exception | None]", enough: threading.Event
) -> None:
    """Put answers into a queue as Ray Data hands them out, then what went wrong, or None at the end."""
    last: Exception | None = None
    try:
        for arrival in _arrivals(pieces, work):
            if not _put(arrivals, arrival, enough):
                return
    except Exception as error:
        last = in_words(error)
    _put(arrivals, last, enough)


def _put(queue: "Queue[Any]", item: object, enough: threading.Event) -> bool:
    """Wait for a place in the queue; False if nobody takes from it any more."""
    while not enough.is_set():
        with suppress(Full):
            queue.put(item, timeout=_PATIENCE_S)
            return True
    return False


def _arrivals(pieces: Sequence[Piece], work: Work) -> Iterator[Arrival]:
    import ray  # noqa: PLC0415  # an extra

    dataset = ray.data.from_arrow([pa.table({"piece": [number]}) for number in range(len(pieces))])
    _settle(dataset.context)
    given = {"pieces": placed(pieces), "work": work, "expected": versions()}
    answered = dataset.map_batches(
        _answered,
        batch_size=None,
        batch_format="pyarrow",
        fn_kwargs=given,
        num_cpus=1,
        max_retries=_RETRIES,  # Ray Data's own number is infinite
    )
    for block in answered.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1):
        columns = (block.column(name).to_pylist() for name in _ANSWERS.names)
        for piece, batch, answer in zip(*columns, strict=True):
            yield Arrival(piece, batch, answer)


def _watch(arrivals: "Queue[Arrival | Exception | None]", enough: threading.Event) -> None:
    """Put an error into the queue once the cluster has long had no CPU at all: Ray would wait for one for ever."""
    import ray  # noqa: PLC0415  # an extra

    had_one = time.monotonic()
    while not enough.wait(_LOOK_S):
        with suppress(Exception):  # the head does not answer
            if ray.cluster_resources().get("CPU", 0) >= 1:
                had_one = time.monotonic()
        if time.monotonic() - had_one > _WITHOUT_CPU_S:
            said = f"Ray: no node of the cluster has offered a CPU for {_WITHOUT_CPU_S:g} s; check it with `ray status`"
            _put(arrivals, OSError(said), enough)
            return


def _stop(threads: Sequence[threading.Thread], enough: threading.Event, others: set[threading.Thread]) -> None:
    """Wait until nothing of a run goes on: a thread that outlives Ray ends the process with a fault of memory.

    Ray Data waits for its first block before it keeps a handle on the thread that works for it.
    """
    enough.set()
    while any(thread.is_alive() for thread in threads):
        for worker in set(threading.enumerate()) - others - set(threads):
            if worker.name.startswith("StreamingExecutor"):
                worker.shutdown(force=True)  # type: ignore[attr-defined]  # a thread of Ray Data's own class
        for thread in threads:
            thread.join(_PATIENCE_S)


@contextmanager
def _undisturbed(held: Callable[[int], bool]) -> Iterator[None]:
    """Hold signals back while Ray starts or stops: stopped half-way, it leaves processes behind and crashes at the end.

    Ray sets handlers of its own, which would end the program without a word; the former ones are back afterwards.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def hold(number: int, _frame: object) -> None:
        if held(number):
            arrived.append(number)

    former = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in former.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, hold)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])


def _imported() -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # nothing is reported to anyone
    try:
        import ray.data  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise InputError(
            "--engine ray needs Ray Data, which is not installed: pip install 'draft-oracle[ray]'"
        ) from error
    warnings.filterwarnings("ignore", "`ray_remote_args` is deprecated")  # there is no other way to limit retries
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    logging.getLogger("ray.data._internal.progress").setLevel(logging.ERROR)  # says only that there are no bars
    logging.getLogger("ray.data.exceptions").setLevel(logging.CRITICAL)  # what it says is raised too
    return ray


def _settle(context: Any) -> None:
    """Answers come early to late as far as that costs nothing, in small blocks, without pictures on the terminal."""
    context.execution_options.preserve_order = True  # few answers wait; the order itself comes from their places
    context.target_max_block_size = _BLOCK_BYTES
    context.enable_progress_bars = False


def _answered(rows: pa.Table, pieces: Sequence[Piece], work: Work, expected: Mapping[str, str]) -> Iterator[pa.Table]:
    """On a worker: work on the pieces that the rows number."""
    _check_versions(expected)
    for piece in rows.column("piece").to_pylist():
        batch = 0
        for answer in work(pieces[piece]):
            yield _row(piece, batch, answer)
            batch += 1
        yield _row(piece, batch, None)


def _row(piece: int, batch: int, answer: bytes | None) -> pa.Table:
    return pa.table({"piece": [piece], "batch": [batch], "answer": [answer]}, schema=_ANSWERS)


def _check_versions(expected: Mapping[str, str]) -> None:
    """Refuse to compute with other versions than where the command was given: results would differ unseen."""
    here = versions()
    differing = [
        f"{name} {here.get(name)} instead of {value}" for name, value in expected.items() if here.get(name) != value
    ]
    if differing:
        raise RuntimeError(f"a worker has {', '.join(differing)}")


def in_words(error: Exception) -> Exception:
    """What Ray says when workers cannot even begin, or die: one line, and the way out."""
    text = str(error)
    for mark in ("ModuleNotFoundError: ", "a worker has "):
        if mark in text:
            said = printable(text[text.rindex(mark) :].splitlines()[0], most=200)
            return InputError(f"Ray: {said}; install the same draft-oracle on every node of the cluster")
    lines = [line for line in text.splitlines() if line.strip()]
    return OSError(f"Ray: {printable((lines or [type(error).__name__])[-1], most=300)}")
