"""Each refusal of a trace: place, rule, value, way out."""

import numpy as np
import pyarrow as pa
import pytest
from traces_factory import DENSE, TEXTS, fixed_bytes, lists, put, routed, rows, trace_table

from oracle.errors import InputError
from oracle.traces import Traces

LENGTHS = (3, 0, 4)


def faults_of(table: pa.Table, **kwargs) -> tuple[str, ...]:
    with pytest.raises(InputError) as error:
        Traces.from_arrow(table, "t.parquet", **kwargs)
    return error.value.faults


def fault_of(table: pa.Table, **kwargs) -> str:
    faults = faults_of(table, **kwargs)
    assert len(faults) == 1, faults
    return faults[0]


# Schema.


def test_a_dense_target_has_no_expert_columns():
    traces = Traces.from_arrow(trace_table(drop=DENSE))
    assert (traces.layers, traces.top_k, traces.num_experts) == (None, None, None)
    assert (traces.experts, traces.new_experts, traces.unique_experts) == (None, None, None)
    assert traces.max_draft_length is None
    nulls = pa.nulls(3, pa.int32())
    table = put(trace_table(drop=DENSE[3:]), layers=nulls, top_k=nulls, num_experts=nulls)
    assert Traces.from_arrow(table).layers is None


def test_optional_columns_may_be_missing():
    optional = ("category", "tenant", "cluster", "draft_prob", "logged_draft_length", "logged_advance", *TEXTS, *DENSE)
    traces = Traces.from_arrow(trace_table(drop=optional))
    assert traces.category is traces.tenant is traces.cluster is traces.draft_prob is None
    assert traces.logged_offsets is traces.logged_draft_length is traces.logged_advance is None
    assert traces.cluster_of == traces.generation == ("g0", "g1", "g2")
    assert traces.table.column_names == ["generation", "match_kind", "context_start", "match_prob", "decoding"]


@pytest.mark.parametrize("kept", ["experts", "new_experts", "unique_experts"])
def test_one_way_to_give_experts_is_enough(kept):
    ways = {"experts", "new_experts", "unique_experts"}
    traces = Traces.from_arrow(trace_table(drop=tuple(ways - {kept})))
    assert [name for name in sorted(ways) if getattr(traces, name) is not None] == [kept]
    assert (traces.layers, traces.top_k, traces.num_experts) == (2, 2, 8)


def test_missing_columns_are_all_named():
    faults = faults_of(trace_table(drop=("generation", "match_kind", "context_start", "match_prob", "layers")))
    assert [fault.split(";")[0] for fault in faults] == [
        "t.parquet: the required column generation (string: unique id of the generation) is missing",
        "t.parquet: the required column match_kind (string: what the match probabilities are: overlap, reference, "
        "greedy, empirical, realised, overlap_lower, overlap_upper) is missing",
        "t.parquet: the required column context_start (int32: tokens in context when position 0's round starts, the "
        "pass's own input token included) is missing",
        "t.parquet: holds neither match_prob nor match_probs",
        "t.parquet: experts needs the columns layers, top_k and num_experts",
    ]
    assert "the columns there: category, tenant, cluster, top_k" in faults[0]
    assert faults[4].endswith("missing: layers")


def test_columns_that_exclude_or_need_one_another():
    both = trace_table(match_probs=rows(LENGTHS, np.full((7, 2), 0.5, np.float32)))
    assert fault_of(both) == (
        "t.parquet: holds both match_prob and match_probs; keep one (match_probs if quality depends on depth)"
    )
    assert fault_of(trace_table(drop=("logged_advance",))) == (
        "t.parquet: logged_draft_length comes without logged_advance; a logged round needs both"
    )
    twice = pa.table([*trace_table().columns, trace_table()["tenant"]], names=[*trace_table().column_names, "tenant"])
    assert fault_of(twice) == "t.parquet: the column tenant occurs 2 times; keep one"


def test_wrong_types_are_all_named():
    faults = faults_of(
        trace_table(
            generation=pa.array([1, 2, 3]),
            context_start=pa.array([1.0, 2.0, 3.0]),
            match_prob=pa.array([0.5, 0.5, 0.5]),
            draft_prob=lists(LENGTHS, pa.array(["x"] * 7)),
            token_id=lists(LENGTHS, np.full(7, 0.5)),
            experts=rows(LENGTHS, np.full((7, 4), 0.5)),
            unique_experts=lists(LENGTHS, np.full(7, 0.5)),
        )
    )
    assert faults == (
        "t.parquet: the column generation has the type int64; it must be a string (best: string)",
        "t.parquet: the column context_start has the type double; it must be an integer (best: int32)",
        "t.parquet: the column token_id has the type list<item: double>; it must be a list of integers, one a position "
        "(best: list<int32>)",
        "t.parquet: the column match_prob has the type double; it must be a list of numbers, one a position "
        "(best: list<float32>)",
        "t.parquet: the column draft_prob has the type list<item: string>; it must be a list of numbers, one a "
        "position (best: list<float32>)",
        "t.parquet: the column experts has the type list<item: fixed_size_list<item: double>[4]>; it must be a list of "
        "fixed_size_binary, binary or lists of integers, one a position (best: "
        "list<fixed_size_binary[layers·top_k·itemsize]>)",
        "t.parquet: the column unique_experts has the type list<item: double>; it must be a list of lists of numbers, "
        "one a position (best: list<fixed_size_list<float32>[K+1]>)",
    )


