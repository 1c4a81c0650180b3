"""Contests of the kernels that search: every breakpoint along a scale on alpha, and where rules stop."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from oracle.alpha_path.path import S_MAX, alpha_path, scaled
from oracle.columns import frozen
from oracle.problem import Problem
from oracle.solver import solve_many

from . import needs, numpy_rivals
from .contests import Bout, Contest, Rival
from .inputs import GENERATION, K, costs, first_generations, problem_of

GROUP = "search"
SCALES = 400  # of the sweep that a path in alpha replaces
THRESHOLDS = 100


def contests(generations: int, slow_generations: int) -> Iterator[Contest]:
    """The path in alpha beside a dense sweep, and a sweep of thresholds beside one walk for each."""
    problem = problem_of(generations)
    yield _path(problem, first_generations(problem, slow_generations))
    yield _stopping(problem, slow_generations * GENERATION)


def _path(problem: Problem, few: Problem) -> Contest:
    model = costs()
    scales = np.linspace(0.0, S_MAX, SCALES, endpoint=False)
    models = [scaled(model, s) for s in scales]

    def check() -> None:
        """Every scale of the sweep finds the lengths of the path, but for ties of rounding."""
        path = alpha_path(few, model)
        for s, found in zip(scales, solve_many(few, models), strict=True):
            different = path.draft_length_at(float(s)) != found.draft_length
            assert different.mean() < 1e-3

    sweep = Rival(
        lambda: solve_many(few, models), check, f"{SCALES} scales by solve_many: breakpoints between are lost"
    )
    pieces = len(alpha_path(problem, model).s_from) / problem.positions
    return Contest(
        name="scale_path",
        what=f"every breakpoint of s in [0, {S_MAX:g}], K = {K}",
        needs=needs.scale_path(K, pieces),
        bouts=(
            Bout(problem.positions, lambda: alpha_path(problem, model)),
            Bout(few.positions, lambda: alpha_path(few, model), {"a sweep": sweep}),
        ),
        note="output allocated in the run",
    )


class Rules:
    """The arguments of `kernels.stopping.stop`, allocated once: draft on while the survival is at least a threshold.

    That is 1 <= (1 / T) · S_j, from the lowest threshold T to the highest.
    """

    def __init__(self, survival: NDArray[np.float64]) -> None:
        self.gain = frozen(np.ascontiguousarray(survival.T))
        self.cost = frozen(np.ones(self.gain.shape))
        self.price = frozen(1.0 / np.linspace(0.05, 0.95, THRESHOLDS))
        self.verified, self._made = np.empty((2, len(survival), THRESHOLDS), dtype=np.int16)
        self._one = np.empty((2, len(survival), 1), dtype=np.int16)
        self._column, self._lengths = frozen(np.arange(THRESHOLDS)), frozen(np.arange(K + 1, dtype=np.int16))

    def run(self) -> None:
        """Call the kernel for all thresholds."""
        from kernels.stopping import stop  # noqa: PLC0415  # numba is slow to import

        lengths = self._lengths, self._lengths
        stop(self.cost, self.gain, self.price, self._column, *lengths, self.verified, self._made)

    def alone(self, p: int) -> NDArray[np.int16]:
        """Call the kernel for one threshold; what it finds (N,)."""
        from kernels.stopping import stop  # noqa: PLC0415  # numba is slow to import

        which = self.price[p : p + 1], self._column[:1], self._lengths, self._lengths
        stop(self.cost, self.gain, *which, self._one[0], self._one[1])
        return self._one[0, :, 0]


def _stopping(problem: Problem, few: int) -> Contest:
    whole, part = Rules(problem.survival), Rules(problem.survival[:few])

    def one_by_one() -> None:
        for p in range(THRESHOLDS):
            whole.alone(p)

    def check() -> None:
        whole.run()
        for p in (0, THRESHOLDS // 2, THRESHOLDS - 1):
            np.testing.assert_array_equal(whole.verified[:, p], whole.alone(p))

    def in_numpy() -> NDArray[np.int16]:
        return numpy_rivals.stop(part.cost, part.gain, part.price)

    def check_numpy() -> None:
        part.run()
        np.testing.assert_array_equal(in_numpy(), part.verified)

    return Contest(
        name=f"stop, {THRESHOLDS} thresholds",
        what=f"where {THRESHOLDS} rules stop, K = {K}",
        needs=needs.stop(K, THRESHOLDS),
        bouts=(
            Bout(problem.positions, whole.run, {"one by one": Rival(one_by_one, check, f"{THRESHOLDS} walks")}),
            Bout(few, part.run, {"NumPy": Rival(in_numpy, check_numpy, "threshold by threshold")}),
        ),
    )
