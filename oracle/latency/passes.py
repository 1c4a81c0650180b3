"""The two passes over recorded rounds: one for moments and counts, one for absolute percentage errors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InputError
from oracle.latency import draft
from oracle.latency.forms import REGRESSORS, RESPONSE, Kind
from oracle.latency.metrics import Coefficients, PercentageErrors
from oracle.latency.moments import Floats, Integers, Moments, MomentsBuilder
from oracle.latency.tables import Counts
from oracle.rounds import Rounds

CellErrors = dict[tuple[int, int], Floats]


@dataclass(frozen=True)
class Gathered:
    """What the first pass found.

    Parameters
    ----------
    verify
        Moments of unique_experts, context_len, target_ms over decode rounds with a positive target_ms.
    draft
        Moments of draft_ms over decode rounds with k >= 1 and a positive draft_ms; the same list of clusters.
    counts
        Where the rows went.
    reject_ms
        Mean of the column reject_ms over rounds with k >= 1; None if there is no such column.
    """

    verify: Moments
    draft: Moments
    counts: Counts
    reject_ms: float | None


@dataclass(frozen=True)
class _Batch:
    """Decode rounds of one batch as arrays, and which of them each fit uses."""

    m: Integers
    cluster: Integers
    clusters: tuple[str, ...]
    verify: tuple[Floats, Floats, Floats]
    draft_ms: Floats
    in_verify: NDArray[np.bool_]
    in_draft: NDArray[np.bool_]


def _decoded(rounds: Rounds) -> _Batch:
    """Leave out the prefill rows and name only the clusters that remain."""
    rows = np.flatnonzero(~rounds.is_prefill)
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
        target > 0,
        (drafting > 0) & (m > 1),
    )


def first_pass(batches: Iterable[Rounds]) -> Gathered:
    """Gather moments and counts.

    Raises
    ------
    InputError
        No decode rounds, or none with a positive target_ms.
    """
    verify, drafting = MomentsBuilder((*REGRESSORS, RESPONSE)), MomentsBuilder((draft.RESPONSE,))
    count = dict.fromkeys(("rows", "prefill", "target_not_positive", "draft_not_positive", "draft_at_zero"), 0)
    generations: set[str] = set()
    clusters: set[str] = set()
    reject_sum, reject_rounds, has_reject = 0.0, 0, False
    for rounds in batches:
        batch = _decoded(rounds)
        zero = batch.m == 1
        count["rows"] += len(rounds.draft_length)
        count["prefill"] += len(rounds.draft_length) - len(batch.m)
        count["target_not_positive"] += int((~batch.in_verify).sum())
        count["draft_not_positive"] += int((~zero & ~batch.in_draft).sum())
        count["draft_at_zero"] += int((zero & (batch.draft_ms > 0)).sum())
        clusters.update(batch.clusters)
        used = np.unique(np.asarray(rounds.generation_codes)[~rounds.is_prefill])
        generations.update(rounds.generation_names[i] for i in used.tolist())
        for builder, columns, mask in (
            (verify, batch.verify, batch.in_verify),
            (drafting, (batch.draft_ms,), batch.in_draft),
        ):
            builder.add([x[mask] for x in columns], batch.m[mask], batch.cluster[mask], batch.clusters)
        if "reject_ms" in rounds.table.column_names:
            values = rounds.numeric("reject_ms")[~rounds.is_prefill][~zero]
            values = values[~np.isnan(values)]
            has_reject, reject_sum, reject_rounds = True, reject_sum + float(values.sum()), reject_rounds + len(values)
    if count["rows"] == count["prefill"]:
        raise InputError(
            f"rounds: no verification rounds among {count['rows']} rows ({count['prefill']} of them prefill); "
            "record decoding"
        )
    verified, drafted = verify.result(clusters), drafting.result(clusters)
    if not verified.rounds:
        raise InputError(
            f"rounds: target_ms is 0 or less in all {count['target_not_positive']} verification rounds; check how "
            "it was timed"
        )
    counts = Counts(
        **count,
        verify_rounds=verified.rounds,
        draft_rounds=drafted.rounds,
        generations=len(generations),
        clusters=len(clusters),
    )
    return Gathered(verified, drafted, counts, reject_sum / max(reject_rounds, 1) if has_reject else None)


def second_pass(
    batches: Iterable[Rounds],
    fold_of: Mapping[str, int],
    verify: Mapping[Kind, Sequence[Coefficients]],
    drafting: Mapping[str, Sequence[Coefficients]],
) -> dict[str, CellErrors]:
    """Absolute percentage errors by (fold, m) of every fitted variant.

    Parameters
    ----------
    fold_of
        Fold of each cluster by name.
    verify, drafting
        Variants by name: for each fold the coefficients fitted on the others. Names do not repeat between the two.
    """
    gathered: dict[str, PercentageErrors] = {
        name: PercentageErrors(by_fold, len(REGRESSORS)) for name, by_fold in verify.items()
    }
    gathered |= {name: PercentageErrors(by_fold, 0) for name, by_fold in drafting.items()}
    for rounds in batches:
        batch = _decoded(rounds)
        fold = np.array([fold_of[name] for name in batch.clusters], dtype=np.int64)[batch.cluster]
        for variants, columns, mask in (
            (verify, batch.verify, batch.in_verify),
            (drafting, (batch.draft_ms,), batch.in_draft),
        ):
            *regressors, response = (x[mask] for x in columns)
            for name in variants:
                gathered[name].add(fold[mask], batch.m[mask], regressors, response)
    return {name: errors.by_cell() for name, errors in gathered.items()}


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
