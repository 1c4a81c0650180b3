"""What policies chosen on training generations cost the held-out ones, by unit of resampling."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracle import scores
from oracle.policies import Inputs, Policy, PolicySet, Static, Training, lengths_of
from oracle.policies.candidates import BEST_STATIC, POINTS, candidates
from oracle.policies.laid_out import Batches, LaidOut, laid_out
from oracle.problem import Problem
from oracle.scores import MEASURES, PolicyTotals
from oracle.tuning.choosing import Family, choose
from oracle.tuning.families import FAMILIES, totals_of
from oracle.tuning.survey import Folds, Surveyed, folds_of, survey
from oracle.unit_sums import ArraySums, DistinctNames


@dataclass(frozen=True, eq=False)
class HeldOutBatch:
    """What tuned policies cost each generation of one batch, G of them.

    Attributes
    ----------
    families
        What was chosen.
    fold : (G,) int64
        In which each generation is held out.
    category
        Of each generation, or None.
    expected, realised, oracle_ms
        As in `HeldOut`, by generation.
    in_sample
        Expected totals of the policies chosen on all generations, in the order of the families.
    without
        Expected totals of k = 0; None if it may not be chosen.
    """

    families: tuple[Family, ...]
    fold: NDArray[np.int64]
    category: tuple[str | None, ...]
    expected: PolicyTotals
    realised: PolicyTotals | None
    oracle_ms: NDArray[np.float64]
    in_sample: PolicyTotals
    without: PolicyTotals | None

    @property
    def without_ms(self) -> NDArray[np.float64] | None:
        """Of k = 0, by generation, (G,) milliseconds; None if it may not be chosen."""
        return None if self.without is None else self.without.total_ms[:, 0]

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """What is added up: measures, so that policies that chose alike cost alike to the last bit afterwards too."""
        found = {
            "tokens": self.expected.tokens,
            "expected": self.expected.sums,
            "oracle_ms": self.oracle_ms,
            "in_sample": self.in_sample.sums,
        }
        if self.realised is not None:
            found["realised"] = self.realised.sums
        if self.without is not None:
            found["without"] = self.without.sums
        return found


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What tuned policies cost under what the other folds say; R rows of sums.

    A row adds up the generations of one category, label and unit of resampling (see `UnitSums`).

    Attributes
    ----------
    families
        In the order asked for, the best static length first.
    category
        Of each row, or None.
    expected
        Expected totals; its policies are the families' names, its generations the units.
    realised
        The same on recorded matches; None where no draft tokens were recorded.
    oracle_ms : (R,) float64, milliseconds
        V(0), the bound.
    without_ms : (R,) float64, milliseconds, or None
        Expected, of k = 0; None if it may not be chosen.
    in_sample_ms : (R, families) float64, milliseconds
        Of the policies chosen on all generations.
    late_share
        Share of decisions at the last K - 1 positions of their text, where a policy that looks at the draft's
        confidence may rest on stand-ins (see `Inputs.confidence`); None if no policy looks at it.
    grouped
        Whether units are groups of clusters.
    clusters, clusters_of
        How many clusters have positions: in all, and by category.
    """

    families: tuple[Family, ...]
    category: tuple[str | None, ...]
    expected: PolicyTotals
    realised: PolicyTotals | None
    oracle_ms: NDArray[np.float64]
    without_ms: NDArray[np.float64] | None
    in_sample_ms: NDArray[np.float64]
    late_share: float | None
    grouped: bool
    clusters: int
    clusters_of: Mapping[str | None, int]

    @property
    def folds(self) -> int:
        """How many folds there are."""
        return len(self.families[0].chosen)


def hold_out(
    batches: Batches,
    families: Sequence[str] = FAMILIES,
    *,
    folds: int | None = None,
    points: int = POINTS,
    surveyed: Surveyed | None = None,
    realised: Callable[[Inputs], Problem] | None = None,
    label: Callable[[Inputs], Sequence[str]] | None = None,
    on_batch: Callable[[HeldOutBatch], None] | None = None,
) -> HeldOut:
    """Choose each family's parameter on training generations and score it on held-out ones.

    Parameters
    ----------
    batches
        All generations, laid out for one cost model, walked over two or three times; training constants they carry
        are not used.
    families
        As `candidates` takes them; the best static length is always among them.
    folds
        Groups of clusters; each is scored with what the others say. None: 5, or as many as there are clusters
        with positions.
    points
        Parameters tried.
    surveyed
        What `survey` of the same batches gave, if it was done.
    realised
        Gives a batch with recorded matches for match probabilities. They are scored on, never looked at by a policy
        or a choice.
    label
        Gives a name for each generation of a batch that sums are kept apart by, besides the category.
    on_batch
        Takes each batch by generation.

    Raises
    ------
    InputError
        More folds than clusters, no positions, or a family that cannot be scored on these traces.
    """
    laid = laid_out(batches)
    found = survey(laid) if surveyed is None else surveyed
    split = folds_of(found, folds)
    fold = np.array([split.of_unit[name] for name in found.unit])
    trainings = [*(found.learnt.training(fold != f) for f in range(split.count)), found.training]
    tried = {family: candidates(family, laid.costs, points) for family in dict.fromkeys((BEST_STATIC, *families))}
    work = partial(
        _held_out, families=choose(laid, tried, split, trainings), folds=split, trainings=trainings, realised=realised
    )
    return _added_up(laid, work, label, on_batch, found)


