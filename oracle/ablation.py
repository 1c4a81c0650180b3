"""What taking a cost term out changes: the problem is solved again under other coefficients.

The counterfactual here is the source's: alpha = 0, every other coefficient kept ("as is"). A second answer keeps
each length's mean price of experts and takes out only what varies between windows ("refitted").
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.costs import LengthCosts
from oracle.problem import Problem
from oracle.resampling import Interval, bootstrap, cluster_sums
from oracle.solver import Solution, segment_sums

TERMS = ("verify_ms", "expert_load_ms", "expert_price_ms", "context_ms", "draft_ms", "reject_ms", "continuation_ms")


def decompose(
    problem: Problem,
    costs: LengthCosts,
    solution: Solution,
    k: NDArray[np.integer],
    other: NDArray[np.integer],
) -> NDArray[np.float64]:
    """Split Q(t, k) - Q(t, other) into its terms, for every position.

    The terms are differences from the start, so nothing is lost by cancellation: their sum equals the exact
    difference within 8 · eps · Σ|terms|. With one context coefficient for all lengths the context term is 0.

    Parameters
    ----------
    problem, costs, solution
        The solved problem; `solution` says what is followed after this round.
    k, other : (N,) int
        Draft lengths to compare; both must be allowed.

    Returns
    -------
    (N, 7) float64, milliseconds
        In the order of `TERMS`: beta0; more or fewer unique experts at the other length's price, alpha_other ·
        (U_k - U_other); another price of the same experts, (alpha_k - alpha_other) · U_k; context; draft steps;
        rejection; and the continuation, minus the price of the positions the longer draft is expected to save.
    """
    k, other = k.astype(np.int64), other.astype(np.int64)
    t = np.arange(problem.positions)
    U_k, U_other = problem.unique_experts[t, k], problem.unique_experts[t, other]
    alpha = costs.alpha_ms
    terms = np.empty((problem.positions, len(TERMS)))
    terms[:, 0] = costs.verify_ms[k] - costs.verify_ms[other]
    terms[:, 1] = alpha[other] * (U_k - U_other)
    terms[:, 2] = (alpha[k] - alpha[other]) * U_k
    terms[:, 3] = (costs.context_ms[k] - costs.context_ms[other]) * problem.context_len
    terms[:, 4] = costs.draft_ms[k] - costs.draft_ms[other]
    terms[:, 5] = costs.reject_ms[k] - costs.reject_ms[other]
    shorter, longer = np.minimum(k, other), np.maximum(k, other)
    saved = np.zeros(problem.positions)
    d = solution.padded_marginal_ms
    for j in range(1, problem.k_max + 1):
        between = (shorter < j) & (j <= longer)
        saved += np.where(between, problem.survival[:, j - 1] * d[t + j], 0.0)
    terms[:, 6] = np.where(k > other, -saved, saved)
    return terms


def q_values(problem: Problem, costs: LengthCosts, solution: Solution) -> NDArray[np.float64]:
    """Q(t, k) - V(t + 1) for every length, (N, K + 1), milliseconds; inf where a length is not allowed."""
    from kernels.decisions import continuation_credit  # noqa: PLC0415  # numba is slow to import

    credit = np.empty((problem.positions, problem.k_max + 1))
    continuation_credit(problem.survival, solution.padded_marginal_ms, credit)
    cost = costs.base_ms + costs.alpha_ms * problem.unique_experts
    cost += costs.context_ms * problem.context_len[:, None]
    return cost - credit


@dataclass(frozen=True)
class Shifts:
    """How each decision of a batch moves when the expert cost is taken out.

    Attributes
    ----------
    draft_length, ablated_length : (N,) int16
        k* under the full cost and k0* under alpha = 0; the shift is k0* - k*.
    next_match_prob : (N,) float64
        Match probability of the token after k*; NaN at the end of the text and at k_max.
    next_q_ms : (N,) float64, milliseconds
        Q0(k* + 1) - Q0(k*) without the expert cost; NaN where k* + 1 may not be chosen.
    terms_ms : (N, 7) float64, milliseconds
        Q(k0*) - Q(k*) under the full cost, term by term (`TERMS`): what going as far as the ablated policy costs.
    visit_prob : (N,) float64
        Probability that a round of the oracle starts at the position.
    """

    draft_length: NDArray[np.int16]
    ablated_length: NDArray[np.int16]
    next_match_prob: NDArray[np.float64]
    next_q_ms: NDArray[np.float64]
    terms_ms: NDArray[np.float64]
    visit_prob: NDArray[np.float64]


def shifts(
    problem: Problem,
    costs: LengthCosts,
    without: LengthCosts,
    oracle: Solution,
    ablated: Solution,
    visit_prob: NDArray[np.float64],
    match_at: NDArray[np.float32],
) -> Shifts:
    """Compare the optimum with that of alpha = 0 at every position.

    Parameters
    ----------
    problem, costs, oracle
        The problem under the full cost and its solution.
    without, ablated
        The costs with the expert term taken out, and their solution.
    visit_prob : (N,) float64
        Visits of the oracle's policy.
    match_at : (N,) float32
        Conditional match probability of the token after k*(t) draft tokens, NaN where there is none.
    """
    k = oracle.draft_length.astype(np.int64)
    t = np.arange(problem.positions)
    q0 = q_values(problem, without, ablated)
    after = np.minimum(k + 1, problem.k_max)
    next_q = np.where((k < problem.k_max) & costs.allowed[after], q0[t, after] - q0[t, k], np.nan)
    return Shifts(
        draft_length=oracle.draft_length,
        ablated_length=ablated.draft_length,
        next_match_prob=match_at.astype(np.float64),
        next_q_ms=next_q,
        terms_ms=decompose(problem, costs, oracle, ablated.draft_length, oracle.draft_length),
        visit_prob=visit_prob,
    )


@dataclass(frozen=True)
class ShiftTally:
    """Shifts counted over generations, once a decision and once by visit probability.

    Attributes
    ----------
    cluster
        Name of each generation's cluster, G.
    counts : (G, 2, 3 + 2 (K + 1)) float64
        By generation and weight (each position 1; visit probability): decisions; longer without the expert cost;
        shorter; longer, by k* = 0 … K; shorter, by k* = 0 … K.
    transitions : (2, K + 1, K + 1) float64
        By weight, k* and k0*, over all generations.
    terms_ms : (2, K + 1, 7) float64, milliseconds
        Sum of `Shifts.terms_ms` over the decisions that get longer, and shorter, by k*; each position 1.
    """

    cluster: tuple[str, ...]
    counts: NDArray[np.float64]
    transitions: NDArray[np.float64]
    terms_ms: NDArray[np.float64]


def tally(found: Shifts, offsets: NDArray[np.int64], cluster: tuple[str, ...], k_max: int) -> ShiftTally:
    """Count the shifts of a batch."""
    k = found.draft_length.astype(np.int64)
    k0 = found.ablated_length.astype(np.int64)
    weights = np.stack([np.ones(len(k)), found.visit_prob], axis=1)
    width = k_max + 1
    flags = np.zeros((len(k), 3 + 2 * width))
    flags[:, 0] = 1.0
    flags[:, 1] = k0 > k
    flags[:, 2] = k0 < k
    flags[np.arange(len(k)), 3 + k] = k0 > k
    flags[np.arange(len(k)), 3 + width + k] = k0 < k
    counts = np.stack([segment_sums(flags * weights[:, [w]], offsets) for w in (0, 1)], axis=1)
    transitions = np.zeros((2, width, width))
    for w in (0, 1):
        np.add.at(transitions[w], (k, k0), weights[:, w])
    terms = np.zeros((2, width, len(TERMS)))
    for direction, moved in enumerate((k0 > k, k0 < k)):
        np.add.at(terms[direction], k[moved], found.terms_ms[moved])
    return ShiftTally(cluster, counts, transitions, terms)


def join(parts: Sequence[ShiftTally]) -> ShiftTally:
    """Put the tallies of several batches together."""
    return ShiftTally(
        tuple(name for part in parts for name in part.cluster),
        np.concatenate([part.counts for part in parts]),
        np.stack([part.transitions for part in parts]).sum(axis=0),
        np.stack([part.terms_ms for part in parts]).sum(axis=0),
    )


@dataclass(frozen=True)
class Prevalence:
    """Share of decisions that change, with intervals; position-weighted and visit-weighted.

    `boundary` is `k* → longer` or `k* → shorter`, or `any`, `longer`, `shorter` over all k*.
    """

    boundary: str
    decisions: int
    share: float
    interval: Interval | None
    visit_share: float
    visit_interval: Interval | None


def prevalence(found: ShiftTally) -> list[Prevalence]:
    """How often the expert cost moves a boundary, over all decisions."""
    width = found.transitions.shape[1]
    labels = ["any", "longer", "shorter"]
    labels += [f"{k} → {word}" for word in ("longer", "shorter") for k in range(width)]

    def shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = sums.reshape(len(sums), 2, 3 + 2 * width)
        moved = np.concatenate([sums[:, :, 1:2] + sums[:, :, 2:3], sums[:, :, 1:]], axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            return (moved / sums[:, :, :1]).reshape(len(sums), -1)

    per_cluster, _ = cluster_sums(found.counts.reshape(len(found.cluster), -1), found.cluster)
    everything = per_cluster.sum(axis=0)
    if everything[0] == 0:
        return []
    point = shares(everything[None])[0].reshape(2, -1)
    intervals = bootstrap(per_cluster, shares)
    count = len(labels)
    decisions = everything.reshape(2, -1)[0]
    moved = [decisions[1] + decisions[2], *decisions[1:]]
    return [
        Prevalence(
            label, round(float(moved[i])), float(point[0, i]), intervals[i], float(point[1, i]), intervals[count + i]
        )
        for i, label in enumerate(labels)
    ]
