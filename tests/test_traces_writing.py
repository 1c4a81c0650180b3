"""Writing trace files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_traces_arrow import assert_same
from traces_factory import DENSE, TEXTS, rows, trace_table

from oracle.errors import InputError
from oracle.traces import TraceFiles, Traces, load_traces, write_traces


def test_there_and_back(tmp_path):
    path = tmp_path / "new" / "t.parquet"
    traces = Traces.from_arrow(trace_table())
    write_traces(path, traces, {"target": "T", "draft_oracle.draft": "D"})
    assert_same(load_traces(path), traces)
    assert TraceFiles(path).metadata == {"target": "T", "draft": "D", "version": "1"}
    write_traces(path, TraceFiles(path), TraceFiles(path).metadata)  # over itself: it is read before it is replaced
    assert_same(load_traces(path), traces)
    assert TraceFiles(path).metadata["draft"] == "D"


def test_the_types_are_those_of_the_format(tmp_path):
    write_traces(tmp_path / "t.parquet", Traces.from_arrow(trace_table()))
    types = {
        field.name: str(field.type).replace("element: ", "").replace("item: ", "")
        for field in pq.read_schema(tmp_path / "t.parquet")
    }
    assert types == {
        "generation": "string",
        "category": "string",
        "tenant": "string",
        "cluster": "string",
        "layers": "int32",
        "top_k": "int32",
        "num_experts": "int32",
        "match_kind": "string",
        "context_start": "int32",
        "token_id": "list<int32>",
        "token_text": "list<string>",
        "match_prob": "list<float>",
        "draft_prob": "list<float>",
        "draft_token_id": "list<fixed_size_list<int32>[3]>",
        "draft_text": "list<list<string>>",
        "experts": "list<fixed_size_binary[4]>",
        "new_experts": "list<fixed_size_binary[8]>",
        "unique_experts": "list<fixed_size_list<float>[4]>",
        "logged_draft_length": "list<int16>",
        "logged_advance": "list<int16>",
        "decoding": "string",
    }


def test_experts_have_no_dictionary(tmp_path):
    write_traces(tmp_path / "t.parquet", Traces.from_arrow(trace_table()))
    group = pq.ParquetFile(tmp_path / "t.parquet").metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert not columns["experts.list.element"].has_dictionary_page
    assert not columns["match_prob.list.element"].has_dictionary_page
    assert columns["token_text.list.element"].has_dictionary_page
    assert columns["category"].has_dictionary_page
    assert {c.compression for c in columns.values()} == {"LZ4"}


@pytest.mark.parametrize("batch_rows", [1, 3, 40])
def test_row_groups_stay_small_and_hold_many_batches(tmp_path, batch_rows):
    table = trace_table([10] * 40, drop=(*TEXTS, "draft_text"))
    batches = [Traces.from_arrow(table.slice(i, batch_rows)) for i in range(0, 40, batch_rows)]
    most = 5_000
    write_traces(tmp_path / "t.parquet", iter(batches), row_group_bytes=most)
    file = pq.ParquetFile(tmp_path / "t.parquet")
    sizes = [file.read_row_group(i).nbytes for i in range(file.num_row_groups)]
    assert len(sizes) > 1
    assert max(sizes) <= 1.05 * most  # as read back, with validity bitmaps
    assert min(sizes[:-1]) > most / 4
    assert_same(load_traces(tmp_path / "t.parquet"), Traces.from_arrow(table))


def test_one_generation_is_never_split(tmp_path):
    write_traces(tmp_path / "t.parquet", Traces.from_arrow(trace_table((50, 50))), row_group_bytes=1)
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == 2


def test_batches_of_different_columns(tmp_path):
    path = tmp_path / "t.parquet"
    one, other = Traces.from_arrow(trace_table()), Traces.from_arrow(trace_table(drop=DENSE, prefix="b"))
    with pytest.raises(InputError) as error:
        write_traces(path, [one, other])
    assert str(error.value) == (
        f"{path}: not all batches have the columns experts, layers, new_experts, num_experts, top_k, unique_experts; "
        "write them apart"
    )
    assert list(tmp_path.iterdir()) == []


def test_batches_whose_types_differ(tmp_path):
    path = tmp_path / "t.parquet"
    one, other = Traces.from_arrow(trace_table()), Traces.from_arrow(trace_table(K=2, prefix="b"))
    with pytest.raises(InputError) as error:
        write_traces(path, [one, other])
    assert str(error.value).startswith(f"{path}: the types of the batches differ (")
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_write(tmp_path):
    with pytest.raises(InputError) as error:
        write_traces(tmp_path / "t.parquet", [])
    assert str(error.value) == f"{tmp_path}/t.parquet: there are no generations to write"


def test_a_reader_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.parquet"
    write_traces(path, Traces.from_arrow(trace_table((1,))))
    before = path.read_bytes()

    def batches():
        yield Traces.from_arrow(trace_table((2,)))
        raise InputError("second batch: no good")

    with pytest.raises(InputError, match="second batch: no good"):
        write_traces(path, batches())
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_converted_survival_products_are_written_as_conditional(tmp_path):
    survival = np.tile(np.array([0.5, 0.25, 0.125, 0.125], np.float32), (7, 1))
    table = trace_table(drop=("match_prob", *DENSE), match_probs=rows((3, 0, 4), survival))
    write_traces(tmp_path / "t.parquet", Traces.from_arrow(table, match_is="survival"))
    found = load_traces(tmp_path / "t.parquet", match_is="conditional")
    assert found.match_probs[0].tolist() == [0.5, 0.5, 0.5, 1]


def test_sixteen_bit_ids_there_and_back(tmp_path):
    table = trace_table(
        num_experts=600,
        experts=None,
        drop=("experts", "new_experts", "unique_experts", "layers", "top_k", "num_experts"),
    )
    ids = np.random.default_rng(0).integers(0, 600, (7, 4)).astype(np.int32)
    for name, value in (("layers", 2), ("top_k", 2), ("num_experts", 600)):
        table = table.append_column(name, pa.array([value] * 3, pa.int32()))
    traces = Traces.from_arrow(table.append_column("experts", rows((3, 0, 4), ids)))
    assert traces.experts.dtype == np.uint16
    write_traces(tmp_path / "t.parquet", traces)
    assert np.array_equal(load_traces(tmp_path / "t.parquet").experts.reshape(7, 4), ids)
