"""What policies look at, sorted by who can know it: an engine while it drafts, or only the trace afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from oracle.costs import LengthCosts
from oracle.errors import InputError
from oracle.prices import priced_problem
from oracle.problem import Problem
from oracle.solver import Solution, solve
from oracle.traces import Traces


@dataclass(frozen=True)
class Training:
    """Constants that online policies carry from training generations.

    Attributes
    ----------
    mean_unique : (K + 1,) float64, unique experts per MoE layer, or None
        Mean U by draft length; finite where the length is allowed.
    best_static
        Best static draft length over all training generations; None: not trained.
    best_by_category
        Best static draft length of each category.
    """

    mean_unique: NDArray[np.float64] | None = None
    best_static: int | None = None
    best_by_category: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Inputs:
    """One batch of generations as policies see it.

    Attributes
    ----------
    traces
        The batch.
    problem
        The same batch as the kernels read it.
    costs
        Cost coefficients by draft length, for the same K.
    training
        Constants from training generations.
    oracle, blind, refitted
        Solutions of the full cost model, of alpha = 0, and of alpha = 0 with beta0 refitted. The first two are
        solved for when they are wanted and None.
    """

    traces: Traces
    problem: Problem
    costs: LengthCosts
    training: Training = field(default_factory=Training)
    oracle: Solution | None = None
    blind: Solution | None = None
    refitted: Solution | None = None

    @cached_property
    def optimum(self) -> Solution:
        """The optimum of the full cost model."""
        return solve(self.problem, self.costs) if self.oracle is None else self.oracle

    @cached_property
    def blind_optimum(self) -> Solution:
        """The optimum of alpha = 0, everything else kept."""
        return solve(self.problem, self.costs.without_experts()) if self.blind is None else self.blind

    @property
    def confidence(self) -> NDArray[np.float64]:
        """The draft's confidence in its proposals along a round from t; (N, K), probabilities.

        Column j - 1 is what an engine sees at depth j of a round from t: the draft's own probability of the
        j-th token of its chain. A trace holds ``draft_prob[t]``, the confidence in the first proposal from the
        true prefix. As long as the chain has matched, its prefix is the true one, so depth j has
        ``draft_prob[t + j - 1]``. Beyond the first mismatch the chain goes its own way and the trace does not
        know its confidence; the value of the true path stands in. That cannot change what a round emits, only
        how many tokens it drafts in vain.

        Past the end of the text nothing was recorded, and a policy that stopped there would know N. The
        beginning of the same text stands in (rows counted modulo N), which a round from t has always seen by then.

        So a decision is the same however the text goes on, with one exemption: a choice at one of the last K - 1
        positions (t > N - K) may rest on stand-ins, at depths j > N - t, and can differ from the choice that the
        same engine makes where the text goes on and has other confidences there. It cannot gain by that what no
        engine has: the stand-ins say nothing of N or of later tokens.

        Raises
        ------
        InputError
            The trace has no draft_prob.
        """
        return self.confidence_by_depth(slice(0, self.problem.positions)).T

    def confidence_by_depth(self, rows: slice) -> NDArray[np.float64]:
        """`confidence` of some positions, one depth after the other; (K, rows)."""
        recorded = self._recorded_confidence
        first, end, _ = rows.indices(self.problem.positions)
        by_depth = np.empty((self.problem.k_max, end - first))
        for j in range(self.problem.k_max):
            path = recorded[first + j : end + j]
            by_depth[j, : len(path)] = path
        late, stand_in = self._past_end
        some = slice(*np.searchsorted(late, (first, end)))
        by_depth[:, late[some] - first] = stand_in[:, some]
        return by_depth

    @property
    def _recorded_confidence(self) -> NDArray[np.float32]:
        if self.traces.draft_prob is None:
            raise InputError(
                f"needs the column draft_prob (the draft's probability of its own proposal), which "
                f"{self.traces.source or 'the trace'} lacks; record it, or take a policy that does without: "
                "static:K, budget, or an informed form (survival!:T, goodput!, slope!:L)"
            )
        return self.traces.draft_prob

    @cached_property
    def _past_end(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Positions from which a draft reaches past the end, (M,), and the confidences from there, (K, M)."""
        offsets, K = self.problem.offsets, self.problem.k_max
        sizes = np.repeat(np.diff(offsets), np.diff(offsets))
        left = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(self.problem.positions)
        late = np.flatnonzero(left < K)
        size, within = sizes[late], (sizes - left)[late]
        rows = late - within + (within + np.arange(K)[:, None]) % size
        return late, self._recorded_confidence[rows]

    def survival(self, informed: bool, rows: slice) -> NDArray[np.float64]:
        """S_1 … S_K of some positions: true ones (informed), or products of the draft's confidences; (K, rows)."""
        if informed:
            return self.problem.survival[rows].T
        products = self.confidence_by_depth(rows)
        for before, product in pairwise(products):
            np.multiply(before, product, out=product)
        return products

    def round_ms(self, k: int, informed: bool, rows: slice = slice(None)) -> NDArray[np.float64]:
        """C(t, k) with the true U (informed), or with the mean U of training generations; (rows,), milliseconds.

        Raises
        ------
        InputError
            Not informed, and no mean U of training generations is given.
        """
        costs = self.costs
        if informed:
            unique = self.problem.unique_experts[rows, k]
        elif self.training.mean_unique is not None:
            unique = self.training.mean_unique[k]
        elif costs.alpha_ms.any():
            raise InputError(
                "needs the mean unique experts by m of training generations; learn them from traces, or take the "
                "informed form (with !)"
            )
        else:
            unique = np.zeros(1)
        context_ms = costs.context_ms[k] * self.problem.context_len[rows]
        return np.asarray(costs.base_ms[k] + costs.alpha_ms[k] * unique + context_ms)


def inputs_of(
    traces: Traces, costs: LengthCosts, unique_experts: str | None = None, training: Training | None = None
) -> Inputs:
    """Lay a batch out for policies.

    Parameters
    ----------
    traces
        A batch; `draft_prob`, `category` and the logged rounds are used where a policy needs them.
    costs
        Cost coefficients by draft length.
    unique_experts
        `recorded`, `routing`, or None for what the trace holds.
    training
        Constants from training generations.
    """
    problem = priced_problem(traces, costs, unique_experts)
    return Inputs(traces, problem, costs, training or Training())
