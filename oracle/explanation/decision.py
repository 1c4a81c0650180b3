"""One decision taken apart: what every draft length would cost here, of what, and what moves the cut.

Everything is relative to the decision: Q(t, k) - V(t + 1) is the cost of the round less the credit for the positions it
is expected to save, Σ_{j=1..k} S_j(t) · d(t + j). Under the oracle's own policy d is linear in the cost coefficients,
d = Σ_c e_c with e_c the marginal value when only the component c costs anything; so the credit splits too, and with it
every difference between two lengths, the future included.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle.ablation import decompose, q_values
from oracle.alpha_path.path import NONE as NO_CHANGE
from oracle.alpha_path.path import alpha_path
from oracle.columns import frozen
from oracle.costs import LengthCosts
from oracle.problem import Problem
from oracle.solver import Solution, describe, evaluate, solve
from oracle.traces import Traces

COMPONENTS = ("verify_ms", "expert_ms", "context_ms", "draft_ms", "reject_ms")


@dataclass(frozen=True)
class Comparison:
    """Another length against k* under the full and under the changed cost.

    Attributes
    ----------
    draft_length
        The other length.
    full_ms, changed_ms : (7,) float64, milliseconds
        Q(other) - Q(k*) by term (`ablation.TERMS`), each with the continuation of its own optimal policy.
    """

    draft_length: int
    full_ms: NDArray[np.float64]
    changed_ms: NDArray[np.float64]

    @property
    def direct_ms(self) -> float:
        """What the change takes from, or adds to, the difference of the two rounds themselves, milliseconds."""
        return float((self.changed_ms - self.full_ms)[:-1].sum())

    @property
    def continuation_ms(self) -> float:
        """What it adds because the positions saved have another price under the changed policy, milliseconds."""
        return float((self.changed_ms - self.full_ms)[-1])


@dataclass(frozen=True)
class ScaleChanges:
    """The nearest scales s of all alpha, below and above s = 1, at which k* changes; NaN and None where none does.

    The search ends at s = 0 below and at `searched_to` above.
    """

    below: float
    draft_length_below: int | None
    above: float
    draft_length_above: int | None
    searched_to: float


@dataclass(frozen=True)
class Explanation:
    """One decision; n allowed lengths, K the longest.

    Attributes
    ----------
    position, positions
        t, and N of the generation.
    context_len
        L(t), tokens.
    lengths : (n,) int64
        Draft lengths that may be chosen, ascending; the first axis of the arrays by length.
    rest_ms
        V(t + 1), milliseconds.
    q_ms, changed_q_ms : (n,) float64, milliseconds
        Q(t, k) - V(t + 1), under the full and under the changed cost, each with its own V.
    cost_ms : (n, 5) float64, milliseconds
        C(t, k) by `COMPONENTS`.
    credit_ms : (n, 5) float64, milliseconds
        Price of the positions that the round is expected to save, by the component that would have to be paid there.
    terms_ms : (n, 7) float64, milliseconds
        Q(t, k) - Q(t, k*) by term (`ablation.TERMS`).
    draft_length, changed_length
        k*, and the optimum under the changed cost.
    runner_up
        The best other length; None where only one is allowed.
    q_gap_ms, expected_advance, modal_advance, visit_prob
        As in `solver.Decisions`.
    match_prob : (K,) float64
        Conditional match probability of draft token j + 1; NaN at and past the end of the text.
    survival : (K,) float64
        S_1 … S_K, their products; NaN past the end, where a solve counts on nothing.
    unique_experts : (K + 1,) float64
        U(t, 0 … K).
    next_one, ablated
        k* + 1 and the changed optimum against k*; None where k* + 1 may not be chosen, where nothing shifts.
    scale
        The scales of alpha at which the cut moves.
    """

    position: int
    positions: int
    context_len: float
    lengths: NDArray[np.int64]
    rest_ms: float
    q_ms: NDArray[np.float64]
    changed_q_ms: NDArray[np.float64]
    cost_ms: NDArray[np.float64]
    credit_ms: NDArray[np.float64]
    terms_ms: NDArray[np.float64]
    draft_length: int
    changed_length: int
    runner_up: int | None
    q_gap_ms: float
    expected_advance: float
    modal_advance: int
    visit_prob: float
    match_prob: NDArray[np.float64]
    survival: NDArray[np.float64]
    unique_experts: NDArray[np.float64]
    next_one: Comparison | None
    ablated: Comparison | None
    scale: ScaleChanges

    @property
    def shift(self) -> int:
        """How much longer the draft gets under the changed cost."""
        return self.changed_length - self.draft_length

    @property
    def next_match_prob(self) -> float:
        """Conditional match probability of the token after k*; NaN at the end of the text and at K."""
        return float(self.match_prob[self.draft_length]) if self.draft_length < len(self.match_prob) else float("nan")

    @property
    def new_experts(self) -> NDArray[np.float64]:
        """Experts that each position adds to the pass, mean per layer: U(t, 0), U(t, j) - U(t, j - 1); (K + 1,)."""
        return np.diff(self.unique_experts, prepend=0.0)

    def attributed_ms(self, draft_length: int) -> NDArray[np.float64]:
        """Q(t, k) - Q(t, k*) by `COMPONENTS`: the rounds themselves, and the price of the positions saved; (5, 2)."""
        here, best = np.searchsorted(self.lengths, (draft_length, self.draft_length))
        return np.stack([self.cost_ms[here] - self.cost_ms[best], self.credit_ms[best] - self.credit_ms[here]], axis=1)


def explain(
    problem: Problem, costs: LengthCosts, changed: LengthCosts, position: int, match_prob: NDArray[np.float64]
) -> Explanation:
    """Explain the decision at one position of a generation.

    Parameters
    ----------
    problem
        One generation.
    costs, changed
        The full cost, and the one it is compared with (`LengthCosts.without_experts`).
    position
        t, 0 … N - 1.
    match_prob : (K,) float64
        `match_probs_from` the position.
    """
    oracle, other = solve(problem, costs), solve(problem, changed)
    said = describe(problem, costs, oracle)
    lengths = np.array(costs.lengths)
    here = one_decision(problem, position)
    best, ablated = int(oracle.draft_length[position]), int(other.draft_length[position])
    follow, follow_changed = _from(oracle, position), _from(other, position)
    q = q_values(here, costs, follow)[0, lengths]
    others = lengths[lengths != best]

    def compared(k: int) -> Comparison:
        both = ((costs, follow), (changed, follow_changed))
        full, under_change = (decompose(here, each, after, _int(k), _int(best))[0] for each, after in both)
        return Comparison(k, full, under_change)

    longer = best + 1 <= costs.k_max and bool(costs.allowed[best + 1])
    return Explanation(
        position=position,
        positions=problem.positions,
        context_len=float(problem.context_len[position]),
        lengths=lengths,
        rest_ms=float(oracle.marginal_ms[position + 1 :].sum()),
        q_ms=q,
        changed_q_ms=q_values(here, changed, follow_changed)[0, lengths],
        cost_ms=_costs_by_component(here, costs)[lengths],
        credit_ms=_credit_by_component(problem, costs, oracle, position)[lengths],
        terms_ms=np.stack([decompose(here, costs, follow, _int(int(k)), _int(best))[0] for k in lengths]),
        draft_length=best,
        changed_length=ablated,
        runner_up=int(others[q[lengths != best].argmin()]) if len(others) else None,
        q_gap_ms=float(said.q_gap_ms[position]),
        expected_advance=float(said.expected_advance[position]),
        modal_advance=int(said.modal_advance[position]),
        visit_prob=float(said.visit_prob[position]),
        match_prob=match_prob,
        survival=np.cumprod(match_prob, dtype=np.float64),
        unique_experts=problem.unique_experts[position],
        next_one=compared(best + 1) if longer else None,
        ablated=compared(ablated) if ablated != best else None,
        scale=scale_changes(problem, costs, position, oracle.draft_length),
    )


def one_decision(problem: Problem, position: int) -> Problem:
    """The problem's row of one position: all that Q needs besides what is followed afterwards."""
    rows = slice(position, position + 1)
    return replace(
        problem,
        offsets=frozen(np.array([0, 1])),
        context_len=problem.context_len[rows],
        survival=problem.survival[rows],
        unique_experts=problem.unique_experts[rows],
        to_end=problem.to_end[rows],
    )


