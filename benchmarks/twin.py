"""The kernels' C++ twin, compiled on the spot if there is a compiler."""

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.costs import LengthCosts
from oracle.problem import Problem, aligned

from .inputs import MODELS, K, Routing
from .texts import Requests

NAME = "C++"
_FLAGS = ("-O3", "-march=native", "-std=c++17", "-ffp-contract=off", "-shared", "-fPIC")
_COMPILERS = ("g++", "c++", "clang++")
_VECTOR = 8  # layers of a vector


class Twin:
    """The compiled twin; each method gives what our kernel of that name gives."""

    def __init__(self, library: ctypes.CDLL, compiler: str) -> None:
        self._library = library
        self.compiler = compiler

    def solve_one(self, problem: Problem, costs: LengthCosts) -> tuple[NDArray[np.float64], NDArray[np.int16]]:
        """Give d(t), (N,), milliseconds, and k*(t), (N,)."""
        marginal = np.empty(problem.positions)
        draft_length = np.empty(problem.positions, dtype=np.int16)
        coefficients = (np.ascontiguousarray(c) for c in (costs.base_ms, costs.alpha_ms, costs.context_ms))
        self._call("solve_one", *_shared(problem), *coefficients, marginal, draft_length)
        return marginal, draft_length

    def solve_lanes(
        self,
        problem: Problem,
        cost: NDArray[np.float64],
        marginal: NDArray[np.float64],
        draft_length: NDArray[np.int16],
    ) -> None:
        """Solve under `MODELS` cost models; arrays as in `kernels.bellman.solve_lanes`."""
        self._call("solve_lanes", *_shared(problem), cost, marginal, draft_length)

    def new_experts(
        self, experts: NDArray[Any], offsets: NDArray[np.int64], routing: Routing, new: NDArray[np.uint16]
    ) -> None:
        """Count new experts into `new` (N, K + 1) from ids (N, layers * top_k)."""
        words = -(-routing.num_experts // 64)
        lanes = -(-routing.layers // _VECTOR) * _VECTOR
        masks = aligned((K + 1, words * lanes), np.uint64)
        self._call(
            f"new_experts_{routing.top_k}", experts, offsets, len(offsets) - 1, routing.layers, words, lanes, masks, new
        )

    def window_masks(self, experts: NDArray[Any], routing: Routing, masks: NDArray[np.uint64]) -> None:
        """Make the masks (W, words * layers) of windows (W, rows, layers * top_k)."""
        words = -(-routing.num_experts // 64)
        self._call(f"window_masks_{routing.top_k}", experts, *experts.shape[:2], routing.layers, words, masks)

    def batch_unions(
        self,
        masks: NDArray[np.uint64],
        paths: NDArray[np.int32],
        group: NDArray[np.int32],
        sums: NDArray[np.int64],
        reached: NDArray[np.int64],
    ) -> None:
        """Join windows of these masks along paths; `sums` and `reached` (variants, B) as the kernel's."""
        joined = aligned((len(sums), masks.shape[1]), np.uint64)
        self._call("batch_unions", masks, masks.shape[1], paths, *paths.shape, group, len(sums), joined, sums, reached)

    def stack_positions(self, log: Requests, position: NDArray[np.int64]) -> None:
        """Positions (n,) of the blocks that requests look for."""
        uses = int(log.blocks[~log.looks].sum())
        tree, last = np.zeros(uses + 1, np.int64), np.zeros(len(log.block), np.int64)
        events = log.request, log.blocks, log.looks
        self._call("stack_positions", log.block, log.first, *events, len(log.request), uses, tree, last, position)

    def _call(self, name: str, *arguments: NDArray[Any] | int) -> None:
        """Pass arrays as pointers and whole numbers as int64."""
        getattr(self._library, name)(
            *(ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_int64(a) for a in arguments)
        )


def _shared(problem: Problem) -> tuple[NDArray[np.float64] | int, ...]:
    return problem.survival, problem.unique_experts, problem.context_len, problem.positions


@cache
def build() -> Twin | str:
    """Compile and load the twin; a sentence instead where that is not possible."""
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        return "no compiler"
    source = Path(__file__).with_name("twin.cpp")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "twin.so")
        command = [compiler, *_FLAGS, f"-DK={K}", f"-DW={MODELS}", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"{Path(compiler).name} does not compile it: {done.stderr.strip().splitlines()[0]}"
        return Twin(ctypes.CDLL(str(target)), Path(compiler).name)  # stays loaded when the folder is gone
