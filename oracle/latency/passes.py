"""The two passes over recorded rounds: one for moments and counts, one for absolute percentage errors."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.errors import Faults, InputError
from oracle.latency import draft, reject
from oracle.latency.forms import REGRESSORS, RESPONSE, Kind
from oracle.latency.metrics import Coefficients, PercentageErrors
from oracle.latency.moments import Floats, Integers, Moments, MomentsBuilder
from oracle.latency.tables import Counts
from oracle.rounds import Rounds

_T = TypeVar("_T")
CellErrors = dict[tuple[int, int], Floats]
BatchSize = int | None  # None: the rounds have no column batch_size


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
class _Batch:
    """Decode rounds of one batch size in one batch of rows as arrays, and which of them each fit uses."""

    m: Integers
    cluster: Integers
    clusters: tuple[str, ...]
    verify: tuple[Floats, Floats, Floats]
    draft_ms: Floats
    reject_ms: Floats | None
    in_verify: NDArray[np.bool_]
    in_draft: NDArray[np.bool_]


def _split(rounds: Rounds) -> list[tuple[BatchSize, Integers]]:
    """Rows of decode rounds by batch size, rising; one part under None without such a column.

    Raises
    ------
    InputError
        A verification round whose batch size is missing or no whole number from 1 on.
    """
    rows = np.flatnonzero(~rounds.is_prefill)
    if "batch_size" not in rounds.table.column_names:
        return [(None, rows)]
    size = rounds.numeric("batch_size")[rows]
    faults = Faults()
    missing = int(np.isnan(size).sum())
    if missing:
        faults.add(
            f"{rounds.source}: {missing} verification rounds have no batch_size; give every round one, or leave the "
            "column out"
        )
    odd = size[(size < 1) | (np.floor(size) != size) & ~np.isnan(size)]
    if len(odd):
        faults.add(
            f"{rounds.source}: batch_size is {odd[0]:.9g} in a verification round; it is a whole number of requests, "
            "at least 1"
        )
    faults.raise_if_any()
    return [(int(each), rows[size == each]) for each in np.unique(size)]


def _decoded(rounds: Rounds, rows: Integers) -> _Batch:
    """Take some rows and name only the clusters that occur in them."""
    codes = np.asarray(rounds.cluster_codes)[rows]
    present = np.flatnonzero(np.bincount(codes)) if len(codes) else np.zeros(0, dtype=np.int64)
    place = np.zeros(int(present[-1]) + 1 if len(present) else 1, dtype=np.int64)
    place[present] = np.arange(len(present))
    names = rounds.cluster_names
    experts, context, target, drafting = (
        rounds.unique_experts[rows],
        rounds.context_len[rows],
        rounds.target_ms[rows],
        rounds.draft_ms[rows],
    )
    m = rounds.draft_length[rows] + 1
    return _Batch(
        m,
        place[codes],
        tuple(names[i] for i in present.tolist()),
        (experts, context, target),
        drafting,
        rounds.numeric("reject_ms")[rows] if "reject_ms" in rounds.table.column_names else None,
        target > 0,
        (drafting > 0) & (m > 1),
    )


class _Gatherer:
    """Moments and counts of one batch size, over batches of rows."""

    def __init__(self) -> None:
        self._verify = MomentsBuilder((*REGRESSORS, RESPONSE))
        self._draft = MomentsBuilder((draft.RESPONSE,))
        self._reject = MomentsBuilder((reject.RESPONSE,))
        self._count = dict.fromkeys(("rows", "target_not_positive", "draft_not_positive", "draft_at_zero"), 0)
        self._generations: set[str] = set()
        self._clusters: set[str] = set()
        self._longest_context = 0.0

    def add(self, rounds: Rounds, rows: Integers) -> None:
        """Take in some decode rounds of a batch."""
        batch = _decoded(rounds, rows)
        zero = batch.m == 1
        self._count["rows"] += len(rows)
        self._count["target_not_positive"] += int((~batch.in_verify).sum())
        self._count["draft_not_positive"] += int((~zero & ~batch.in_draft).sum())
        self._count["draft_at_zero"] += int((zero & (batch.draft_ms > 0)).sum())
        self._clusters.update(batch.clusters)
        self._longest_context = max(self._longest_context, float(rounds.context_len[rows].max(initial=0.0)))
        used = np.unique(np.asarray(rounds.generation_codes)[rows])
        self._generations.update(rounds.generation_names[i] for i in used.tolist())
        parts: list[tuple[MomentsBuilder, tuple[Floats, ...], NDArray[np.bool_]]] = [
            (self._verify, batch.verify, batch.in_verify),
            (self._draft, (batch.draft_ms,), batch.in_draft),
        ]
        if batch.reject_ms is not None:
            parts.append((self._reject, (batch.reject_ms,), ~zero & ~np.isnan(batch.reject_ms)))
        for builder, columns, mask in parts:
            builder.add([x[mask] for x in columns], batch.m[mask], batch.cluster[mask], batch.clusters)

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
    for rounds in batches:
        for size, rows in _split(rounds):
            if len(rows):
                gatherers.setdefault(size, _Gatherer()).add(rounds, rows)
        said = (
            rounds.numeric("batch_size") if "batch_size" in rounds.table.column_names else np.full(len(rounds), np.nan)
        )
        for each, n in zip(*np.unique(said[rounds.is_prefill], return_counts=True), strict=True):
            prefill[int(each) if np.isfinite(each) else None] += int(n)
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


def second_pass(
    batches: Iterable[Rounds], variants: Mapping[BatchSize, Variants]
) -> dict[BatchSize, dict[str, CellErrors]]:
    """Absolute percentage errors by (fold, m) of every fitted variant, by batch size and name of the variant."""
    gathered = {size: each.errors() for size, each in variants.items()}
    for rounds in batches:
        for size, rows in _split(rounds):
            if size not in variants or not len(rows):
                continue
            batch, of = _decoded(rounds, rows), variants[size]
            fold = np.array([of.fold_of[name] for name in batch.clusters], dtype=np.int64)[batch.cluster]
            for names, columns, mask in (
                (of.verify, batch.verify, batch.in_verify),
                (of.draft, (batch.draft_ms,), batch.in_draft),
            ):
                *regressors, response = (x[mask] for x in columns)
                for name in names:
                    gathered[size][name].add(fold[mask], batch.m[mask], regressors, response)
    return {size: {name: errors.by_cell() for name, errors in each.items()} for size, each in gathered.items()}


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
