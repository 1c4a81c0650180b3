"""Windows of positions out of traces, from which batches are put together, and what they are worth.

A window is the k_max + 1 rows from a position on; positions too near to the end of their text have none. How often a
round of the static draft length k starts at a position (`visit`) weighs it, for every k: a batch in an engine that
drafts k holds rounds, and rounds begin more often where drafts were refused. Memory is bounded: of each generation
some windows are kept, at random positions, and of very many generations some.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.errors import InputError
from oracle.problem import make_problem, unique_experts_of
from oracle.solver import segment_sums, visits
from oracle.traces import TraceFiles, Traces
from oracle.traces.schema import AVERAGES

MOST_GENERATIONS = 4096  # in batches; acceptance and context rest on all
MOST_WINDOWS = 64  # of a generation
MOST_BYTES = 256 << 20  # of expert ids held
COLUMNS = ("match_prob", "match_probs", "experts", "unique_experts", "cluster", "category", "tenant")


@dataclass(frozen=True)
class Windows:
    """Windows of all generations that have any, and sums over every position of those generations.

    Attributes
    ----------
    experts : (W, K + 1, layers * top_k) uint8 or uint16
        Ids, grouped by generation.
    layers, top_k, num_experts
        Of the target.
    first : (P + 1,) int64
        Windows of pooled generation p are first[p] … first[p + 1] - 1.
    visit : (W, K + 1) float64
        Expected rounds of the static draft length k that start at the window.
    pooled : (P,) int64
        Which of the G generations a pooled one is.
    cluster, tenant : (G,) int32
        Numbers of names.
    tenants
        Names of tenants.
    tenant_is
        Which column they are from: `tenant`, `category`, or `` where there is none.
    rounds, tokens, context : (G, K + 1) float64
        Expected rounds of each static length that start at whole windows, tokens they emit, tokens of context summed.
    unique, recorded : (G, K + 1) float64
        Unique experts of those rounds summed: of the reference path and, where the traces hold it, as recorded.
    skipped
        Generations too short for a window.
    averages
        Whether match probabilities are averages of requests, which cannot be resampled.
    """

    experts: NDArray[np.uint8] | NDArray[np.uint16]
    layers: int
    top_k: int
    num_experts: int
    first: NDArray[np.int64]
    visit: NDArray[np.float64]
    pooled: NDArray[np.int64]
    cluster: NDArray[np.int32]
    tenant: NDArray[np.int32]
    tenants: tuple[str, ...]
    tenant_is: str
    rounds: NDArray[np.float64]
    tokens: NDArray[np.float64]
    context: NDArray[np.float64]
    unique: NDArray[np.float64]
    recorded: NDArray[np.float64] | None
    skipped: int
    averages: bool

    @property
    def k_max(self) -> int:
        """The longest draft length."""
        return int(self.visit.shape[1]) - 1

    @property
    def clusters(self) -> int:
        """How many clusters there are."""
        return int(self.cluster.max()) + 1


@dataclass(frozen=True)
class _Part:
    """What one batch of traces gives."""

    experts: NDArray[np.uint8] | NDArray[np.uint16]
    counts: NDArray[np.int64]
    visit: NDArray[np.float64]
    kept: NDArray[np.int64]
    cluster: tuple[str, ...]
    tenant: tuple[str, ...]
    sums: NDArray[np.float64]
    averages: bool


def read_windows(
    files: TraceFiles, k_max: int, *, seed: int = 0, on_batch: Callable[[int], None] | None = None
) -> Windows:
    """Walk over traces and keep windows of up to k_max + 1 rows.

    Parameters
    ----------
    files
        Traces with the column `experts`, read with at least `COLUMNS`.
    k_max
        The longest draft length that is asked about.
    seed
        Of the choice of positions.
    on_batch
        Called with the number of generations after each batch.

    Raises
    ------
    InputError
        No routing ids, or no generation longer than k_max.
    """
    source = str(files.paths[0])
    if "experts" not in files.schema.names:
        raise InputError(
            f"{source}: has no column experts; the experts of a batch are a union of ids, which counts cannot give. "
            "Record routing ids, or leave the traces out and give --num-experts and --top-k for the formula"
        )
    tenant_is = next((name for name in ("tenant", "category") if name in files.schema.names), "")
    chosen = np.arange(files.generations)
    if files.generations > MOST_GENERATIONS:
        chosen = np.sort(np.random.default_rng(seed).choice(files.generations, MOST_GENERATIONS, replace=False))
    parts: list[_Part] = []
    shape: tuple[int, int, int] | None = None
    start = 0
    for traces in files:
        wanted = chosen[(chosen >= start) & (chosen < start + traces.generations)] - start
        if traces.positions:
            parts.append(_part(traces, k_max, wanted, len(chosen), tenant_is, seed, start))
            assert traces.layers is not None
            assert traces.top_k is not None
            assert traces.num_experts is not None
            shape = (traces.layers, traces.top_k, traces.num_experts)
        start += traces.generations
        if on_batch is not None:
            on_batch(traces.generations)
    if shape is None or not any(len(part.counts) for part in parts):
        raise InputError(
            f"{source}: no generation has {k_max + 1} positions, so no round of K = {k_max} fits; lower --k-max"
        )
    return _joined(parts, shape, tenant_is, files.generations)


def _part(
    traces: Traces, k_max: int, wanted: NDArray[np.int64], of: int, tenant_is: str, seed: int, first: int
) -> _Part:
    """Work out weights and sums of a batch, and keep windows of the generations that are wanted.

    `first` is the number of its first generation in all traces.
    """
    assert traces.experts is not None
    problem = make_problem(traces, k_max, "routing")
    offsets = traces.offsets
    lengths = np.diff(offsets)
    left = np.repeat(offsets[1:], lengths) - np.arange(traces.positions)
    whole = left > k_max
    emitted = np.column_stack([np.ones(traces.positions), 1.0 + np.cumsum(problem.survival, axis=1)])
    recorded = None if traces.unique_experts is None else unique_experts_of(traces, k_max, "recorded")
    sums = np.zeros((traces.generations, 5, k_max + 1))
    visit = np.empty((traces.positions, k_max + 1))
    for k in range(k_max + 1):
        visit[:, k] = visits(problem, np.full(traces.positions, k, np.int16)) * whole
        values = [np.ones(traces.positions), emitted[:, k], problem.context_len, problem.unique_experts[:, k]]
        values.append(np.full(traces.positions, np.nan) if recorded is None else recorded[:, k])
        sums[:, :, k] = segment_sums(visit[:, k, None] * np.column_stack(values), offsets)
    width = traces.experts[0].size * traces.experts.itemsize * (k_max + 1)
    most = int(np.clip(MOST_BYTES // (of * width), 1, MOST_WINDOWS))
    counts = np.minimum(np.maximum(lengths[wanted] - k_max, 0), most)
    starts = [
        offsets[g] + _places(int(lengths[g]) - k_max, int(n), (seed, first + int(g)))
        for g, n in zip(wanted, counts, strict=True)
        if n
    ]
    at = np.concatenate([*starts, np.zeros(0, np.int64)]).astype(np.int64)
    rows = at[:, None] + np.arange(k_max + 1)
    ids = traces.experts.reshape(traces.positions, -1)[rows]
    kept = lengths > k_max
    names = traces.tenant if tenant_is == "tenant" else traces.category if tenant_is == "category" else None
    number = np.cumsum(kept) - 1
    filled = counts > 0
    return _Part(
        ids,
        counts[filled],
        visit[at],
        number[wanted[filled]],
        tuple(name for name, keep in zip(traces.own_cluster_of, kept, strict=True) if keep),
        tuple(n or "" for n, keep in zip(names or ("",) * traces.generations, kept, strict=True) if keep),
        sums[kept],
        AVERAGES in traces.cluster_of,
    )


def _places(positions: int, kept: int, seed: tuple[int, int]) -> NDArray[np.int64]:
    """Choose positions of one generation; its number is in the seed, so how traces are batched moves nothing."""
    return np.sort(np.random.default_rng(seed).choice(positions, kept, replace=False))


def _joined(parts: list[_Part], shape: tuple[int, int, int], tenant_is: str, generations: int) -> Windows:
    bases = np.cumsum([0, *(len(part.cluster) for part in parts)])
    cluster = _numbered([name for part in parts for name in part.cluster])[0]
    tenant, tenants = _numbered([name for part in parts for name in part.tenant])
    sums = np.concatenate([part.sums for part in parts])
    rounds, tokens, context, unique, recorded = (frozen(sums[:, i]) for i in range(5))
    counts = np.concatenate([part.counts for part in parts])
    return Windows(
        experts=frozen(np.concatenate([part.experts for part in parts])),
        layers=shape[0],
        top_k=shape[1],
        num_experts=shape[2],
        first=frozen(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)),
        visit=frozen(np.concatenate([part.visit for part in parts])),
        pooled=frozen(np.concatenate([part.kept + base for part, base in zip(parts, bases[:-1], strict=True)])),
        cluster=cluster,
        tenant=tenant,
        tenants=tenants,
        tenant_is=tenant_is,
        rounds=rounds,
        tokens=tokens,
        context=context,
        unique=unique,
        recorded=None if np.isnan(recorded).any() else recorded,
        skipped=generations - int(bases[-1]),
        averages=any(part.averages for part in parts),
    )


def _numbered(names: list[str]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    known = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return frozen(np.array([known[name] for name in names], np.int32)), tuple(known)
