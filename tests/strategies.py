"""Random problems: seeded generators, and Hypothesis strategies on top of them.

Three kinds of numbers:

- ``dyadic``: integer costs, p in {0, 1/2, 1}, N ≤ 12, layers a power of two. All arithmetic is exact in float64, so
  every solver must agree bit for bit, ties included.
- ``binary``: as dyadic with p in {0, 1} and any N.
- ``general``: anything that a trace can hold; match probabilities are float32 values.

At draft lengths that are not allowed all coefficients are 0: a solver that looks at them finds a free round and gives
itself away. Cells of `match_probs` past the end of a generation hold arbitrary values for the same reason.
"""

from dataclasses import dataclass
from typing import Literal

import naive
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Kind = Literal["dyadic", "binary", "general"]
Unique = Literal["routing", "recorded", "dense"]
IdType = Literal["uint8", "uint16"]


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything a solver is given, as plain arrays; times in milliseconds, coefficients indexed by draft length k."""

    K: int  # the longest draft length that the arrays cover
    lengths: tuple[int, ...]  # N of each generation
    allowed: tuple[int, ...]  # draft lengths that may be chosen, ascending
    match_prob: tuple[NDArray[np.float32], ...] | None  # (N,) a generation; None: quality depends on depth
    match_probs: tuple[NDArray[np.float32], ...]  # (N, K) a generation, conditional; always present
    unique_experts: tuple[NDArray[np.float64], ...]  # (N, K+1) a generation
    experts: tuple[NDArray[np.uint8] | NDArray[np.uint16], ...] | None  # (N, layers, top_k); None unless from routing
    layers: int
    top_k: int
    num_experts: int
    context_start: tuple[int, ...]  # of each generation
    beta0: NDArray[np.float64]  # (K+1,)
    draft: NDArray[np.float64]  # (K+1,) 0 at k = 0
    reject: NDArray[np.float64]  # (K+1,) 0 at k = 0
    alpha: NDArray[np.float64]  # (K+1,)
    context: NDArray[np.float64]  # (K+1,)

    @property
    def base(self) -> NDArray[np.float64]:
        """(K+1,) beta0 + draft_ms + reject_ms."""
        return self.beta0 + self.draft + self.reject

    @property
    def generations(self) -> int:
        return len(self.lengths)

    @property
    def costs(self) -> naive.Costs:
        """The coefficients as the naive twins take them."""
        return naive.Costs(
            beta0=self.beta0.tolist(),
            draft=self.draft.tolist(),
            reject=self.reject.tolist(),
            alpha=self.alpha.tolist(),
            context=self.context.tolist(),
            lengths=list(self.allowed),
        )

    def generation(self, g: int) -> naive.Generation:
        """Generation g as the naive twins take it."""
        return naive.Generation(
            self.match_probs[g].tolist(), self.unique_experts[g].tolist(), int(self.context_start[g])
        )

    def policy(self, g: int, seed: int) -> list[int]:
        """A random policy of allowed draft lengths for generation g."""
        return [int(k) for k in np.random.default_rng(seed).choice(self.allowed, size=self.lengths[g])]


def random_routing(
    rng: np.random.Generator, N: int, *, layers: int, top_k: int, num_experts: int, id_type: IdType = "uint16"
) -> NDArray[np.uint8] | NDArray[np.uint16]:
    """(N, layers, top_k) different ids a token and layer, from a small pool, so that windows overlap.

    The first and the last id are in the pool: masks have edges.
    """
    pool_size = min(num_experts, int(rng.integers(top_k, 4 * top_k + 1)))
    pool = rng.choice(num_experts, size=pool_size, replace=False)
    if pool_size >= 2 and num_experts >= 2:
        middle = rng.choice(np.arange(1, num_experts - 1), size=pool_size - 2, replace=False)
        pool = np.concatenate([[0, num_experts - 1], middle])
    order = np.argsort(rng.random((N, layers, pool_size)), axis=-1)[..., :top_k]
    return pool[order].astype(np.dtype(id_type))


def _match_values(rng: np.random.Generator, kind: Kind, shape: tuple[int, ...]) -> NDArray[np.float32]:
    if kind == "dyadic":
        return rng.choice(np.array([0.0, 0.5, 1.0], dtype=np.float32), size=shape)
    if kind == "binary":
        return rng.integers(0, 2, size=shape).astype(np.float32)
    plain = rng.beta(rng.uniform(0.3, 3.0), rng.uniform(0.3, 3.0), size=shape).astype(np.float32)
    extreme = np.array([0.0, 1.0, 1e-30, np.nextafter(np.float32(1), np.float32(0))], dtype=np.float32)
    return np.where(rng.random(shape) < 0.15, rng.choice(extreme, size=shape), plain)


def _matches(
    rng: np.random.Generator, kind: Kind, N: int, K: int, depth_dependent: bool
) -> tuple[NDArray[np.float32] | None, NDArray[np.float32]]:
    if depth_dependent:
        return None, _match_values(rng, kind, (N, K))
    match_prob = _match_values(rng, kind, (N,))
    padded = np.concatenate([match_prob, np.zeros(K, dtype=np.float32)])
    return match_prob, padded[np.arange(N)[:, None] + np.arange(K)[None, :]]


def _coefficients(
    rng: np.random.Generator, kind: Kind, allowed: tuple[int, ...], K: int, alpha_zero: bool
) -> dict[str, NDArray[np.float64]]:
    def draw(low: float, high: float) -> NDArray[np.float64]:
        if kind == "general":
            return rng.uniform(low, high, size=K + 1)
        return rng.integers(int(low), int(high) + 1, size=K + 1).astype(np.float64)

    k = np.arange(K + 1)
    one_context = rng.random() < 0.6  # one c for all m, else one per m
    scale = 1.0 if kind != "general" else float(rng.choice([1.0, 1e-3, 1e3]))
    arrays = {
        "beta0": draw(1, 8) + np.floor(rng.uniform(0, 3)) * k,  # not monotone: cost may fall with m
        "draft": draw(0, 3) + np.floor(rng.uniform(0, 2)) * k,
        "reject": draw(0, 1)[:1].repeat(K + 1),
        "alpha": np.zeros(K + 1) if alpha_zero else draw(0, 2),
        "context": draw(0, 2) * (0.01 if kind == "general" else 1.0),
    }
    if one_context:
        arrays["context"] = arrays["context"][:1].repeat(K + 1)
    arrays["draft"][0] = arrays["reject"][0] = 0.0
    return {name: np.where(np.isin(k, allowed), array * scale, 0.0) for name, array in arrays.items()}


def random_problem(
    seed: int,
    kind: Kind = "general",
    *,
    lengths: tuple[int, ...] | None = None,
    K: int | None = None,
    k_min: int | None = None,
    missing: bool | None = None,
    depth_dependent: bool | None = None,
    unique: Unique | None = None,
    alpha_zero: bool | None = None,
    num_experts: int | None = None,
    layers: int | None = None,
    id_type: IdType | None = None,
) -> Problem:
    """A problem that follows from its seed; whatever is not said is drawn (N = 0 and 1 are drawn often)."""
    rng = np.random.default_rng(seed)
    most = 12 if kind == "dyadic" else 40
    drawn_lengths = tuple(int(n) for n in rng.choice([0, 1, *range(2, most + 1)], size=rng.integers(1, 5)))
    drawn_lengths = tuple(int(rng.integers(0, 2)) if rng.random() < 0.15 else n for n in drawn_lengths)
    lengths = drawn_lengths if lengths is None else lengths
    K = int(rng.integers(1, 5 if kind == "dyadic" else 11)) if K is None else K
    k_min = int(rng.random() < 0.3) if k_min is None else k_min
    missing = bool(rng.random() < 0.25) if missing is None else missing
    allowed = tuple(range(k_min, K + 1))
    if missing:
        kept = rng.random(len(allowed)) < 0.6
        kept[rng.integers(len(allowed))] = True
        allowed = tuple(k for k, keep in zip(allowed, kept, strict=True) if keep)
    depth_dependent = bool(rng.random() < 0.4) if depth_dependent is None else depth_dependent
    unique = rng.choice(["routing", "routing", "recorded", "dense"]) if unique is None else unique
    alpha_zero = bool(rng.random() < 0.15) if alpha_zero is None else alpha_zero
    layers = int(rng.choice([1, 2, 4] if kind != "general" else range(1, 7))) if layers is None else layers
    num_experts = int(rng.choice([1, 2, 8, 63, 64, 65, 128, 256, 257, 1024])) if num_experts is None else num_experts
    top_k = int(rng.integers(1, min(8, num_experts) + 1))
    fits = num_experts <= 256
    id_type = ("uint8" if fits and rng.random() < 0.7 else "uint16") if id_type is None else id_type

    matches = [_matches(rng, kind, n, K, depth_dependent) for n in lengths]
    routing = tuple(
        random_routing(rng, n, layers=layers, top_k=top_k, num_experts=num_experts, id_type=id_type) for n in lengths
    )
    tables = tuple(_unique_table(rng, kind, unique, routing=routing[g], K=K, top_k=top_k) for g in range(len(lengths)))
    return Problem(
        K=K,
        lengths=lengths,
        allowed=allowed,
        match_prob=None if depth_dependent else tuple(one for one, _ in matches if one is not None),
        match_probs=tuple(table for _, table in matches),
        unique_experts=tables,
        experts=routing if unique == "routing" else None,
        layers=layers,
        top_k=top_k,
        num_experts=num_experts,
        context_start=tuple(int(c) for c in rng.integers(1, 2000 if kind == "general" else 50, size=len(lengths))),
        **_coefficients(rng, kind, allowed, K, alpha_zero),
    )


def _unique_table(
    rng: np.random.Generator,
    kind: Kind,
    unique: Unique,
    *,
    routing: NDArray[np.uint8] | NDArray[np.uint16],
    K: int,
    top_k: int,
) -> NDArray[np.float64]:
    N = len(routing)
    if unique == "dense":
        return np.zeros((N, K + 1))
    if unique == "routing":
        return np.array(naive.unique_experts(routing.tolist(), K), dtype=np.float64).reshape(N, K + 1)
    steps = rng.uniform(0, top_k, size=(N, K + 1)) if kind == "general" else rng.integers(0, top_k + 1, size=(N, K + 1))
    steps[:, :1] = top_k  # one token: top_k experts; each further position (junk tails too) adds some
    return np.cumsum(steps, axis=1).astype(np.float32).astype(np.float64)


@st.composite
def problems(draw: st.DrawFn, kind: Kind = "general", most_positions: int = 12, most_length: int = 6) -> Problem:
    """Problems whose structure shrinks (generations, N, K, options); the numbers follow from a drawn seed."""
    most_positions = min(most_positions, 12) if kind == "dyadic" else most_positions
    num_experts = draw(st.sampled_from([1, 2, 8, 63, 64, 65, 128, 256, 257, 1024]))
    return random_problem(
        draw(st.integers(0, 2**16)),
        kind,
        lengths=tuple(draw(st.lists(st.integers(0, most_positions), min_size=1, max_size=4))),
        K=draw(st.integers(1, most_length)),
        k_min=draw(st.integers(0, 1)),
        missing=draw(st.booleans()),
        depth_dependent=draw(st.booleans()),
        unique=draw(st.sampled_from(["dense", "routing", "recorded"])),
        alpha_zero=draw(st.booleans()),
        num_experts=num_experts,
        layers=draw(st.sampled_from([1, 2, 4] if kind != "general" else [1, 2, 3, 4, 5, 6])),
        id_type=draw(st.sampled_from(["uint8", "uint16"] if num_experts <= 256 else ["uint16"])),
    )


def dyadic_problems() -> st.SearchStrategy[Problem]:
    """Exact arithmetic: solvers must agree bit for bit."""
    return problems(kind="dyadic")


def binary_problems() -> st.SearchStrategy[Problem]:
    """Matches known to be 0 or 1, longer texts, exact arithmetic."""
    return problems(kind="binary", most_positions=40, most_length=10)


def general_problems() -> st.SearchStrategy[Problem]:
    """Anything a trace can hold; compare V to 1e-12 relative and k by its Q."""
    return problems(kind="general", most_positions=30, most_length=10)
