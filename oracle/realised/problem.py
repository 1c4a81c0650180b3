"""Realised scores: what policies would have cost on the matches that were really recorded.

A realised problem is another problem, not another kernel. With recorded chains of draft tokens, the draft token j of a
round that starts at t matches or it does not, so every match probability is 0 or 1, survival is 0 or 1, and
`scores.total` adds up the very rounds that would have happened. Solved, it gives the *clairvoyant* bound: what a
policy could reach that knows every match beforehand.

What equality of tokens means. In greedy decoding a draft token is accepted exactly if it equals the target's token.
In sampled decoding engines accept by rejection sampling, with probability min(1, p / q): over the draft's own draws
that is the overlap Σ min(p, q) which expected scores count (`match_kind` overlap). Whether a recorded token *equals* a
recorded proposal is one draw of something else. If text and proposals were drawn independently, they agree with
probability Σ p·q only, which is never more than the overlap and often far less; realised scores then describe an
engine that verifies by equality, and are too dear for one that samples by rejection. `calibration` shows how far the
two agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle import scores
from oracle.columns import frozen, names_of
from oracle.costs import LengthCosts
from oracle.errors import Faults, InputError, printable
from oracle.policies import PolicySet, beside
from oracle.problem import Problem, make_problem
from oracle.realised.calibration import CalibrationTally, calibration_tally
from oracle.scores import PolicyTotals
from oracle.scores import beside as beside_totals
from oracle.solver import solve
from oracle.traces import Traces
from oracle.traces.lists import BadCellsError, refuse_nulls, take_apart

CLAIRVOYANT = "clairvoyant"
_NEEDED = {"token_id": "what the target emitted", "draft_token_id": "ids proposed from each anchor"}
_MOST_NAMED = 5  # positions named when chains are too short


class ShortChainsError(InputError):
    """Chains are shorter than the draft lengths asked for, so rounds of those cannot be realised."""


def matches_of(traces: Traces, k_max: int | None = None) -> NDArray[np.float32]:
    """Which recorded draft tokens match, as conditional probabilities of 0 and 1.

    Parameters
    ----------
    traces
        With the columns `token_id` and `draft_token_id`.
    k_max
        Draft tokens a round; None: as many as every anchor's chain holds.

    Returns
    -------
    (N, K) float32
        1 where the first j + 1 draft tokens of the round that starts at t all equal token_id[t … t + j], else 0; 0 at
        and past the end of the text. Longer chains are cut to K; shorter ones are refused, but for the end of a text.

    Raises
    ------
    InputError
        A column is missing; an id is null; a chain is shorter than K (a negative id ends a chain). A token that was
        not drafted is no mismatch, so nothing is made up for it.
    """
    faults = Faults()
    for name, meaning in _NEEDED.items():
        if name not in traces.table.column_names:
            faults.add(
                f"{traces.source}: realised scores need a column {name} ({meaning}), which the trace lacks; record it, "
                "or ask for expected scores only"
            )
    faults.raise_if_any()
    tokens = _ids(traces, "token_id")[0]
    drafted, starts, lengths = _ids(traces, "draft_token_id")
    left = np.repeat(traces.offsets[1:], np.diff(traces.offsets)) - np.arange(traces.positions)
    short = lengths < left
    carried = int(lengths[short].min() if short.any() else lengths.max(initial=0))
    K = carried if k_max is None else k_max
    _refuse_short_chains(traces, lengths, np.minimum(max(K, 1), left), carried)
    if not len(drafted):
        return frozen(np.zeros((traces.positions, K), np.float32))
    depth = np.arange(K)
    there = depth < np.minimum(left, lengths)[:, None]
    proposed = drafted[np.where(there, starts[:, None] + depth, 0)]
    emitted = np.concatenate([tokens, np.zeros(K, np.int64)])[np.arange(traces.positions)[:, None] + depth]
    return frozen(np.logical_and.accumulate(there & (proposed == emitted), axis=1).astype(np.float32))


def _ids(traces: Traces, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """All ids of a column one after the other; where the chain of each position begins, and how long it is."""
    chains = name == "draft_token_id"
    leaves, starts, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    base = 0
    for items in take_apart(traces.table.column(name)).items:
        parts: Sequence[pa.Array] = (items,)
        offsets = np.arange(len(items) + 1)
        if chains and pa.types.is_null(items.type):  # no chain holds anything
            continue
        if chains:
            inner = take_apart(items)
            parts, offsets = inner.items, inner.offsets
        for part in parts:
            try:
                refuse_nulls(part)
            except BadCellsError:
                raise InputError(f"{traces.source}: {name} holds a null id; write the ids, or end the chain") from None
            leaves.append(part.cast(pa.int64()).to_numpy(zero_copy_only=False))
        starts.append(base + offsets[:-1])
        lengths.append(np.diff(offsets))
        base += int(offsets[-1])
    ids, begin, count = np.concatenate(leaves), np.concatenate(starts), np.concatenate(lengths)
    ends = np.flatnonzero(ids < 0)
    if chains and len(ends):
        row = np.searchsorted(begin + count, ends, side="right")
        np.minimum.at(count, row, ends - begin[row])
    return ids, begin, count


def _refuse_short_chains(traces: Traces, lengths: NDArray[np.int64], needed: NDArray[np.int64], carried: int) -> None:
    bad = np.flatnonzero(lengths < needed)
    if not len(bad):
        return
    way_out = f"lower --k-max to {carried}, or record full chains" if carried else "record a chain from every anchor"
    faults = []
    for t in bad[:_MOST_NAMED]:
        g = int(np.searchsorted(traces.offsets, t, side="right")) - 1
        faults.append(
            f"{traces.source}, generation '{printable(traces.generation[g])}', position {t - traces.offsets[g]}: "
            f"draft_token_id holds {lengths[t]} tokens where {needed[t]} are needed; a token that was not drafted is "
            f"no mismatch: {way_out}"
        )
    if len(bad) > _MOST_NAMED:
        faults.append(f"{traces.source}: draft_token_id is too short at {len(bad) - _MOST_NAMED:,} more positions")
    raise ShortChainsError(faults)


def realised_problem(
    traces: Traces, k_max: int, unique_experts: str | None = None, *, like: Problem | None = None
) -> Problem:
    """The problem whose match probabilities are the recorded matches.

    Parameters
    ----------
    traces
        With the columns `token_id` and `draft_token_id`.
    k_max
        Longest draft length.
    unique_experts
        `recorded`, `routing`, or None for the first of them the trace holds. Recorded U of the recorded chains is U of
        the realised rounds; routing follows the final text and does not see a rejected token's experts.
    like
        The expected problem of the same batch for the same `k_max`, if there is one: U is taken from it.
    """
    from kernels.survival import survival_by_depth  # noqa: PLC0415  # numba is slow to import

    matches = matches_of(traces, k_max)
    expected = make_problem(traces, k_max, unique_experts) if like is None else like
    if expected.k_max != k_max or expected.positions != traces.positions:
        raise ValueError("`like` is another batch, or laid out for another k_max")
    survival = np.empty((traces.positions, k_max))
    to_end = np.empty(traces.positions)
    survival_by_depth(matches, frozen(traces.offsets), survival, to_end)
    return replace(expected, survival=frozen(survival), to_end=frozen(to_end))


def with_clairvoyant(problem: Problem, costs: LengthCosts, policies: PolicySet) -> PolicySet:
    """Add the optimum of the realised problem, `clairvoyant`, as the last policy."""
    best = solve(problem, costs).draft_length[:, None]
    return beside(policies, PolicySet((CLAIRVOYANT,), best, bounds=frozenset({CLAIRVOYANT})))


@dataclass(frozen=True)
class Realised:
    """Realised totals of a batch by generation, or of all by unit of resampling (`RealisedSums`).

    Attributes
    ----------
    totals
        By generation or unit and policy, `clairvoyant` among them. Nothing in them is an expectation.
    expected
        The same policies' expected totals, without `clairvoyant` and those that can be scored on matches only.
    category, decoding
        Names, for contrasts; `decoding` is the column of that name where the trace has it, else `match_kind`.
    calibration
        Match probabilities against matches.
    generations
        How many there are.
    clusters
        How many there are of each decoding.
    held_out
        Names of the policies whose parameters and constants come from other generations than those they are scored on.
    """

    totals: PolicyTotals
    expected: PolicyTotals
    category: tuple[str | None, ...]
    decoding: tuple[str, ...]
    calibration: CalibrationTally
    generations: int
    clusters: Mapping[str, int]
    held_out: frozenset[str] = frozenset()

    def with_held_out(self, totals: PolicyTotals, expected: PolicyTotals) -> "Realised":
        """Add held-out policies; one whose name is there already needs no holding out."""
        new = frozenset(totals.policies) - frozenset(self.totals.policies)
        return replace(
            self,
            totals=beside_totals(self.totals, totals),
            expected=beside_totals(self.expected, expected),
            held_out=new,
        )


def realise(
    traces: Traces, problem: Problem, costs: LengthCosts, policies: PolicySet, on_matches_only: PolicySet | None = None
) -> Realised:
    """Score the policies on the recorded matches of one batch.

    Parameters
    ----------
    traces
        With the columns `token_id` and `draft_token_id`.
    problem
        The expected problem of the batch; gives U and the range of draft lengths.
    costs
        Cost coefficients for the same K.
    policies
        Draft lengths chosen beforehand: a policy may look at what it is allowed to, never at the matches.
    on_matches_only
        Policies without an expected score: the engine's logged rounds.
    """
    actual = realised_problem(traces, problem.k_max, like=problem)
    names = traces.generation, traces.cluster_of
    decoding = decoding_of(traces)
    laid = policies if on_matches_only is None else beside(policies, on_matches_only)
    return Realised(
        totals=scores.total(actual, costs, with_clairvoyant(actual, costs, laid), *names),
        expected=scores.total(problem, costs, policies, *names),
        category=traces.category or (None,) * traces.generations,
        decoding=decoding,
        calibration=calibration_tally(problem, actual, decoding, traces.cluster_of, first_match_prob(traces)),
        generations=traces.generations,
        clusters={
            name: len({c for c, how in zip(traces.cluster_of, decoding, strict=True) if how == name})
            for name in dict.fromkeys(decoding)
        },
    )


def first_match_prob(traces: Traces) -> NDArray[np.float32]:
    """Match probability of the first draft token from each anchor, (N,)."""
    found = traces.match_prob if traces.match_probs is None else traces.match_probs[:, 0]
    assert found is not None
    return found


def decoding_of(traces: Traces) -> tuple[str, ...]:
    """How each generation was decoded, if the trace says so, else what its match probabilities are; G names."""
    if "decoding" not in traces.table.column_names:
        return traces.match_kind
    return tuple(
        kind if name is None else name
        for name, kind in zip(names_of(traces.table.column("decoding")), traces.match_kind, strict=True)
    )


def by_label(totals: PolicyTotals, labels: Sequence[str | None]) -> Mapping[str, PolicyTotals]:
    """Split totals by a label of each generation (category, decoding), in order of first appearance."""
    found = {}
    for label in dict.fromkeys(labels):
        at = [g for g, other in enumerate(labels) if other == label]
        found["–" if label is None else label] = PolicyTotals(
            totals.policies,
            tuple(totals.generation[g] for g in at),
            tuple(totals.cluster[g] for g in at),
            totals.tokens[at],
            totals.sums[at],
            totals.bounds,
        )
    return found
