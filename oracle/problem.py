"""The gate between traces and kernels.

Everything a kernel reads passes here once and leaves with one type, one layout and one flag: C-contiguous and
read-only. Arrow columns are read-only, and Numba compiles a second version of a kernel for an array that is not.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from oracle.columns import frozen
from oracle.errors import InputError
from oracle.traces import Traces

ExpertSource = Literal["recorded", "routing", "none"]
_LINE = 64  # bytes of a cache line


def aligned(shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """A zeroed array that begins on a cache line: what the kernels that vectorise over models want."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.zeros(size + _LINE, dtype=np.uint8)
    skip = -raw.ctypes.data % _LINE
    return raw[skip : skip + size].view(dtype).reshape(shape)


@dataclass(frozen=True)
class Problem:
    """What a solve needs of a batch of generations, whatever the cost model.

    Attributes
    ----------
    offsets : (G + 1,) int64
        First position of each generation; the last entry is N.
    context_len : (N,) float64
        L(t), tokens in context when a round starts at t.
    survival : (N, K) float64
        S_1 … S_K of a round that starts at t; 0 where t + j is at or past the end.
    unique_experts : (N, K + 1) float64
        U(t, 0) … U(t, K), unique experts per MoE layer.
    to_end : (N,) float64
        S_j(t) for the j <= K with t + j at the end: the chance that a draft that long ends the text; else 0.
    experts_from
        Where U comes from: `recorded`, `routing`, or `none` for a dense target.
    """

    offsets: NDArray[np.int64]
    context_len: NDArray[np.float64]
    survival: NDArray[np.float64]
    unique_experts: NDArray[np.float64]
    to_end: NDArray[np.float64]
    experts_from: ExpertSource

    @property
    def positions(self) -> int:
        """N, decisions in the batch."""
        return len(self.context_len)

    @property
    def generations(self) -> int:
        """G, generations in the batch."""
        return len(self.offsets) - 1

    @property
    def k_max(self) -> int:
        """K, the longest draft length the arrays carry."""
        return int(self.survival.shape[1])


def expert_source(traces: Traces, wanted: str | None = None) -> ExpertSource:
    """Which expert column a solve reads: `recorded` when the trace has it, else `routing`, else `none`.

    Raises
    ------
    InputError
        The trace does not hold what was asked for.
    """
    has_routing = traces.experts is not None or traces.new_experts is not None
    has = {"recorded": traces.unique_experts is not None, "routing": has_routing, "none": True}
    if wanted is None:
        return "recorded" if has["recorded"] else "routing" if has_routing else "none"
    if wanted not in ("recorded", "routing") or not has[wanted]:
        column = "unique_experts" if wanted == "recorded" else "experts or new_experts"
        raise InputError(
            f"{traces.source}: --unique-experts {wanted} needs a column {column}, which the trace lacks; "
            f"it has {', '.join(name for name in ('recorded', 'routing') if has[name]) or 'no expert columns'}"
        )
    return wanted  # type: ignore[return-value]  # narrowed by the test above


def survival_of(traces: Traces, k_max: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """S_1 … S_K of every position, shape (N, K), and the survival of drafts that end the text, shape (N,)."""
    from kernels.survival import survival_along, survival_by_depth  # noqa: PLC0415  # numba is slow to import

    survival = np.empty((traces.positions, k_max))
    to_end = np.empty(traces.positions)
    if traces.match_probs is not None:
        survival_by_depth(frozen(traces.match_probs), frozen(traces.offsets), survival, to_end)
    else:
        assert traces.match_prob is not None
        survival_along(frozen(traces.match_prob), frozen(traces.offsets), survival, to_end)
    return frozen(survival), frozen(to_end)


def unique_experts_of(traces: Traces, k_max: int, source: ExpertSource) -> NDArray[np.float64]:
    """U(t, 0) … U(t, K) of every position, shape (N, K + 1), unique experts per MoE layer."""
    if source == "none":
        return frozen(np.zeros((traces.positions, k_max + 1)))
    if source == "recorded":
        assert traces.unique_experts is not None
        return frozen(traces.unique_experts[:, : k_max + 1].astype(np.float64))
    from kernels.windows import new_experts, unique_experts  # noqa: PLC0415

    assert traces.layers is not None
    if traces.experts is not None:
        assert traces.top_k is not None
        assert traces.num_experts is not None
        words = -(-traces.num_experts // 64)
        new = np.empty((traces.positions, k_max + 1), dtype=np.uint16)
        new_experts(
            frozen(traces.experts.reshape(traces.positions, traces.layers * traces.top_k)),
            frozen(traces.offsets),
            (0,) * traces.top_k,
            aligned((k_max + 1, words * traces.layers), np.uint64),
            aligned((words * traces.layers,), np.uint64),
            new,
        )
    else:
        assert traces.new_experts is not None
        new = traces.new_experts
    unique = np.empty((traces.positions, k_max + 1))
    unique_experts(frozen(new), frozen(traces.offsets), float(traces.layers), unique)
    return frozen(unique)


def make_problem(traces: Traces, k_max: int, unique_experts: str | None = None) -> Problem:
    """Turn a batch of traces into the arrays a solve reads.

    Parameters
    ----------
    traces
        A batch of generations.
    k_max
        Longest draft length; at most what the trace carries (`Traces.max_draft_length`).
    unique_experts
        `recorded`, `routing`, or None for the first of them the trace holds.
    """
    source = expert_source(traces, unique_experts)
    lengths = np.diff(traces.offsets)
    within = np.arange(traces.positions) - np.repeat(traces.offsets[:-1], lengths)
    context_len = (np.repeat(traces.context_start, lengths) + within).astype(np.float64)
    survival, to_end = survival_of(traces, k_max)
    return Problem(
        offsets=frozen(traces.offsets),
        context_len=frozen(context_len),
        survival=survival,
        unique_experts=unique_experts_of(traces, k_max, source),
        to_end=to_end,
        experts_from=source,
    )
