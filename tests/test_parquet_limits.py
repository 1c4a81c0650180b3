"""What a Parquet file claims is compared with what is there before anything is decoded."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzzing import bombs, samples, thrift
from fuzzing.parquet_damage import apart, column_chunks, first_page, together, with_page
from traces_factory import trace_table

from oracle.errors import InputError
from oracle.parquet_limits import MOST_DECODED_BYTES, MOST_PAGE_BYTES, ParquetLimits
from oracle.rounds import load_rounds
from oracle.traces import TraceFiles, load_traces
from oracle.traces.lookup import read_generation


def saved(tmp_path, raw):
    path = tmp_path / "t.parquet"
    path.write_bytes(raw)
    return path


def refusal(call, *given):
    with pytest.raises(InputError) as caught:
        call(*given)
    return str(caught.value)


def with_header(raw, column, **fields):
    """The file with other numbers in the first page header of a column; keys are `f` and the field's number."""
    body, footer = apart(raw)
    tree, _ = thrift.read_struct(footer)
    chunk = column_chunks(tree)[column]
    start = first_page(chunk)
    header, end = thrift.read_struct(body, start)
    for name, value in fields.items():
        number, *inner = map(int, name.removeprefix("f").split("_"))
        thrift.put(thrift.get(header, number) if inner else header, inner[0] if inner else number, value)
    return with_page(body, tree, chunk, thrift.written(header) + body[end : start + thrift.get(chunk, 7)])


def test_honest_files_are_bounded_from_above(tmp_path):
    for raw in samples.traces():
        path = saved(tmp_path, raw)
        limits = ParquetLimits(path)
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            rows = limits.rows_within(group, batch_bytes=table.nbytes // 4)
            assert 1 <= rows <= table.num_rows
            assert limits.rows_within(group) == table.num_rows
            limits.refuse_other_rows(group, table.num_rows)


def test_rows_are_those_of_the_columns_read(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(trace_table([20] * 100), path)
    limits = ParquetLimits(path)
    lean = limits.rows_within(0, ["match_prob"], 4000)
    assert lean == 50  # 80 bytes of probabilities a row
    assert limits.rows_within(0, None, 4000) < 5
    assert limits.rows_anywhere(["match_prob"], 4000) == 50


def test_a_page_that_claims_more_than_is_read(tmp_path):
    path = saved(tmp_path, with_header(samples.traces()[0], 0, f2=MOST_PAGE_BYTES + 1))
    said = refusal(load_traces, path)
    assert re.fullmatch(
        rf"{path}: a page of generation unpacks from \d+ bytes to 134,217,729; at most 134,217,728 are read; write "
        "smaller pages",
        said,
    )


@pytest.mark.parametrize("size", [-1, 1 << 20, (1 << 31) - 1])
def test_a_page_that_does_not_lie_in_the_file(tmp_path, size):
    path = saved(tmp_path, with_header(samples.traces()[0], 0, f3=size))
    assert f"a page claims {size} bytes in the file" in refusal(load_traces, path)


@pytest.mark.parametrize("entries", [1 << 20, (1 << 31) - 1])
def test_a_dictionary_that_claims_entries(tmp_path, entries):
    path = saved(tmp_path, with_header(samples.traces()[0], 0, f7_1=entries))
    assert f"the dictionary of generation claims {entries:,} entries" in refusal(load_traces, path)


@pytest.mark.parametrize("values", [1 << 31, 1 << 40])
def test_a_list_that_claims_entries(tmp_path, values):
    body, footer = apart(samples.traces()[0])
    tree, _ = thrift.read_struct(footer)
    chunk = next(c for c in column_chunks(tree) if thrift.get(c, 3)[1][0] == b"match_prob")
    header, end = thrift.read_struct(body, first_page(chunk))
    pages = thrift.written(header) + body[end : first_page(chunk) + thrift.get(chunk, 7)]
    thrift.put(chunk, 5, values)
    said = refusal(load_traces, saved(tmp_path, with_page(body, tree, chunk, pages)))
    assert "damaged" in said or "unpacks from" in said


def test_one_long_text_that_every_row_names(tmp_path):
    path = saved(tmp_path, bombs.long_texts(1 << 14, 1 << 16, "category"))
    assert path.stat().st_size < 100_000
    said = refusal(load_traces, path)
    assert "row group 0 unpacks from" in said
    assert f"at most {MOST_DECODED_BYTES:,} are read; write row groups of fewer rows" in said
    assert "row group 0 unpacks from" in refusal(
        read_generation, TraceFiles(saved(tmp_path, bombs.long_texts(1 << 14, 1 << 16, "generation"))), "g0"
    )


def test_one_long_text_that_every_token_names(tmp_path):
    path = saved(tmp_path, bombs.token_texts(1 << 14, 1 << 16))
    assert path.stat().st_size < 10_000
    assert "row group 0 unpacks from" in refusal(load_traces, path)


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_a_list_of_zeros(tmp_path, compression):
    path = saved(tmp_path, bombs.long_list(1 << 25, compression))
    assert "unpacks from" in refusal(load_traces, path)


def test_short_texts_are_no_bomb(tmp_path):
    texts = pa.array(["the", " a"] * (1 << 19))
    ends = pa.array([0, len(texts)], pa.int32())
    probabilities = pa.ListArray.from_arrays(ends, pa.array(np.full(len(texts), 0.5, np.float32)))
    columns = {"generation": ["g"], "match_kind": ["overlap"], "context_start": pa.array([5], pa.int32())}
    table = pa.table({**columns, "match_prob": probabilities, "token_text": pa.ListArray.from_arrays(ends, texts)})
    path = saved(tmp_path, samples.parquet(table, compression="zstd"))
    assert load_traces(path).positions == len(texts)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_texts_that_repeat_the_one_before(tmp_path, version):
    rows = 1 << 12
    columns = bombs.lean(rows)
    how = {"use_dictionary": False, "column_encoding": {"category": "DELTA_BYTE_ARRAY"}, "data_page_version": version}
    table = pa.table({**columns, "category": pa.array(["x" * (1 << 16)] * rows)})
    path = saved(tmp_path, samples.parquet(table, compression="zstd", **how))
    assert path.stat().st_size < 200_000
    assert "category is encoded as DELTA_BYTE_ARRAY" in refusal(load_traces, path)
    short = pa.table({**columns, "category": pa.array(["code"] * rows)})
    assert load_traces(saved(tmp_path, samples.parquet(short, **how))).category == ("code",) * rows


def test_a_schema_a_thousand_deep(tmp_path):
    said = refusal(load_traces, saved(tmp_path, bombs.deep_schema(1000)))
    assert "cannot be read" in said or "the required column generation" in said, "pyarrow 20 reads the schema"


def test_rows_that_are_not_there(tmp_path):
    body, footer = apart(samples.rounds()[0])
    tree, _ = thrift.read_struct(footer)
    thrift.put(tree, 3, 5)
    path = saved(tmp_path, together(body, thrift.written(tree)))
    assert refusal(load_rounds, path) == (
        f"{path}: the Parquet file is damaged and cannot be read; write or copy it again (its footer says 5 rows, its "
        "row groups hold 3)"
    )
    thrift.put(thrift.get(tree, 4)[1][0], 3, 5)
    path = saved(tmp_path, together(body, thrift.written(tree)))
    assert "row group 0 holds 3 rows, the footer says 5" in refusal(load_rounds, path)


def test_a_large_footer_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("oracle.parquet_footer.MOST_FOOTER_BYTES", 100)
    said = refusal(load_traces, saved(tmp_path, samples.traces()[0]))
    assert "at most 100 are read; write fewer row groups a file" in said
