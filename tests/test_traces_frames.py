"""Frames with one row a position."""

import numpy as np
import pandas as pd
import pytest
from test_traces_arrow import assert_same
from traces_factory import DENSE, ids_of, rows, trace_table

from oracle.errors import InputError
from oracle.traces import Traces

LENGTHS = (3, 4)


def small() -> pd.DataFrame:
    """Three positions of one generation and two of another, as people hold them."""
    return pd.DataFrame(
        {
            "generation": ["a", "a", "a", "b", "b"],
            "match_kind": "greedy",
            "context_start": [5, 5, 5, 9, 9],
            "match_prob": [0.5, 1.0, 0.25, 0.0, 0.75],
        }
    )


def faults_of(frame: pd.DataFrame, **kwargs) -> tuple[str, ...]:
    with pytest.raises(InputError) as error:
        Traces.from_pandas(frame, **kwargs)
    return error.value.faults


def fault_of(frame: pd.DataFrame, **kwargs) -> str:
    faults = faults_of(frame, **kwargs)
    assert len(faults) == 1, faults
    return faults[0]


def test_a_plain_frame():
    traces = Traces.from_pandas(small())
    assert traces.generation == ("a", "b")
    assert traces.offsets.tolist() == [0, 3, 5]
    assert traces.context_start.tolist() == [5, 9]
    assert traces.match_prob.tolist() == [0.5, 1.0, 0.25, 0.0, 0.75]
    assert traces.layers is None


@pytest.mark.parametrize("by_depth", [False, True])
def test_there_and_back(by_depth):
    table = trace_table(LENGTHS)
    if by_depth:
        probs = np.random.default_rng(0).random((7, 3)).astype(np.float32)
        table = table.drop_columns(["match_prob"]).append_column("match_probs", rows(LENGTHS, probs))
    traces = Traces.from_arrow(table)
    frame = traces.to_pandas()
    assert len(frame) == 7
    assert list(frame.columns[:2]) == ["generation", "position"]
    assert frame["position"].tolist() == [0, 1, 2, 0, 1, 2, 3]
    again = Traces.from_pandas(frame, per_generation=["decoding"])
    assert_same(again, traces)
    assert again.table["decoding"].to_pylist() == ["greedy"] * 2
    for name in ("token_id", "token_text", "draft_token_id", "draft_text"):
        assert again.table[name].to_pylist() == table[name].to_pylist(), name


def test_ids_are_handed_out_as_arrays():
    table = trace_table(LENGTHS)
    frame = Traces.from_arrow(table).to_pandas()
    assert frame["experts"][0].shape == (2, 2)
    assert np.array_equal(np.stack(frame["experts"].tolist()), ids_of(table))
    assert frame["new_experts"][0].dtype == np.uint16
    assert np.array_equal(np.stack(frame["new_experts"].tolist()), Traces.from_arrow(table).new_experts)
    assert frame["unique_experts"][6].shape == (4,)
    assert frame["match_prob"].dtype == np.float32


def test_logged_rounds_stand_where_they_start():
    frame = Traces.from_arrow(trace_table(LENGTHS)).to_pandas()
    missing = pd.NA
    assert frame["logged_draft_length"].tolist() == [2, missing, missing, 2, missing, missing, missing]
    assert frame["logged_advance"].tolist() == [3, missing, missing, 3, missing, missing, missing]
    frame = small().assign(logged_draft_length=[1, np.nan, 0, 2, np.nan], logged_advance=[2, np.nan, 1, 2, np.nan])
    traces = Traces.from_pandas(frame)
    assert traces.logged_offsets.tolist() == [0, 2, 3]
    assert traces.logged_draft_length.tolist() == [1, 0, 2]
    assert traces.logged_advance.tolist() == [2, 1, 2]


def test_generations_without_positions_have_no_row():
    assert Traces.from_arrow(trace_table((3, 0, 4))).to_pandas()["generation"].unique().tolist() == ["g0", "g2"]


def test_rows_in_any_order_if_they_have_positions():
    frame = small().assign(position=[0, 1, 2, 0, 1])
    shuffled = frame.iloc[[4, 2, 0, 3, 1]]
    traces = Traces.from_pandas(shuffled)
    assert traces.generation == ("b", "a")
    assert traces.match_prob.tolist() == [0.0, 0.75, 0.5, 1.0, 0.25]


def test_ids_as_bytes_lists_and_arrays():
    ids = ids_of(trace_table(LENGTHS))
    frame = Traces.from_arrow(trace_table(LENGTHS, drop=("new_experts", "unique_experts"))).to_pandas()
    for cells in ([x.tobytes() for x in ids], ids.tolist(), list(ids), [x.ravel().tolist() for x in ids]):
        frame["experts"] = pd.Series(cells, dtype=object)
        assert np.array_equal(Traces.from_pandas(frame).experts, ids)


def test_whole_numbers_beside_missing_ones():
    """A category or a count that pandas turned into floats."""
    frame = small().assign(category=["x", "x", "x", None, None], context_start=[5.0, 5.0, 5.0, 9.0, 9.0])
    traces = Traces.from_pandas(frame)
    assert traces.category == ("x", None)
    assert traces.context_start.tolist() == [5, 9]


@pytest.mark.parametrize("generation", [[1, 1, 1, 2, 2], pd.Categorical(["1", "1", "1", "2", "2"])])
def test_ids_that_are_numbers_or_categories(generation):
    assert Traces.from_pandas(small().assign(generation=generation)).generation == ("1", "2")


