"""The decisions file: what the oracle does at every position."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.result_files import list_array
from oracle.solver import Decisions

COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("draft_length", pa.int16(), "k*, the cost-optimal draft length; ties to the shortest"),
    ("marginal_ms", pa.float64(), "d = V(t) - V(t + 1), milliseconds"),
    ("modal_advance", pa.int16(), "most probable tokens emitted by the round, clipped at the end of the text"),
    ("expected_advance", pa.float32(), "expected tokens emitted by the round, clipped at the end of the text"),
    ("visit_prob", pa.float64(), "probability that a round of the optimal policy starts here"),
    ("q_gap_ms", pa.float64(), "Q of the runner-up minus Q of k*, milliseconds; null where only one length is allowed"),
)


def values_of(decisions: Decisions) -> dict[str, pa.Array]:
    """The columns of the decisions file as flat Arrow arrays, one value a position."""
    arrays = {name: pa.array(getattr(decisions, name), type=kind) for name, kind, _ in COLUMNS if name != "q_gap_ms"}
    gap = decisions.q_gap_ms
    only_one = np.isinf(gap)
    arrays["q_gap_ms"] = pa.array(gap, mask=only_one if only_one.any() else None)
    return arrays


def decisions_table(
    decisions: Decisions, generation: tuple[str, ...], offsets: NDArray[np.int64], *, flat: bool = False
) -> pa.Table:
    """Decisions of a batch: one row a generation with list columns, or one row a position.

    Parameters
    ----------
    decisions
        Of all positions of the batch.
    generation
        Names, G.
    offsets : (G + 1,) int64
        First position of each generation.
    flat
        One row a position, with a column `position`.
    """
    arrays = values_of(decisions)
    if not flat:
        lists = {name: list_array(array, offsets) for name, array in arrays.items()}
        return pa.table({"generation": pa.array(generation, pa.string()), **lists})
    lengths = np.diff(offsets)
    names = pa.array(generation, pa.string()).take(pa.array(np.repeat(np.arange(len(generation)), lengths)))
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return pa.table({"generation": names, "position": pa.array(position, pa.int32()), **arrays})
