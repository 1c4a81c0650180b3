"""Naive twins of the kernels: plain Python, lists and floats, written from the definition and nothing else.

Nothing here imports the project, numpy or Numba, and nothing here is fast. A reader should be able to check each
function against the mathematics by eye. Conventions (m = k + 1 verified positions, times in milliseconds):

    S_j(t)  = p_1 · … · p_j             the chance that the first j draft tokens of a round at t all match, S_0 = 1
    P(A=a)  = S_{a-1} · (1 − p_a)       for a ≤ k;   P(A=k+1) = S_k
    C(t,k)  = beta0[k] + draft[k] + reject[k] + alpha[k]·U(t,k) + context[k]·L(t),   L(t) = context_start + t
    V(t)    = min_k C(t,k) + Σ_a P(A=a)·V(min(t+a, N)),   V(N) = 0,   ties to the shortest k

Every list of coefficients is indexed by the draft length k, not by m. `lengths` lists the lengths that may be chosen:
a length that the latency model lacks is simply not in it.
"""

from collections.abc import Sequence
from typing import NamedTuple

Table = Sequence[Sequence[float]]


class Generation(NamedTuple):
    """One generation of N positions."""

    match_probs: Table  # (N, K): match_probs[t][j-1] = p_j of a round that starts at t (cells past the end: anything)
    unique_experts: Table  # (N, K+1): U(t, k), mean over layers
    context_start: int


class Costs(NamedTuple):
    """Coefficients by draft length k = 0 … K, milliseconds."""

    beta0: Sequence[float]
    draft: Sequence[float]  # 0 at k = 0
    reject: Sequence[float]  # 0 at k = 0
    alpha: Sequence[float]  # per unique expert
    context: Sequence[float]  # per token in context
    lengths: Sequence[int]  # allowed k, ascending


class Solution(NamedTuple):
    """Optimal values V (N+1), draft lengths (N) and Q[t][k] for every allowed k (N dicts)."""

    value: list[float]
    draft_length: list[int]
    q: list[dict[int, float]]


class Totals(NamedTuple):
    """Expected (or realised) sums over a generation under one policy."""

    rounds: float
    drafted: float
    accepted: float  # drafted tokens accepted and emitted
    wasted: float  # drafted − accepted
    emitted: float  # N, if all is right
    base_ms: float
    expert_ms: float
    context_ms: float
    draft_ms: float
    reject_ms: float

    @property
    def total_ms(self) -> float:
        return self.base_ms + self.expert_ms + self.context_ms + self.draft_ms + self.reject_ms


def new_experts(experts: Sequence[Sequence[Sequence[int]]], K: int) -> list[list[int]]:
    """`new[i][j]`: sum over layers of the experts of row i that are in none of the rows i-j … i-1 (0 if i-j < 0)."""
    new = []
    for i, row in enumerate(experts):
        counts = []
        for j in range(K + 1):
            count = 0
            if i - j >= 0:
                for layer, ids in enumerate(row):
                    seen = {e for earlier in range(i - j, i) for e in experts[earlier][layer]}
                    count += len(set(ids) - seen)
            counts.append(count)
        new.append(counts)
    return new


def unique_experts(experts: Sequence[Sequence[Sequence[int]]], K: int) -> list[list[float]]:
    """`U[t][k]`: mean over layers of the number of different experts in rows t … t+k (rows past the end add none)."""
    N = len(experts)
    table = []
    for t in range(N):
        row = []
        for k in range(K + 1):
            layers = len(experts[t])
            union_sizes = [
                len({e for i in range(t, min(t + k, N - 1) + 1) for e in experts[i][layer]}) for layer in range(layers)
            ]
            row.append(sum(union_sizes) / layers)
        table.append(row)
    return table


def by_depth(match_prob: Sequence[float], K: int) -> list[list[float]]:
    """The (N, K) table of a draft whose quality does not depend on depth; 0 past the end, where it cannot matter."""
    N = len(match_prob)
    return [[match_prob[t + j] if t + j < N else 0.0 for j in range(K)] for t in range(N)]


def survival(p: Sequence[float]) -> list[float]:
    """S_0 … S_K from the conditional probabilities p_1 … p_K of one anchor."""
    S = [1.0]
    for probability in p:
        S.append(S[-1] * probability)
    return S


