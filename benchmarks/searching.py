"""Contests of the kernels that search: every breakpoint along a scale on alpha, and where rules stop."""

from collections.abc import Iterator

import numpy as np

from oracle.alpha_path.path import S_MAX, alpha_path, scaled
from oracle.columns import frozen
from oracle.problem import Problem
from oracle.solver import solve_many

from .contests import Bout, Contest, Rival
from .inputs import K, costs, first_generations, problem_of

GROUP = "search"
SCALES = 400  # of the sweep that a path in alpha replaces
THRESHOLDS = 100


def contests(generations: int, slow_generations: int) -> Iterator[Contest]:
    """The path in alpha beside a dense sweep, and a sweep of thresholds beside one walk for each."""
    problem = problem_of(generations)
    yield _path(problem, first_generations(problem, slow_generations))
    yield _stopping(problem)


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
    return Contest(
        name="scale_path",
        what=f"every breakpoint of s in [0, {S_MAX:g}], K = {K}",
        bytes_per_position=8 * (2 * K + 2) + 10,
        bouts=(
            Bout(problem.positions, lambda: alpha_path(problem, model)),
            Bout(few.positions, lambda: alpha_path(few, model), {"a sweep": sweep}),
        ),
        note="output allocated in the run",
    )


def _stopping(problem: Problem) -> Contest:
    from kernels.stopping import stop  # noqa: PLC0415  # numba is slow to import

    n = problem.positions
    # draft on while the survival is at least a threshold: 1 <= (1 / T) · S_j
    gain = frozen(np.ascontiguousarray(problem.survival.T))
    cost = frozen(np.ones((K, n)))
    price = frozen(1.0 / np.linspace(0.05, 0.95, THRESHOLDS))
    lengths = frozen(np.arange(K + 1, dtype=np.int16))
    column = frozen(np.arange(THRESHOLDS))
    verified, made = np.empty((2, n, THRESHOLDS), dtype=np.int16)
    one = np.empty((2, n, 1), dtype=np.int16)

    def ours() -> None:
        stop(cost, gain, price, column, lengths, lengths, verified, made)

    def one_by_one() -> None:
        for p in range(THRESHOLDS):
            stop(cost, gain, price[p : p + 1], column[:1], lengths, lengths, one[0], one[1])

    def check() -> None:
        ours()
        for p in (0, THRESHOLDS // 2, THRESHOLDS - 1):
            stop(cost, gain, price[p : p + 1], column[:1], lengths, lengths, one[0], one[1])
            np.testing.assert_array_equal(verified[:, p], one[0, :, 0])

    return Contest(
        name=f"stop, {THRESHOLDS} thresholds",
        what=f"where {THRESHOLDS} rules stop, K = {K}",
        bytes_per_position=16 * K + 4 * THRESHOLDS,
        bouts=(Bout(n, ours, {"one by one": Rival(one_by_one, check, f"{THRESHOLDS} walks")}),),
    )
