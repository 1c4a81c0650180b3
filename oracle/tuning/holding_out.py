"""Choosing each family's parameter on training generations, and what it costs the others, generation by generation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oracle import scores
from oracle.errors import InputError
from oracle.latency.folds import fold_of_cluster
from oracle.policies import Inputs, Policy, PolicySet, Training, lengths_of
from oracle.policies.candidates import BEST_STATIC, POINTS, candidates
from oracle.problem import Problem
from oracle.scores import MEASURES, PolicyTotals
from oracle.tuning.families import FAMILIES, learnt_of, total_ms

FOLDS = 5


@dataclass(frozen=True, eq=False)
class Family:
    """One family of policies and what was chosen of it.

    Attributes
    ----------
    name
        The text form without its parameter.
    chosen
        The policy chosen for each fold, from the other folds.
    chosen_on_all
        The policy chosen on all generations.
    in_sample_ms : (G,) float64, milliseconds
        Of the policy chosen on all generations.
    ends
        The first and the last member that was tried: the shortest and the longest drafts.
    """

    name: str
    chosen: tuple[Policy, ...]
    chosen_on_all: Policy
    in_sample_ms: NDArray[np.float64]
    ends: tuple[Policy, Policy]

    @property
    def online(self) -> bool:
        """Whether an engine could run it."""
        return self.chosen_on_all.online

    @property
    def claimed(self) -> bool:
        """Whether only its author can say what it looked at."""
        return self.chosen_on_all.claimed


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What tuned policies cost every generation, under what the other folds say.

    Attributes
    ----------
    families
        In the order asked for, the best static length first.
    fold : (G,) int64
        In which each generation is held out.
    category
        Of each generation, or None.
    expected
        Expected totals; its policies are the families' names.
    realised
        The same on recorded matches; None where no draft tokens were recorded.
    oracle_ms : (G,) float64, milliseconds
        V(0), the bound.
    without_ms : (G,) float64, milliseconds, or None
        Expected, of k = 0; None if it may not be chosen.
    late_share
        Share of decisions at the last K - 1 positions of their text, where a policy that looks at the draft's
        confidence may rest on stand-ins (see `Inputs.confidence`); None if no policy looks at it.
    """

    families: tuple[Family, ...]
    fold: NDArray[np.int64]
    category: tuple[str | None, ...]
    expected: PolicyTotals
    realised: PolicyTotals | None
    oracle_ms: NDArray[np.float64]
    without_ms: NDArray[np.float64] | None
    late_share: float | None

    @property
    def folds(self) -> int:
        """How many folds there are."""
        return len(self.families[0].chosen)


def hold_out(
    batches: Sequence[Inputs],
    families: Sequence[str] = FAMILIES,
    *,
    folds: int | None = None,
    points: int = POINTS,
    realised: Sequence[Problem] | None = None,
) -> HeldOut:
    """Choose each family's parameter on training generations and score it on held-out ones.

    Parameters
    ----------
    batches
        All generations, laid out for one cost model; training constants they carry are not used.
    families
        As `candidates` takes them; the best static length is always among them.
    folds
        Groups of clusters; each is scored with what the others say. None: `FOLDS`, or as many as there are clusters
        with positions.
    points
        Parameters tried.
    realised
        The batches with recorded matches for match probabilities. They are scored on, never looked at by a policy
        or a choice.

    Raises
    ------
    InputError
        More folds than clusters, no positions, or a family that cannot be scored on these traces.
    """
    learnt = learnt_of(batches)
    clusters = [name for batch in batches for name in batch.traces.own_cluster_of]
    tokens = np.concatenate([np.diff(batch.problem.offsets) for batch in batches]).astype(np.float64)
    fold = _folds(clusters, tokens, folds)
    rows = [*(fold != f for f in range(int(fold.max()) + 1)), np.ones(len(fold), dtype=bool)]
    trainings = [learnt.training(each) for each in rows]
    tried = {family: candidates(family, batches[0], points) for family in dict.fromkeys((BEST_STATIC, *families))}
    found = _choose(batches, tried, rows, trainings)
    expected, realised_totals = _held_out(batches, found, fold, trainings, realised)
    return HeldOut(
        families=found,
        fold=fold,
        category=learnt.category,
        expected=expected,
        realised=realised_totals,
        oracle_ms=np.concatenate([batch.optimum.value_ms(batch.problem.offsets) for batch in batches]),
        without_ms=learnt.static_ms[:, 0] if learnt.lengths[0] == 0 else None,
        late_share=_late_share(found, tokens, batches[0].problem.k_max),
    )