def advance_probs(p: Sequence[float], k: int) -> dict[int, float]:
    """P(A = a) of a round that drafts k, a = 1 … k+1, before clipping."""
    S = survival(p)
    probs = {a: S[a - 1] * (1.0 - p[a - 1]) for a in range(1, k + 1)}
    probs[k + 1] = S[k]
    return probs


def clipped_advance_probs(p: Sequence[float], k: int, left: int) -> dict[int, float]:
    """P(min(A, left) = a): with `left` tokens to emit, P(min(A, left) = left) = P(A ≥ left) = S_{left-1}."""
    if k + 1 <= left:
        return advance_probs(p, k)
    probs = {a: probability for a, probability in advance_probs(p, k).items() if a < left}
    probs[left] = survival(p)[left - 1]
    return probs


def modal_advance(p: Sequence[float], k: int, left: int) -> int:
    """The most probable clipped advance; of equally probable ones the shortest."""
    probs = clipped_advance_probs(p, k, left)
    return max(probs, key=lambda a: (probs[a], -a))


def expected_advance(p: Sequence[float], k: int, left: int) -> float:
    """E[min(A, left)]."""
    return sum(a * probability for a, probability in clipped_advance_probs(p, k, left).items())


def expected_accepted(p: Sequence[float], k: int, left: int) -> float:
    """Drafted tokens accepted and emitted: Σ_{j=1..min(k, left)} S_j."""
    return sum(survival(p)[1 : min(k, left) + 1])


def cost_parts(generation: Generation, costs: Costs, t: int, k: int) -> dict[str, float]:
    """The parts of C(t,k), milliseconds."""
    return {
        "base": costs.beta0[k],
        "expert": costs.alpha[k] * generation.unique_experts[t][k],
        "context": costs.context[k] * (generation.context_start + t),
        "draft": costs.draft[k],
        "reject": costs.reject[k],
    }


def round_cost(generation: Generation, costs: Costs, t: int, k: int) -> float:
    """C(t,k), milliseconds."""
    return sum(cost_parts(generation, costs, t, k).values())


def continuation(generation: Generation, value: Sequence[float], t: int, k: int) -> float:
    """Σ_a P(A=a)·V(min(t+a, N))."""
    N = len(generation.match_probs)
    probs = advance_probs(generation.match_probs[t], k)
    return sum(probability * value[min(t + a, N)] for a, probability in probs.items())


def action_value(generation: Generation, costs: Costs, value: Sequence[float], t: int, k: int) -> float:
    """Q(t,k) = C(t,k) + the continuation."""
    return round_cost(generation, costs, t, k) + continuation(generation, value, t, k)


def solve(generation: Generation, costs: Costs) -> Solution:
    """The direct Bellman recursion from the far end."""
    N = len(generation.match_probs)
    value = [0.0] * (N + 1)
    draft_length = [0] * N
    q: list[dict[int, float]] = [{} for _ in range(N)]
    for t in reversed(range(N)):
        q[t] = {k: action_value(generation, costs, value, t, k) for k in costs.lengths}
        draft_length[t] = min(costs.lengths, key=lambda k: (q[t][k], k))
        value[t] = q[t][draft_length[t]]
    return Solution(value, draft_length, q)


def marginal(value: Sequence[float]) -> list[float]:
    """d(t) = V(t) − V(t+1)."""
    return [value[t] - value[t + 1] for t in range(len(value) - 1)]


def q_gap(q: dict[int, float]) -> float | None:
    """Q of the runner-up − Q of k*; None if there is only one length."""
    if len(q) == 1:
        return None
    best, runner_up = sorted(q.values())[:2]
    return runner_up - best


def evaluate(generation: Generation, costs: Costs, policy: Sequence[int]) -> list[float]:
    """J(t) (N+1) of any policy k(t)."""
    N = len(generation.match_probs)
    value = [0.0] * (N + 1)
    for t in reversed(range(N)):
        value[t] = action_value(generation, costs, value, t, policy[t])
    return value


