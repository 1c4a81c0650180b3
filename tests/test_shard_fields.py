"""Results of batches kept as tables and read back: every bit, every shape, every name."""

import io
import json
from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from oracle.shards.fields import result_of, said_of, table_of


@dataclass(frozen=True)
class Inner:
    cluster: tuple[str, ...]
    sums: NDArray[np.float64]


@dataclass(frozen=True)
class Outer:
    generations: int
    share: float
    scales: tuple[float, ...]
    inner: Inner
    total: NDArray[np.float64]
    rows: pa.Table | None = None


def through_files(result, names: tuple[str, ...]):
    """What is read back from a Parquet file and a JSON text."""
    file = io.BytesIO()
    pq.write_table(table_of(result, names), file)
    said = json.loads(json.dumps(said_of(result)))
    return result_of(pq.ParquetFile(file).read_row_group(0), said, type(result))


def assert_same(one, other) -> None:
    assert type(one) is type(other)
    for field in fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if is_dataclass(mine):
            assert_same(mine, theirs)
        elif isinstance(mine, np.ndarray):
            assert (mine.shape, mine.tobytes()) == (theirs.shape, theirs.tobytes())
        else:
            assert mine == theirs


floats = arrays.arrays(np.float64, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
texts = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5).map(tuple)
finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=100, deadline=None)
@given(st.integers(), finite, st.lists(finite).map(tuple), texts, texts, floats, floats)
def test_every_bit_comes_back(generations, share, scales, clusters, names, sums, total) -> None:
    result = Outer(generations, share, scales, Inner(clusters, sums), total)
    found, said_names = through_files(result, names)
    assert_same(found, result)
    assert said_names == names


def test_rows_are_left_out() -> None:
    result = Outer(1, 0.5, (), Inner(("a",), np.ones(1)), np.zeros(()), pa.table({"x": [1]}))
    found, _ = through_files(result, ("g",))
    assert found.rows is None
    assert_same(found, replace(result, rows=None))
    assert table_of(result, ("g",)).column_names == ["generation", "inner.cluster", "inner.sums", "total"]
