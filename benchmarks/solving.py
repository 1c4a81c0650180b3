"""Contests of the Bellman kernels: one cost model, and a sweep of many."""

import platform
import re
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.costs import LengthCosts
from oracle.problem import Problem, aligned
from oracle.solver import describe, solve, solve_many

from . import needs, quantecon_rival, rivals, twin
from .contests import Bout, Contest, Rival
from .inputs import MODELS, K, costs, first_generations, problem_of, sweep_costs
from .timing import interleaved

GROUP = "solve"
_BATCH = 64  # generations of a batch, as walks over files make them
SINGLE_SOLVES, PACKED = "single solves", "packed instructions"  # of `solve_lanes`: what it costs, what it is made of
_PACKED = {
    "x86_64": re.compile(r"\bv?(?:mul|sub)pd\b"),
    "AMD64": re.compile(r"\bv?(?:mul|sub)pd\b"),
    "aarch64": re.compile(r"\bf(?:mul|sub)\s+v\d+\.2d"),
    "arm64": re.compile(r"\bf(?:mul|sub)\.2d\b"),
}
SCALAR_RATIO = 16.0  # 32 models without vectors take more than that many single solves, with them less than 10


def contests(generations: int, slow_generations: int) -> Iterator[Contest]:
    """Contests of one cost model and of `MODELS`; slow rivals get the first few generations only."""
    problem = problem_of(generations)
    yield _one(problem, first_generations(problem, slow_generations))
    yield _many(first_generations(problem, min(generations, _BATCH)))
    yield _lanes(problem)


def _one(problem: Problem, few: Problem) -> Contest:
    model = costs()
    stacked = rivals.stack(problem)
    solution = solve(problem, model)
    gap = describe(problem, model, solution).q_gap_ms

    def check_numpy() -> None:
        marginal, k = rivals.solve_in_numpy(stacked, model)
        np.testing.assert_allclose(marginal, solution.marginal_ms, rtol=1e-11)
        assert ((k == solution.draft_length) | (gap <= 1e-9)).all()

    fast = {"NumPy": Rival(lambda: rivals.solve_in_numpy(stacked, model), check_numpy, "all generations at once")}
    absent = {}
    built = twin.build()
    if isinstance(built, twin.Twin):

        def check_twin() -> None:
            marginal, k = built.solve_one(problem, model)
            np.testing.assert_array_equal(marginal, solution.marginal_ms)
            np.testing.assert_array_equal(k, solution.draft_length)

        fast[twin.NAME] = Rival(lambda: built.solve_one(problem, model), check_twin, f"{built.compiler}, same bits")
    else:
        absent[twin.NAME] = built
    slow = {"plain Python": _python_rival(few, model)}
    if quantecon_rival.available():
        slow[quantecon_rival.NAME] = _quantecon_rival(few, model)
    else:
        absent[quantecon_rival.NAME] = "not installed"
    return Contest(
        name="solve_one",
        what=f"one cost model, K = {K}",
        needs=needs.solve(K),
        bouts=(
            Bout(problem.positions, lambda: solve(problem, model), fast),
            Bout(few.positions, lambda: solve(few, model), slow),
        ),
        absent=absent,
        note="each decision waits for the newest d: a chain that no vector shortens; output allocated in the run",
    )


def values_of(problem: Problem, model: LengthCosts) -> list[NDArray[np.float64]]:
    """V(0) … V(N) of each generation by our solver, milliseconds."""
    marginal = np.split(solve(problem, model).marginal_ms, problem.offsets[1:-1])
    return [np.append(np.cumsum(d[::-1])[::-1], 0.0) for d in marginal]


def _python_rival(few: Problem, model: LengthCosts) -> Rival:
    coefficients = [c.tolist() for c in (model.base_ms, model.alpha_ms, model.context_ms)]
    generations = []
    for first, end in zip(few.offsets[:-1], few.offsets[1:], strict=True):
        # the first survival of a position is its match probability, but for the last one's, which survival drops
        match_prob = [*few.survival[first : end - 1, 0].tolist(), float(few.to_end[end - 1])]
        generations.append((match_prob, few.unique_experts[first:end].tolist(), few.context_len[first:end].tolist()))

    def run() -> list[tuple[list[float], list[int]]]:
        return [rivals.solve_in_python(*generation, *coefficients) for generation in generations]

    def check() -> None:
        for (value, _), expected in zip(run(), values_of(few, model), strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-11)

    return Rival(run, check, "the recursion as it is written down, over lists")


def _quantecon_rival(few: Problem, model: LengthCosts) -> Rival:
    solvers = [quantecon_rival.solver(_generation(few, g), model) for g in range(few.generations)]

    def run() -> list[NDArray[np.float64]]:
        return [solver() for solver in solvers]

    def check() -> None:
        for value, expected in zip(run(), values_of(few, model), strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-11)

    return Rival(run, check, "backward_induction; building its matrices is not timed")


def _generation(problem: Problem, g: int) -> Problem:
    part = slice(int(problem.offsets[g]), int(problem.offsets[g + 1]))
    return Problem(
        offsets=frozen(np.array([0, part.stop - part.start])),
        context_len=frozen(problem.context_len[part]),
        survival=frozen(problem.survival[part]),
        unique_experts=frozen(problem.unique_experts[part]),
        to_end=frozen(problem.to_end[part]),
        experts_from=problem.experts_from,
    )


