"""Result files: Parquet that appears whole, written batch by batch, with what it rests on in its metadata."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from oracle.outputs import atomic_output


def flat_array(values: NDArray[Any], null: NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers as Arrow sees them, those that `null` marks missing; nothing is copied.

    `pa.array` does the same, but imports pandas, which takes longer than to solve a small trace.
    """
    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(values)])


def text_array(texts: Sequence[str]) -> pa.Array:
    """Texts as Arrow has them; see `flat_array`."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)))


def list_array(values: pa.Array, offsets: NDArray[np.int64]) -> pa.Array:
    """One list a generation over values that lie one after the other; nothing is copied."""
    return pa.ListArray.from_arrays(flat_array(offsets.astype(np.int32)), values)


def metadata_of(provenance: Mapping[str, str]) -> dict[str, str]:
    """Parquet metadata that says what results rest on: versions, options, coefficients, inputs' digests."""
    return {f"draft_oracle.{key}": value for key, value in provenance.items()}


def result_writer(path: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """A Parquet writer for results: lz4, no dictionaries for columns that do not repeat."""
    dictionary = [name for name in ("generation", "cluster", "policy", "boundary") if name in schema.names]
    return pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=dictionary, write_statistics=False)


class ResultFile:
    """A Parquet file that is opened with the first rows, since only they tell the schema.

    Parameters
    ----------
    stack
        The file appears when it closes without an error.
    path
        Where; None: nothing is written.
    """

    def __init__(self, stack: ExitStack, path: Path | None) -> None:
        self._stack, self._path = stack, path
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table | None) -> None:
        """Write the rows of a batch."""
        if self._path is None or rows is None:
            return
        if self._writer is None:
            partial = self._stack.enter_context(atomic_output(self._path))
            self._writer = self._stack.enter_context(result_writer(partial, rows.schema))
        self._writer.write_table(rows)

    def describe(self, provenance: Mapping[str, str]) -> None:
        """Keep in the file what it rests on."""
        if self._writer is not None:
            self._writer.add_key_value_metadata(metadata_of(provenance))
