"""The one-liners for other engines, for real: what they hand back equals what the command writes."""

import sys
from pathlib import Path

import dask
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cluster_data import TINY, split_traces
from in_process import printed
from traces_factory import trace_table

from oracle.cluster.arrow import SCHEMA, solve_batches
from oracle.errors import InputError
from oracle.latency.model import LatencyModel


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return split_traces(tmp_path_factory.mktemp("data") / "traces")


@pytest.fixture(scope="module")
def model(folder: Path) -> LatencyModel:
    printed("fit", TINY / "rounds.parquet", "-o", folder.parent / "model.json")
    return LatencyModel.load(folder.parent / "model.json")


@pytest.fixture(scope="module")
def decisions(folder: Path, model: LatencyModel) -> pa.Table:
    output = folder.parent / "decisions.parquet"
    printed("solve", folder, "--model", folder.parent / "model.json", "-o", output)
    return pq.read_table(output).replace_schema_metadata()


def by_generation(table: pa.Table) -> pa.Table:
    return table.cast(SCHEMA).sort_by("generation").combine_chunks()


def test_record_batches_of_any_size_give_the_decisions_of_the_command(folder, model, decisions) -> None:
    for size in (1, 7, 1000):
        batches = (batch for path in sorted(folder.iterdir()) for batch in pq.ParquetFile(path).iter_batches(size))
        found = pa.Table.from_batches(solve_batches(batches, model), SCHEMA)
        assert found.combine_chunks().equals(decisions.cast(SCHEMA).combine_chunks())


def test_duckdb(folder, model, decisions) -> None:
    found = pa.Table.from_batches(solve_batches(duckdb.sql(f"from '{folder}/*.parquet'"), model), SCHEMA)
    assert by_generation(found).equals(by_generation(decisions))
    [(mean,)] = duckdb.sql("select avg(k) from (select unnest(draft_length) as k from found)").fetchall()
    lengths = decisions.column("draft_length").combine_chunks().flatten().to_numpy()
    assert mean == pytest.approx(lengths.mean(), rel=1e-12)


def test_polars(folder, model, decisions) -> None:
    frame = polars.read_parquet(f"{folder}/*.parquet")
    found = polars.from_arrow(pa.Table.from_batches(solve_batches(frame, model), SCHEMA))
    assert by_generation(found.to_arrow()).equals(by_generation(decisions))


@pytest.mark.spark
def test_spark(folder, model, decisions, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        rows = spark.read.parquet(str(folder)).mapInArrow(
            lambda batches: solve_batches(batches, model), from_arrow_schema(SCHEMA)
        )
        found = rows.toArrow()
    finally:
        spark.stop()
    assert by_generation(found).equals(by_generation(decisions))


def test_dask(folder, model, decisions) -> None:
    solved = dask.delayed(lambda path: pa.Table.from_batches(solve_batches(pq.read_table(path), model), SCHEMA))
    found = dask.compute(*map(solved, sorted(folder.iterdir())), scheduler="threads")
    assert pa.concat_tables(found).combine_chunks().equals(decisions.cast(SCHEMA).combine_chunks())


def test_batches_without_rows_are_passed_over(model) -> None:
    empty = trace_table().slice(0, 0)
    assert list(solve_batches([], model)) == []
    assert list(solve_batches([empty, *empty.to_batches()], model)) == []


def test_a_faulty_batch_is_refused_under_the_name_given(folder, model) -> None:
    table = pq.read_table(folder / "part-0.parquet")
    with pytest.raises(InputError) as refused:
        list(solve_batches(table, model, k_max=20, source="partition 3"))
    assert str(refused.value) == "partition 3: k_max is 20, but the trace carries draft lengths up to 10; lower --k-max"
    wrong = table.drop_columns("match_prob")
    with pytest.raises(InputError) as refused:
        list(solve_batches(wrong, model, source="partition 3"))
    said = "partition 3: holds neither match_prob nor match_probs; one of them is required; the columns there: "
    assert str(refused.value) == said + ", ".join(wrong.column_names)


def test_the_schema_is_that_of_the_decisions_file(decisions) -> None:
    assert decisions.schema.names == SCHEMA.names
    assert [field.type for field in decisions.cast(SCHEMA).schema] == [field.type for field in SCHEMA]