def _many(batch: Problem) -> Contest:
    """What a walk does with a batch: a much larger one would show how fast the system gives away new memory."""
    models = sweep_costs()
    singles = [solve(batch, model) for model in models]

    def check() -> None:
        for ours, single in zip(solve_many(batch, models), singles, strict=True):
            np.testing.assert_array_equal(ours.draft_length, single.draft_length)
            np.testing.assert_array_equal(ours.marginal_ms, single.marginal_ms)

    one_by_one = Rival(lambda: [solve(batch, model) for model in models], check, f"{MODELS} calls of solve")
    return Contest(
        name="solve_many",
        what=f"{MODELS} cost models at once, K = {K}",
        needs=needs.solve(K, MODELS),
        bouts=(Bout(batch.positions, lambda: solve_many(batch, models), {"one by one": one_by_one}),),
        note="output allocated in the run",
    )


def _lanes(problem: Problem) -> Contest:
    models = sweep_costs()
    lanes = Lanes(problem, models)
    twins, absent = {}, {}
    built = twin.build()
    if isinstance(built, twin.Twin):

        def check_twin() -> None:
            lanes.run()
            marginal, draft_length = lanes.outputs()
            built.solve_lanes(problem, lanes.cost, marginal, draft_length)
            np.testing.assert_array_equal(marginal, lanes.marginal)
            np.testing.assert_array_equal(draft_length, lanes.draft_length)

        into = lanes.outputs()
        twins[twin.NAME] = Rival(
            lambda: built.solve_lanes(problem, lanes.cost, *into), check_twin, f"{built.compiler}, same bits"
        )
    else:
        absent[twin.NAME] = built
    single = Rival(lambda: solve(problem, models[-1]), lanes.check, "one cost model")
    return Contest(
        name="solve_lanes",
        what=f"the kernel for {MODELS} cost models, K = {K}",
        needs=needs.solve(K, MODELS),
        bouts=(Bout(problem.positions, lanes.run, {**twins, "a single solve": single}),),
        absent=absent,
        figures=_vector_figures(),
    )


class Lanes:
    """The arguments of `kernels.bellman.solve_lanes`, allocated once."""

    def __init__(self, problem: Problem, models: list[LengthCosts]) -> None:
        self.problem = problem
        self.models = models
        cost = aligned((K + 1, 3, MODELS))
        for lane, model in enumerate(models):
            cost[:, :, lane] = np.stack([model.base_ms, model.alpha_ms, model.context_ms], axis=1)
        self.cost = frozen(cost.reshape(-1))
        self.marginal, self.draft_length = self.outputs()

    def outputs(self) -> tuple[NDArray[np.float64], NDArray[np.int16]]:
        """Arrays for d (N + K, W) and k* (N, W)."""
        n = self.problem.positions
        return aligned((n + K, MODELS)), np.empty((n, MODELS), dtype=np.int16)

    def run(self, kernel: Callable[..., None] | None = None) -> None:
        """Call the kernel, or one like it."""
        from kernels.bellman import solve_lanes  # noqa: PLC0415

        p = self.problem
        (kernel or solve_lanes)(
            p.survival.reshape(-1),
            p.unique_experts.reshape(-1),
            p.context_len,
            self.cost,
            (0,) * (K + 1),
            (0,) * MODELS,
            self.marginal.reshape(-1),
            self.draft_length.reshape(-1),
        )

    def check(self) -> None:
        """Compare each lane with a solve of its own."""
        self.run()
        for lane, model in enumerate(self.models):
            single = solve(self.problem, model)
            np.testing.assert_array_equal(self.marginal[: self.problem.positions, lane], single.marginal_ms)
            np.testing.assert_array_equal(self.draft_length[:, lane], single.draft_length)


@cache
def packed_instructions() -> int | None:
    """Packed double multiplications and subtractions in the compiled `solve_lanes`; None on a foreign processor."""
    from numba import njit  # noqa: PLC0415

    from kernels.bellman import solve_lanes  # noqa: PLC0415

    pattern = _PACKED.get(platform.machine())
    if pattern is None:
        return None
    # what came out of Numba's disk cache cannot be looked into
    fresh = njit(nogil=True)(solve_lanes.py_func)
    Lanes(problem_of(1), sweep_costs()).run(fresh)
    return sum(len(pattern.findall(text)) for text in fresh.inspect_asm().values())


def lanes_ratio() -> float:
    """Time of a solve under `MODELS` cost models over the time of one."""
    problem = problem_of(16)
    lanes = Lanes(problem, sweep_costs())
    timings = interleaved(
        {"lanes": lanes.run, "single": lambda: solve(problem, lanes.models[0])}, rounds=9, budget_s=1.0
    )
    return timings["lanes"].fastest / timings["single"].fastest


def lanes_vectorised(packed: int | None, ratio: float) -> bool:
    """Say whether `solve_lanes` was compiled to vector instructions that run.

    A vector loop can be there and never run, when a check for overlapping arrays fails: the clock tells. Where the
    instructions are not known the clock is all there is.
    """
    return packed != 0 and ratio < SCALAR_RATIO


def _vector_figures() -> dict[str, float]:
    packed = packed_instructions()
    return {SINGLE_SOLVES: lanes_ratio(), **({} if packed is None else {PACKED: packed})}