def test_no_rows():
    assert fault_of(trace_table().slice(0, 0)) == "t.parquet: holds no generations; a trace has one row a generation"


# One value a generation.


def test_ids_are_there_and_unique():
    faults = faults_of(trace_table((1, 1, 1, 1), generation=["a", None, "a", "b\x1b[31m"]), first_row=100)
    assert faults == (
        "t.parquet, row 101: generation is null; each generation needs an id",
        "t.parquet, generation 'a': the id occurs twice (rows 100 and 102); ids are unique, rename one",
    )


def test_ids_are_escaped_in_messages():
    table = trace_table((1,), generation=["b\x1b[31m\n"], match_kind=["guess\x07"])
    assert fault_of(table) == (
        "t.parquet, generation 'b\\x1b[31m\\n': match_kind is 'guess\\x07'; it is one of overlap, reference, greedy, "
        "empirical, realised, overlap_lower, overlap_upper"
    )


def test_text_that_is_not_utf8():
    raw = pa.array([b"a", b"\xff\xfe", b"c"], pa.binary())
    bad = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    assert fault_of(trace_table(generation=bad)) == (
        "t.parquet, rows 0 … 2: generation holds bytes that are not UTF-8; write it as text"
    )
    assert fault_of(trace_table(category=bad)) == (
        "t.parquet, rows 0 … 2: category holds bytes that are not UTF-8; write it as text"
    )


def test_match_kind_and_context_start():
    kinds = ["overlap", None, "kl"]
    starts = pa.array([-1, None, 2**31], pa.int64())
    known = "it is one of overlap, reference, greedy, empirical, realised, overlap_lower, overlap_upper"
    assert faults_of(trace_table(match_kind=kinds, context_start=starts)) == (
        f"t.parquet, generation 'g1': match_kind is null; {known}",
        f"t.parquet, generation 'g2': match_kind is 'kl'; {known}",
        "t.parquet, generation 'g1': context_start is null; give the number",
    )
    rule = "it is the number of tokens in context when position 0's round starts, 0 … 2147483647"
    assert faults_of(trace_table(context_start=pa.array([-1, 0, 2**31], pa.int64()))) == (
        f"t.parquet, generation 'g0': context_start is -1; {rule}",
        f"t.parquet, generation 'g2': context_start is 2147483648; {rule}",
    )
    huge = pa.array([2**64 - 1, 0, 0], pa.uint64())
    assert fault_of(trace_table(context_start=huge)) == (
        "t.parquet: context_start holds 18446744073709551615; it is an int32"
    )


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("layers", 0, "layers is 0; it must be at least 1. A dense target has no expert columns"),
        ("top_k", -2, "top_k is -2; it must be at least 1. A dense target has no expert columns"),
        ("top_k", 9, "top_k is 9, num_experts is 8; a token is routed to at most all experts"),
        ("num_experts", 70000, "num_experts is 70000; ids are at most uint16, so it is at most 65536"),
    ],
)
def test_impossible_targets(name, value, wanted):
    table = put(trace_table(), **{name: pa.array([value] * 3, pa.int32())})
    assert fault_of(table) == f"t.parquet, generation 'g0': {wanted}"


def test_targets_are_not_mixed():
    assert faults_of(put(trace_table(), num_experts=pa.array([8, 8, 16], pa.int32())))[0] == (
        "t.parquet, generation 'g2': num_experts is 16, but 8 in generation 'g0'; one dataset holds one target: split "
        "it"
    )
    assert fault_of(put(trace_table(), layers=pa.array([2, None, 2], pa.int32()))) == (
        "t.parquet, generation 'g1': layers is null; give the number"
    )


def test_all_faults_of_a_table_come_at_once():
    ids = routed(7, 2, 2, 8)
    ids[0] = 9
    table = trace_table(
        generation=["a", "a", None],
        match_kind=["?", "overlap", "overlap"],
        context_start=pa.array([-1, 0, 0], pa.int32()),
        match_prob=lists(LENGTHS, np.array([2, 0, 0, 0, 0, 0, 0])),
        draft_prob=lists(LENGTHS, np.array([0, np.nan, 0, 0, 0, 0, 0])),
        experts=fixed_bytes(LENGTHS, ids),
    )
    with pytest.raises(InputError) as error:
        Traces.from_arrow(table, "t.parquet")
    assert len(error.value.faults) == 7
    assert str(error.value).splitlines()[0].startswith("1. t.parquet, generation 'a': the id occurs twice")


def test_many_faults_are_counted_not_listed():
    table = trace_table([1] * 50, match_prob=lists([1] * 50, np.full(50, 2.0)))
    with pytest.raises(InputError) as error:
        Traces.from_arrow(table)
    assert str(error.value).splitlines()[-1] == "... and 30 more faults"
