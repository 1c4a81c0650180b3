"""Writing a plan: CSV, Parquet or one JSON object a line."""

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from oracle.errors import InputError
from oracle.files import shown
from oracle.outputs import atomic_output

SUFFIXES = (".csv", ".parquet", ".jsonl")


def write_plan(path: Path, table: pa.Table, metadata: Mapping[str, str]) -> None:
    """Write a plan as .csv, .parquet or .jsonl; it appears whole or not at all.

    Raises
    ------
    InputError
        Another ending, or a place that cannot be written.
    """
    if path.suffix not in SUFFIXES:
        raise InputError(f"{shown(path)}: a plan is written as {', '.join(SUFFIXES)}; choose one of these endings")
    with atomic_output(path) as partial:
        if path.suffix == ".csv":
            pa_csv.write_csv(table, partial)
        elif path.suffix == ".parquet":
            pq.write_table(table.replace_schema_metadata(dict(metadata)), partial, compression="zstd")
        else:
            with partial.open("w", encoding="utf-8") as file:
                for batch in table.to_batches(max_chunksize=10_000):
                    file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())
