"""The decisions file: what the oracle does at every position."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.result_files import flat_array, list_array, text_array
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
    arrays = {name: flat_array(getattr(decisions, name)) for name, _, _ in COLUMNS if name != "q_gap_ms"}
    gap = decisions.q_gap_ms
    only_one = np.isinf(gap)
    arrays["q_gap_ms"] = flat_array(gap, only_one if only_one.any() else None)
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
        return pa.Table.from_pydict({"generation": text_array(generation), **lists})
    lengths = np.diff(offsets)
    names = text_array(generation).take(flat_array(np.repeat(np.arange(len(generation)), lengths)))
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return pa.Table.from_pydict({"generation": names, "position": flat_array(position.astype(np.int32)), **arrays})
