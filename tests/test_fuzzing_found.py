"""What the fuzzer found, each at its smallest."""

import io
import json
import struct
import time
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_samples import make
from fuzzing import samples
from fuzzing.tables import rounds_table
from traces_factory import trace_table

from oracle.acceptance.counters import from_prometheus
from oracle.acceptance.reading import acceptance_from_text
from oracle.acceptance.rows import csv_rows
from oracle.errors import Faults, InputError
from oracle.latency.strict_json import read_strictly
from oracle.levers import handwritten
from oracle.levers.handwritten import tree_from_text
from oracle.recorded_by import arrays
from oracle.recorded_by.aligned import Wanted
from oracle.recorded_by.conversion import convert_trace
from oracle.recorded_by.scored_text import scored
from oracle.recorded_by.source import open_source
from oracle.recorder.prompts import read_prompts
from oracle.round_columns import check_schema as check_rounds
from oracle.rounds import Rounds, load_rounds, write_rounds
from oracle.traces import Traces, load_traces, write_traces
from oracle.traces.schema import check_schema


def refusal(call, *given):
    with pytest.raises(InputError) as caught:
        call(*given)
    return str(caught.value)


def npy(header: str, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3,",  # tokenize.TokenError
        "{'descr': '<i4', 'fortran_order': False, 'shape': ('\\&',), }",  # a warning of the compiler
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3L,), }",
        "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (3,), }",
        "9" * 5000,
        "(" * 5000,
    ],
)
def test_npy_headers_are_not_evaluated(header, recwarn):
    assert "the .npy header is damaged" in refusal(arrays.integers_in_npy, npy(header), "here")
    assert not recwarn.list


def test_npy_headers_that_numpy_writes():
    for array in (np.arange(6), np.zeros((2, 3, 4), np.uint8, order="F"), np.array(7), np.zeros((0, 2), ">i2")):
        out = io.BytesIO()
        np.save(out, array)
        assert np.array_equal(arrays.integers_in_npy(out.getvalue(), "here"), array)
    out = io.BytesIO()
    np.lib.format.write_array(out, np.arange(3), version=(2, 0))
    assert arrays.integers_in_npy(out.getvalue(), "here").tolist() == [0, 1, 2]


def test_an_empty_shape_with_a_huge_size():
    raw = npy("{'descr': '<i4', 'fortran_order': False, 'shape': (0, 461168601842738790), }")
    assert "the header claims the shape" in refusal(arrays.integers_in_npy, raw, "here")


