"""Arrow layouts: whatever carries the same trace gives the same arrays."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces_factory import DENSE, counts_of, fixed_bytes, ids_of, lists, routed, rows, trace_table

from oracle.traces import Traces
from oracle.traces.lists import cells, list_array, take_apart

ARRAYS = (
    "offsets",
    "context_start",
    "match_prob",
    "match_probs",
    "draft_prob",
    "experts",
    "new_experts",
    "unique_experts",
    "logged_offsets",
    "logged_draft_length",
    "logged_advance",
)
LENGTHS = (3, 0, 4)


def assert_same(one: Traces, other: Traces, but: tuple[str, ...] = ()) -> None:
    for name in ARRAYS:
        if name in but:
            continue
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None), name
        if left is not None:
            assert left.dtype == right.dtype, name
            assert left.shape == right.shape, name
            assert np.array_equal(left, right), name
    for name in ("generation", "category", "tenant", "cluster", "match_kind", "layers", "top_k", "num_experts"):
        assert getattr(one, name) == getattr(other, name), name


def test_all_columns_are_read_as_the_definitions_say():
    table = trace_table()
    traces = Traces.from_arrow(table, "t.parquet")
    assert (traces.generations, traces.positions, traces.max_draft_length) == (3, 7, 3)
    assert traces.generation == ("g0", "g1", "g2")
    assert traces.offsets.tolist() == [0, 3, 3, 7]
    assert traces.context_start.tolist() == [10, 11, 12]
    assert traces.category == ("code", None, "prose")
    assert traces.cluster == ("p0", None, "p1")
    assert traces.cluster_of == ("p0", "g1", "p1")
    assert (traces.layers, traces.top_k, traces.num_experts) == (2, 2, 8)
    assert traces.match_prob.tolist() == [p for row in table["match_prob"].to_pylist() for p in row]
    assert traces.match_probs is None
    assert np.array_equal(traces.experts, ids_of(table))
    new, unique = counts_of(LENGTHS, ids_of(table), 3)
    assert np.array_equal(traces.new_experts, new)
    assert np.array_equal(traces.unique_experts, unique)
    assert traces.logged_offsets.tolist() == [0, 1, 1, 2]
    assert traces.logged_draft_length.tolist() == [2, 2]
    assert traces.logged_advance.tolist() == [3, 3]
    assert traces.table["decoding"].to_pylist() == ["greedy"] * 3


def test_arrays_are_read_only_contiguous_and_aligned():
    table = trace_table()
    one_chunk, many = Traces.from_arrow(table), Traces.from_arrow(pa.concat_tables([table.slice(0, 1), table.slice(1)]))
    for traces in (one_chunk, many):
        for name in ARRAYS:
            if (array := getattr(traces, name)) is not None:
                assert not array.flags.writeable, name
                assert array.flags.c_contiguous, name
                assert array.flags.aligned, name


def test_one_chunk_is_not_copied():
    table = trace_table()
    traces = Traces.from_arrow(table)
    for name, array in (
        ("match_prob", traces.match_prob),
        ("experts", traces.experts),
        ("new_experts", traces.new_experts),
    ):
        start = table[name].chunk(0).values.buffers()[1].address
        assert array.__array_interface__["data"][0] == start, name


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_slices_and_chunks_do_not_matter(data):
    lengths = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=6))
    table = trace_table(lengths, seed=data.draw(st.integers(0, 9)))
    first = data.draw(st.integers(0, len(lengths) - 1))
    last = data.draw(st.integers(first + 1, len(lengths)))
    part = table.slice(first, last - first)
    cuts = sorted(data.draw(st.lists(st.integers(0, part.num_rows), max_size=3)))
    pieces = [part.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, part.num_rows], strict=True)]
    whole = Traces.from_arrow(pa.table(part.to_pydict(), schema=part.schema))
    assert_same(Traces.from_arrow(part), whole)
    assert_same(Traces.from_arrow(pa.concat_tables(pieces)), whole)
    assert_same(Traces.from_arrow(Traces.from_arrow(part).to_arrow()), whole)


def test_after_a_slice_offsets_are_absolute_and_values_ignore_it():
    column = lists(LENGTHS, np.arange(7, dtype=np.float32)).slice(2)
    assert column.offsets.to_pylist() == [3, 7]  # what pyarrow does, and why there is take_apart
    assert len(column.values) == 7
    found = take_apart(column)
    assert found.offsets.tolist() == [0, 4]
    assert cells(found.items).tolist() == [3, 4, 5, 6]


def test_each_column_has_a_base_of_its_own():
    """Two columns of one table may begin at different places of their items."""
    padded = pa.ListArray.from_arrays(
        pa.array([2, 5, 5, 9], pa.int32()), pa.array(np.arange(9), pa.float32()).cast(pa.float32())
    )
    scaled = pa.ListArray.from_arrays(padded.offsets, pa.array(np.arange(9) / 10, pa.float32()))
    traces = Traces.from_arrow(trace_table(match_prob=scaled))
    assert np.array_equal(traces.match_prob, np.arange(2, 9, dtype=np.float32) / np.float32(10))
    assert np.array_equal(traces.experts, ids_of(trace_table()))


def test_fixed_size_children_have_an_offset_of_their_own():
    values = np.linspace(0, 1, 20, dtype=np.float32)
    child = pa.FixedSizeListArray.from_arrays(pa.array(values), 2).slice(3, 7)
    traces = Traces.from_arrow(trace_table(drop=("match_prob",), match_probs=lists(LENGTHS, child)))
    assert np.array_equal(traces.match_probs, values[6:].reshape(7, 2))
    inner = pa.FixedSizeListArray.from_arrays(pa.array(values).slice(1, 14), 2)
    traces = Traces.from_arrow(trace_table(drop=("match_prob",), match_probs=lists(LENGTHS, inner)))
    assert np.array_equal(traces.match_probs, values[1:15].reshape(7, 2))
    ids = routed(9, 2, 2, 8)
    cut = fixed_bytes([9], ids).values.slice(2)
    assert np.array_equal(
        Traces.from_arrow(trace_table(drop=("new_experts",), experts=lists(LENGTHS, cut))).experts, ids[2:]
    )


IDS = routed(7, 2, 2, 8)
FLAT = [row.tobytes() for row in IDS]
LAYOUTS = {
    "binary": lambda: lists(LENGTHS, pa.array(FLAT, pa.binary())),
    "large_binary": lambda: lists(LENGTHS, pa.array(FLAT, pa.large_binary())),
    "binary_view": lambda: lists(LENGTHS, pa.array(FLAT, pa.binary_view())),
    "sliced binary": lambda: lists(LENGTHS, pa.array([b"odd", *FLAT], pa.binary()).slice(1)),
    "fixed_size_list<uint8>": lambda: rows(LENGTHS, IDS.reshape(7, 4)),
    "fixed_size_list<int32>": lambda: rows(LENGTHS, IDS.reshape(7, 4).astype(np.int32)),
    "list<int64>": lambda: lists(LENGTHS, pa.array(IDS.reshape(7, 4).tolist(), pa.list_(pa.int64()))),
    "list<uint8>": lambda: lists(LENGTHS, pa.array(IDS.reshape(7, 4).tolist(), pa.list_(pa.uint8()))),
    "list<list<int16>>": lambda: lists(LENGTHS, pa.array(IDS.tolist(), pa.list_(pa.list_(pa.int16())))),
    "large_list": lambda: pa.LargeListArray.from_arrays(
        pa.array([0, 3, 3, 7], pa.int64()), fixed_bytes([7], IDS).values
    ),
    "large_list<large_binary>": lambda: pa.LargeListArray.from_arrays(
        pa.array([0, 3, 3, 7], pa.int64()), pa.array(FLAT, pa.large_binary())
    ),
    "list_view": lambda: pa.ListViewArray.from_arrays(
        pa.array([4, 0, 0], pa.int32()),
        pa.array([3, 0, 4], pa.int32()),
        fixed_bytes([7], np.roll(IDS, -3, axis=0)).values,
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_expert_ids_in_every_layout(layout):
    drop = ("new_experts", "unique_experts")
    wanted = Traces.from_arrow(trace_table(drop=drop, experts=fixed_bytes(LENGTHS, IDS)))
    assert_same(Traces.from_arrow(trace_table(drop=drop, experts=LAYOUTS[layout]())), wanted)
    assert np.array_equal(wanted.experts, IDS)


@pytest.mark.parametrize("kind", ["bytes", "lists", "wide lists"])
def test_sixteen_bit_ids(kind):
    ids = routed(7, 2, 2, 600, seed=3)
    column = {
        "bytes": lambda: fixed_bytes(LENGTHS, ids.astype("<u2")),
        "lists": lambda: rows(LENGTHS, ids.reshape(7, 4)),
        "wide lists": lambda: rows(LENGTHS, ids.reshape(7, 4).astype(np.int64)),
    }[kind]()
    drop = ("new_experts", "unique_experts")
    traces = Traces.from_arrow(trace_table(num_experts=600, drop=drop, experts=column))
    assert traces.experts.dtype == np.uint16
    assert np.array_equal(traces.experts, ids)


def test_misaligned_sixteen_bit_ids_are_copied():
    ids = routed(7, 2, 2, 600).astype("<u2")
    data = b"odd" + ids.tobytes()
    items = pa.array([b"odd", *[row.tobytes() for row in ids]], pa.binary()).slice(1)
    assert items.buffers()[2].to_pybytes()[: len(data)] == data
    drop = ("new_experts", "unique_experts")
    experts = Traces.from_arrow(trace_table(num_experts=600, drop=drop, experts=lists(LENGTHS, items))).experts
    assert experts.flags.aligned
    assert np.array_equal(experts, ids)


@pytest.mark.parametrize("kind", ["fixed_size_binary", "binary", "fixed_size_list<uint16>", "list<int32>"])
def test_new_experts_in_every_layout(kind):
    wanted = Traces.from_arrow(trace_table())
    new = wanted.new_experts
    column = {
        "fixed_size_binary": lambda: fixed_bytes(LENGTHS, new.astype("<u2")),
        "binary": lambda: lists(LENGTHS, pa.array([row.astype("<u2").tobytes() for row in new], pa.binary())),
        "fixed_size_list<uint16>": lambda: rows(LENGTHS, new),
        "list<int32>": lambda: lists(LENGTHS, pa.array(new.tolist(), pa.list_(pa.int32()))),
    }[kind]()
    assert_same(Traces.from_arrow(trace_table(new_experts=column)), wanted)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float16(), pa.int8(), pa.bool_(), pa.decimal128(5, 1)])
def test_match_probabilities_of_any_numeric_type(kind):
    values = pa.array([0, 1, 1, 0, 1, 0, 1], pa.int8()).cast(pa.float32() if kind == pa.float16() else kind).cast(kind)
    traces = Traces.from_arrow(trace_table(match_prob=lists(LENGTHS, values)))
    assert traces.match_prob.dtype == np.float32
    assert traces.match_prob.tolist() == [0, 1, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("inner", ["fixed_size_list", "list", "large_list"])
def test_match_probs_by_depth(inner):
    values = np.random.default_rng(5).random((7, 3)).astype(np.float32)
    kind = {"fixed_size_list": pa.list_(pa.float32(), 3), "list": pa.list_(pa.float32())}.get(
        inner, pa.large_list(pa.float64())
    )
    column = lists(LENGTHS, pa.array(values.tolist(), kind))
    traces = Traces.from_arrow(trace_table(drop=("match_prob", *DENSE), match_probs=column))
    assert np.array_equal(traces.match_probs, values)
    assert traces.match_prob is None
    assert traces.max_draft_length == 3


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_names_of_any_string_type(kind):
    table = trace_table()
    for name in ("generation", "category", "cluster", "match_kind"):
        table = table.set_column(table.column_names.index(name), name, table[name].cast(kind))
    assert_same(Traces.from_arrow(table), Traces.from_arrow(trace_table()))


def test_fixed_size_outer_lists():
    kind = pa.list_(pa.float32(), 2)
    column = pa.array([[0.5, 0.25], [0.125, 1]], kind).slice(1)
    traces = Traces.from_arrow(trace_table((2,), match_prob=column))
    assert traces.match_prob.tolist() == [0.125, 1]


def test_what_polars_and_duckdb_give_back():
    """Their schemas, as recorded: large lists of views and large binary; lists of lists instead of fixed sizes."""
    table = trace_table(drop=("draft_text",))
    polars = {
        "generation": pa.string_view(),
        "experts": pa.large_list(pa.binary_view()),
        "match_prob": pa.large_list(pa.float32()),
        "unique_experts": pa.large_list(pa.list_(pa.float32(), 4)),
        "token_text": pa.large_list(pa.string_view()),
    }
    duckdb = {
        "experts": pa.list_(pa.field("l", pa.binary())),
        "new_experts": pa.list_(pa.field("l", pa.binary())),
        "unique_experts": pa.list_(pa.field("l", pa.list_(pa.field("l", pa.float32())))),
    }
    for types in (polars, duckdb):
        given = table
        for name, kind in types.items():
            column = pa.chunked_array([pa.array(table[name].to_pylist(), kind)])
            given = given.set_column(given.column_names.index(name), name, column)
        assert_same(Traces.from_arrow(given), Traces.from_arrow(table))


def test_anything_that_hands_out_an_arrow_stream():
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return trace_table().__arrow_c_stream__(requested_schema)

    assert_same(Traces.from_arrow(Stream()), Traces.from_arrow(trace_table()))
    batch = trace_table().to_batches()[0]
    assert_same(Traces.from_arrow(batch), Traces.from_arrow(trace_table()))


def test_lists_longer_than_32_bit_offsets_become_large():
    assert pa.types.is_list(list_array(np.array([0, 2], np.int64), pa.array([1, 2])).type)
    many = pa.nulls(2**31, pa.null())  # nulls take no memory
    assert pa.types.is_large_list(list_array(np.array([0, 2**31], np.int64), many).type)


def test_empty_lists_of_unknown_type():
    """What Python's own empty lists become: generations without positions."""
    table = pa.table(
        {"generation": ["a", "b"], "match_kind": ["greedy"] * 2, "context_start": [1, 2], "match_prob": [[], []]}
    )
    traces = Traces.from_arrow(table)
    assert (traces.generations, traces.positions, traces.max_draft_length) == (2, 0, None)
    assert traces.match_prob.dtype == np.float32


def test_no_positions_by_depth_are_written_and_read_again():
    """No position says how many depths there are, and Arrow has no fixed-size lists of size 0."""
    columns = {"generation": ["a", "b"], "match_kind": ["greedy"] * 2, "context_start": [1, 2]}
    traces = Traces.from_arrow(pa.table({**columns, "match_probs": pa.array([[], []], pa.list_(pa.null()))}))
    assert traces.match_probs.shape == (0, 0)
    assert_same(Traces.from_arrow(traces.to_arrow()), traces)


def test_no_positions_at_all_with_every_column():
    traces = Traces.from_arrow(trace_table((0, 0)))
    assert traces.experts.shape == (0, 2, 2)
    assert traces.positions == 0
    again = Traces.from_arrow(traces.to_arrow())
    assert again.experts.shape == (0, 2, 2)
