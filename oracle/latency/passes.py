"""The two passes over recorded rounds: one for moments and counts, one for absolute percentage errors."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.errors import Faults, InputError
from oracle.latency import draft, reject
from oracle.latency.decoded import BatchSize, decoded, split_by_batch_size
from oracle.latency.forms import REGRESSORS, RESPONSE, Kind
from oracle.latency.metrics import Coefficients, PercentageErrors
from oracle.latency.moments import Floats, Integers, Moments, MomentsBuilder, moments_of
from oracle.latency.tables import Counts
from oracle.pipeline import in_order
from oracle.rounds import Rounds

_T = TypeVar("_T")
CellErrors = dict[tuple[int, int], Floats]


@dataclass(frozen=True)
class Gathered:
    """What the first pass found at one batch size.

    Parameters
    ----------
    verify
        Moments of unique_experts, context_len, target_ms over decode rounds with a positive target_ms.
    draft
        Moments of draft_ms over decode rounds with k >= 1 and a positive draft_ms; the same list of clusters.
    reject
        Moments of reject_ms over decode rounds with k >= 1 that have it; no cells without such a column.
    counts
        Where the rows went.
    generations
        Names of the generations among the decode rounds.
    """

    verify: Moments
    draft: Moments
    reject: Moments
    counts: Counts
    generations: frozenset[str]


@dataclass(frozen=True)
class Variants:
    """What was fitted without each fold at one batch size, to be judged on the rounds left out.

    Parameters
    ----------
    fold_of
        Fold of each cluster by name.
    verify, draft
        Variants by name: for each fold the coefficients fitted on the others. Names do not repeat between the two.
    """

    fold_of: Mapping[str, int]
    verify: Mapping[Kind, Sequence[Coefficients]]
    draft: Mapping[str, Sequence[Coefficients]]

    def errors(self) -> dict[str, PercentageErrors]:
        """Empty collections of percentage errors, by name."""
        verify = {name: PercentageErrors(by_fold, len(REGRESSORS)) for name, by_fold in self.verify.items()}
        return verify | {name: PercentageErrors(by_fold, 0) for name, by_fold in self.draft.items()}


@dataclass(frozen=True)
class _Part:
    """What one batch of rows adds to one batch size; small, whoever worked it out."""

    verify: Moments
    draft: Moments
    reject: Moments | None
    count: Mapping[str, int]
    generations: frozenset[str]
    clusters: tuple[str, ...]
    longest_context: float


def _part_of(rounds: Rounds, rows: Integers) -> _Part:
    """Moments and counts of some decode rounds of a batch."""
    batch = decoded(rounds, rows)
    zero = batch.m == 1

    def of(names: tuple[str, ...], columns: tuple[Floats, ...], mask: NDArray[np.bool_]) -> Moments:
        parts = [x[mask] for x in columns]
        return moments_of(names, parts, m=batch.m[mask], cluster=batch.cluster[mask], clusters=batch.clusters)

    timed = batch.reject_ms
    used = np.unique(np.asarray(rounds.generation_codes)[rows])
    return _Part(
        verify=of((*REGRESSORS, RESPONSE), batch.verify, batch.in_verify),
        draft=of((draft.RESPONSE,), (batch.draft_ms,), batch.in_draft),
        reject=None if timed is None else of((reject.RESPONSE,), (timed,), ~zero & ~np.isnan(timed)),
        count={
            "rows": len(rows),
            "target_not_positive": int((~batch.in_verify).sum()),
            "draft_not_positive": int((~zero & ~batch.in_draft).sum()),
            "draft_at_zero": int((zero & (batch.draft_ms > 0)).sum()),
        },
        generations=frozenset(rounds.generation_names[i] for i in used.tolist()),
        clusters=batch.clusters,
        longest_context=float(rounds.context_len[rows].max(initial=0.0)),
    )


class _Gatherer:
    """Moments and counts of one batch size, over batches of rows."""

    def __init__(self) -> None:
        self._verify = MomentsBuilder((*REGRESSORS, RESPONSE))
        self._draft = MomentsBuilder((draft.RESPONSE,))
        self._reject = MomentsBuilder((reject.RESPONSE,))
        self._count: Counter[str] = Counter()
        self._generations: set[str] = set()
        self._clusters: set[str] = set()
        self._longest_context = 0.0

    def add(self, part: _Part) -> None:
        """Take in a batch; the order of batches decides about the last digits."""
        self._verify.join(part.verify)
        self._draft.join(part.draft)
        if part.reject is not None:
            self._reject.join(part.reject)
        self._count.update(part.count)
        self._generations.update(part.generations)
        self._clusters.update(part.clusters)
        self._longest_context = max(self._longest_context, part.longest_context)

    def result(self, prefill: int) -> Gathered:
        """Join what was taken in; `prefill` rows stood beside it."""
        self._count["rows"] += prefill
        verify, drafting, rejecting = (b.result(self._clusters) for b in (self._verify, self._draft, self._reject))
        if not verify.rounds:
            raise InputError(
                f"rounds: target_ms is 0 or less in all {self._count['target_not_positive']} verification rounds; "
                "check how it was timed"
            )
        counts = Counts(
            **self._count,
            prefill=prefill,
            verify_rounds=verify.rounds,
            draft_rounds=drafting.rounds,
            generations=len(self._generations),
            clusters=len(self._clusters),
            longest_context=self._longest_context,
        )
        return Gathered(verify, drafting, rejecting, counts, frozenset(self._generations))


def each_batch_size(sizes: Iterable[BatchSize], make: Callable[[BatchSize], _T]) -> dict[BatchSize, _T]:
    """Make something for every batch size; faults name theirs and are raised together."""
    found, faults = {}, Faults()
    for size in sizes:
        try:
            found[size] = make(size)
        except InputError as error:
            for fault in error.faults:
                faults.add(at_batch_size(size, fault))
    faults.raise_if_any()
    return found


def at_batch_size(size: BatchSize, sentence: str) -> str:
    """Say which batch size a sentence is about; nothing to say where there is none."""
    return sentence if size is None else f"batch size {size}: {sentence}"


def first_pass(batches: Iterable[Rounds]) -> dict[BatchSize, Gathered]:
    """Gather moments and counts of every batch size, rising.

    Prefill rows are counted at their own batch size, those without a known one at the smallest.

    Raises
    ------
    InputError
        No decode rounds, none with a positive target_ms, or batch sizes that cannot be used.
    """
    gatherers: dict[BatchSize, _Gatherer] = {}
    prefill: Counter[BatchSize] = Counter()
    for parts, before in in_order(_parts_of, batches, 1):
        for size, part in parts.items():
            gatherers.setdefault(size, _Gatherer()).add(part)
        prefill.update(before)
    if not gatherers:
        rows_read = prefill.total()
        raise InputError(
            f"rounds: no verification rounds among {rows_read} rows ({rows_read} of them prefill); record decoding"
        )
    if None in gatherers and len(gatherers) > 1:
        raise InputError(
            "rounds: some batches have a column batch_size and others have not; give every round one, or fit them apart"
        )
    sizes = sorted(gatherers, key=lambda size: size or 0)
    unknown = sum(n for size, n in prefill.items() if size not in gatherers)
    prefill[sizes[0]] += unknown
    return each_batch_size(sizes, lambda size: gatherers[size].result(prefill[size]))


def _parts_of(rounds: Rounds) -> tuple[dict[BatchSize, _Part], Counter[BatchSize]]:
    """What one batch adds to the first pass, by batch size, and its prefill rows."""
    parts = {size: _part_of(rounds, rows) for size, rows in split_by_batch_size(rounds) if len(rows)}
    said = rounds.numeric("batch_size") if "batch_size" in rounds.table.column_names else np.full(len(rounds), np.nan)
    prefill: Counter[BatchSize] = Counter()
    for each, n in zip(*np.unique(said[rounds.is_prefill], return_counts=True), strict=True):
        prefill[int(each) if np.isfinite(each) else None] += int(n)
    return parts, prefill


def second_pass(
    batches: Iterable[Rounds], variants: Mapping[BatchSize, Variants]
) -> dict[BatchSize, dict[str, CellErrors]]:
    """Absolute percentage errors by (fold, m) of every fitted variant, by batch size and name of the variant."""
    gathered = {size: each.errors() for size, each in variants.items()}
    for found in in_order(partial(_errors_of, variants=variants), batches, 1):
        for size, by_name in found.items():
            for name, errors in by_name.items():
                gathered[size][name].join(errors)
    return {size: {name: errors.by_cell() for name, errors in each.items()} for size, each in gathered.items()}


def _errors_of(rounds: Rounds, variants: Mapping[BatchSize, Variants]) -> dict[BatchSize, dict[str, PercentageErrors]]:
    """Percentage errors of one batch, by batch size and name of the variant."""
    found = {}
    for size, rows in split_by_batch_size(rounds):
        if size not in variants or not len(rows):
            continue
        batch, of = decoded(rounds, rows), variants[size]
        found[size] = of.errors()
        fold = np.array([of.fold_of[name] for name in batch.clusters], dtype=np.int64)[batch.cluster]
        for names, columns, mask in (
            (of.verify, batch.verify, batch.in_verify),
            (of.draft, (batch.draft_ms,), batch.in_draft),
        ):
            *regressors, response = (x[mask] for x in columns)
            for name in names:
                found[size][name].add(fold[mask], batch.m[mask], regressors, response)
    return found


def repeatable(rounds: Rounds | Iterable[Rounds]) -> Iterable[Rounds]:
    """Make sure that rounds can be walked twice.

    Raises
    ------
    InputError
        An iterator or generator, which can be walked only once.
    """
    if isinstance(rounds, Rounds):
        return (rounds,)
    if isinstance(rounds, Iterator):
        raise InputError("rounds: an iterator can be walked only once; give a list of batches or RoundFiles")
    return rounds