def _late_share(families: Sequence[Family], tokens: NDArray[np.float64], k_max: int) -> float | None:
    if not any("draft_prob" in one.chosen_on_all.columns for one in families):
        return None
    return float(np.minimum(tokens, max(k_max - 1, 0)).sum() / tokens.sum())


def clusters_with_positions(batches: Sequence[Inputs]) -> int:
    """How many clusters have positions: held-out scores need two."""
    sizes = [
        (name, n) for b in batches for name, n in zip(b.traces.own_cluster_of, np.diff(b.problem.offsets), strict=True)
    ]
    return len({name for name, positions in sizes if positions})


def _folds(clusters: Sequence[str], tokens: NDArray[np.float64], folds: int | None) -> NDArray[np.int64]:
    """The fold of each generation; clusters go whole."""
    names = sorted(set(clusters))
    at = {name: i for i, name in enumerate(names)}
    of = np.array([at[name] for name in clusters])
    sizes = np.bincount(of, weights=tokens, minlength=len(names)).astype(np.int64)
    occupied = int(np.count_nonzero(sizes))
    folds = min(FOLDS, occupied) if folds is None else folds
    if not 2 <= folds <= occupied:
        raise InputError(
            f"folds is {folds}, and {occupied} clusters have positions: held-out scores need 2 to {occupied} folds"
            if occupied > 1
            else "there is one cluster with positions only; held-out scores need two: add generations"
        )
    return np.asarray(fold_of_cluster(sizes, folds)[of], dtype=np.int64)


def _choose(
    batches: Sequence[Inputs],
    tried: dict[str, tuple[Policy, ...]],
    rows: Sequence[NDArray[np.bool_]],
    trainings: Sequence[Training],
) -> tuple[Family, ...]:
    """The cheapest member of each family on each set of training generations; ties go to the shortest drafts."""
    ms: dict[str, list[NDArray[np.float64]]] = {}
    for name, members in tried.items():
        if not members[0].learns:
            ms[name] = [total_ms(batches, members)] * len(rows)
    for training in trainings:
        taught = [replace(batch, training=training) for batch in batches]
        for name, members in tried.items():
            if members[0].learns:
                ms.setdefault(name, []).append(total_ms(taught, members))
    found = []
    for name, members in tried.items():
        best = [int(each[train].sum(axis=0).argmin()) for each, train in zip(ms[name], rows, strict=True)]
        chosen = [members[p] for p in best]
        in_sample = ms[name][-1][:, best[-1]]
        found.append(Family(name, tuple(chosen[:-1]), chosen[-1], in_sample, (members[0], members[-1])))
    return tuple(found)


def _held_out(
    batches: Sequence[Inputs],
    families: Sequence[Family],
    fold: NDArray[np.int64],
    trainings: Sequence[Training],
    realised: Sequence[Problem] | None,
) -> tuple[PolicyTotals, PolicyTotals | None]:
    """Totals of every generation under what was chosen for its fold: expected, and realised."""
    expected, actual, first = [], [], 0
    for b, batch in enumerate(batches):
        at = fold[first : first + batch.problem.generations]
        first += batch.problem.generations
        laid = {
            f: lengths_of([family.chosen[f] for family in families], replace(batch, training=trainings[f]))
            for f in np.unique(at).tolist()
        }
        columns = {f: [one.names.index(str(family.chosen[f])) for family in families] for f, one in laid.items()}
        expected.append(_of_own_fold(batch, batch.problem, laid, columns, at, families))
        if realised is not None:
            actual.append(_of_own_fold(batch, realised[b], laid, columns, at, families))
    return scores.join(expected), scores.join(actual) if realised is not None else None


def _of_own_fold(
    batch: Inputs,
    problem: Problem,
    laid: dict[int, PolicySet],
    columns: dict[int, list[int]],
    fold: NDArray[np.int64],
    families: Sequence[Family],
) -> PolicyTotals:
    """Totals of a batch; of each generation those under the lengths laid out for its fold."""
    traces, names = batch.traces, tuple(family.name for family in families)
    bounds = frozenset(family.name for family in families if not family.online)
    sums = np.empty((problem.generations, len(names), len(MEASURES)))
    for f, lengths in laid.items():
        totals = scores.total(problem, batch.costs, lengths, traces.generation, traces.cluster_of)
        sums[fold == f] = totals.sums[fold == f][:, columns[f]]
    tokens = np.diff(problem.offsets).astype(np.float64)
    return PolicyTotals(names, traces.generation, traces.cluster_of, tokens, sums, bounds)
