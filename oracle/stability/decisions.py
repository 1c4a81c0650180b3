"""How often each draft length is optimal at a decision, over draws of the cost coefficients.

Labels, by the share of draws in which k* (of the fitted coefficients) is optimal:

- `stable`: at least 95 % of the draws;
- `leaning`: at least half, so that no other length is optimal more often;
- `open`: less than half: the coefficients do not say which length is best.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.ablation import q_values
from oracle.costs import LengthCosts, LengthRange, length_costs
from oracle.latency.draws import Draws
from oracle.problem import Problem
from oracle.result_files import list_array
from oracle.solver import LANES, Solution, solve_many

LABELS = ("stable", "leaning", "open")
STABLE, LEANING = 0.95, 0.5  # least share of draws
_ROUNDING = 1e-9  # draws; far below one

COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("draft_length", pa.int16(), "k*, the cost-optimal draft length of the fitted coefficients"),
    ("k_star_probability", pa.float32(), "share of the draws of the cost coefficients in which k* is optimal"),
    (
        "label",
        pa.dictionary(pa.int8(), pa.string()),
        "stable (k* optimal in at least 95 % of the draws), leaning (at least 50 %), open (less)",
    ),
    ("runner_up", pa.int16(), "the other length that is optimal most often; null where k* always is"),
    ("runner_up_probability", pa.float32(), "share of the draws in which the runner-up is optimal"),
    (
        "expected_regret_ms",
        pa.float64(),
        "mean over the draws of Q(k*) - V under the drawn coefficients, optimal ever after, milliseconds",
    ),
    ("visit_prob", pa.float64(), "probability that a round of the optimal policy starts here"),
)


@dataclass(frozen=True)
class DecisionDraws:
    """The decisions of a batch under W draws of the coefficients.

    Attributes
    ----------
    draft_length : (N,) int16
        k* of the fitted coefficients.
    optimal : (N, K + 1) int32
        Draws in which each length is optimal; rows sum to W.
    regret_ms : (N,) float64, milliseconds
        Mean over the draws of Q(t, k*) - V(t), both under the drawn coefficients: one round with k*, then optimal.
    value_ms : (G, W) float64, milliseconds
        V(0) of every generation under each draw.
    """

    draft_length: NDArray[np.int16]
    optimal: NDArray[np.int32]
    regret_ms: NDArray[np.float64]
    value_ms: NDArray[np.float64]

    @property
    def draws(self) -> int:
        """W, how many draws there were."""
        return int(self.value_ms.shape[1])

    @property
    def probability(self) -> NDArray[np.float64]:
        """Share of the draws in which k* is optimal, (N,)."""
        return self.optimal[np.arange(len(self.optimal)), self.draft_length] / self.draws

    @property
    def label(self) -> NDArray[np.int8]:
        """Index into `LABELS`, (N,)."""
        kept = self.optimal[np.arange(len(self.optimal)), self.draft_length]
        stable, leaning = (kept >= share * self.draws - _ROUNDING for share in (STABLE, LEANING))
        return np.where(stable, 0, np.where(leaning, 1, 2)).astype(np.int8)

    def runner_up(self) -> tuple[NDArray[np.int16], NDArray[np.float64]]:
        """The other length that is optimal most often (the shortest of equals, -1 where there is none), its share."""
        t = np.arange(len(self.optimal))
        others = self.optimal.copy()
        others[t, self.draft_length] = 0
        other = others.argmax(axis=1)
        times = others[t, other]
        return np.where(times > 0, other, -1).astype(np.int16), times / self.draws


def draw_costs(draws: Draws, lengths: LengthRange) -> list[LengthCosts]:
    """Lay every drawn model out by draft length."""
    return [length_costs(model, lengths.k_min, lengths.k_max) for model in draws.models]


def decide(problem: Problem, drawn: Sequence[LengthCosts], oracle: Solution) -> DecisionDraws:
    """Solve a batch under every draw, `LANES` draws at a time, and count.

    Parameters
    ----------
    problem
        A batch of generations.
    drawn
        Cost coefficients, W draws.
    oracle
        The solution under the fitted coefficients.
    """
    k, t = oracle.draft_length, np.arange(problem.positions)
    optimal = np.zeros((problem.positions, problem.k_max + 1), dtype=np.int32)
    regret = np.zeros(problem.positions)
    values = np.empty((problem.generations, len(drawn)))
    for start in range(0, len(drawn), LANES):
        block = drawn[start : start + LANES]
        for w, (costs, solution) in enumerate(zip(block, solve_many(problem, block), strict=True), start):
            optimal[t, solution.draft_length] += 1
            values[:, w] = solution.value_ms(problem.offsets)
            moved = np.flatnonzero(solution.draft_length != k)
            if len(moved):
                q = q_values(problem, costs, solution)
                regret[moved] += np.maximum(q[moved, k[moved]] - q[moved, solution.draft_length[moved]], 0.0)
    return DecisionDraws(k, optimal, regret / len(drawn), values)


def rows_table(
    found: DecisionDraws, visit_prob: NDArray[np.float64], generation: tuple[str, ...], offsets: NDArray[np.int64]
) -> pa.Table:
    """The stability file: one row a generation, list columns over its positions (`COLUMNS`)."""
    other, share = found.runner_up()
    label = pa.DictionaryArray.from_arrays(pa.array(found.label), pa.array(LABELS))
    values = {
        "draft_length": found.draft_length,
        "k_star_probability": found.probability.astype(np.float32),
        "label": label,
        "runner_up": pa.array(other, mask=other < 0),
        "runner_up_probability": share.astype(np.float32),
        "expected_regret_ms": found.regret_ms,
        "visit_prob": visit_prob,
    }
    lists = {name: list_array(pa.array(values[name], type=kind), offsets) for name, kind, _ in COLUMNS}
    return pa.table({"generation": pa.array(generation, pa.string()), **lists})