def _added_up(
    laid: LaidOut,
    work: Callable[[Inputs], HeldOutBatch],
    label: Callable[[Inputs], Sequence[str]] | None,
    on_batch: Callable[[HeldOutBatch], None] | None,
    found: Surveyed,
) -> HeldOut:
    """Walk over the held-out generations and keep sums."""
    sums, clusters = ArraySums(), DistinctNames()
    clusters_of: dict[str | None, DistinctNames] = {}
    one: HeldOutBatch | None = None

    def labelled(batch: Inputs) -> tuple[HeldOutBatch, Sequence[str], Sequence[str]]:
        names = ("",) * batch.problem.generations if label is None else label(batch)
        return work(batch), batch.traces.category_of, names

    for one, categories, names in laid.over(labelled):
        sums.add(one.arrays(), one.expected.cluster, categories, names)
        there = np.flatnonzero(one.expected.tokens).tolist()
        clusters.add(one.expected.cluster[g] for g in there)
        for category in {categories[g] for g in there} if sums.apart(0) else ():
            of = (one.expected.cluster[g] for g in there if categories[g] == category)
            clusters_of.setdefault(category or None, DistinctNames()).add(of)
        if on_batch is not None:
            on_batch(one)
    assert one is not None
    rows, units = sums.sums, sums.units
    expected = PolicyTotals(one.expected.policies, units, units, rows["tokens"], rows["expected"], one.expected.bounds)
    return HeldOut(
        families=one.families,
        category=tuple(name or None for name in sums.labels(0)),
        expected=expected,
        realised=replace(expected, sums=rows["realised"]) if "realised" in rows else None,
        oracle_ms=rows["oracle_ms"],
        without_ms=replace(expected, sums=rows["without"]).total_ms[:, 0] if "without" in rows else None,
        in_sample_ms=replace(expected, sums=rows["in_sample"]).total_ms,
        late_share=_late_share(one.families, found),
        grouped=sums.grouped,
        clusters=len(clusters),
        clusters_of={category: len(names) for category, names in clusters_of.items()} if sums.apart(0) else {},
    )


def _late_share(families: Sequence[Family], found: Surveyed) -> float | None:
    if not any("draft_prob" in one.chosen_on_all.columns for one in families):
        return None
    return found.late / float(found.tokens.sum())


def _held_out(
    batch: Inputs,
    families: tuple[Family, ...],
    folds: Folds,
    trainings: Sequence[Training],
    realised: Callable[[Inputs], Problem] | None,
) -> HeldOutBatch:
    """Every generation of a batch under what was chosen for its fold: expected, and realised."""
    fold = folds.of(batch.traces.own_cluster_of)
    laid = {
        f: lengths_of([family.chosen[f] for family in families], replace(batch, training=trainings[f]))
        for f in np.unique(fold).tolist()
    }
    columns = {f: [one.names.index(str(family.chosen[f])) for family in families] for f, one in laid.items()}
    names = tuple(family.name for family in families)
    bounds = frozenset(family.name for family in families if not family.online)
    tokens = np.diff(batch.problem.offsets).astype(np.float64)

    def totals(problem: Problem) -> PolicyTotals:
        sums = _of_own_fold(batch, problem, laid, columns, fold)
        return PolicyTotals(names, batch.traces.generation, batch.traces.cluster_of, tokens, sums, bounds)

    off = [Static(0)] if batch.costs.lengths[0] == 0 else []
    on_all = [family.chosen_on_all for family in families]
    in_sample = totals_of(replace(batch, training=trainings[-1]), [*off, *on_all])
    return HeldOutBatch(
        families=families,
        fold=fold,
        category=batch.traces.category or (None,) * batch.problem.generations,
        expected=totals(batch.problem),
        realised=None if realised is None else totals(realised(batch)),
        oracle_ms=batch.optimum.value_ms(batch.problem.offsets),
        in_sample=_of(in_sample, on_all),
        without=_of(in_sample, off) if off else None,
    )


def _of(totals: PolicyTotals, policies: Sequence[Policy]) -> PolicyTotals:
    """Those of some policies; one that was chosen of two families counts twice."""
    names = tuple(map(str, policies))
    return replace(totals, policies=names, sums=totals.sums[:, [totals.policies.index(name) for name in names]])


def _of_own_fold(
    batch: Inputs,
    problem: Problem,
    laid: dict[int, PolicySet],
    columns: dict[int, list[int]],
    fold: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Sums of each generation under the lengths laid out for its fold, (G, families, MEASURES)."""
    traces = batch.traces
    sums = np.empty((problem.generations, len(next(iter(columns.values()))), len(MEASURES)))
    for f, lengths in laid.items():
        totals = scores.total(problem, batch.costs, lengths, traces.generation, traces.cluster_of)
        sums[fold == f] = totals.sums[fold == f][:, columns[f]]
    return sums
