"""Arrow layouts that do not carry a trace."""

import numpy as np
import pyarrow as pa
import pytest
from test_traces_arrow import FLAT, LENGTHS
from traces_factory import lists, trace_table

from oracle.errors import InputError
from oracle.traces import Traces
from oracle.traces.lists import BadCellsError, take_apart


def test_a_null_list_that_hides_items_is_a_fault():
    hiding = pa.ListArray.from_arrays(
        offsets=pa.array([0, 3, 5, 9], pa.int32()), values=pa.array(np.zeros(9, np.float32))
    )
    bitmap = pa.py_buffer(bytes([0b101]))
    column = pa.ListArray.from_buffers(hiding.type, 3, [bitmap, hiding.buffers()[1]], children=[hiding.values])
    assert column.to_pylist()[1] is None
    with pytest.raises(InputError) as error:
        Traces.from_arrow(trace_table(draft_prob=column), "t.parquet")
    assert error.value.faults[0] == (
        "t.parquet, generation 'g1': draft_prob is null; an empty list says that there is nothing"
    )


def test_null_elements_are_faults_though_they_read_as_zeros():
    probs = [0.5, None, 0.5, 0.5, None, 0.5, None]
    ids = [None, *FLAT[1:]]
    deep = [[0.0, 1.0]] * 6 + [[0.5, None]]
    with pytest.raises(InputError) as error:
        Traces.from_arrow(
            trace_table(
                match_prob=lists(LENGTHS, pa.array(probs, pa.float32())),
                experts=lists(LENGTHS, pa.array(ids, pa.binary(4))),
                unique_experts=lists(LENGTHS, pa.array(deep, pa.list_(pa.float32(), 2))),
                token_text=lists(LENGTHS, pa.array(["a"] * 5 + [None] * 2, pa.string())),
                logged_advance=lists([1, 0, 1], pa.array([3, None], pa.int16())),
            ),
            "t.parquet",
        )
    every = "every position needs a value of the same kind"
    assert error.value.faults == (
        f"t.parquet, generation 'g0', position 1: match_prob is null; {every}",
        f"t.parquet, generation 'g2', position 1: match_prob is null; {every} (and 1 more positions of this "
        "generation)",
        f"t.parquet, generation 'g0', position 0: experts is null; {every}",
        f"t.parquet, generation 'g2', position 3: unique_experts holds an entry that is null; {every}",
        f"t.parquet, generation 'g2', position 2: token_text is null; {every} (and 1 more positions of this "
        "generation)",
        "t.parquet, generation 'g2', round 0: logged_advance is null",
    )


def test_entries_of_unequal_length_are_faults():
    ids = pa.array([*FLAT[:5], b"abc", FLAT[6]], pa.binary())
    with pytest.raises(InputError) as error:
        Traces.from_arrow(trace_table(experts=lists(LENGTHS, ids)), "t.parquet")
    assert error.value.faults == (
        "t.parquet, generation 'g2', position 2: experts holds 3 bytes where the others hold 4; every position needs a "
        "value of the same kind",
    )
    deep = pa.array([[0.5, 0.5]] * 6 + [[0.5]], pa.list_(pa.float32()))
    with pytest.raises(InputError, match=r"position 3: match_probs holds 1 values where the others hold 2"):
        Traces.from_arrow(trace_table(drop=("match_prob",), match_probs=lists(LENGTHS, deep)))


def test_chunks_of_unequal_width_are_faults():
    one = trace_table((2,), K=3, prefix="a", drop=("new_experts", "draft_token_id"))
    other = trace_table((2,), K=2, prefix="b", drop=("new_experts", "draft_token_id"))
    kind = pa.list_(pa.list_(pa.float32()))
    place = one.column_names.index("unique_experts")
    one, other = (
        t.set_column(place, "unique_experts", pa.array(t["unique_experts"].to_pylist(), kind)) for t in (one, other)
    )
    with pytest.raises(InputError, match=r"'b0', position 0: unique_experts holds 3 values where the others hold 4"):
        Traces.from_arrow(pa.concat_tables([one, other]))


def test_cells_of_a_broken_list_array():
    falling = pa.ListArray.from_buffers(
        pa.list_(pa.int8()),
        2,
        [None, pa.py_buffer(np.array([0, 3, 1], np.int32))],
        children=[pa.array([1, 2, 3], pa.int8())],
    )
    with pytest.raises(BadCellsError):
        take_apart(falling)