def match_probs_from(traces: Traces, position: int, k_max: int) -> NDArray[np.float64]:
    """Conditional match probabilities of a round that starts at `position`, NaN past the text's end; (K,)."""
    found = np.full(k_max, np.nan)
    left = min(k_max, traces.positions - position)
    if traces.match_probs is not None:
        found[:left] = traces.match_probs[position, :left]
    else:
        assert traces.match_prob is not None
        found[:left] = traces.match_prob[position : position + left]
    return found


def components_alone(costs: LengthCosts) -> tuple[LengthCosts, ...]:
    """The costs with all components but one at 0, in the order of `COMPONENTS`."""
    nothing = np.zeros_like(costs.verify_ms)
    free = replace(costs, verify_ms=nothing, alpha_ms=nothing, context_ms=nothing, draft_ms=nothing, reject_ms=nothing)
    return (
        replace(free, verify_ms=costs.verify_ms),
        replace(free, alpha_ms=costs.alpha_ms),
        replace(free, context_ms=costs.context_ms),
        replace(free, draft_ms=costs.draft_ms),
        replace(free, reject_ms=costs.reject_ms),
    )


def _costs_by_component(here: Problem, costs: LengthCosts) -> NDArray[np.float64]:
    """C(t, k) of one decision by component, (K + 1, 5), milliseconds; 0 where a length is not allowed."""
    experts = costs.alpha_ms * here.unique_experts[0]
    context = costs.context_ms * here.context_len[0]
    return np.stack([costs.verify_ms, experts, context, costs.draft_ms, costs.reject_ms], axis=1)


