"""Synthetic inputs: match probabilities, routing with some locality, costs like those of a measured model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.costs import LengthCosts
from oracle.latency.model import DraftLine, LatencyModel
from oracle.problem import Problem, make_problem
from oracle.result_files import list_array
from oracle.traces import Traces

K = 10  # longest draft length of all benchmarks
MODELS = 32  # cost models of a sweep
GENERATION = 512  # positions of a generation
_DISTINCT = 64  # generations drawn afresh; longer inputs repeat them


@dataclass(frozen=True)
class Routing:
    """MoE layers, experts a token, experts a layer."""

    layers: int
    top_k: int
    num_experts: int

    @property
    def dtype(self) -> type[np.uint8 | np.uint16]:
        """The narrowest type of an expert id."""
        return np.uint8 if self.num_experts <= 256 else np.uint16

    @property
    def id_bytes(self) -> int:
        """Bytes of a position's ids."""
        return self.layers * self.top_k * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.layers} x {self.top_k} of {self.num_experts}"


USUAL = Routing(48, 8, 128)
ROUTINGS = (USUAL, Routing(60, 8, 256), Routing(48, 10, 512))


def offsets_of(generations: int, length: int = GENERATION) -> NDArray[np.int64]:
    """First position of each of `generations` equally long generations, and N; (G + 1,)."""
    return frozen(np.arange(generations + 1, dtype=np.int64) * length)


def match_probabilities(rng: np.random.Generator, positions: int) -> NDArray[np.float32]:
    """Conditional match probabilities around 0.75; (N,)."""
    return frozen(rng.beta(3.0, 1.0, positions).astype(np.float32))


def routing_ids(rng: np.random.Generator, routing: Routing, generations: int, length: int = GENERATION) -> NDArray[Any]:
    """Expert ids (N, layers, top_k), distinct within a layer; a slot keeps its expert with probability 0.4."""
    choices = routing.num_experts // routing.top_k
    shape = (length, generations, routing.layers, routing.top_k)
    drawn = rng.integers(0, choices, shape, dtype=routing.dtype)
    kept = rng.integers(0, 10, shape, dtype=np.uint8) < 4
    for t in range(1, length):
        np.copyto(drawn[t], drawn[t - 1], where=kept[t])
    drawn += (np.arange(routing.top_k) * choices).astype(routing.dtype)
    return frozen(drawn.swapaxes(0, 1).reshape(-1, routing.layers, routing.top_k))


def costs(alpha_scale: float = 1.0) -> LengthCosts:
    """Costs of every k = 0 … K; the expert coefficients scaled."""
    k = np.arange(K + 1.0)
    return LengthCosts(
        verify_ms=5.7 + 0.6 * k,
        alpha_ms=np.full(K + 1, 0.08) * alpha_scale,
        context_ms=np.full(K + 1, 0.0011),
        draft_ms=np.where(k > 0, 0.459 * k + 0.073, 0.0),
        reject_ms=np.zeros(K + 1),
        allowed=np.ones(K + 1, dtype=bool),
    )


def latency_model() -> LatencyModel:
    """The latency model that prices draft lengths like `costs`."""
    every = costs()
    return LatencyModel(
        m=tuple(range(1, K + 2)),
        beta0_ms=tuple(every.verify_ms.tolist()),
        alpha_ms_per_expert=tuple(every.alpha_ms.tolist()),
        context_ms_per_token=tuple(every.context_ms.tolist()),
        draft=DraftLine(ms_per_token=0.459, base_ms=0.073),
    )


def sweep_costs() -> list[LengthCosts]:
    """`MODELS` cost models: the expert cost from none to twice its size."""
    return [costs(float(scale)) for scale in np.linspace(0.0, 2.0, MODELS)]


def problem_of(generations: int) -> Problem:
    """A problem of the usual routing; what was drawn repeats every `_DISTINCT` generations."""
    drawn = min(generations, _DISTINCT)
    one = make_problem(traces_of(np.random.default_rng(7), drawn), K)
    rows = np.arange(generations * GENERATION) % (drawn * GENERATION)
    return Problem(
        offsets=offsets_of(generations),
        context_len=frozen(one.context_len[rows]),
        survival=frozen(one.survival[rows]),
        unique_experts=frozen(one.unique_experts[rows]),
        to_end=frozen(one.to_end[rows]),
        experts_from=one.experts_from,
    )


def first_generations(problem: Problem, generations: int) -> Problem:
    """The problem of the first few generations."""
    n = int(problem.offsets[generations])
    return Problem(
        offsets=frozen(problem.offsets[: generations + 1]),
        context_len=frozen(problem.context_len[:n]),
        survival=frozen(problem.survival[:n]),
        unique_experts=frozen(problem.unique_experts[:n]),
        to_end=frozen(problem.to_end[:n]),
        experts_from=problem.experts_from,
    )


def traces_of(
    rng: np.random.Generator, generations: int, first: int = 0, routing: Routing = USUAL, length: int = GENERATION
) -> Traces:
    """A batch of traces with match probabilities and expert ids; ids `g<first>` onwards."""
    offsets = offsets_of(generations, length)
    ids = routing_ids(rng, routing, generations, length).reshape(-1).view(np.uint8)
    width = pa.binary(routing.id_bytes)
    experts = pa.FixedSizeBinaryArray.from_buffers(width, int(offsets[-1]), [None, pa.py_buffer(ids)])
    target = {"layers": routing.layers, "top_k": routing.top_k, "num_experts": routing.num_experts}
    table = pa.table(
        {
            "generation": [f"g{first + g}" for g in range(generations)],
            **{name: pa.array([value] * generations, pa.int32()) for name, value in target.items()},
            "match_kind": ["overlap"] * generations,
            "context_start": pa.array(rng.integers(100, 4000, generations), pa.int32()),
            "match_prob": list_array(pa.array(match_probabilities(rng, int(offsets[-1]))), offsets),
            "experts": list_array(experts, offsets),
        }
    )
    return Traces.from_arrow(table, "synthetic")


def trace_batches(generations: int, first: int = 0, seed: int = 11, length: int = GENERATION) -> Iterator[Traces]:
    """Batches of up to `_DISTINCT` long generations, ids `g<first>` onwards; the same few under other names.

    Drawing them anew would take longer than everything that is measured; a reader cannot tell.
    """
    distinct = _DISTINCT * GENERATION // length
    drawn = traces_of(np.random.default_rng(seed), min(distinct, generations), length=length).to_arrow()
    for start in range(0, generations, distinct):
        part = drawn.slice(0, min(distinct, generations - start))
        names = pa.array([f"g{first + start + g}" for g in range(part.num_rows)])
        at = part.schema.get_field_index("generation")
        yield Traces.from_arrow(part.set_column(at, "generation", names), "synthetic")
