"""Compile time: the first call of the kernels in a fresh interpreter, with Numba's cache empty and filled.

Run as a module it makes those first calls itself and prints the seconds.
"""

import sys
import tempfile
import time
from collections.abc import Iterator

from .report import Row
from .subprocesses import PREFIX, answer, run_module

GROUP = "compile"
ALL = "all"
ONE = "one"


def rows(kernels: str) -> Iterator[Row]:
    """Rows of a cold and of a warm start; `kernels`: `ALL`, or `ONE` for the window and solve kernels only."""
    what = {ALL: "decisions, scores, ablation and a sweep", ONE: "decisions only"}[kernels]
    with tempfile.TemporaryDirectory(prefix=PREFIX) as cache:
        for name in ("empty cache", "warm cache"):
            result = run_module("compilation", kernels, environment={"NUMBA_CACHE_DIR": cache})
            seconds = result["first_calls_s"]
            yield Row(
                name=f"compile, {name}",
                group=GROUP,
                what=f"first calls of {what}; {name}",
                unit="s",
                value=seconds,
                least=seconds,
                most=seconds,
                runs=1,
                note=f"imports take {result['imports_s']:.2f} s more",
            )


def first_calls(kernels: str) -> dict[str, float]:
    """Solve a small batch in this interpreter; seconds for the imports and for the first calls."""
    start = time.perf_counter()
    import numba  # noqa: F401, PLC0415
    import numpy as np  # noqa: PLC0415

    from oracle.analysis import Plan, analyse  # noqa: PLC0415
    from oracle.changes import Lane  # noqa: PLC0415
    from oracle.problem import make_problem  # noqa: PLC0415
    from oracle.solver import solve_many  # noqa: PLC0415

    from .inputs import K, costs, sweep_costs, traces_of  # noqa: PLC0415

    imported = time.perf_counter()
    traces = traces_of(np.random.default_rng(1), 1)
    every = kernels == ALL
    lanes = (Lane("experts=0", costs().without_experts()),)
    analyse(traces, Plan(costs(), lanes, decisions=True, score=every, ablate=every))
    if every:
        solve_many(make_problem(traces, K), sweep_costs())
    return {"imports_s": imported - start, "first_calls_s": time.perf_counter() - imported}


if __name__ == "__main__":
    answer(lambda: first_calls(sys.argv[1]))