def _credit_by_component(problem: Problem, costs: LengthCosts, oracle: Solution, position: int) -> NDArray[np.float64]:
    """Σ_{j=1..k} S_j(t) · e_c(t + j) by component, (K + 1, 5), milliseconds, e_c under the oracle's own policy."""
    credit = np.zeros((problem.k_max + 1, len(COMPONENTS)))
    policy = oracle.draft_length[:, None]
    for c, alone in enumerate(components_alone(costs)):
        e = evaluate(problem, alone, policy)[position + 1 : position + 1 + problem.k_max, 0]
        credit[1 : len(e) + 1, c] = np.cumsum(problem.survival[position, : len(e)] * e)
        credit[len(e) + 1 :, c] = credit[len(e), c]
    return credit


def _from(solution: Solution, position: int) -> Solution:
    """The solution as one decision sees it: its own position, and what is followed afterwards."""
    d = solution.padded_marginal_ms
    k_max = len(d) - len(solution.draft_length)
    return Solution(solution.draft_length[position : position + 1], d[position : position + 1 + k_max])


def _int(k: int) -> NDArray[np.int64]:
    return np.array([k], dtype=np.int64)


def scale_changes(problem: Problem, costs: LengthCosts, position: int, chosen: NDArray[np.int16]) -> ScaleChanges:
    """Where k* of a position changes next if all alpha are scaled, from the exact path of the generation.

    `chosen` : (N,) int16 is k* as the solver decides ties.
    """
    path = alpha_path(problem, costs)
    below, above = path.change_below(1.0, chosen), path.change_above(1.0, chosen)
    lengths = (int(change.draft_length[position]) for change in (below, above))
    k_below, k_above = (None if k == NO_CHANGE else k for k in lengths)
    return ScaleChanges(float(below.s[position]), k_below, float(above.s[position]), k_above, path.s_max)
