"""How large batches may be so that work on them stays within a budget of memory."""

from dataclasses import dataclass

from oracle.errors import InputError

_LOADED_MB = 380  # the interpreter, the libraries (pictures too), compiled kernels, sums, what allocators keep
_LEAST_BATCH_MB = 4
_BATCH_MB = 45  # larger batches are no faster
_DECODED_SHARE = 8  # of a batch's memory, one part in so many is what was decoded
_LENGTH_BYTES = 160  # a position and draft length: U, S, costs, terms, policies, and copies of some
_POLICY_BYTES = 96  # a generation, policy and draft length: rounds, loads, contexts and sums of them
_LAID_OUT_BYTES = 24  # a position and policy: its draft length, the steps made, visits
_DRAW_BYTES = 16  # a generation and draw: V, and V once more where it waits to be added up
_MB = 1_000_000


@dataclass(frozen=True)
class Budget:
    """What a batch may take.

    Attributes
    ----------
    batch_bytes
        Decoded size.
    working_bytes
        Everything that is worked out from a batch.
    position_bytes, generation_bytes
        What is worked out from a position, and from a generation besides.
    """

    batch_bytes: int
    working_bytes: int
    position_bytes: int
    generation_bytes: int

    def rows(self, generations: int, positions: int) -> int:
        """How many generations may be worked on at once where so many hold so many positions, at least 1."""
        each = self.generation_bytes + self.position_bytes * positions / max(generations, 1)
        return max(1, int(self.working_bytes / each))


def budget_of(memory_mb: int | None, threads: int, k_max: int, policies: int | None = None, draws: int = 0) -> Budget:
    """Share memory out among the batches that are under way.

    Parameters
    ----------
    memory_mb
        What the process may take, megabytes; None for as much as the threads can use. So without it batches, and with
        them the row groups of files written, do not depend on the threads.
    threads
        Batches worked on side by side; two more are read or written.
    k_max
        K, the longest draft length.
    policies
        Policies laid out at once; None: those that a study scores.
    draws
        Models drawn that generations are solved under.

    Raises
    ------
    InputError
        Too little.
    """
    under_way = threads + 2
    least = _LOADED_MB + under_way * _LEAST_BATCH_MB
    if memory_mb is None:
        memory_mb = _LOADED_MB + under_way * _BATCH_MB
    if memory_mb < least:
        threads_said = f"{threads} threads need" if threads > 1 else "1 thread needs"
        raise InputError(
            f"--memory is {memory_mb} MB; {threads_said} at least {least} MB: give more, or fewer --threads"
        )
    batch = min(_BATCH_MB * _MB, (memory_mb - _LOADED_MB) * _MB // under_way)
    return Budget(
        batch_bytes=batch // _DECODED_SHARE,
        working_bytes=batch,
        position_bytes=_LENGTH_BYTES * (k_max + 1) + _LAID_OUT_BYTES * (policies or 0),
        generation_bytes=_POLICY_BYTES * (policies or k_max + 3) * (k_max + 1) + _DRAW_BYTES * draws,
    )
