"""Scores: what each policy is expected to cost on the same traces, and how far it is from the oracle.

All scores are *expected* ones: match probabilities weigh every outcome of a round, nothing is simulated.
Since a policy's cost is linear in the cost coefficients, sums over its rounds by draft length say everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.columns import frozen
from oracle.costs import LengthCosts
from oracle.intervals import Interval
from oracle.policies import PolicySet
from oracle.problem import Problem
from oracle.resampling import bootstrap, cluster_sums
from oracle.solver import rounds_of
from oracle.unit_sums import UnitSums

MEASURES = (
    "rounds",
    "drafted",
    "accepted",
    "expert_loads",
    "past_end",
    "verify_ms",
    "expert_ms",
    "context_ms",
    "draft_ms",
    "reject_ms",
)
LEAST_GAIN = 1e-3  # a share of less than a thousandth says nothing
_MS = slice(MEASURES.index("verify_ms"), len(MEASURES))
PARTS = MEASURES[_MS]  # of the time: beta0, experts, context, draft, rejection


@dataclass(frozen=True)
class PolicyTotals:
    """Expected totals of policies over generations.

    Attributes
    ----------
    policies
        Text form of each policy, P of them.
    generation, cluster
        Names, G each.
    tokens : (G,) float64
        Tokens emitted by decode rounds: N of each generation.
    sums : (G, P, len(MEASURES)) float64
        rounds; draft tokens, those looked at and left out included; draft tokens accepted and emitted; unique
        experts per layer summed over rounds; rounds that reach past the end of the text; milliseconds of beta0,
        experts, context, draft, rejection.
    bounds
        Those of the policies that no engine is known to be able to run; see `PolicySet`.
    """

    policies: tuple[str, ...]
    generation: tuple[str, ...]
    cluster: tuple[str, ...]
    tokens: NDArray[np.float64]
    sums: NDArray[np.float64]
    bounds: frozenset[str] = frozenset()

    def of(self, measure: str) -> NDArray[np.float64]:
        """One measure of every generation and policy, (G, P)."""
        return self.sums[:, :, MEASURES.index(measure)]

    @property
    def total_ms(self) -> NDArray[np.float64]:
        """J(0) of every generation and policy, (G, P), milliseconds."""
        return np.asarray(self.sums[:, :, _MS].sum(axis=2))


def total(
    problem: Problem,
    costs: LengthCosts,
    policies: PolicySet,
    generation: tuple[str, ...],
    cluster: tuple[str, ...],
) -> PolicyTotals:
    """Add up what the policies' rounds are expected to touch and cost, by generation."""
    visit, by_length = rounds_of(problem, policies.draft_length)
    rounds, loads, context, past_end, ended_by_draft = np.moveaxis(by_length, 3, 0)
    all_rounds = rounds.sum(axis=2)
    tokens = np.diff(problem.offsets).astype(np.float64)
    sums = np.empty((problem.generations, len(policies.names), len(MEASURES)))
    sums[:, :, 0] = all_rounds
    sums[:, :, 1] = _priced(rounds, np.arange(problem.k_max + 1.0))
    # every round's last token is the target's own, but for the one whose draft matches up to the end of the text
    sums[:, :, 2] = tokens[:, None] - all_rounds + ended_by_draft.sum(axis=2)
    sums[:, :, 3] = loads.sum(axis=2)
    sums[:, :, 4] = past_end.sum(axis=2)
    sums[:, :, 5] = _priced(rounds, costs.verify_ms)
    sums[:, :, 6] = _priced(loads, costs.alpha_ms)
    sums[:, :, 7] = _priced(context, costs.context_ms)
    sums[:, :, 8] = _priced(rounds, costs.draft_ms)
    sums[:, :, 9] = _priced(rounds, costs.reject_ms)
    if policies.drafted is not None:
        for measure, discarded in zip((1, 8), _discarded(policies, visit, problem, costs), strict=True):
            sums[:, :, measure] += discarded
    return PolicyTotals(policies.names, generation, cluster, tokens, sums, policies.bounds)