def visit_probs(generation: Generation, policy: Sequence[int]) -> list[float]:
    """The probability that a round starts at t, from t = 0 onward."""
    N = len(generation.match_probs)
    visit = [1.0] + [0.0] * N
    for t in range(N):
        for a, probability in advance_probs(generation.match_probs[t], policy[t]).items():
            if t + a < N:
                visit[t + a] += visit[t] * probability
    return visit[:N]


def totals(generation: Generation, costs: Costs, policy: Sequence[int]) -> Totals:
    """Expected sums over the generation, each weighted by the probability that a round starts there."""
    N = len(generation.match_probs)
    visit = visit_probs(generation, policy)
    parts = [cost_parts(generation, costs, t, policy[t]) for t in range(N)]
    accepted = [expected_accepted(generation.match_probs[t], policy[t], N - t) for t in range(N)]

    def total(amounts: Sequence[float]) -> float:
        return float(sum(visit[t] * amounts[t] for t in range(N)))

    return Totals(
        rounds=total([1.0] * N),
        drafted=total(policy),
        accepted=total(accepted),
        wasted=total([policy[t] - accepted[t] for t in range(N)]),
        emitted=total([expected_advance(generation.match_probs[t], policy[t], N - t) for t in range(N)]),
        base_ms=total([part["base"] for part in parts]),
        expert_ms=total([part["expert"] for part in parts]),
        context_ms=total([part["context"] for part in parts]),
        draft_ms=total([part["draft"] for part in parts]),
        reject_ms=total([part["reject"] for part in parts]),
    )


def decompose(
    generation: Generation, costs: Costs, value: Sequence[float], *, t: int, k: int, other: int
) -> dict[str, float]:
    """Terms of Q(t,k) − Q(t,other): base, expert, context, draft, reject, continuation."""
    parts, other_parts = cost_parts(generation, costs, t, k), cost_parts(generation, costs, t, other)
    terms = {name: parts[name] - other_parts[name] for name in parts}
    terms["continuation"] = continuation(generation, value, t, k) - continuation(generation, value, t, other)
    return terms


def simulate(generation: Generation, costs: Costs, policy: Sequence[int]) -> tuple[Totals, list[tuple[int, int, int]]]:
    """Token by token through recorded matches (every cell of match_probs is 0 or 1).

    Returns the realised sums and one (position, draft length, clipped advance) a round.
    """
    N = len(generation.match_probs)
    rounds: list[tuple[int, int, int]] = []
    sums = {"base": 0.0, "expert": 0.0, "context": 0.0, "draft": 0.0, "reject": 0.0}
    drafted = accepted = t = 0
    while t < N:
        k = policy[t]
        for name, part in cost_parts(generation, costs, t, k).items():
            sums[name] += part
        drafted += k
        emitted = 0
        for j in range(k):
            if t + emitted == N or generation.match_probs[t][j] != 1:
                break
            accepted += 1
            emitted += 1
        if t + emitted < N:  # the bonus token, or the correction of the first mismatch
            emitted += 1
        rounds.append((t, k, emitted))
        t += emitted
    return Totals(
        float(len(rounds)), float(drafted), float(accepted), float(drafted - accepted), float(t), *sums.values()
    ), rounds


def without_experts(costs: Costs) -> Costs:
    """The same coefficients with alpha = 0 (*as is*: nothing else is refitted)."""
    return costs._replace(alpha=[0.0] * len(costs.alpha))


class Ablation(NamedTuple):
    """What changes when the expert cost is taken out and the whole problem is solved again."""

    full: Solution
    blind: Solution  # V⁰, k0*, Q⁰
    shift: list[int]  # k0* − k*
    next_q_ms: list[float | None]  # Q⁰(k*+1) − Q⁰(k*); None where k*+1 may not be chosen


def ablate(generation: Generation, costs: Costs) -> Ablation:
    """Solve with and without the expert cost."""
    full, blind = solve(generation, costs), solve(generation, without_experts(costs))
    pairs = list(zip(full.draft_length, blind.draft_length, strict=True))
    next_q = [q[k + 1] - q[k] if k + 1 in q else None for (k, _), q in zip(pairs, blind.q, strict=True)]
    return Ablation(full, blind, [k0 - k for k, k0 in pairs], next_q)
