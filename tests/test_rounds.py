"""Verification rounds."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracle.errors import InputError
from oracle.rounds import RoundFiles, Rounds, load_rounds, write_rounds

CASES = Path(__file__).parent.parent / "cases" / "tiny-moe"


def round_frame(**replaced) -> pd.DataFrame:
    columns = {
        "generation": ["a", "a", "b", "b", "b"],
        "draft_length": [0, 3, 2, 0, 1],
        "target_ms": [5.0, 6.5, 6.0, 5.0, 5.5],
        "draft_ms": [0.0, 1.5, 1.0, 0.0, 0.5],
        "unique_experts": [8.0, 15.5, 13.0, 8.0, 11.0],
        "context_len": [10, 11, 20, 22, 23],
    }
    return pd.DataFrame(columns | replaced)


def many(times: int) -> pd.DataFrame:
    frame = round_frame()
    return frame.iloc[np.tile(np.arange(len(frame)), times)].reset_index(drop=True)


def refusal(call, *args, **kwargs) -> str:
    with pytest.raises(InputError) as error:
        call(*args, **kwargs)
    return str(error.value)


def refused(**replaced) -> str:
    return refusal(Rounds.from_pandas, round_frame(**replaced), "r.parquet")


def test_real_rounds():
    rounds = load_rounds(CASES / "rounds.parquet")
    frame = pd.read_parquet(CASES / "rounds.parquet")
    assert len(rounds) == 6699
    for name in ("target_ms", "draft_ms", "unique_experts", "context_len", "draft_length"):
        assert np.array_equal(getattr(rounds, name), frame[name].to_numpy()), name
    assert [rounds.generation_names[c] for c in rounds.generation_codes] == frame["generation"].tolist()
    assert [rounds.cluster_names[c] for c in rounds.cluster_codes] == frame["cluster"].tolist()
    assert [rounds.category_names[c] for c in rounds.category_codes] == frame["category"].tolist()
    assert np.array_equal(rounds.numeric("target_min_ms"), frame["target_min_ms"].to_numpy())
    assert not rounds.is_prefill.any()
    pd.testing.assert_frame_equal(rounds.to_pandas(), frame)


def test_codes_number_names_as_they_first_appear():
    rounds = Rounds.from_pandas(round_frame(category=["x", None, "y", "x", "y"]))
    assert rounds.generation_codes.tolist() == [0, 0, 1, 1, 1]
    assert rounds.generation_codes.dtype == np.int32
    assert rounds.generation_names == ("a", "b")
    assert rounds.generation.to_pylist() == ["a", "a", "b", "b", "b"]
    assert rounds.category_codes.tolist() == [0, -1, 1, 0, 1]
    assert rounds.category_names == ("x", "y")
    assert Rounds.from_pandas(round_frame()).category_codes is None


def test_every_name_occurs_even_if_a_dictionary_holds_more():
    dictionary = pa.DictionaryArray.from_arrays(pa.array([3, 3, 1, 1, 1], pa.int8()), ["w", "b", "x", "a"])
    table = pa.Table.from_pandas(round_frame()).set_column(0, "generation", dictionary)
    rounds = Rounds.from_arrow(table.slice(1))
    assert rounds.generation_names == ("a", "b")
    chunks = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert Rounds.from_arrow(chunks).generation_codes.tolist() == [0, 0, 1, 1, 1]


def test_the_cluster_is_the_generation_where_none_is_given():
    without = Rounds.from_pandas(round_frame())
    assert (without.cluster_names, without.cluster_codes.tolist()) == (("a", "b"), [0, 0, 1, 1, 1])
    some = Rounds.from_pandas(round_frame(cluster=["p", "p", None, None, "q"]))
    assert some.cluster.to_pylist() == ["p", "p", "b", "b", "q"]


def test_arrays_are_read_only():
    rounds = Rounds.from_pandas(round_frame(category=["x"] * 5))
    for name in ("generation_codes", "cluster_codes", "category_codes", "draft_length", "target_ms", "draft_ms",
                 "unique_experts", "context_len", "is_prefill"):  # fmt: skip
        assert not getattr(rounds, name).flags.writeable, name


@pytest.mark.parametrize("kind", [pa.int64(), pa.int16(), pa.uint8(), pa.float32(), pa.float16(), pa.decimal128(9, 2)])
def test_numbers_of_any_type(kind):
    table = pa.Table.from_pandas(round_frame())
    for name in ("draft_length", "context_len"):
        column = pa.array(round_frame()[name].tolist(), pa.float32()).cast(kind)
        table = table.set_column(table.column_names.index(name), name, column)
    rounds = Rounds.from_arrow(table)
    assert rounds.draft_length.tolist() == [0, 3, 2, 0, 1]
    assert rounds.draft_length.dtype == np.int64
    assert rounds.context_len.tolist() == [10, 11, 20, 22, 23]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_names_of_any_type(kind):
    table = pa.Table.from_pandas(round_frame()).set_column(
        0, "generation", pa.array(["a", "a", "b", "b", "b"]).cast(kind)
    )
    assert Rounds.from_arrow(table).generation_names == ("a", "b")


def test_prefill_rows_are_marked_and_may_lack_numbers():
    nan = np.nan
    rounds = Rounds.from_pandas(
        round_frame(
            phase=["prefill", "decode", "prefill", None, "decode"],
            draft_length=[nan, 3, nan, 0, 1],
            unique_experts=[nan, 15.5, 100.0, 8.0, 11.0],
            target_ms=[40.0, 6.5, nan, 5.0, 5.5],
        )
    )
    assert rounds.is_prefill.tolist() == [True, False, True, False, False]
    assert rounds.draft_length.tolist() == [0, 3, 0, 0, 1]
    assert np.isnan(rounds.unique_experts[0])


def test_times_that_are_not_positive_are_kept():
    rounds = Rounds.from_pandas(round_frame(target_ms=[-1.0, 0.0, 6, 5, 5], draft_ms=[0, -0.5, 1, 0, 0.5]))
    assert rounds.target_ms.tolist() == [-1, 0, 6, 5, 5]
    assert rounds.draft_ms[1] == -0.5


def test_optional_numbers_may_be_missing():
    rounds = Rounds.from_pandas(
        round_frame(kv_usage=[0.5, np.nan, 0.25, 0, 1], batch_size=pd.array([1, None, 1, 1, 1], "Int64"))
    )
    assert np.isnan(rounds.numeric("kv_usage")[1])
    assert np.isnan(rounds.numeric("batch_size")[1])
    assert rounds.numeric("draft_length").tolist() == [0, 3, 2, 0, 1]


def test_columns_that_are_no_numbers():
    rounds = Rounds.from_pandas(round_frame(engine=["x"] * 5), "r.parquet")
    assert (
        refusal(rounds.numeric, "engine")
        == "r.parquet: the column engine has the type large_string; numbers are needed"
    )
    assert refusal(rounds.numeric, "kv") == (
        "r.parquet: has no column 'kv'; the columns there: generation, draft_length, target_ms, draft_ms, "
        "unique_experts, context_len, engine"
    )


def test_missing_columns_and_wrong_types_are_all_named():
    frame = round_frame(target_ms=["5 ms"] * 5, cluster=[1] * 5).drop(columns=["draft_ms", "context_len"])
    assert refusal(Rounds.from_pandas, frame, "r.parquet").splitlines() == [
        "1. r.parquet: the column target_ms has the type large_string; it must be a number",
        "2. r.parquet: the required column draft_ms (milliseconds of the draft, 0 at k = 0) is missing; the columns "
        "there: generation, draft_length, target_ms, unique_experts, cluster",
        "3. r.parquet: the required column context_len (tokens in context when the round starts) is missing; the "
        "columns there: generation, draft_length, target_ms, unique_experts, cluster",
        "4. r.parquet: the column cluster has the type int64; it must be a string",
    ]
    table = pa.Table.from_pandas(round_frame())
    twice = pa.table([*table.columns, table["draft_ms"]], names=[*table.column_names, "draft_ms"])
    assert refusal(Rounds.from_arrow, twice) == "table: the column draft_ms occurs 2 times; keep one"


def test_values_that_cannot_be():
    nan, inf = np.nan, np.inf
    finite = "it must be a finite number"
    table = pa.table(
        {
            "generation": ["a", "a", "b", None, "b"],
            "draft_length": [0, -3, 2, 0.5, 1],
            "target_ms": [5, nan, inf, 5, nan],
            "draft_ms": pa.array([0, None, 1, 0, -inf], pa.float64()),
            "unique_experts": [8, -1, 13, 8, 11],
            "context_len": [10, 11, -5, 22, 23],
            "kv_usage": [0, 0, 0, 0, inf],
        }
    )
    assert refusal(Rounds.from_arrow, table, "r.parquet", first_row=1000).splitlines() == [
        "1. r.parquet, row 1003: generation is null; every round belongs to one",
        f"2. r.parquet, row 1001 (generation 'a'): target_ms is nan; {finite} (and 1 more rows)",
        f"3. r.parquet, row 1002 (generation 'b'): target_ms is inf; {finite}",
        "4. r.parquet, row 1001 (generation 'a'): draft_ms is null; every round has one; leave out rounds without",
        f"5. r.parquet, row 1004 (generation 'b'): draft_ms is -inf; {finite}",
        "6. r.parquet, row 1001 (generation 'a'): unique_experts is -1; it must be at least 0",
        "7. r.parquet, row 1002 (generation 'b'): context_len is -5; it must be at least 0",
        "8. r.parquet, row 1001 (generation 'a'): draft_length is -3; it must be at least 0",
        "9. r.parquet, row 1003: draft_length is 0.5; it is a whole number of tokens",
        f"10. r.parquet, row 1004 (generation 'b'): kv_usage is inf; {finite}",
    ]


def test_names_are_escaped_and_must_be_text():
    assert refused(generation=["a\x1b[2J"] * 5, context_len=[-1] * 5) == (
        "r.parquet, row 0 (generation 'a\\x1b[2J'): context_len is -1; it must be at least 0 (and 4 more rows)"
    )
    raw = pa.array([b"\xff"] * 5, pa.binary())
    bad = pa.Array.from_buffers(pa.string(), 5, raw.buffers())
    table = pa.Table.from_pandas(round_frame()).set_column(0, "generation", bad)
    assert (
        refusal(Rounds.from_arrow, table, "r")
        == "r: the column generation holds bytes that are not UTF-8; write it as text"
    )


def test_mixed_columns_of_a_frame():
    assert refused(target_ms=[1, "x", 2, 3, 4]).startswith("r.parquet: a column holds values of different kinds (")


def test_no_rounds(tmp_path):
    assert refusal(Rounds.from_pandas, round_frame().iloc[:0], "r").startswith(
        "r: holds no rounds; there is one row a round"
    )
    path = tmp_path / "r.parquet"
    pq.write_table(pa.Table.from_pandas(round_frame()).slice(0, 0), path)
    assert refusal(RoundFiles, path) == f"{path}: holds no rounds; there is one row a round"


def test_files_are_walked_in_batches_again_and_again(tmp_path):
    for i in range(2):
        big = many(20_000).assign(generation=[f"{i}-{j // 5}" for j in range(100_000)])
        pq.write_table(pa.Table.from_pandas(big), tmp_path / f"{i}.parquet")
    files = RoundFiles(tmp_path)
    assert files.rows == 200_000
    assert [p.name for p in files.paths] == ["0.parquet", "1.parquet"]
    for _ in range(2):
        parts = list(files)
        assert len(parts) == 4
        assert sum(len(part) for part in parts) == 200_000
        assert all(set(part.generation_codes) == set(range(len(part.generation_names))) for part in parts)
    whole = load_rounds(tmp_path)
    assert len(whole) == 200_000
    assert len(whole.generation_names) == 40_000
    assert np.array_equal(whole.target_ms, np.concatenate([part.target_ms for part in parts]))


def test_faults_name_the_row_of_the_file(tmp_path):
    big = many(20_000)
    big.loc[99_998, "target_ms"] = np.nan
    pq.write_table(pa.Table.from_pandas(big), tmp_path / "r.parquet")
    assert refusal(lambda: list(RoundFiles(tmp_path))) == (
        f"{tmp_path}/r.parquet, row 99998 (generation 'b'): target_ms is null; every round has one; leave out rounds "
        "without"
    )


def test_files_whose_columns_differ(tmp_path):
    for i, frame in enumerate((round_frame(), round_frame(cluster=["p"] * 5).drop(columns="target_ms"))):
        pq.write_table(pa.Table.from_pandas(frame), tmp_path / f"{i}.parquet")
    text = refusal(RoundFiles, tmp_path)
    assert f"1. {tmp_path}/1.parquet: the required column target_ms" in text
    assert (
        f"2. {tmp_path}/0.parquet: lacks the column cluster, which {tmp_path}/1.parquet has; give these files apart"
        in text
    )


def test_there_and_back(tmp_path):
    path = tmp_path / "r.parquet"
    rounds = Rounds.from_pandas(round_frame(phase=["prefill"] + ["decode"] * 4, kv_usage=[np.nan, 0.5, 0.5, 0.5, 0.5]))
    write_rounds(path, rounds, {"device": "cpu"})
    assert load_rounds(path).to_arrow().equals(rounds.to_arrow())
    assert pq.read_schema(path).metadata[b"device"] == b"cpu"
    write_rounds(path, RoundFiles(path))
    assert load_rounds(path).is_prefill.tolist() == [True] + [False] * 4


def test_writing_what_does_not_fit_together(tmp_path):
    path = tmp_path / "r.parquet"
    assert refusal(write_rounds, path, []) == f"{path}: there are no rounds to write"
    parts = [Rounds.from_pandas(round_frame()), Rounds.from_pandas(round_frame(kv_usage=[0.0] * 5))]
    assert refusal(write_rounds, path, parts) == f"{path}: not all batches have the columns kv_usage; write them apart"
    parts = [Rounds.from_pandas(round_frame(run=[1] * 5)), Rounds.from_pandas(round_frame(run=["x"] * 5))]
    assert refusal(write_rounds, path, parts).startswith(f"{path}: the types of the batches differ (")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("draft_length", 5_000_000_000, "draft_length is 5e+09; it must be at most 128"),
        ("target_ms", 1e300, "target_ms is 1e+300; it must be at most 1e+09"),
        ("draft_ms", 1e12, "draft_ms is 1e+12; it must be at most 1e+09"),
    ],
)
def test_absurd_values_are_refused_with_their_place(name: str, value: float, rule: str) -> None:
    columns: dict[str, list[object]] = {
        "generation": ["a", "b"],
        "draft_length": [1, 2],
        "target_ms": [5.0, 6.0],
        "draft_ms": [1.0, 2.0],
        "unique_experts": [8.0, 9.0],
        "context_len": [100, 101],
    }
    columns[name] = [columns[name][0], value]
    with pytest.raises(InputError) as raised:
        Rounds.from_arrow(pa.table(columns), "rounds.parquet")
    assert f"rounds.parquet, row 1 (generation 'b'): {rule}" in str(raised.value)