def _priced(by_length: NDArray[np.float64], price: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over the draft lengths of (G, P, K + 1); a matrix product's last bit would depend on the batch's size."""
    return np.asarray((by_length * price).sum(axis=2))


def _discarded(
    policies: PolicySet, visit: NDArray[np.float64], problem: Problem, costs: LengthCosts
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draft tokens that were looked at and not verified, and what their steps took; (G, P), tokens and milliseconds.

    A step to a length that the latency model lacks is priced between the measured lengths around it; a step that
    the model makes cheaper than none is free.
    """
    from kernels.discarded import add_up_discarded  # noqa: PLC0415  # numba is slow to import

    assert policies.drafted is not None
    known = np.array(sorted({0, *costs.lengths}))
    steps = np.interp(np.arange(problem.k_max + 1), known, costs.draft_ms[known])
    tokens, ms = np.empty((2, problem.generations, len(policies.names)))
    lengths = frozen(policies.draft_length), frozen(policies.drafted)
    add_up_discarded(frozen(visit), *lengths, problem.offsets, frozen(steps), tokens, ms)
    return tokens, ms


def join(parts: Sequence[PolicyTotals]) -> PolicyTotals:
    """Put the totals of several batches together; the same policies in the same order."""
    first = parts[0]
    if any(part.policies != first.policies for part in parts):
        raise ValueError("batches were scored under different policies")
    return PolicyTotals(
        first.policies,
        tuple(name for part in parts for name in part.generation),
        tuple(name for part in parts for name in part.cluster),
        np.concatenate([part.tokens for part in parts]),
        np.concatenate([part.sums for part in parts]),
        first.bounds,
    )


class ScoreSums:
    """Adds up the totals of batches, in order and in bounded memory: one row a unit of resampling, see `UnitSums`.

    Attributes
    ----------
    units
        The sums, with the labels that they are kept apart by.
    """

    def __init__(self) -> None:
        self._first: PolicyTotals | None = None
        self.units = UnitSums(0)

    def add(self, found: PolicyTotals, *labels: Sequence[str]) -> None:
        """Take in a batch, of the same policies in the same order as the first; `labels` keep sums apart."""
        labels = labels or (("",) * len(found.cluster),)
        if self._first is None:
            self._first = found
            self.units = UnitSums(1 + len(found.policies) * len(MEASURES), len(labels))
        elif found.policies != self._first.policies:
            raise ValueError("batches were scored under different policies")
        rows = np.concatenate([found.tokens[:, None], found.sums.reshape(len(found.tokens), -1)], axis=1)
        self.units.add(rows, found.cluster, *labels)

    def totals(self) -> PolicyTotals | None:
        """Everything taken in so far, a unit in the place of a generation; None if nothing was."""
        if self._first is None:
            return None
        sums, names = self.units.sums, self.units.units
        return PolicyTotals(
            self._first.policies,
            names,
            names,
            sums[:, 0].copy(),
            sums[:, 1:].reshape(len(names), -1, len(MEASURES)).copy(),
            self._first.bounds,
        )


def beside(first: PolicyTotals, second: PolicyTotals) -> PolicyTotals:
    """Put other policies' totals of the same generations beside the first; a policy that is in both counts once."""
    if first.generation != second.generation:
        raise ValueError("totals are of other generations")
    more = [p for p, name in enumerate(second.policies) if name not in first.policies]
    return PolicyTotals(
        (*first.policies, *(second.policies[p] for p in more)),
        first.generation,
        first.cluster,
        first.tokens,
        np.concatenate([first.sums, second.sums[:, more]], axis=1),
        first.bounds | second.bounds,
    )


@dataclass(frozen=True)
class Score:
    """One policy's expected score over all generations; `None` means not available.

    Attributes
    ----------
    policy
        Text form.
    ms_per_token, ms_per_token_interval
        Milliseconds a token emitted.
    speedup
        Time of k = 0 over this policy's; None if k = 0 may not be chosen.
    regret_ms_per_token, regret_interval
        Milliseconds a token above the oracle, paired by cluster.
    gain_captured
        Share of the oracle's gain over k = 0; None if k = 0 may not be chosen or the oracle gains less than 0.1 %.
    tokens_per_round
        Tokens emitted a round.
    mean_draft_length
        Draft tokens a round.
    acceptance
        Accepted over drafted tokens; None if nothing is drafted.
    wasted_per_token
        Draft tokens thrown away a token emitted.
    expert_loads_per_token
        Unique experts per layer that verification touches, a token emitted.
    split_ms_per_token
        verify (beta0), experts, context, draft, rejection: milliseconds a token.
    past_end_share
        Share of rounds whose pass reaches past the end of the text: their U is a lower bound.
    """

    policy: str
    ms_per_token: float
    ms_per_token_interval: Interval | None
    speedup: float | None
    regret_ms_per_token: float
    regret_interval: Interval | None
    gain_captured: float | None
    tokens_per_round: float
    mean_draft_length: float
    acceptance: float | None
    wasted_per_token: float
    expert_loads_per_token: float
    split_ms_per_token: tuple[float, float, float, float, float]
    past_end_share: float


def score(totals: PolicyTotals) -> list[Score]:
    """Score every policy over all generations, with intervals by clustered bootstrap.

    Returns
    -------
    One score a policy, in the order of `totals.policies`; empty if no token was emitted.
    """
    tokens = totals.tokens.sum()
    if tokens == 0:
        return []
    count = len(totals.policies)
    oracle = totals.policies.index("oracle")
    baseline = totals.policies.index("static:0") if "static:0" in totals.policies else None
    per_cluster, _ = cluster_sums(np.column_stack([totals.total_ms, totals.tokens]), totals.cluster)

    def ms_and_regret(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            ms = sums[:, :count] / sums[:, count:]
        return np.concatenate([ms, ms - ms[:, [oracle]]], axis=1)

    point = ms_and_regret(per_cluster.sum(axis=0)[None])[0]
    intervals = bootstrap(per_cluster, ms_and_regret)
    sums = totals.sums.sum(axis=0)
    scores = []
    for p, policy in enumerate(totals.policies):
        rounds, drafted, accepted, loads, past_end = (float(x) for x in sums[p, : _MS.start])
        gain = None if baseline is None else float(point[baseline] - point[oracle])
        gains = gain is not None and gain > LEAST_GAIN * point[oracle]
        scores.append(
            Score(
                policy=policy,
                ms_per_token=float(point[p]),
                ms_per_token_interval=intervals[p],
                speedup=None if baseline is None else float(point[baseline] / point[p]),
                regret_ms_per_token=float(point[count + p]),
                regret_interval=intervals[count + p],
                gain_captured=float((point[baseline] - point[p]) / gain) if gains else None,
                tokens_per_round=float(tokens / rounds),
                mean_draft_length=drafted / rounds,
                acceptance=accepted / drafted if drafted > 0 else None,
                wasted_per_token=float((drafted - accepted) / tokens),
                expert_loads_per_token=float(loads / tokens),
                split_ms_per_token=tuple(float(x) for x in sums[p, _MS] / tokens),  # type: ignore[arg-type]
                past_end_share=past_end / rounds,
            )
        )
    return scores
