"""Decode rounds of a batch of rows as arrays, batch size by batch size."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.errors import Faults
from oracle.latency.moments import Floats, Integers
from oracle.rounds import Rounds

BatchSize = int | None  # None: the rounds have no column batch_size


@dataclass(frozen=True)
class DecodedRounds:
    """Decode rounds of one batch size in one batch of rows as arrays, and which of them each fit uses."""

    m: Integers
    cluster: Integers
    clusters: tuple[str, ...]
    verify: tuple[Floats, Floats, Floats]
    draft_ms: Floats
    reject_ms: Floats | None
    in_verify: NDArray[np.bool_]
    in_draft: NDArray[np.bool_]


def split_by_batch_size(rounds: Rounds) -> list[tuple[BatchSize, Integers]]:
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


def decoded(rounds: Rounds, rows: Integers) -> DecodedRounds:
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
    return DecodedRounds(
        m,
        place[codes],
        tuple(names[i] for i in present.tolist()),
        (experts, context, target),
        drafting,
        rounds.numeric("reject_ms")[rows] if "reject_ms" in rounds.table.column_names else None,
        target > 0,
        (drafting > 0) & (m > 1),
    )