def test_time_of_npy_headers_is_bounded():
    begun = time.perf_counter()
    for shape in ("1" * 9000, "1," * 4000, "(1)" + " " * 9000, "-" * 9000, " " * 9000):
        refusal(arrays.integers_in_npy, npy(f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({shape}"), "here")
    assert time.perf_counter() - begun < 1


def zipped(name: str = "routed_experts.npy", how: int = zipfile.ZIP_DEFLATED) -> bytearray:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        archive.writestr(name, npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4000,), }", bytes(4000)))
    return bytearray(out.getvalue())


def test_npz_with_damaged_compression(tmp_path):
    raw = zipped()
    raw[50:60] = b"\xff" * 10
    (tmp_path / "r.npz").write_bytes(raw)
    said = refusal(arrays.arrays_in_npz, tmp_path / "r.npz")
    assert said.startswith(f"{tmp_path}/r.npz: cannot be read as .npz (Error -3")
    with pytest.raises(zlib.error):
        zlib.decompress(bytes(raw[50:]), -15)


def test_npz_that_claims_more_than_it_holds(tmp_path):
    raw = zipped(how=zipfile.ZIP_STORED)
    at = raw.find(b"PK\x01\x02")
    raw[at + 20 : at + 28] = struct.pack("<II", 1 << 29, 1 << 29)
    (tmp_path / "r.npz").write_bytes(raw)
    assert "claims to unpack to 536870912 bytes, more than any file of its size can hold" in refusal(
        arrays.arrays_in_npz, tmp_path / "r.npz"
    )


def test_npz_with_a_name_that_is_no_text(tmp_path):
    raw = zipped()
    at = raw.find(b"PK\x01\x02")
    raw[at + 8 : at + 10] = struct.pack("<H", 0x800)  # says that names are UTF-8
    raw[at + 46] = 0xD3
    (tmp_path / "r.npz").write_bytes(raw)
    said = refusal(arrays.arrays_in_npz, tmp_path / "r.npz")
    assert said.startswith(f"{tmp_path}/r.npz: cannot be read as .npz ('utf-8' codec can't decode")


@pytest.mark.parametrize("how", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_npz_of_other_compressions(tmp_path, how):
    (tmp_path / "r.npz").write_bytes(zipped(how=how))
    assert "is compressed as np.savez_compressed never does" in refusal(arrays.arrays_in_npz, tmp_path / "r.npz")


def test_npz_with_more_tokens_than_a_request_has(tmp_path, monkeypatch):
    monkeypatch.setattr("oracle.recorded_by.vllm.MOST_TOKENS", 10)
    np.savez_compressed(tmp_path / "r.npz", routed_experts=np.zeros((4, 2, 2), np.uint8), token_ids=np.zeros(11, int))
    said = refusal(convert_trace, open_source([tmp_path / "r.npz"], "vllm"), tmp_path / "t.parquet", Wanted())
    assert said == f"{tmp_path}/r.npz: token_ids holds 11 numbers; a request has at most 10 tokens"


def test_names_in_archives_make_no_files(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("../escaped.npy", "/tmp/escaped.npy", "CON.npy"):
        (tmp_path / "in" / "r.npz").write_bytes(zipped(name))
        faults = refusal(
            convert_trace, open_source([tmp_path / "in" / "r.npz"], "vllm"), tmp_path / "in" / "t.parquet", Wanted()
        )
        assert "is none of routed_experts" in faults
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "r.npz"]


@pytest.mark.parametrize("odd", [-1, 1 << 20])
def test_list_offsets_of_other_programs(odd):
    out = io.BytesIO()
    table = trace_table()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    raw = bytearray(out.getvalue())
    at = raw.find(np.array([0, 3, 3, 7], "<i4").tobytes()) + (0 if odd < 0 else 12)
    raw[at : at + 4] = odd.to_bytes(4, "little", signed=True)
    said = refusal(Traces.from_arrow, pa.ipc.open_stream(raw).read_all(), "table")
    assert "table: the table is damaged (" in said
    assert "write it again" in said


def test_lists_of_nulls_are_written_as_they_are(tmp_path):
    nulls = pa.LargeListArray.from_arrays(pa.array([0, 3, 3, 7], pa.int64()), pa.nulls(7))
    traces = Traces.from_arrow(trace_table(decoding=nulls))
    write_traces(tmp_path / "t.parquet", [traces])
    assert load_traces(tmp_path / "t.parquet").table.column("decoding").to_pylist() == nulls.to_pylist()
    rounds = Rounds.from_arrow(rounds_table().append_column("x", pa.array([[None], [], [None] * 3])))
    write_rounds(tmp_path / "r.parquet", rounds)
    assert load_rounds(tmp_path / "r.parquet").table.column("x").to_pylist() == [[None], [], [None] * 3]


def test_further_columns_of_one_name(tmp_path):
    twice = trace_table().append_column("decoding", pa.array(["a"] * 3))
    pq.write_table(twice, tmp_path / "t.parquet")
    assert "the column decoding occurs 2 times; keep one" in refusal(load_traces, tmp_path / "t.parquet")
    rounds = rounds_table().append_column("x", pa.array([1] * 3)).append_column("x", pa.array([2] * 3))
    assert "the column x occurs 2 times; keep one" in refusal(Rounds.from_arrow, rounds)


def test_toml_that_takes_forever():
    begun = time.perf_counter()
    assert "a key has more than 64 parts" in refusal(tree_from_text, "a." * 100_000 + "a = 1", "d.toml")
    assert "a key has more than 64 parts" in refusal(tree_from_text, "x = {" + "a . " * 100_000 + "a = 1}", "d.toml")
    assert time.perf_counter() - begun < 1
    many = ", ".join(["0.5"] * 200)
    assert tree_from_text(f"x = [{many}]", "d.toml") == {"x": [0.5] * 200}


def test_headers_of_very_many_columns():
    begun = time.perf_counter()
    said = refusal(csv_rows, ",".join(map(str, range(50_000))) + ",0\n", "t.csv", ("a",))
    assert "the column 0 is there twice" in refusal(csv_rows, "0,0\n1,2\n", "t.csv", ("0",))
    assert "and 49982 more faults" in said
    for check in (check_schema, check_rounds):
        check(pa.schema([(str(i), pa.int8()) for i in range(20_000)]), "t", Faults())
    assert time.perf_counter() - begun < 5


def test_toml_numbers_that_cannot_be_shown():
    assert "a number has more than 1000 digits" in refusal(tree_from_text, "x = 0x" + "f" * 5000, "d.toml")
    assert "not TOML" in refusal(tree_from_text, "x = " + "1" * 5000, "d.toml")


def test_limits_of_what_people_type(monkeypatch):
    monkeypatch.setattr(handwritten, "LONGEST", 10)
    assert "11 characters of TOML; at most 10 are read" in refusal(tree_from_text, "x = 1234567", "d.toml")
    monkeypatch.setattr("oracle.acceptance.rows.LONGEST", 10)
    assert "11 characters of CSV; at most 10 are read" in refusal(csv_rows, "a,b\n1,23456", "t.csv", ("a", "b"))


def test_log_lines_that_take_forever():
    hostile = "[2026-01-01 " + "Decode #running-req: 1" * 20_000
    begun = time.perf_counter()
    refusal(acceptance_from_text, hostile, "log", "survival", 3)
    refusal(from_prometheus, "vllm:spec_decode_num_x{" + "x" * 50_000 + "} 1", "metrics")
    read_strictly("[" + "1," * 300_000 + "1]", "list")
    assert time.perf_counter() - begun < 3


def test_log_lines_with_very_long_numbers():
    line = "[2026-01-01 00:00:00] Decode batch, #running-req: {}, accept len: {}\n"
    good = line.format(3, "2.5")
    alone = acceptance_from_text(good, "log", None, 3)
    for other in (line.format("1" * 5000, "2.5"), line.format(3, "1" * 5000), line.format(3, "1." + "5" * 400)):
        beside = acceptance_from_text(good + other, "log", None, 3)  # it is no such line
        assert np.array_equal(beside.curves[0].survival, alone.curves[0].survival)


def test_counts_beyond_what_floats_count():
    metrics = {"acceptance_histogram": [1, 10**19, 1]}
    assert "whole numbers from 0 on" in refusal(acceptance_from_text, json.dumps(metrics), "r.json", None)
    totals = {"timings": {"predicted_n": 10**19, "draft_n": 90, "draft_n_accepted": 60}}
    assert "whole numbers from 0 on" in refusal(acceptance_from_text, json.dumps(totals), "r.json", None)


def test_log_probabilities_far_above_zero(recwarn):
    for value in (1e300, 800.0):
        tree = {"prompt_logprobs": [None, {"5": {"logprob": value, "rank": 1}}]}
        assert f"a log-probability is {value:g}" in refusal(scored, tree, [5], "here")
        by_id = {"input_token_logprobs": [[-1.0, 5, "x"]], "input_top_logprobs": [[[value, 5, "x"]]]}
        assert f"a log-probability is {value:g}" in refusal(scored, {"meta_info": by_id}, [5], "here")
    assert not recwarn.list


def test_flat_routing_of_no_rows(tmp_path):
    tree = make.sglang(make.RECORDED[0], 0)
    tree["meta_info"] |= {"prompt_tokens": 1, "completion_tokens": 0}
    tree["output_ids"] = []
    (tmp_path / "r.jsonl").write_text(json.dumps(tree) + "\n")
    said = refusal(
        convert_trace,
        open_source([tmp_path / "r.jsonl"], "sglang"),
        tmp_path / "t.parquet",
        Wanted(top_k=2, num_experts=8),
    )
    assert "ids are no whole number of layers for 0 rows" in said


def test_a_short_text_takes_no_more_memory_than_it_has(tmp_path):
    import tracemalloc  # noqa: PLC0415

    from oracle.files import read_text  # noqa: PLC0415

    (tmp_path / "a.txt").write_text("a")
    tracemalloc.start()
    read_text(tmp_path / "a.txt")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"id": "a", "prompt": ' + "1" * 5000 + "}", "is not JSON (Exceeds the limit"),
        ('{"id": "\\ud800", "prompt": "x"}', "is not JSON ('utf-8' codec can't encode"),
        ("[" * 100_000, "is not JSON (maximum recursion depth"),
        ('{"id": "a", "prompt_token_ids": [2147483648]}', "must be a list of whole numbers from 0"),
    ],
)
def test_prompts(tmp_path, line, said):
    (tmp_path / "p.jsonl").write_text(line)
    assert f"{tmp_path}/p.jsonl, line 1: " in refusal(read_prompts, tmp_path / "p.jsonl")
    assert said in refusal(read_prompts, tmp_path / "p.jsonl")


def test_logs_in_parquet_are_limited(tmp_path):
    from fuzzing import bombs  # noqa: PLC0415

    from oracle.observe.request_log import LogForm, requests_in  # noqa: PLC0415

    (tmp_path / "l.parquet").write_bytes(bombs.long_texts(1 << 14, 1 << 16, "prompt"))
    said = refusal(list, requests_in([tmp_path / "l.parquet"], LogForm(), Faults()))
    assert "row group 0 unpacks from" in said
    assert samples.logs()