def test_rows_that_cannot_be_put_in_order():
    mixed = small().iloc[[0, 3, 1, 2, 4]]
    assert fault_of(mixed, source="f") == (
        "f, row 2: generation 'a' goes on after others; keep the rows of a generation together, or give their position "
        "in a column `position`"
    )
    assert fault_of(small().assign(generation=["a", None, "a", "b", "b"])) == (
        "frame, row 1: generation is missing; every row needs one"
    )
    assert fault_of(small().assign(generation=[1, 1, 1, "1", "1"])) == (
        "frame: two generations have the same name as text; ids are unique, rename one"
    )


def test_positions_that_do_not_count():
    every = "each of 0 … N-1 occurs once"
    assert faults_of(small().assign(position=[0, 1, 1, 0, 2])) == (
        f"frame, generation 'a', position 2: position 1 occurs twice; {every}",
        f"frame, generation 'b', position 1: position is 2 where 1 should be; {every}",
    )
    assert "position is nan where 2 should be" in fault_of(small().assign(position=[0, 1, None, 0, 1]))
    assert "position is 0.5 where 1 should be" in fault_of(small().assign(position=[0, 0.5, 2, 0, 1]))


def test_what_there_is_one_of_a_generation():
    frame = small().assign(context_start=[5, 5, 6, 9, 9], category=["x", None, "x", "y", "y"])
    assert faults_of(frame) == (
        "frame, generation 'a', position 2: context_start is 6, but 5 at the generation's begin; a generation has one",
        "frame, generation 'a', position 1: category is missing, but x at the generation's begin; a generation has one",
    )
    assert fault_of(small().assign(seed=[1, 1, 2, 3, 3]), per_generation=["seed"]) == (
        "frame, generation 'a', position 2: seed is 2, but 1 at the generation's begin; a generation has one"
    )
    assert Traces.from_pandas(small().assign(seed=range(5))).table["seed"].to_pylist() == [[0, 1, 2], [3, 4]]


def test_columns_that_are_missing_or_misnamed():
    assert fault_of(small().drop(columns="generation")) == (
        "frame: has no column generation; if it is in the index, use frame.reset_index()"
    )
    assert fault_of(small().iloc[:0]) == "frame: holds no generations; a frame has one row a position"
    assert fault_of(small().rename(columns={"match_prob": 7})).startswith(
        "frame: the column 7 is not named by a string"
    )
    twice = pd.concat([small(), small()[["match_kind"]]], axis=1)
    assert fault_of(twice) == "frame: the column match_kind occurs more than once; keep one"
    assert fault_of(small(), per_generation=["seed"]) == (
        "frame: per_generation names 'seed', which is no column of the frame"
    )
    assert "holds neither match_prob nor match_probs" in fault_of(small().drop(columns="match_prob"))


def test_missing_values_never_pass():
    assert fault_of(small().assign(match_prob=[0.5, np.nan, 0.5, 0.5, 0.5])) == (
        "frame, generation 'a', position 1: match_prob is NaN; a probability lies in [0, 1]. Leave the generation out "
        "if it is unknown"
    )
    nullable = pd.array([0.5, 0.5, 0.5, None, 0.5], dtype="Float32")
    assert fault_of(small().assign(match_prob=nullable)) == (
        "frame, generation 'b', position 0: match_prob is null; every position needs a value of the same kind"
    )


def test_rows_of_numbers_that_are_none():
    frame = Traces.from_arrow(trace_table(LENGTHS)).to_pandas()
    cells = frame["unique_experts"].tolist()
    cells[1], cells[5] = None, np.zeros(3)
    frame["unique_experts"] = pd.Series(cells, dtype=object)
    ids = frame["experts"].tolist()
    ids[2] = "abcd"
    frame["experts"] = pd.Series(ids, dtype=object)
    assert faults_of(frame, per_generation=["decoding"]) == (
        "frame, generation 'g0', position 2: experts is 'abcd'; it is an array or list of numbers",
        "frame, generation 'g0', position 1: unique_experts is None; it is an array or list of numbers",
        "frame, generation 'g1', position 2: unique_experts has the shape (3,) where the others have (4,); all "
        "positions hold equally many",
    )


def test_columns_of_mixed_kinds():
    assert fault_of(small().assign(token_text=["a", 1, "b", "c", b"d"])).startswith(
        "frame: the column token_text holds values of different kinds ("
    )


def test_logged_rounds_that_do_not_follow_one_another():
    nan = np.nan
    assert fault_of(small().assign(logged_draft_length=[1, nan, nan, 0, nan], logged_advance=[2, nan, 1, 1, nan])) == (
        "frame, generation 'a', position 2: logged_draft_length and logged_advance are not both there; a logged round "
        "has both"
    )
    assert fault_of(small().assign(logged_draft_length=[1, nan, 1, 0, nan], logged_advance=[1, nan, 1, 1, nan])) == (
        "frame, generation 'a', position 2: a logged round stands here, but the one before it ends at position 1; it "
        "stands where it starts"
    )
    assert fault_of(
        small().assign(logged_draft_length=[0.5, nan, nan, 0, nan], logged_advance=[1, nan, nan, 1, nan])
    ) == ("frame, generation 'a', position 0: logged_draft_length is 0.5; it is a whole number")
    assert fault_of(small().assign(logged_advance=[1, nan, nan, 1, nan])) == (
        "frame: logged_advance comes without logged_draft_length; a logged round needs both"
    )


def test_a_dense_target_and_all_its_neighbours_survive():
    frame = Traces.from_arrow(trace_table(LENGTHS, drop=DENSE)).to_pandas()
    assert not set(DENSE) & set(frame.columns)
    assert Traces.from_pandas(frame).experts is None


def test_the_frame_given_is_left_alone():
    frame = small().assign(position=[2, 1, 0, 1, 0])
    before = frame.copy()
    Traces.from_pandas(frame)
    pd.testing.assert_frame_equal(frame, before)
